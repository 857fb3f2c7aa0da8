//! `gort trace`: reads an execution trace and shows it: as a summary, as JSON, as a page, or for Perfetto.
//!
//! The crate `gort-trace` reads the file and computes the figures; the files here only write them down. Each
//! kind of output has its own file.

mod html;
mod perfetto;
mod text;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use gort_trace::{State, Trace, summarise};

use crate::args::TraceArgs;
use crate::term::{self, Style};

pub(crate) fn main(args: &TraceArgs) -> ExitCode {
    let file = args.file.display();
    let bytes = match std::fs::read(&args.file) {
        Ok(bytes) => bytes,
        Err(error) => {
            eprintln!("gort: cannot read {file}: {error}");
            return ExitCode::FAILURE;
        }
    };
    let trace = match Trace::read(&bytes) {
        Ok(trace) => trace,
        Err(error) => {
            eprintln!("gort: {file}: {error}");
            return ExitCode::FAILURE;
        }
    };
    if let Err(error) = write(args, &trace) {
        eprintln!("gort: {error}");
        return ExitCode::FAILURE;
    }
    let printed = print(args, &trace);
    let Some(damage) = &trace.damage else { return printed };
    let what = if damage.truncated { "the file is cut" } else { "the file is broken" };
    eprintln!("gort: {file}: {what}: {damage}");
    let generations = trace.generations.len();
    let plural = if generations == 1 { "" } else { "s" };
    eprintln!("gort: what comes before that is shown: {generations} generation{plural}");
    ExitCode::FAILURE
}

/// Writes the files that were asked for.
fn write(args: &TraceArgs, trace: &Trace<'_>) -> Result<(), String> {
    let name = args.file.file_name().unwrap_or_default().to_string_lossy();
    if let Some(path) = &args.html {
        create(path, |out| html::write(out, trace, &name))?;
    }
    if let Some(path) = &args.perfetto {
        create(path, |out| perfetto::write(out, trace))?;
    }
    Ok(())
}

fn create(path: &Path, fill: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<(), String> {
    let written = File::create(path).and_then(|file| {
        let mut out = BufWriter::new(file);
        fill(&mut out)?;
        out.flush()
    });
    written.map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    eprintln!("wrote {}", path.display());
    Ok(())
}

/// Prints the figures, unless only files were asked for.
fn print(args: &TraceArgs, trace: &Trace<'_>) -> ExitCode {
    if args.json {
        let summary = summarise(trace, args.top as usize);
        return match serde_json::to_string_pretty(&summary) {
            Ok(json) => term::print(&format!("{json}\n")),
            Err(error) => {
                eprintln!("gort: {error}");
                ExitCode::FAILURE
            }
        };
    }
    if args.html.is_some() || args.perfetto.is_some() {
        return ExitCode::SUCCESS;
    }
    let width = term::size(&std::io::stdout()).map_or(100, |(columns, _)| columns.clamp(60, 140));
    let summary = summarise(trace, args.top as usize);
    term::print(&text::render(&summary, Style::of(&std::io::stdout()), width))
}

/// The word for a state.
fn word(state: State) -> &'static str {
    match state {
        State::Runnable => "runnable",
        State::Running => "running",
        State::Syscall => "in a call",
        State::Waiting => "waiting",
    }
}

/// The numbers of a trace's spans, sorted by goroutine and time; those of goroutine `g` begin at `first[g]`.
struct ByGoroutine {
    spans: Vec<u32>,
    first: Vec<u32>,
}

impl ByGoroutine {
    fn new(trace: &Trace<'_>) -> ByGoroutine {
        let mut first = vec![0; trace.goroutines.len() + 1];
        for span in &trace.spans {
            first[span.g as usize + 1] += 1;
        }
        for g in 1..first.len() {
            first[g] += first[g - 1];
        }
        // The spans of one goroutine are in the order of time already.
        let mut next = first.clone();
        let mut spans = vec![0; trace.spans.len()];
        for (number, span) in trace.spans.iter().enumerate() {
            spans[next[span.g as usize] as usize] = number as u32; // files are below 4 GiB
            next[span.g as usize] += 1;
        }
        ByGoroutine { spans, first }
    }

    /// The numbers of a goroutine's spans.
    fn of(&self, g: u32) -> &[u32] {
        match (self.first.get(g as usize), self.first.get(g as usize + 1)) {
            (Some(&begin), Some(&end)) => &self.spans[begin as usize..end as usize],
            _ => &[],
        }
    }
}
