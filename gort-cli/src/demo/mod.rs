//! `gort demo`: runs the parts of the demonstration one after the other and reports the results.
//!
//! ```text
//! load      clients → service (queue → pool → collector), shutdown      ┐
//! balance   waves of uneven jobs from one processor                     │→ figures → report
//! starve    endless loops, blocking calls, a crowd; sleeper beside them ┘   (words or JSON)
//!     └─ all report to the board ← monitor (a goroutine) → view
//!                                  sampler (a thread) → how busy the processors are
//! ```
//!
//! Ctrl-C cancels the context that all parts check. The current part ends gracefully, the later parts are
//! skipped, and the report covers the results so far.

mod backend;
mod balance;
mod board;
mod figures;
mod jobs;
mod load;
mod monitor;
mod others;
mod report;
mod sampler;
mod service;
mod sleeper;
mod spread;
mod starve;
mod text;
mod view;

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gort::context::Context;
use gort::runtime::{self, Config};
use gort::trace::{FlightRecorder, FlightRecorderConfig};

use crate::args::DemoArgs;
use crate::{interrupt, term};
use board::Board;
use figures::Figures;
use monitor::Monitor;
use sampler::Sampler;
use view::{Stream, View};

pub(crate) fn main(args: &DemoArgs) -> ExitCode {
    if let Some(procs) = args.procs
        && let Err(error) = Config::new().max_procs(procs as usize).start()
    {
        eprintln!("gort: {error}");
        return ExitCode::FAILURE;
    }
    let served = args.serve.as_deref().map(gort::debug::serve);
    let _server = match served.transpose() {
        Ok(server) => server.inspect(|server| eprintln!("the demo from inside: {}", server.url())),
        Err(error) => {
            eprintln!("gort: {error}");
            return ExitCode::FAILURE;
        }
    };
    // The page has a link to it.
    let recorder = FlightRecorder::new(FlightRecorderConfig::new());
    if args.serve.is_some()
        && let Err(error) = recorder.start()
    {
        eprintln!("gort: the demo runs without a flight recorder: {error}");
    }
    let args = args.clone();
    let json = args.json;
    match gort::run(move || run(&args)) {
        Ok(figures) => {
            let printed = term::print(&if json { report::json(&figures) } else { report::words(&figures) });
            if figures.all_hold() { printed } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("gort: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The shares of the parts in the time that the user asked for. The crowd takes additional time, which
/// depends on its size.
const SERVICE: f64 = 0.50;
const BALANCE: f64 = 0.14;
const IDLE: f64 = 0.02;
const HOGS: f64 = 0.14;
const BLOCKING: f64 = 0.12;
const CROWD: f64 = 0.04;

/// How long the demo takes (seconds): longer if somebody wants to look at it.
fn length(args: &DemoArgs) -> f64 {
    args.seconds.unwrap_or(if args.serve.is_some() { 120.0 } else { 10.0 })
}

fn run(args: &DemoArgs) -> io::Result<Figures> {
    let (begin, ticks) = (Instant::now(), others::Ticks::now());
    let (ctx, _cancel) = interrupt::context()?;
    let procs = runtime::max_procs();
    let workers = args.workers.map_or(8 * procs, |n| n as usize);
    let stream = if args.json { Stream::Err } else { Stream::Out };
    if !stream.is_terminal() {
        let note = format!("gort demo: {procs} processors, {workers} workers, about {} s\n", length(args));
        stream.write(&note);
    }
    let (sampler, stop_sampling) = Sampler::start()?;
    let board = Arc::new(Board::new(sampler.clone()));
    let monitor = Monitor::start(board.clone(), sampler, View::new(stream))?;

    let mut figures = Figures {
        version: env!("CARGO_PKG_VERSION"),
        procs,
        workers,
        seconds: 0.0,
        interrupted: false,
        other_load: None,
        service: None,
        balance: None,
        idle_sleeper: None,
        hogs: None,
        blocking: None,
        crowd: None,
        scheduler: figures::Scheduler::default(),
        claims: Vec::new(),
    };
    let ran = parts(&ctx, args, workers, &board, &mut figures);
    monitor.stop();
    drop(stop_sampling);
    ran?;
    figures.interrupted = ctx.err().is_some();
    figures.scheduler = scheduler();
    figures.other_load = others::Ticks::now().others_since(&ticks);
    figures.seconds = begin.elapsed().as_secs_f64();
    report::judge(&mut figures);
    Ok(figures)
}

fn parts(
    ctx: &Context,
    args: &DemoArgs,
    workers: usize,
    board: &Board,
    figures: &mut Figures,
) -> io::Result<()> {
    let share = |share: f64| Duration::from_secs_f64(length(args) * share);
    let goes_on = || ctx.err().is_none();
    figures.service = Some(load::run(ctx, workers, share(SERVICE), board)?);
    if goes_on() {
        figures.balance = Some(balance::run(ctx, share(BALANCE), board));
    }
    if goes_on() {
        figures.idle_sleeper = sleeper::nap_for(ctx, share(IDLE), &sleeper::Worst::default());
    }
    if goes_on() {
        figures.hogs = Some(starve::hogs(ctx, share(HOGS), board));
    }
    if goes_on() {
        figures.blocking = Some(starve::blocking(ctx, share(BLOCKING), board));
    }
    if goes_on() {
        figures.crowd = Some(starve::crowd(ctx, args.crowd as usize, share(CROWD), board));
    }
    Ok(())
}

/// The scheduler's counters for the whole run.
fn scheduler() -> figures::Scheduler {
    let stats = runtime::stats();
    let latency = |q| stats.latencies.quantile(q).map(|d| d.as_nanos() as f64 / 1000.0);
    figures::Scheduler {
        goroutines: stats.created,
        parks: stats.parks,
        steals: stats.steals,
        stolen: stats.stolen,
        hand_offs: stats.hand_offs,
        preempted: stats.preempted,
        preempted_by_signal: stats.preempted_by_signal,
        threads: stats.threads.alive,
        latency_p50_us: latency(0.5),
        latency_p99_us: latency(0.99),
    }
}
