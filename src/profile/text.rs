//! Profiles as text, as Go's `debug=1` and `debug=2` print them.

use std::fmt::Write;

use super::data::{Kind, Profile};
use super::symbols::{Shown, Symbols};

impl Profile {
    /// The profile as text, which people can read without tools. With `debug` 1 it has the stacks, the most
    /// frequent first, each with its number, its addresses and its functions. With 2, the profile `goroutine`
    /// is the same text as a [dump](crate::runtime::dump), and other profiles are as with 1. The meaning of
    /// the numbers is Go's.
    ///
    /// ```
    /// let text = gort::profile::threadcreate().text(1);
    /// assert!(text.starts_with("threadcreate profile: total "));
    /// ```
    pub fn text(&self, debug: u32) -> String {
        if let Some(dump) = self.dump.as_ref().filter(|_| debug >= 2) {
            return dump.to_string();
        }
        let mut text = String::new();
        let _cannot_fail = match self.kind {
            // The times are in nanoseconds.
            Kind::Block => writeln!(text, "--- contention:\ncycles/second=1000000000"),
            Kind::Mutex => {
                let fraction = super::waits::mutex_fraction();
                writeln!(text, "--- mutex:\ncycles/second=1000000000\nsampling period={fraction}")
            }
            _ => writeln!(text, "{} profile: total {}", self.name(), self.count()),
        };
        let mut symbols = Symbols::default();
        for shown in self.shown(&mut symbols) {
            let [count, time] = shown.values;
            let _cannot_fail = match self.kind {
                Kind::Block | Kind::Mutex => write!(text, "{time} {count} @"),
                _ => write!(text, "{count} @"),
            };
            write_stack(&mut text, &shown);
        }
        text
    }
}

fn write_stack(text: &mut String, shown: &Shown<'_>) {
    for part in shown.parts.iter().filter(|part| part.address != 0) {
        text.push_str(&format!(" {:#x}", part.address));
    }
    text.push('\n');
    if !shown.labels.is_empty() {
        let pair = |(key, value): (&str, &str)| format!("{key:?}:{value:?}");
        let labels: Vec<String> = shown.labels.iter().map(pair).collect();
        text.push_str(&format!("# labels: {{{}}}\n", labels.join(", ")));
    }
    for part in &shown.parts {
        for frame in &part.frames[part.shown.clone()] {
            text.push_str(&format!("#\t{:#x}\t{}", part.address, frame.function));
            if !frame.file.is_empty() {
                text.push_str(&format!("\t{}:{}", frame.file, frame.line));
            }
            text.push('\n');
        }
    }
    text.push('\n');
}
