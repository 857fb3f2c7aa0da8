//! `#[gort::test(leaks = "deny")]`: a test fails if goroutines that it started wait forever when it ends.
//!
//! Each such test has a number while it runs. Its goroutine has the number, and goroutines inherit it from
//! the one that starts them. When the test's function has returned, the goroutines with its number get a
//! while to end. Meanwhile the search for leaks looks for them now and then. What it finds does wait
//! forever, so the grace is not for those: it gives others the time to end or to leak, and the search more
//! than one try.
//!
//! A test that leaves goroutines behind keeps its number until they have ended, so that they are not taken
//! for those of a later test.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{Dump, leaked};
use crate::diag::leak;
use crate::goroutine::__run_test;
use crate::sched::types::current::current;
use crate::sched::types::g::G;
use crate::sched::word::status::Status;

/// How long goroutines may take to end after the test's function has returned.
const GRACE: Duration = Duration::from_millis(250);
/// How long memory may be impossible to search after that: where other processes keep all cores busy, not all
/// threads stop in time.
const LONGEST: Duration = Duration::from_secs(10);
/// The longest pause between two searches.
const PAUSE: Duration = Duration::from_millis(128);

/// The numbers of the tests that run.
static RUNNING: Mutex<[bool; 256]> = Mutex::new([false; 256]);

/// The number of a test that runs.
struct Number(u8);

impl Number {
    fn take() -> Number {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        let is_free = |&number: &u8| !running[usize::from(number)] && living(number).is_empty();
        let Some(number) = (1..=u8::MAX).find(is_free) else {
            panic!("255 tests with `leaks = \"deny\"` run, or have left goroutines behind that still live")
        };
        running[usize::from(number)] = true;
        Number(number)
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        RUNNING.lock().unwrap_or_else(PoisonError::into_inner)[usize::from(self.0)] = false;
    }
}

/// The goroutines of a test that have not ended.
fn living(number: u8) -> HashSet<u64> {
    let mut ids = HashSet::new();
    // Twice: a goroutine may start another one in a slot that was looked at, and end before its own is.
    for _ in 0..2 {
        G::for_each(|g| {
            if g.test.get() == number && g.status() != Status::Dead {
                ids.insert(g.id());
            }
        });
    }
    ids
}

/// Keeps the small blocks of memory that this thread has freed out of use. The frames of the test harness may
/// still have their addresses, and a channel in such a block would seem to be in reach.
fn out_of_use() -> Vec<Vec<u8>> {
    // malloc keeps up to seven blocks of each size for a thread.
    (0..1024).step_by(16).flat_map(|size| (0..8).map(move |_| Vec::with_capacity(size + 8))).collect()
}

/// `run` for `#[gort::test(leaks = "deny")]`.
#[doc(hidden)]
#[track_caller]
pub fn __run_test_denying_leaks<F, T>(f: F) -> T
where
    F: FnOnce() -> T + Send,
    T: Send,
{
    let number = Number::take();
    let own = number.0;
    let _out_of_use = out_of_use();
    let result = __run_test(move || {
        if let Some(g) = current() {
            g.test.set(own);
        }
        f()
    });
    leak::scrub_thread();
    check(own);
    result
}

/// Panics if goroutines of the test wait forever.
#[track_caller]
fn check(number: u8) {
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    let (mut found, mut searched) = (Dump::default(), false);
    loop {
        if living(number).is_empty() {
            return;
        }
        crate::time::sleep(pause);
        pause = PAUSE.min(2 * pause);
        let left = living(number);
        if let Some(mut dump) = leaked() {
            searched = true;
            dump.keep(|goroutine| left.contains(&goroutine.id()));
            if dump.goroutines().len() >= found.goroutines().len() {
                found = dump;
            }
        }
        if start.elapsed() >= if searched { GRACE } else { LONGEST }
            || (!left.is_empty() && found.goroutines().len() == left.len())
        {
            break;
        }
    }
    let count = found.goroutines().len();
    if count != 0 {
        let them = if count == 1 { "a goroutine that waits" } else { "goroutines that wait" };
        panic!("the test has left behind {them} forever ({count}):\n\n{found}");
    }
    if living(number).is_empty() {
        return;
    }
    assert!(
        searched,
        "the test has left goroutines behind, and memory could not be searched for what may still end them \
         (`gort::runtime::leaked` says when); end them, or remove `leaks = \"deny\"`"
    );
}
