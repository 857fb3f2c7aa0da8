//! Shows the monitor's samples: on a terminal as a picture that it redraws in place, elsewhere as a line now
//! and then.
//!
//! The picture is at most 100 columns wide and is clipped to the terminal's size. So its lines never wrap,
//! and the view finds its beginning by moving the cursor up by the number of lines that it has drawn.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use super::board::{Line, Part};
use super::monitor::Frame;
use super::text::{micros, percent, thousands};
use crate::interrupt;
use crate::term::{self, Style};

const WIDEST: usize = 100;

/// Without a terminal: the time between two lines, besides those for the beginning and the end of a part.
const PLAIN_EVERY: Duration = Duration::from_secs(1);

/// Up to this many processors get a line with a bar each; more processors share lines of small bars.
const MOST_BARS: usize = 8;

/// Where the view is shown: standard output, or standard error if standard output is for a program
/// (`--json`).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stream {
    Out,
    Err,
}

impl Stream {
    pub(crate) fn write(self, text: &str) {
        // Errors are ignored: nothing depends on the view, and the demo continues if the reader has gone
        // away.
        let _ = match self {
            Stream::Out => io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush()),
            Stream::Err => io::stderr().write_all(text.as_bytes()),
        };
    }

    pub(crate) fn style(self) -> Style {
        match self {
            Stream::Out => Style::of(&io::stdout()),
            Stream::Err => Style::of(&io::stderr()),
        }
    }

    pub(crate) fn is_terminal(self) -> bool {
        match self {
            Stream::Out => io::stdout().is_terminal(),
            Stream::Err => io::stderr().is_terminal(),
        }
    }

    fn is_live(self) -> bool {
        match self {
            Stream::Out => term::is_live(&io::stdout()),
            Stream::Err => term::is_live(&io::stderr()),
        }
    }

    fn fd(self) -> RawFd {
        match self {
            Stream::Out => io::stdout().as_raw_fd(),
            Stream::Err => io::stderr().as_raw_fd(),
        }
    }

    /// The maximum width of a text, in columns.
    pub(crate) fn columns(self) -> usize {
        self.size().map_or(WIDEST, |(columns, _)| columns.clamp(40, WIDEST))
    }

    fn size(self) -> Option<(usize, usize)> {
        match self {
            Stream::Out => term::size(&io::stdout()),
            Stream::Err => term::size(&io::stderr()),
        }
    }
}

pub(crate) enum View {
    Live(Live),
    Plain(Plain),
}

impl View {
    pub(crate) fn new(stream: Stream) -> View {
        if stream.is_live() { View::Live(Live::new(stream)) } else { View::Plain(Plain::new(stream)) }
    }

    pub(crate) fn show(&mut self, frame: &Frame) {
        match self {
            View::Live(live) => live.draw(frame),
            View::Plain(plain) => plain.tell(frame),
        }
    }

    /// Makes room for the report: the drop of a live view erases the picture.
    pub(crate) fn finish(self) {}
}

/// A picture on a terminal whose cursor is hidden. The drop erases the picture and shows the cursor.
pub(crate) struct Live {
    stream: Stream,
    style: Style,
    drawn: usize,
}

impl Live {
    fn new(stream: Stream) -> Live {
        interrupt::cursor_is_hidden_on(Some(stream.fd()));
        stream.write("\x1b[?25l");
        Live { stream, style: stream.style(), drawn: 0 }
    }

    fn draw(&mut self, frame: &Frame) {
        let (columns, rows) = self.stream.size().unwrap_or((80, 24));
        let width = columns.min(WIDEST);
        let mut lines = picture(frame, width, self.style);
        // The last row stays free: a line break there would scroll the terminal.
        lines.truncate(rows.saturating_sub(1).max(1));
        let mut out = self.go_up();
        for line in &lines {
            let _ = write!(out, "{}\x1b[K\r\n", term::clip(line, width - 1));
        }
        out.push_str("\x1b[J");
        self.drawn = lines.len();
        self.stream.write(&out);
    }

    fn go_up(&self) -> String {
        if self.drawn > 0 { format!("\r\x1b[{}A", self.drawn) } else { "\r".to_string() }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.stream.write(&format!("{}\x1b[J\x1b[0m\x1b[?25h", self.go_up()));
        interrupt::cursor_is_hidden_on(None);
    }
}

fn picture(frame: &Frame, width: usize, style: Style) -> Vec<String> {
    let mut lines = vec![
        format!(
            "{}  {}",
            style.bold("gort demo"),
            style.dim(&format!("{:.1} s, Ctrl-C ends it gracefully", frame.elapsed.as_secs_f64()))
        ),
        String::new(),
    ];
    let bar_width = (width / 5).clamp(8, 24);
    lines.extend(frame.lines.iter().map(|line| part_line(line, bar_width, style)));
    lines.push(String::new());
    lines.extend(processor_lines(frame, width, bar_width, style));
    lines.push(String::new());
    lines.extend(counter_lines(frame, style));
    lines
}

fn part_line(line: &Line, bar_width: usize, style: Style) -> String {
    let title = format!("{:<15}", line.part.title());
    match line.fraction {
        None => style.dim(&format!("  {title} {}", bar(0.0, bar_width))),
        Some(fraction) if line.running => {
            let bar = style.cyan(&bar(fraction, bar_width));
            format!("{} {} {bar} {}", style.cyan("▸"), style.bold(&title), line.note)
        }
        Some(_) => {
            format!("{} {title} {} {}", style.green("✓"), style.green(&bar(1.0, bar_width)), line.note)
        }
    }
}

/// A bar with a resolution of an eighth of a character.
fn bar(fraction: f64, width: usize) -> String {
    const PARTS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let eighths = (fraction.clamp(0.0, 1.0) * (width * 8) as f64).round() as usize;
    let mut out = "█".repeat(eighths / 8);
    if eighths / 8 < width {
        let part = PARTS[eighths % 8];
        out.push(if part == ' ' { '·' } else { part });
    }
    let missing = width - out.chars().count();
    out + &"·".repeat(missing)
}

fn processor_lines(frame: &Frame, width: usize, bar_width: usize, style: Style) -> Vec<String> {
    if frame.busy.len() <= MOST_BARS {
        let line = |(n, busy): (usize, &f64)| {
            let queue = frame.stats.local_queues.get(n).copied().unwrap_or(0);
            let bar = style.yellow(&bar(*busy, bar_width));
            format!("  {:<15} {bar} {:>4}  queue {queue}", format!("P{n}"), percent(*busy))
        };
        return frame.busy.iter().enumerate().map(line).collect();
    }
    let small =
        |busy: &f64| ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'][(busy * 7.0).round().clamp(0.0, 7.0) as usize];
    let all: Vec<char> = frame.busy.iter().map(small).collect();
    let mean = frame.busy.iter().sum::<f64>() / frame.busy.len() as f64;
    let title = format!("{} Ps, {}", frame.busy.len(), percent(mean));
    let rows = all.chunks(width.saturating_sub(20).max(8)).enumerate();
    rows.map(|(n, row)| {
        let title = if n == 0 { title.as_str() } else { "" };
        format!("  {title:<15} {}", style.yellow(&row.iter().collect::<String>()))
    })
    .collect()
}

fn counter_lines(frame: &Frame, style: Style) -> Vec<String> {
    let stats = &frame.stats;
    let states = &stats.goroutines;
    let line = |name: &str, text: String| format!("  {} {text}", style.bold(&format!("{name:<15}")));
    let jobs = match frame.queues {
        Some((jobs, capacity, answers)) => format!("jobs {jobs}/{capacity}, answers {answers}, "),
        None => String::new(),
    };
    let local: usize = stats.local_queues.iter().sum();
    vec![
        line(
            "queues",
            format!("{jobs}all Ps {local}, global {}, hogs {}", stats.global_queue, stats.hog_queue),
        ),
        line("steals", format!("{} of {} goroutines", thousands(stats.steals), thousands(stats.stolen))),
        line(
            "preemptions",
            format!(
                "{} at a call, {} by signal, {} hand-offs",
                thousands(stats.preempted),
                thousands(stats.preempted_by_signal),
                thousands(stats.hand_offs)
            ),
        ),
        line("latency", latency(frame)),
        line(
            "goroutines",
            format!(
                "{} running, {} ready, {} waiting, {} in calls, {} stopped",
                states.running,
                states.runnable,
                thousands(states.waiting as u64),
                states.syscall,
                states.preempted
            ),
        ),
        line(
            "threads",
            format!(
                "{} ({} idle, {} looking)",
                stats.threads.alive, stats.threads.idle, stats.threads.spinning
            ),
        ),
    ]
}

/// How long runnable goroutines have waited for a processor.
fn latency(frame: &Frame) -> String {
    let text = |d: Duration| micros(d.as_nanos() as f64 / 1000.0);
    match frame.latency {
        Some((median, p99)) => format!("median {}, 99% within {}", text(median), text(p99)),
        None => "no samples yet".to_string(),
    }
}

/// Prints a line when a part begins, when it ends, and once a second in between.
pub(crate) struct Plain {
    stream: Stream,
    told: Vec<(Part, bool)>,
    last: Duration,
}

impl Plain {
    fn new(stream: Stream) -> Plain {
        Plain { stream, told: Vec::new(), last: Duration::ZERO }
    }

    fn tell(&mut self, frame: &Frame) {
        let due = frame.elapsed >= self.last + PLAIN_EVERY;
        for line in &frame.lines {
            let ended = line.fraction.is_some() && !line.running;
            let news = line.fraction.is_some() && !self.told.contains(&(line.part, ended));
            if news || (due && line.running) {
                self.told.push((line.part, ended));
                self.last = frame.elapsed;
                self.stream.write(&plain_line(frame, line, ended));
            }
        }
    }
}

fn plain_line(frame: &Frame, line: &Line, ended: bool) -> String {
    let seconds = frame.elapsed.as_secs_f64();
    let title = line.part.title();
    if ended {
        let took = line.elapsed.as_secs_f64();
        return format!("{seconds:6.1} s  {title:<14}  ended after {took:.1} s: {}\n", line.note);
    }
    let stats = &frame.stats;
    let mean = frame.busy.iter().sum::<f64>() / frame.busy.len().max(1) as f64;
    format!(
        "{seconds:6.1} s  {title:<14}  {}; Ps {} busy, {} steals, {} preemptions\n",
        line.note,
        percent(mean),
        thousands(stats.steals),
        thousands(stats.preempted + stats.preempted_by_signal),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_have_their_width_whatever_the_fraction() {
        for fraction in [-1.0, 0.0, 0.01, 0.5, 0.999, 1.0, 7.0] {
            assert_eq!(bar(fraction, 10).chars().count(), 10, "{fraction}");
        }
        assert_eq!(bar(1.0, 3), "███");
        assert_eq!(bar(0.5, 4), "██··");
    }

    #[test]
    fn the_picture_of_very_many_processors_stays_narrow() {
        let frame = Frame {
            elapsed: Duration::from_secs(1),
            lines: Vec::new(),
            busy: vec![0.5; 1024],
            stats: gort::runtime::stats(),
            queues: Some((1, 2, 3)),
            latency: None,
        };
        let lines = picture(&frame, 80, Style::of(&io::stdin()));
        assert!(lines.iter().all(|line| line.chars().count() < 80 || line.contains('\x1b')), "{lines:#?}");
    }
}
