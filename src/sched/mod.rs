//! The scheduler: goroutines (G), OS threads (M), processors (P). README.md tells the path of a goroutine.

mod ask;
pub(crate) mod blocks;
pub(crate) mod boot;
mod brisk;
pub(crate) mod bubble;
mod context;
mod deadlock;
mod detach;
mod find;
mod first;
mod foreign;
pub(crate) mod futureword;
pub(crate) mod g;
pub(crate) mod gdeque;
pub(crate) mod glist;
pub(crate) mod global;
pub(crate) mod histogram;
pub(crate) mod hold;
mod idle;
pub(crate) mod leak;
pub(crate) mod lock;
pub(crate) mod locked;
pub(crate) mod m;
mod near;
pub(crate) mod note;
mod overflow;
pub(crate) mod p;
pub(crate) mod park;
mod parkword;
mod pause;
pub(crate) mod peek;
pub(crate) mod poller;
pub(crate) mod preempt;
pub(crate) mod prefetch;
pub(crate) mod procs;
mod quit;
pub(crate) mod readers;
pub(crate) mod reason;
mod runq;
pub(crate) mod sampler;
mod schedtrace;
mod schedule;
pub(crate) mod section;
mod setxid;
pub(crate) mod sleep;
pub(crate) mod snapshot;
pub(crate) mod spawn;
pub(crate) mod status;
mod steal;
mod steward;
pub(crate) mod syscall;
mod sysmon;
pub(crate) mod unwind;
pub(crate) mod visit;
pub(crate) mod waiter;
pub(crate) mod wake;

/// A runtime bug: says where and what, and aborts.
#[cold]
pub(crate) fn throw(place: &str, what: std::fmt::Arguments<'_>) -> ! {
    crate::sys::stderr::write(&format!("gort: {place}: {what}\n"));
    std::process::abort()
}
