//! Profiles in the format of [pprof], with the names, types and units of Go's `runtime/pprof`, so that
//! `go tool pprof` and everything else that reads Go's profiles shows them.
//!
//! | name | counts | by |
//! | --- | --- | --- |
//! | `cpu` | samples, and CPU time | where a thread computes: [`Cpu`] |
//! | `goroutine` | goroutines | where they are: [`goroutine`] |
//! | `goroutineleak` | goroutines that wait forever | where they wait: [`goroutineleak`] |
//! | `threadcreate` | threads of the runtime | what they are for: [`threadcreate`] |
//! | `block` | waits for other goroutines, and their time | where a goroutine waits: [`block`] |
//! | `mutex` | waits for locks, and their time | where the lock is released: [`mutex`] |
//!
//! Samples have the [labels](crate::with_labels) of the goroutine. The runtime's own frames are left out, as
//! in dumps, but for `cpu`, where they take time like all others.
//!
//! ```
//! gort::profile::set_block_profile_rate(std::time::Duration::from_micros(10))?;
//! let before = gort::profile::block();
//! gort::run(|| {
//!     let (sender, receiver) = gort::chan::bounded(0);
//!     let reader = gort::spawn(move || receiver.iter().sum::<u64>());
//!     for n in 0..10 {
//!         gort::sleep(std::time::Duration::from_millis(1));
//!         sender.send(n).unwrap();
//!     }
//!     drop(sender);
//!     assert_eq!(reader.join().unwrap(), 45);
//! });
//! let profile = gort::profile::block().since(&before)?;
//! assert!(profile.time() >= std::time::Duration::from_millis(5));
//! println!("{}", profile.text(1));
//! # gort::profile::set_block_profile_rate(std::time::Duration::ZERO)?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Cost
//!
//! While nothing is profiled: nothing; `block` and `mutex` share the branch of the tracer. A CPU profile
//! costs some microseconds for each sample.
//!
//! [pprof]: https://github.com/google/pprof

mod buckets;
mod cpu;
mod data;
mod goroutines;
mod pprof;
mod symbols;
mod text;
mod waits;

pub use cpu::{Cpu, DEFAULT_RATE};
pub use data::Profile;
pub(crate) use waits::wait_ended;
pub use waits::{set_block_profile_rate, set_mutex_profile_fraction};

use crate::sched::boot;

/// The names that [`lookup`] knows, sorted.
pub const NAMES: [&str; 5] = ["block", "goroutine", "goroutineleak", "mutex", "threadcreate"];

/// The present state of the profile of that name, as Go's `pprof.Lookup`. `None`: the name is not one of
/// [`NAMES`] (a CPU profile has to be [started](Cpu::start)), or the profile cannot be made now, as
/// [`goroutineleak`] says.
///
/// ```
/// let profile = gort::profile::lookup("threadcreate").unwrap();
/// assert_eq!(profile.name(), "threadcreate");
/// assert!(gort::profile::lookup("heap").is_none());
/// ```
pub fn lookup(name: &str) -> Option<Profile> {
    match name {
        "block" => Some(block()),
        "goroutine" => Some(goroutine()),
        "goroutineleak" => goroutineleak(),
        "mutex" => Some(mutex()),
        "threadcreate" => Some(threadcreate()),
        _ => None,
    }
}

/// All goroutines, by stack and labels. It is made from a [dump](crate::runtime::dump), which describes how
/// they are looked at. A goroutine whose stack is not known is counted under what it does ("syscall").
pub fn goroutine() -> Profile {
    boot::ensure();
    goroutines::goroutine()
}

/// The goroutines that wait forever, by stack and labels. `None`: they cannot be looked for now; see
/// [`runtime::leaked`](crate::runtime::leaked), which also says what the search costs.
///
/// ```
/// # gort::run(|| ());
/// if let Some(leaks) = gort::profile::goroutineleak() {
///     println!("{} goroutines wait forever", leaks.count());
/// }
/// ```
pub fn goroutineleak() -> Option<Profile> {
    boot::ensure();
    goroutines::goroutineleak()
}

/// The threads that the runtime has now: those that run goroutines (`gort::sched::M`), and others
/// (`gort::sched::monitor`). As in Go, it has no stacks: all threads are started at one place.
pub fn threadcreate() -> Profile {
    boot::ensure();
    goroutines::threadcreate()
}

/// Where goroutines waited for other goroutines, how often and how long, since the profile was turned on with
/// [`set_block_profile_rate`]: waits for channels, in selects, for locks and everything else in
/// [`sync`](crate::sync), for the end of goroutines and for contexts. Waits for time and for I/O are not
/// among them, nor are those of OS threads. A wait is as long as it takes until it ends; the time in a run
/// queue does not count.
///
/// As in Go, what was collected stays when the profile is turned off.
pub fn block() -> Profile {
    waits::block()
}

/// Where locks are released for which goroutines waited, how often and how long they waited, since the
/// profile was turned on with [`set_mutex_profile_fraction`]. The whole wait counts at the place that ended
/// it, the release of the lock: this is where to look for a lock that is held for too long. Waits that end by
/// a timeout are left out.
///
/// As in Go, what was collected stays when the profile is turned off.
pub fn mutex() -> Profile {
    waits::mutex()
}
