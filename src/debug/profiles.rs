//! `/debug/pprof/`: Go's names and parameters, so that `go tool pprof` and scripts for Go programs find them.

use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use super::http::{Answer, Out, Refusal, Request};
use super::routes::seconds;
use super::streams::unavailable;
use crate::diag::dump::{Dump, Names};
use crate::profile::{self, Cpu, DEFAULT_RATE, Profile};

/// How long a client may take to read a dump.
const DUMP_WITHIN: Duration = Duration::from_secs(120);
/// The most bytes of a dump as text, as in Go.
const LARGEST_DUMP: usize = 64 << 20;

/// The profiles, and what they show.
const PROFILES: [(&str, &str, &str); 10] = [
    ("block?debug=1", "block", "where goroutines waited for others: after set_block_profile_rate"),
    ("goroutine?debug=1", "goroutine", "where goroutines are, those with the same stack together"),
    ("goroutine?debug=2", "full goroutine dump", "the stack of each goroutine"),
    (
        "goroutineleak?debug=1",
        "goroutineleak",
        "goroutines that wait forever; the search stops all for a moment",
    ),
    ("mutex?debug=1", "mutex", "where locks were released for others: after set_mutex_profile_fraction"),
    ("profile?seconds=10", "profile", "where CPU time is spent, for go tool pprof"),
    ("threadcreate?debug=1", "threadcreate", "the threads of the runtime"),
    ("trace?seconds=5", "trace", "an execution trace, for go tool trace and gort trace"),
    ("cmdline", "cmdline", "the command line of the program"),
    ("symbol", "symbol", "the functions at addresses: ?0x1234+0x5678"),
];

pub(super) fn route(name: &str, request: &Request) -> Result<Answer, Refusal> {
    match name {
        "" => Ok(index()),
        "cmdline" => Ok(command_line()),
        "symbol" => symbols(request),
        "profile" => cpu(request),
        "goroutine" if request.parameter("debug") == Some("2") => {
            Ok(Answer::stream("text/plain; charset=utf-8", DUMP_WITHIN, write_each))
        }
        "heap" | "allocs" => Err(Refusal::not_found(format!(
            "{name}: gort does not know the program's allocations; its global allocator may have a profile"
        ))),
        _ => match profile::NAMES.into_iter().find(|known| *known == name) {
            Some(name) => named(name, request),
            None => Err(Refusal::not_found(format!("{name:?}: /debug/pprof/ lists the profiles"))),
        },
    }
}

fn index() -> Answer {
    let mut html = String::from(include_str!("page/pprof.html"));
    let mut rows = String::new();
    for (href, name, help) in PROFILES {
        // Writing to a String does not fail.
        let _ = writeln!(rows, "<tr><td><a href=\"{href}\">{name}</a></td><td>{help}</td></tr>");
    }
    html = html.replace("<!--rows-->", &rows);
    Answer::new("text/html; charset=utf-8", html.into_bytes()).with(
        "Content-Security-Policy",
        "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    )
}

/// As in Go: the arguments, with a zero between two of them.
fn command_line() -> Answer {
    let arguments: Vec<_> = std::env::args_os().map(|argument| argument.as_bytes().to_vec()).collect();
    Answer::new("text/plain; charset=utf-8", arguments.join(&0))
}

/// As in Go: a line for each address in the query. Without addresses it says that there are symbols.
fn symbols(request: &Request) -> Result<Answer, Refusal> {
    let mut text = String::from("num_symbols: 1\n");
    let mut names = Names::default();
    let wanted = request.raw_query().split('+').filter(|address| !address.is_empty());
    for address in wanted.take(1000) {
        let digits = address.trim_start_matches("0x");
        let number = usize::from_str_radix(digits, 16);
        let number = number.map_err(|_| Refusal::bad_request(format!("{address:?} is not an address")))?;
        if let Some(function) = names.of(&[number], true).first() {
            // Writing to a String does not fail.
            let _ = writeln!(text, "{number:#x} {}", function.name);
        }
    }
    Ok(Answer::text(text))
}

/// How long a client may take for what comes after the time that it asked for.
const AFTERWARDS: Duration = Duration::from_secs(60);

/// A CPU profile of some seconds: of 30, as in Go, unless the request says so.
fn cpu(request: &Request) -> Result<Answer, Refusal> {
    let time = seconds(request, 30.0)?;
    let write = move |out: &Out| {
        let cpu = Cpu::start(DEFAULT_RATE).map_err(|e| unavailable("no CPU profile can be made now", &e))?;
        let waited = out.pause(time);
        let profile = waited.and_then(|()| cpu.stop());
        let profile = profile.map_err(|e| unavailable("the CPU profile", &e))?;
        send(&profile, out)
    };
    Ok(Answer::stream(PPROF, time + AFTERWARDS, write).saved_as("profile"))
}

const PPROF: &str = "application/octet-stream";

fn send(profile: &Profile, out: &Out) -> Result<(), Refusal> {
    profile.write_to(&mut out.clone()).map_err(|e| unavailable("the profile", &e))
}

fn look_up(name: &str) -> Result<Profile, Refusal> {
    profile::lookup(name).ok_or_else(|| {
        Refusal::unavailable(format!("{name}: no search is possible now; gort::runtime::leaked says when"))
    })
}

/// A profile of what is now; with `seconds=`, of the difference to what is then. With `debug=1`, as text.
fn named(name: &'static str, request: &Request) -> Result<Answer, Refusal> {
    let debug = request.number("debug", 0.0, 0.0, 2.0)? as u32;
    if request.parameter("seconds").is_none() {
        let profile = look_up(name)?;
        if debug > 0 {
            return Ok(Answer::text(profile.text(debug)));
        }
        return Ok(Answer::stream(PPROF, AFTERWARDS, move |out| send(&profile, out)).saved_as(name));
    }
    let time = seconds(request, 1.0)?;
    let write = move |out: &Out| {
        let before = look_up(name)?;
        out.pause(time).map_err(|e| unavailable("the profile", &e))?;
        let profile = look_up(name)?.since(&before).map_err(|e| unavailable("the profile", &e))?;
        if debug == 0 {
            return send(&profile, out);
        }
        let text = profile.text(debug);
        out.clone().write_all(text.as_bytes()).map_err(|e| unavailable("the profile", &e))
    };
    let kind = if debug > 0 { "text/plain; charset=utf-8" } else { PPROF };
    let answer = Answer::stream(kind, time + AFTERWARDS, write);
    Ok(if debug > 0 { answer } else { answer.saved_as(&format!("{name}-delta")) })
}

/// Every goroutine with its stack, as `runtime::dump` prints it.
fn write_each(out: &Out) -> Result<(), Refusal> {
    let (dump, mut out) = (Dump::take(false), out.clone());
    let mut names = Names::default();
    let (mut sent, mut text) = (0, String::new());
    for goroutine in dump.goroutines() {
        let _ = writeln!(text, "{}", goroutine.with_names(&mut names));
        if text.len() > 1 << 16 {
            sent += text.len();
            out.write_all(text.as_bytes()).map_err(|e| unavailable("the dump", &e))?;
            text.clear();
        }
        if sent > LARGEST_DUMP {
            text.push_str("\n(the rest is left out)\n");
            break;
        }
    }
    out.write_all(text.as_bytes()).map_err(|e| unavailable("the dump", &e))
}
