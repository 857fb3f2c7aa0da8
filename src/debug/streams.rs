//! Answers that take a while: execution traces, as they are made, and snapshots of the flight recorder.

use std::io;
use std::sync::Mutex;
use std::time::Duration;

use super::http::{Answer, Out, Refusal, Request};
use super::routes::seconds;
use crate::trace;

/// How long a client may take for what comes after the time that it asked for.
const AFTERWARDS: Duration = Duration::from_secs(60);

/// The program's name, and what it is: the name of a file.
pub(super) fn file_name(what: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let program: String = super::look::history::program().chars().map(safe).collect();
    format!("{program}-{}.{what}", std::process::id())
}

/// An execution trace of some seconds: of one, as in Go, unless the request says so.
pub(super) fn trace(request: &Request) -> Result<Answer, Refusal> {
    let time = seconds(request, 1.0)?;
    let write = move |out: &Out| {
        let begun = trace::start_for_observer(out.clone());
        let ticket = begun.map_err(|e| unavailable("no trace can be made now", &e))?;
        let waited = out.pause(time);
        let written = trace::stop_for_observer(&ticket);
        waited.and(written.map(drop)).map_err(|e| unavailable("the trace is not complete", &e))
    };
    let answer = Answer::stream("application/octet-stream", time + AFTERWARDS, write);
    Ok(answer.saved_as(&file_name("trace")))
}

pub(super) fn unavailable(what: &str, error: &io::Error) -> Refusal {
    Refusal::unavailable(format!("{what}: {error}"))
}

/// What the flight recorder has, if the program has turned one on. One at a time: a snapshot takes many times
/// the memory of what was recorded.
pub(super) fn flight() -> Result<Answer, Refusal> {
    static ONE: Mutex<()> = Mutex::new(());
    let Ok(_one) = ONE.try_lock() else {
        return Err(Refusal::unavailable("another client gets a snapshot now: ask again in a moment"));
    };
    let trace = trace::trace_of_active().map_err(|e| unavailable("there is no snapshot", &e))?;
    Ok(Answer::new("application/octet-stream", trace).saved_as(&file_name("flight.trace")))
}
