//! The terminal: its colours and its size, and functions that format and print text for it.

use std::io::{ErrorKind, IsTerminal, Write};
use std::os::fd::AsRawFd;
use std::process::ExitCode;

/// Whether text is printed with colours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    colours: bool,
}

impl Style {
    /// Uses colours if `stream` is a terminal that supports them and the user has not set `NO_COLOR`.
    pub(crate) fn of(stream: &impl IsTerminal) -> Style {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        Style { colours: stream.is_terminal() && !refused && !dumb }
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    pub(crate) fn green(self, text: &str) -> String {
        self.paint("32", text)
    }

    pub(crate) fn yellow(self, text: &str) -> String {
        self.paint("33", text)
    }

    pub(crate) fn red(self, text: &str) -> String {
        self.paint("31", text)
    }

    pub(crate) fn cyan(self, text: &str) -> String {
        self.paint("36", text)
    }
}

/// Columns and rows of the terminal behind `stream`; `None` if it is no terminal or does not know its size.
pub(crate) fn size(stream: &impl AsRawFd) -> Option<(usize, usize)> {
    // SAFETY: the struct is plain numbers, for which zeros are valid.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes only to the struct, which is a local variable.
    let result = unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCGWINSZ, &mut size) };
    (result == 0 && size.ws_col > 0).then_some((size.ws_col.into(), size.ws_row.into()))
}

/// Whether a live view can be drawn on `stream`.
pub(crate) fn is_live(stream: &(impl IsTerminal + AsRawFd)) -> bool {
    stream.is_terminal() && std::env::var_os("TERM").is_none_or(|value| value != "dumb")
}

/// Writes to standard output. It is not a failure if the reader has closed the pipe (`| head`).
pub(crate) fn print(text: &str) -> ExitCode {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gort: cannot write to standard output: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The first `width` characters of `text`. All escape sequences are kept and do not count, so that colours
/// end.
pub(crate) fn clip(text: &str, width: usize) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut seen, mut escape) = (0, false);
    for c in text.chars() {
        if c == '\x1b' {
            escape = true;
        } else if !escape {
            seen += 1;
        }
        if escape || seen <= width {
            out.push(c);
        }
        if c == 'm' {
            escape = false;
        }
    }
    out
}

/// Breaks `text` between words into lines of at most `width` characters. Text that fits into one line is
/// unchanged.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    if text.chars().count() <= width {
        return vec![text.to_string()];
    }
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is always one");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_string());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clip_counts_what_is_seen() {
        assert_eq!(clip("hello", 3), "hel");
        assert_eq!(clip("\x1b[31mhello\x1b[0m", 3), "\x1b[31mhel\x1b[0m");
        assert_eq!(clip("äöü", 2), "äö");
    }

    #[test]
    fn wrap_breaks_between_words() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("unbreakable", 3), ["unbreakable"]);
        assert_eq!(wrap("", 3), [""]);
        assert_eq!(wrap("a   table", 9), ["a   table"]);
    }
}
