//! The stall watchdog: reports goroutines that should run and do not.
//!
//! A thread of its own looks a few times within the limit at every goroutine that does not wait:
//!
//! | kind | what it sees | it is the same stall at the next look if |
//! | --- | --- | --- |
//! | runnable | in a queue | its status was not set since: it still has the mark of the last look |
//! | unmarked call | asleep, without its P; not in `gort::blocking` | the same, and no CPU time was used |
//! | P stuck | it runs, and sysmon has asked its P for a preemption | the same, and the request stands |
//!
//! The mark (`G::mark_status`) costs goroutines nothing: every change of the status is a plain store, which
//! removes the mark.
//!
//! The age of a stall is the sum of the times between looks. If a look comes late, because the process was
//! stopped or the machine is overloaded, only twice the planned time counts: the watchdog does not blame
//! goroutines for what stopped the watchdog, too.
//!
//! While all Ps are idle and every stall is reported, the watchdog sleeps; sysmon wakes it. A goroutine in an
//! unmarked call needs no P, so a look that ends that way must have begun after sysmon had fallen asleep.
//!
//! The looks allocate nothing and take no lock, because the goroutine that is stuck may hold it. A report
//! does both, after its first line is out.

use std::collections::HashMap;
use std::fmt;
use std::fmt::Write as _;
use std::panic::AssertUnwindSafe;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::dump::GoroutineTrace;
use super::dump::{snapshot, stack_copy};
use crate::sched::idle::wake_sysmon;
use crate::sched::machine::SCHED;
use crate::sched::types::g::G;
use crate::sched::word::status::Status;
use crate::sys::clock::nanotime;
use crate::sys::{stderr, thread};
use crate::trace::{SnapshotCause, automatic};

/// Size of the thread's stack (bytes): looking up function names needs a lot.
const STACK: usize = 4 << 20;
/// Looks within the limit.
const LOOKS: u32 = 4;
/// The shortest and the longest pause between two looks.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(1);
/// Looking takes at most one part in this many of the time of one core.
const SHARE: u64 = 50;
/// How many goroutines the watchdog follows at once.
const FOLLOWED: usize = 4096;
/// How many goroutines one look reports with their stacks; of the others it reports the number.
const AT_ONCE: usize = 16;

/// How many stalls were reported.
static REPORTED: AtomicU64 = AtomicU64::new(0);

/// How many stalls were reported.
pub(crate) fn reported() -> u64 {
    REPORTED.load(Ordering::Relaxed)
}

/// What the program does with a stall.
pub(crate) struct OnStall(pub(crate) Box<dyn Fn(&Stall) + Send + Sync>);

impl fmt::Debug for OnStall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnStall")
    }
}

/// Why a goroutine is stalled. See [`Stall`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StallKind {
    /// It is ready to run, and no processor has taken it.
    Runnable,
    /// It is in a blocking call that is not marked by [`blocking`](crate::blocking).
    UnmarkedCall,
    /// It runs, others wait for its processor, and it does not let them run although it was asked to.
    ProcessorStuck,
}

/// A goroutine that should run, or let others run, and has not done so for longer than
/// [`Config::stall_after`](crate::runtime::Config::stall_after).
#[derive(Clone, Debug)]
pub struct Stall {
    kind: StallKind,
    lasted: Duration,
    goroutine: GoroutineTrace,
}

impl Stall {
    /// Why it is stalled.
    pub fn kind(&self) -> StallKind {
        self.kind
    }

    /// For how long, at least.
    pub fn lasted(&self) -> Duration {
        self.lasted
    }

    /// The goroutine: id, name, spawn site, and its stack while it was stalled.
    pub fn goroutine(&self) -> &GoroutineTrace {
        &self.goroutine
    }
}

impl StallKind {
    fn says(self) -> &'static str {
        match self {
            StallKind::Runnable => "is runnable, and has not run",
            StallKind::UnmarkedCall => "is in a blocking call that is not marked",
            StallKind::ProcessorStuck => "does not let others run",
        }
    }
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (id, says) = (self.goroutine.id(), self.kind.says());
        write!(f, "goroutine {id} {says} for {:?}:\n{}", self.lasted, self.goroutine)
    }
}

/// Starts the watchdog.
pub(super) fn start(after: Duration, on_stall: Option<OnStall>) {
    if let Err(error) = thread::start("gort-watchdog", STACK, move || run(after, on_stall)) {
        stderr::write_short(format_args!("gort: the stall watchdog could not be started: {error}\n"));
    }
}

fn run(after: Duration, on_stall: Option<OnStall>) {
    let own = &SCHED.platform.watchdog;
    let _own = own.thread.begin();
    let mut watch = Watch::new(after);
    let mut pause = watch.pause;
    loop {
        std::thread::sleep(Duration::from_nanos(pause));
        let all_idle = wake_sysmon::is_asleep();
        let start = nanotime();
        watch.look(2 * pause);
        pause = watch.pause.max((nanotime() - start).saturating_mul(SHARE));
        for due in watch.due.drain(..) {
            report(&due, on_stall.as_ref());
        }
        let more = std::mem::take(&mut watch.more);
        if more != 0 {
            stderr::write_short(format_args!("gort: stall: {more} more goroutines are stalled\n"));
            REPORTED.fetch_add(more, Ordering::Relaxed);
        }
        if all_idle && watch.has_reported_all() && wake_sysmon::is_asleep() {
            // sysmon slept before the look. If goroutines ran since, then it woke up and has set the Note, or
            // it is awake. Otherwise the look has seen all that there is.
            own.wake.wait();
        }
    }
}

/// What the watchdog knows about a goroutine.
struct Followed {
    id: u64,
    kind: StallKind,
    /// For how long it has been seen like this (ns).
    age: u64,
    /// The CPU time of its thread (ns), in a call.
    cpu: Option<u64>,
    reported: bool,
    /// The look that saw it last.
    round: u64,
}

struct Watch {
    /// By address of the G. It never grows: it has room for twice as many as are followed, and up to a half
    /// of its room, a hash map cleans up in place.
    followed: HashMap<usize, Followed>,
    after: u64,
    pause: u64,
    round: u64,
    /// When the last look was (ns).
    last: u64,
    /// What the last look found, and how many more.
    due: Vec<Due>,
    more: u64,
}

/// A stall that is to be reported.
struct Due {
    g: &'static G,
    /// The goroutine that was stalled; by now the G may be another one's.
    id: u64,
    kind: StallKind,
    /// For how long (ns).
    age: u64,
}

impl Watch {
    fn new(after: Duration) -> Watch {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Watch {
            followed: HashMap::with_capacity(2 * FOLLOWED),
            after: nanos(after),
            pause: nanos((after / LOOKS).clamp(SHORTEST, LONGEST)),
            round: 0,
            last: nanotime(),
            due: Vec::with_capacity(AT_ONCE),
            more: 0,
        }
    }

    fn has_reported_all(&self) -> bool {
        self.followed.values().all(|followed| followed.reported)
    }

    /// Looks at all goroutines. At most `longest` (ns) count as the time since the last look.
    fn look(&mut self, longest: u64) {
        let now = nanotime();
        let step = (now - self.last).min(longest);
        self.last = now;
        self.round += 1;
        G::for_each(|g| self.look_at(g, step));
        let round = self.round;
        self.followed.retain(|_, followed| followed.round == round);
    }

    fn look_at(&mut self, g: &'static G, step: u64) {
        let Some((kind, cpu)) = judge(g) else { return };
        let address = ptr::from_ref(g) as usize;
        if let Some(known) = self.followed.get_mut(&address) {
            known.round = self.round;
            if known.id == g.id() && known.kind == kind && known.cpu == cpu && g.has_marked_status() {
                known.age += step;
                if known.age < self.after || known.reported {
                    return;
                }
                known.reported = true;
                if self.due.len() < AT_ONCE {
                    self.due.push(Due { g, id: known.id, kind, age: known.age });
                } else {
                    self.more += 1;
                }
                return;
            }
        } else if self.followed.len() == FOLLOWED {
            return;
        }
        g.mark_status();
        let fresh = Followed { id: g.id(), kind, age: 0, cpu, reported: false, round: self.round };
        self.followed.insert(address, fresh);
    }
}

/// Whether `g` may be stalled; in a call, with the CPU time of its thread.
fn judge(g: &'static G) -> Option<(StallKind, Option<u64>)> {
    if g.bubble.get() != 0 {
        return None; // its goroutines take turns
    }
    match g.status() {
        Status::Runnable | Status::Preempted => Some((StallKind::Runnable, None)),
        Status::Syscall if !g.blocking.get() => {
            // sysmon also takes the P of a goroutine that computes, on a thread that gets no CPU.
            let tid = g.peek_m()?.tid();
            let cpu = thread::cpu_nanos(tid)?;
            (thread::is_asleep(tid) != Some(false)).then_some((StallKind::UnmarkedCall, Some(cpu)))
        }
        Status::Running => {
            let m = g.peek_m().filter(|m| m.current().is_some_and(|current| ptr::eq(current, g)))?;
            m.p()?.preempt.load(Ordering::Relaxed).then_some((StallKind::ProcessorStuck, None))
        }
        _ => None,
    }
}

fn report(&Due { g, id, kind, age }: &Due, on_stall: Option<&OnStall>) {
    let lasted = Duration::from_nanos(age);
    if g.id() != id {
        return; // it ended while others were reported
    }
    stderr::write_short(format_args!("gort: stall: goroutine {id} {} for {lasted:?}\n", kind.says()));
    let (frames, status) = match kind {
        StallKind::Runnable => (stack_copy::queued(g), Status::Runnable),
        StallKind::UnmarkedCall => (g.peek_m().and_then(|m| stack_copy::in_call(g, m)), Status::Syscall),
        StallKind::ProcessorStuck => (g.peek_m().and_then(snapshot::ask_one), Status::Running),
    };
    // The frames are those of the stall if it still lasts.
    let frames = frames.filter(|_| g.has_marked_status() && g.id() == id);
    let mut snapshot = snapshot::with_frames(g, frames.as_ref());
    if snapshot.id != id {
        return; // it has ended
    }
    snapshot.status = status;
    publish(&Stall { kind, lasted, goroutine: GoroutineTrace(snapshot) }, on_stall);
}

/// Tells everybody about the stall. The flight recorder is told first, so that its snapshot shows this
/// moment.
fn publish(stall: &Stall, on_stall: Option<&OnStall>) {
    automatic::on(SnapshotCause::Stall);
    let _nobody_listens = writeln!(stderr::Pieces::new(), "{}", stall.goroutine);
    REPORTED.fetch_add(1, Ordering::Relaxed);
    if let Some(OnStall(call)) = on_stall {
        let call = || SCHED.platform.watchdog.thread.run_of_program(|| call(stall));
        // The panic hook has said what happened.
        if std::panic::catch_unwind(AssertUnwindSafe(call)).is_err() {
            stderr::write("gort: stall: the function of Config::on_stall panicked; the watchdog goes on\n");
        }
    }
}
