//! Hooks: how the core calls the layers above it. Reports (`diag/`) and bubbles (`testing/`) lie above the
//! core, so the core never imports them: it calls functions of this table, which `wiring.rs` fills and
//! `boot.rs` registers.

#[cfg(feature = "transparent")]
use std::ffi::c_int;
use std::ffi::c_void;
use std::time::Instant;

use super::event::Sampler;
use super::types::g::G;
use super::types::m::M;
use super::types::p::P;
use super::types::wait_times::WaitEnded;
use crate::sys::env::Settings;
use crate::timer::Timers;

/// The table. All functions may be called at any time after boot.
pub(crate) struct Hooks {
    /// Called at boot with the settings of the environment: installs the signal handlers of reports.
    pub(crate) boot: fn(&Settings),
    /// Called first in the handler of our signal, on any thread, with the context that the kernel passed to
    /// it: stops the thread here if the leak search is stopping all threads.
    pub(crate) signal_on_any_thread: fn(*mut c_void),
    /// Called in the handler of our signal on the thread of an M: answers a report that asks where its
    /// goroutine is.
    pub(crate) signal_on_m: fn(&'static M, *mut c_void),
    /// Called when every P is idle, or when a foreign thread is about to wait while all are: it may be a
    /// deadlock.
    pub(crate) all_idle: fn(),
    /// Called by the housekeeper when it is awake: serves requests. Returns the time at which it wants to be
    /// called again.
    pub(crate) housekeep: fn() -> Option<Instant>,
    /// Whether the netpoller watches a descriptor for code that knows nothing of gort.
    #[cfg(feature = "transparent")]
    pub(crate) others_watch: fn(c_int) -> bool,
    /// A descriptor was registered with the netpoller, or deregistered.
    #[cfg(feature = "transparent")]
    pub(crate) watch_changed: fn(c_int),
    /// Calls its argument with the frames of the caller: see `event/`. Called inside the runtime.
    pub(crate) sample_stack: Sampler,
    /// Called with each wait that ends while waits are profiled. `None` without the feature `debug`.
    pub(crate) wait_ended: Option<WaitEnded>,
    pub(crate) bubble: BubbleHooks,
}

/// What happens to goroutines of a bubble (`G::bubble` is its number, not 0).
pub(crate) struct BubbleHooks {
    /// A goroutine was spawned. The caller is in a section with this P, or on a foreign thread.
    pub(crate) started: fn(&'static G, Option<&'static P>),
    /// The wait of a goroutine has ended. The caller is inside the runtime, and owns the P, if there is one.
    pub(crate) ready: fn(&'static G, Option<&'static P>),
    /// The goroutine that had the turn has parked. The flag says whether it waits for I/O.
    pub(crate) parked: fn(u8, bool, &'static P),
    /// The goroutine that has the turn lets others run.
    pub(crate) yielded: fn(&'static G, &'static P),
    /// The goroutine of this id, which had the turn, has ended.
    pub(crate) ended: fn(u8, u64, &'static P),
    /// The heap for the timers of its goroutines.
    pub(crate) timers: fn(u8) -> &'static Timers,
    /// Its time, in nanoseconds of the monotonic clock.
    pub(crate) nanos: fn(u8) -> u64,
    /// Its time.
    pub(crate) instant: fn(u8) -> Instant,
    /// A number from its seed.
    pub(crate) random: fn(u8) -> u64,
    /// Gives no goroutine the next turn until `unpin`. False: no goroutine is in that bubble. Called outside
    /// of the runtime.
    pub(crate) pin: fn(u8) -> bool,
    /// As `pin`, where the caller knows that the bubble has goroutines. Called inside the runtime.
    pub(crate) pin_inside: fn(u8),
    /// Ends one `pin` or `pin_inside`. Called outside of the runtime.
    pub(crate) unpin: fn(u8),
}
