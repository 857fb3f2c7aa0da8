//! Connections whose clients have been quiet for a while: nothing is kept for them but the socket. No goroutine waits; when
//! the client speaks, the waker that was left at the socket starts one.
//!
//! A sleeping connection lies in its [`Bed`], which its waker and the list of all beds know. Who takes it out of the bed has it,
//! alone: the waker, the reaper when the client's time is over, the end of the server, or the goroutine that put it to bed,
//! if the client has spoken meanwhile.
//!
//! Locks: that of the list comes before those of beds.

use std::sync::Arc;
use std::task::{Context as TaskContext, Wake, Waker};
use std::time::{Duration, Instant};

use super::connection::Quiet;
use super::handler::Handler;
use super::server::{self, Connection};
use crate::sync::Mutex;
use crate::time::{Timer, after_func, clock};

/// All that sleep.
pub(super) struct Dormitory<H: Handler> {
    beds: Mutex<Beds<H>>,
    /// Closes connections whose time is over.
    reaper: Timer,
}

struct Beds<H: Handler> {
    /// By number; those that are free are `None`, and listed.
    all: Vec<Option<Arc<Bed<H>>>>,
    free: Vec<usize>,
    /// When the reaper will look.
    reaper_comes: Option<Instant>,
    closed: bool,
}

/// Where one sleeps.
struct Bed<H: Handler>(Mutex<Option<Asleep<H>>>);

struct Asleep<H: Handler> {
    quiet: Quiet,
    connection: Connection<H>,
    number: usize,
}

impl<H: Handler> Dormitory<H> {
    /// `reap` calls [`reap`](Dormitory::reap).
    pub(super) fn new(reap: impl Fn() + Send + Sync + 'static) -> Dormitory<H> {
        let beds = Beds { all: Vec::new(), free: Vec::new(), reaper_comes: None, closed: false };
        Dormitory { beds: Mutex::new(beds), reaper: after_func(Duration::MAX, reap) }
    }

    /// Puts a connection to sleep. It comes back if its client has spoken already, or the server ends.
    pub(super) fn sleep(connection: Connection<H>, quiet: Quiet) -> Option<(Connection<H>, Quiet)> {
        let open = connection.open().clone();
        let dormitory = &open.dormitory;
        let own = Arc::new(Bed(Mutex::new(None)));
        let mut bed = own.0.lock();
        {
            let mut beds = dormitory.beds.lock();
            if beds.closed {
                return Some((connection, quiet));
            }
            let number = beds.free.pop().unwrap_or_else(|| {
                beds.all.push(None);
                beds.all.len() - 1
            });
            beds.all[number] = Some(own.clone());
            let deadline = quiet.deadline;
            *bed = Some(Asleep { quiet, connection, number });
            dormitory.expect_reaper(&mut beds, deadline);
        }
        let waker = Waker::from(own.clone());
        let speaks = bed.as_mut().is_some_and(|asleep| {
            asleep.quiet.stream.poll_readable(&mut TaskContext::from_waker(&waker)).is_ready()
        });
        let asleep = if speaks { bed.take() } else { None };
        drop(bed);
        asleep.map(Asleep::get_up)
    }

    fn expect_reaper(&self, beds: &mut Beds<H>, deadline: Option<Instant>) {
        if let Some(deadline) = deadline
            && beds.reaper_comes.is_none_or(|comes| deadline < comes)
        {
            beds.reaper_comes = Some(deadline);
            self.reaper.reset(deadline.saturating_duration_since(clock::now()));
        }
    }

    /// Closes connections whose time is over. Looks again when the next one's is, but not sooner than after `pause`.
    pub(super) fn reap(&self, pause: Duration) {
        let now = clock::now();
        let mut over = Vec::new();
        let mut beds = self.beds.lock();
        let mut next: Option<Instant> = None;
        for bed in beds.all.iter().flatten() {
            let mut bed = bed.0.lock();
            match bed.as_ref().and_then(|asleep| asleep.quiet.deadline) {
                Some(deadline) if deadline <= now => over.extend(bed.take()),
                Some(deadline) => next = Some(next.map_or(deadline, |next| next.min(deadline))),
                None => {}
            }
        }
        beds.reaper_comes = None;
        self.expect_reaper(&mut beds, next.map(|next| next.max(now + pause)));
        drop(beds);
        over.into_iter().for_each(|asleep| drop(asleep.get_up()));
    }

    /// Closes all, and lets nobody sleep any more.
    pub(super) fn close(&self) {
        self.reaper.stop();
        let mut beds = self.beds.lock();
        beds.closed = true;
        let all = std::mem::take(&mut beds.all);
        drop(beds);
        for bed in all.into_iter().flatten() {
            let asleep = bed.0.lock().take();
            drop(asleep);
        }
    }
}

impl<H: Handler> Asleep<H> {
    /// Gives the bed back.
    fn get_up(self) -> (Connection<H>, Quiet) {
        let mut beds = self.connection.open().dormitory.beds.lock();
        if !beds.closed {
            beds.all[self.number] = None;
            beds.free.push(self.number);
        }
        drop(beds);
        (self.connection, self.quiet)
    }
}

impl<H: Handler> Wake for Bed<H> {
    fn wake(self: Arc<Bed<H>>) {
        let asleep = self.0.lock().take();
        if let Some((connection, quiet)) = asleep.map(Asleep::get_up) {
            server::attend(connection, quiet);
        }
    }
}
