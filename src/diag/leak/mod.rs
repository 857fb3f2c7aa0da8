//! Goroutines that wait for ever: nobody who could end the wait can be reached any more.
//!
//! All threads are stopped (`stop_all_threads.rs`), and then memory is searched for whatever could end each wait, as a garbage
//! collector marks: what cannot be found cannot be used.
//!
//! | it waits for | only these can end the wait | found by |
//! | --- | --- | --- |
//! | a channel, or several | handles of the channel | the address of its allocation, or into it |
//! | a wait group | its clones | the same |
//! | the end of a goroutine | that goroutine | whether that one waits for ever |
//! | a mutex, or an RwLock that is locked for writing | its holder, because guards cannot be sent | the same |
//! | to write what others read | all of the readers | whether one of them waits for ever |
//! | to read behind somebody who waits to write | that one | the same |
//! | no channel at all | nothing | – |
//!
//! A goroutine that waits for one of these, without a timeout, is a candidate. Everything else is a root: all memory that the process
//! has written to, the registers of all threads, the stacks of all other goroutines. A word there that could be one of the addresses
//! means that the wait may end: then the candidate's own stack is a root too, and so on until nothing changes. The
//! candidates that are left wait for each other or for nobody.
//!
//! - L1. Never a goroutine whose wait can end. A handle that exists lies in memory or in a register of a thread that runs or of
//!   a goroutine that will, as an address: it is found. (Unless it is at an address that is not a multiple of 8, in a packed struct. And
//!   unless a guard was forgotten and its lock dropped.)
//! - L2. Somebody may have taken a goroutine out of its queue, be about to ready it, and know the queue no more. So only who is still
//!   queued is a candidate: whoever readies it later has to go to the queue first. (A channel whose one side is gone lets all of
//!   them go at once, without telling them: who waits there is not a candidate.)
//! - L3. Some are missed: memory that was freed or is no longer used may still hold an address, a number may look like one, and what lies on
//!   the heap is a root even if only candidates can reach it.
//!
//! Readers of an RwLock are known if they are goroutines and do not read too much at once (`sync/reads.rs`).
//!
//! Nothing is allocated and no lock is taken while the threads are stopped: the memory that is needed is mapped before. It is not
//! searched, and neither are the stacks of goroutines that have ended.

mod desk;
mod search;
pub(crate) mod stop_all_threads;
mod wait;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::sched::block::marked_call;
use crate::sched::types::g::G;
use crate::sys::thread;

use desk::Desk;
use search::Search;

/// How often everybody is stopped if somebody could not be.
const ATTEMPTS: u32 = 5;

/// The ids of goroutines that wait for ever. `None`: that could not be found out.
pub(crate) fn find() -> Option<Vec<u64>> {
    static ONE: Mutex<()> = Mutex::new(());
    marked_call::blocking(|| {
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        // On a thread that has no memory of the user's on its stack.
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

/// `None`: not everybody could be stopped, or there was no memory.
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

/// Overwrites what calls before have left on this stack: the next thread that gets it would seem to know all the channels.
#[inline(never)]
fn scrub() {
    std::hint::black_box(&mut [0usize; 16 << 10]);
}
