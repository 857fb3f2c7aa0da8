//! The leak search: finds goroutines that wait forever, because nothing that could end their wait is
//! reachable any more.
//!
//! It stops all threads (`stop_all_threads.rs`), and then searches memory for the handles that could end each
//! wait, as the mark phase of a garbage collector does: what cannot be found cannot be used.
//!
//! | the goroutine waits for | only these can end the wait | how the search finds them |
//! | --- | --- | --- |
//! | a channel, or several | handles of the channel | the address of its allocation, or into it |
//! | a wait group | its clones | the address of its allocation, or into it |
//! | a condition variable on the heap | code that reaches it | an address in the block that it lies in |
//! | the end of a goroutine | that goroutine | whether it waits forever itself |
//! | a lock that is held exclusively | its holder (guards are not `Send`) | whether it leaked or ended |
//! | a `Once` | the one that runs its function | as for locks |
//! | an RwLock, to write, while others read | all of the readers | see below |
//! | an RwLock, to read, behind a waiting writer | that writer | whether it waits forever itself |
//! | no channel at all | nothing | – |
//!
//! A goroutine that waits for one of these, without a timeout, is a candidate. Everything else is a root: all
//! memory that the process has written to, the registers of all threads, the stacks of all other goroutines.
//! If a word there could be one of the addresses, the wait may end: then the candidate's own stack becomes a
//! root too, and so on until nothing changes. The candidates that are left wait for each other, or for
//! nothing.
//!
//! - L1. The search never reports a goroutine whose wait can end. A handle that exists contains an address,
//!   which lies in memory or in a register of a thread that runs or of a goroutine that will run, so the
//!   search finds it. If it lies in a block of the heap, the same holds for an address in that block, and so
//!   on (`targets.rs`, `heap.rs`). (Exceptions: the handle, or an address that leads to it, is in a packed
//!   struct, at an address that is not a multiple of 8, or hidden by unsafe code; or a guard was forgotten
//!   and its lock dropped.)
//! - L2. A waker may have taken a goroutine out of its queue, be about to ready it, and no longer hold a
//!   handle. So only a goroutine that is still queued is a candidate: its waker has to go to the queue first.
//!   (When one side of a channel is gone, all waiters of the other side will be woken, even those that are
//!   still queued; so a goroutine that waits there is not a candidate.)
//! - L3. The search misses some: memory that was freed or is no longer used may still hold an address, a
//!   number may look like one, and large blocks of the heap are roots, even if only candidates reach them.
//!
//! The readers of an RwLock are known if they are goroutines and do not hold too many read locks at once
//! (`sync/holder/reads.rs`). The writer waits forever if one of the known readers does, or if the lock is in
//! a block of the heap and no address in that block is left: each reader has one, as long as there is one.
//!
//! While the threads are stopped the search allocates nothing and takes no lock: the memory that it needs is
//! mapped before (`desk.rs`). It does not search that memory, nor the stacks of goroutines that have ended.

mod desk;
mod heap;
mod search;
pub(crate) mod stop_all_threads;
mod targets;
mod wait;

use std::collections::HashSet;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::dump::Dump;
use crate::arch;
use crate::sched::block::marked_call;
use crate::sched::types::current::current;
use crate::sched::types::g::G;
use crate::sys::thread;

use desk::Desk;
use search::Search;

/// How many times the search tries to stop all threads.
const ATTEMPTS: u32 = 5;

/// The ids of goroutines that wait forever. `None`: the search was not possible.
pub(crate) fn find() -> Option<Vec<u64>> {
    static ONE: Mutex<()> = Mutex::new(());
    scrub_thread();
    marked_call::blocking(|| {
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        // On a thread of its own, whose stack holds nothing of the user's.
        let search =
            std::thread::Builder::new().name("gort-leaks".into()).stack_size(256 << 10).spawn(|| {
                (0..ATTEMPTS).find_map(|attempt| {
                    std::thread::sleep(Duration::from_millis(10 * u64::from(attempt)));
                    let found = search();
                    scrub();
                    found
                })
            });
        search.ok()?.join().ok()?
    })
}

/// The goroutines that wait forever. `None`: the search was not possible.
pub(crate) fn dump() -> Option<Dump> {
    let ids: HashSet<u64> = find()?.into_iter().collect();
    let mut dump = if ids.is_empty() { Dump::default() } else { Dump::take(false) };
    dump.keep(|goroutine| ids.contains(&goroutine.id()));
    Some(dump)
}

/// One attempt. `None`: not all threads could be stopped, or there was not enough memory.
fn search() -> Option<Vec<u64>> {
    let own_stack = thread::own_stack()?;
    let mut goroutines = 0;
    G::for_each(|_| goroutines += 1);
    let goroutines = goroutines + 1024;
    let mut desk = Desk::new(Search::room_for(goroutines))?;
    let mut search = Search::new(&mut desk, goroutines);
    let complete = {
        let stopped = stop_all_threads::stop()?;
        search.run(&stopped, &[own_stack, desk.addresses()])
    };
    complete?;
    Some(search.leaked().map(G::id).collect())
}

/// Overwrites what earlier calls of this thread have left below the caller's frame: the frames of later calls
/// do not write to all of their memory, and so the search would find there what has long been dropped. Not
/// for goroutines: of their stacks, only the part above the stack pointer is searched, and they may be
/// small.
#[inline(never)]
pub(crate) fn scrub_thread() {
    const ENOUGH: usize = 128 << 10;
    let has_room = |stack: Range<usize>| arch::stack_pointer().saturating_sub(stack.start) >= ENOUGH;
    if current().is_none() && thread::own_stack().is_some_and(has_room) {
        std::hint::black_box(&mut [0usize; 4 << 10]);
    }
}

/// Overwrites what earlier calls have left on this stack. The next thread that gets its memory would
/// otherwise seem to hold the addresses of all channels.
#[inline(never)]
fn scrub() {
    std::hint::black_box(&mut [0usize; 16 << 10]);
}
