//! CPU profiles: a timer on the CPU clock of each thread ([`threads`]), a signal handler that copies where
//! the thread is ([`handler`]) into a [`ring`], and a thread that unwinds the copies (`diag/unwind_copy/`)
//! and counts equal ones (this file).
//!
//! Signals must find our handler, and no other one, from the first timer to the last pending signal. So the
//! profile takes the signal only if nobody has it, and gives it back when all timers are deleted and pending
//! signals are discarded. If the program installs its own handler meanwhile, the timers end at once.
//!
//! Rejected: one timer on the clock of the process (the kernel sends its signal to any thread, most often the
//! main one); unwinding in the handler (the system's unwinder trusts tables, which may be wrong
//! where a sample is taken); perf events (often forbidden).

mod handler;
mod ring;
mod threads;

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use self::handler::Raw;
use self::threads::Threads;
use super::data::{Kind, Labels, Profile, Stack};
use crate::base::note::Note;
use crate::diag::unwind_copy::{Place, Tables, Walk, Words};
use crate::sched::block::marked_call;
use crate::sched::boot;
use crate::sched::machine::SCHED;
use crate::sys::clock::nanotime;
use crate::sys::cpu_timer::SIGPROF;
use crate::sys::signal::{self, Saved};
use crate::trace::cpu_samples::{self, CpuSample};

/// The pause between two looks at the ring and at the threads.
const ROUND: Duration = Duration::from_millis(50);
/// A look at the threads takes at most this part of the time.
const LOOK_PART: u32 = 50;
/// The highest rate (samples in a second of CPU time). The kernel looks at the timers about as often.
const HIGHEST_RATE: u32 = 1000;
/// Above this many kinds of samples (some 100 MB), new ones do not tell goroutines apart any more.
const MOST_COUNTS: usize = 1 << 17;
/// At the end, handlers that have begun to write get this long to finish.
const FINISH_WITHIN: Duration = Duration::from_millis(200);
/// The last signals have this long to arrive, at the end of a profile. A thread that blocks them never gets
/// them.
const ARRIVE_WITHIN: Duration = Duration::from_secs(1);

/// The rate of samples that [`Cpu::start`] is usually given, as in Go: 100 in a second of CPU time.
pub const DEFAULT_RATE: u32 = 100;

/// A CPU profile that is being made. Dropped, it ends, and what it has found is lost.
///
/// While it runs, each thread of the process is interrupted each time that it has used a certain amount of
/// CPU time, by `SIGPROF`. The sample says which function runs, who called it, and which goroutine it is: its
/// id (label `goroutine`) and its name (`goroutine name`). Where no goroutine runs, in the scheduler, in the
/// runtime's other threads and in threads of the program, the label `thread` has the name of the thread.
///
/// The interruption is not noticed by the program: system calls do not fail with `EINTR`. What a program must
/// not do is to install a handler for `SIGPROF` itself.
///
/// ```
/// let cpu = gort::profile::Cpu::start(gort::profile::DEFAULT_RATE)?;
/// gort::run(|| {
///     // ... the work ...
/// });
/// let profile = cpu.stop()?;
/// # let file = std::env::temp_dir().join(format!("gort-doc-{}.pprof", std::process::id()));
/// profile.write_to(&mut std::fs::File::create(&file)?)?; // go tool pprof -top FILE
/// # std::fs::remove_file(file)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "dropped, it ends"]
pub struct Cpu {
    _private: (),
}

/// The profile that is being made.
static RUNNING: Mutex<Option<JoinHandle<io::Result<Profile>>>> = Mutex::new(None);
/// Set to end it.
static STOP: AtomicBool = AtomicBool::new(false);
/// Wakes the thread.
static WAKE: Note = Note::new();

fn running() -> MutexGuard<'static, Option<JoinHandle<io::Result<Profile>>>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cpu {
    /// Begins a profile with `rate` samples in each second of CPU time, of all threads.
    ///
    /// # Errors
    /// If a profile is being made already, if the program (or another profiler) has a handler for `SIGPROF`,
    /// if the rate is not from 1 to 1,000, or if the system refuses a timer for each thread.
    pub fn start(rate: u32) -> io::Result<Cpu> {
        if !(1..=HIGHEST_RATE).contains(&rate) {
            let why = format!("a CPU profile with {rate} samples a second: give 1 to {HIGHEST_RATE}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        boot::ensure();
        let mut running = running();
        if running.is_some() {
            let why = "a CPU profile is being made already: call gort::profile::Cpu::stop on it first";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
        }
        if !signal::has_no_handler(SIGPROF) {
            let why = "SIGPROF, by which gort makes CPU profiles, has a handler already: \
                       the program, or another profiler in it, uses that signal";
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, why));
        }
        handler::prepare()?;
        let saved = signal::take_over(SIGPROF, handler::on_signal)?;
        STOP.store(false, Ordering::Relaxed);
        let period = 1_000_000_000 / u64::from(rate);
        let begun = Threads::new(period, nanotime()).and_then(|threads| {
            // It ends no wait, so a deadlock is one with it, too.
            let collect = move || SCHED.platform.observers.observe(|| Collector::new(threads, period).run());
            std::thread::Builder::new().name("gort-profile".into()).spawn(collect)
        });
        match begun {
            Ok(thread) => *running = Some(thread),
            Err(error) => {
                end_signals(&saved);
                return Err(error);
            }
        }
        *SAVED.lock().unwrap_or_else(PoisonError::into_inner) = Some(saved);
        Ok(Cpu { _private: () })
    }

    /// Ends the profile, and returns it.
    ///
    /// # Errors
    /// If the program has installed a handler for `SIGPROF` meanwhile.
    pub fn stop(self) -> io::Result<Profile> {
        let result = stop();
        std::mem::forget(self);
        result
    }
}

impl Drop for Cpu {
    fn drop(&mut self) {
        drop(stop());
    }
}

/// The action of the signal before the profile.
static SAVED: Mutex<Option<Saved>> = Mutex::new(None);

fn stop() -> io::Result<Profile> {
    let mut running = running();
    let Some(thread) = running.take() else { unreachable!("one `Cpu` for each profile that is being made") };
    STOP.store(true, Ordering::Release);
    WAKE.set();
    let result = marked_call::blocking(|| thread.join());
    if let Some(saved) = SAVED.lock().unwrap_or_else(PoisonError::into_inner).take() {
        end_signals(&saved);
    }
    drop(running);
    result.unwrap_or_else(|_| Err(io::Error::other("the thread of the profile panicked")))
}

/// Called when all timers are deleted.
fn end_signals(saved: &Saved) {
    signal::give_back_without_pending(SIGPROF, handler::on_signal, saved);
}

struct Collector {
    threads: Threads,
    tables: Tables,
    period: u64,
    counts: HashMap<(Stack, Labels), u64>,
    /// Samples for the trace that is being made.
    for_trace: Vec<CpuSample>,
    began: Instant,
}

impl Collector {
    fn new(threads: Threads, period: u64) -> Collector {
        Collector {
            threads,
            tables: Tables::new(),
            period,
            counts: HashMap::new(),
            for_trace: Vec::new(),
            began: Instant::now(),
        }
    }

    fn run(mut self) -> io::Result<Profile> {
        let mut next_look = Instant::now() + ROUND;
        while !STOP.load(Ordering::Acquire) {
            WAKE.wait_until(Some(Instant::now() + ROUND));
            self.collect();
            if !signal::is_handled_by(SIGPROF, handler::on_signal) {
                self.threads.stop(Duration::ZERO);
                let why = "the CPU profile ended, because the program installed a handler for SIGPROF";
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, why));
            }
            let now = Instant::now();
            if now >= next_look {
                self.threads.look();
                self.tables.refresh();
                next_look = now + ROUND.max(now.elapsed() * LOOK_PART);
            }
        }
        self.threads.stop(ARRIVE_WITHIN);
        // Before Linux 6.13, signals arrive also after their timer is gone. A thread that a signal has woken,
        // and that finds it discarded, would fail its call with EINTR.
        let limit = Instant::now() + ARRIVE_WITHIN;
        while self.threads.have_pending() && Instant::now() < limit {
            std::thread::sleep(Duration::from_millis(1));
        }
        let limit = Instant::now() + FINISH_WITHIN;
        while !self.collect() && Instant::now() < limit {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(self.finish())
    }

    /// Reads all samples. True: none is being written.
    fn collect(&mut self) -> bool {
        let complete = handler::drain(|raw| self.add(&raw));
        if !self.for_trace.is_empty() {
            cpu_samples::add(self.for_trace.drain(..));
        }
        complete
    }

    fn add(&mut self, raw: &Raw) {
        let stack = Words { start: raw.registers.sp(), words: &raw.stack };
        let frames = Walk::new(&mut self.tables, stack).frames(Place::stopped(&raw.registers));
        let labels = self.labels(raw, self.counts.len() < MOST_COUNTS);
        if let Some(m) = raw.m.filter(|_| cpu_samples::are_wanted()) {
            let frames = frames.clone().into();
            self.for_trace.push(CpuSample { time: raw.time, m, p: raw.p, goroutine: raw.goroutine, frames });
        }
        *self.counts.entry((Stack::Addresses(frames.into()), labels)).or_default() += raw.periods;
    }

    /// The labels of a sample; which goroutine it is only if `one_by_one`.
    fn labels(&self, raw: &Raw, one_by_one: bool) -> Labels {
        let mut labels = Labels::default();
        if raw.goroutine == 0 {
            labels.set("thread", &self.threads.name(raw.thread));
            return labels;
        }
        if one_by_one {
            labels.set("goroutine", &raw.goroutine.to_string());
            if let Some(name) = &raw.name {
                labels.set("goroutine name", name);
            }
        }
        raw.labels.pairs().iter().for_each(|pair| labels.set(&pair.key, &pair.value));
        labels
    }

    fn finish(self) -> Profile {
        let mut profile = Profile::new(Kind::Cpu);
        profile.duration = self.began.elapsed();
        profile.period = self.period;
        if self.threads.refused != 0 {
            let count = self.threads.refused;
            profile
                .comments
                .push(format!("{count} threads are missing: the system refused a timer for them"));
        }
        let lost = handler::lost() as u64;
        let extra = [("gort::profile::lost_samples", lost)];
        let lost = extra.into_iter().filter(|&(_, count)| count != 0);
        let lost = lost.map(|(name, count)| ((Stack::Named(name), Labels::default()), count));
        for ((stack, labels), count) in self.counts.into_iter().chain(lost) {
            profile.add(stack, labels, [count as i64, (count * self.period) as i64]);
        }
        profile
    }
}
