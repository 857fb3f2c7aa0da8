//! The longest unmarked blocking calls, with the stacks that were captured while they lasted.
//!
//! sysmon notes on the M when it takes the P of a blocked goroutine, and wakes the housekeeper, which looks
//! at the calls that last longer than [`WORTH_A_LOOK`]. For those that belong among the longest it copies the
//! stack (`dump/stack_copy.rs`) and leaves a record on the M, in which the end of the call is noted
//! (`sched/word/unmarked_call.rs`). So a call costs something only if it is long, and an idle process does
//! not wake up: the housekeeper looks again when a call could have become one of the longest.

use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::dump::GoroutineTrace;
use super::dump::{snapshot, stack_copy};
use crate::sched::machine::SCHED;
use crate::sched::types::m::M;
use crate::sched::word::status::Status;
use crate::sched::word::unmarked_call::Record;
use crate::sys::clock::nanotime;

/// How many calls are reported.
const REPORTED: usize = 16;
/// How many are remembered: those that last may yet become longer than those that have ended.
const REMEMBERED: usize = 64;
/// Shorter calls (ns) are not looked at.
const WORTH_A_LOOK: u64 = 10_000_000;

static RECORDS: [Record; REMEMBERED] = [const { Record(AtomicU64::new(0)) }; REMEMBERED];
static CALLS: Mutex<Calls> = Mutex::new(Calls(Vec::new()));

/// The calls that were looked at; the record of each is that of its index.
struct Calls(Vec<Call>);

struct Call {
    goroutine: GoroutineTrace,
    m: &'static M,
    since: u64,
}

fn calls() -> MutexGuard<'static, Calls> {
    CALLS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Calls {
    fn has(&self, m: &'static M, since: u64) -> bool {
        self.0.iter().any(|call| ptr::eq(call.m, m) && call.since == since)
    }

    /// Where the next call goes, and how long (ns) it must have lasted. `None`: there is no place.
    fn place(&self) -> Option<(usize, u64)> {
        if self.0.len() < REMEMBERED {
            return Some((self.0.len(), WORTH_A_LOOK));
        }
        let ended = self.0.iter().zip(&RECORDS).enumerate().filter_map(|(index, (call, record))| {
            let end = record.0.load(Ordering::Acquire);
            (end != 0).then(|| (index, end.saturating_sub(call.since)))
        });
        ended.min_by_key(|&(_, nanos)| nanos)
    }

    fn put(&mut self, index: usize, call: Call) {
        RECORDS[index].0.store(0, Ordering::Relaxed);
        let (m, since) = (call.m, call.since);
        if index == self.0.len() {
            self.0.push(call);
        } else {
            self.0[index] = call;
        }
        m.call.note_end_in(&RECORDS[index], since);
    }
}

/// Called on the housekeeper: looks at the calls that last. Returns when to look again.
pub(super) fn serve() -> Option<Instant> {
    let wanted = &SCHED.platform.housekeeper.calls_wanted;
    if !wanted.swap(false, Ordering::Relaxed) {
        return None;
    }
    let (now, mut next) = (nanotime(), u64::MAX);
    let mut calls = calls();
    for m in SCHED.platform.all_ms() {
        let since = m.call.since();
        if since == 0 || calls.has(m, since) {
            continue;
        }
        let Some((place, least)) = calls.place() else { break };
        let age = now.saturating_sub(since);
        if age < least {
            next = next.min(since + least);
        } else if let Some(goroutine) = capture(m).filter(|_| m.call.since() == since) {
            // The call lasts, so the stack is its own. If another one has begun, sysmon has asked for a look.
            calls.put(place, Call { goroutine, m, since });
        } else if m.call.since() == since {
            next = next.min(now + age); // it has just come back, most likely
        }
    }
    drop(calls);
    (next != u64::MAX).then(|| {
        wanted.store(true, Ordering::Relaxed);
        Instant::now() + Duration::from_nanos(next.saturating_sub(nanotime()))
    })
}

fn capture(m: &'static M) -> Option<GoroutineTrace> {
    let g = m.in_user_code()?;
    let frames = stack_copy::in_call(g, m)?;
    let mut snapshot = snapshot::with_frames(g, Some(&frames));
    snapshot.status = Status::Syscall;
    Some(GoroutineTrace(snapshot))
}

/// A long blocking call that was not marked by [`blocking`](crate::blocking). See
/// [`longest_blocking_calls`](crate::runtime::longest_blocking_calls).
#[derive(Clone)]
pub struct BlockingCall {
    goroutine: GoroutineTrace,
    duration: Duration,
    over: bool,
}

impl BlockingCall {
    /// The goroutine: its id, name, spawn site, and its stack in the call.
    pub fn goroutine(&self) -> &GoroutineTrace {
        &self.goroutine
    }

    /// How long the call took, or has lasted so far: from the moment at which the runtime noticed it until
    /// the goroutine called the runtime again.
    pub fn duration(&self) -> Duration {
        self.duration
    }

    /// Whether the call has ended.
    pub fn is_over(&self) -> bool {
        self.over
    }
}

impl fmt::Debug for BlockingCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockingCall")
            .field("goroutine", &self.goroutine)
            .field("duration", &self.duration)
            .field("over", &self.over)
            .finish()
    }
}

impl fmt::Display for BlockingCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let so_far = if self.over { "" } else { " so far" };
        write!(f, "blocking call of {:?}{so_far}:\n{}", self.duration, self.goroutine)
    }
}

/// The longest calls, the longest first.
pub(crate) fn longest() -> Vec<BlockingCall> {
    let now = nanotime();
    let mut found: Vec<BlockingCall> = calls()
        .0
        .iter()
        .zip(&RECORDS)
        .map(|(call, record)| {
            let end = record.0.load(Ordering::Acquire);
            let until = if end == 0 { now } else { end };
            let duration = Duration::from_nanos(until.saturating_sub(call.since));
            BlockingCall { goroutine: call.goroutine.clone(), duration, over: end != 0 }
        })
        .collect();
    found.sort_by_key(|call| std::cmp::Reverse(call.duration));
    found.truncate(REPORTED);
    found
}
