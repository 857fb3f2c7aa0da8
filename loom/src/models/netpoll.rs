//! Models of `netpoll/word.rs`. The descriptor is a stand-in that follows the kernel's rules: an edge is
//! published after the data that it announces, and may be delivered late.

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;

use crate::netpoll::word::PollWord;

/// A descriptor with a number of datagrams in it.
struct Fd {
    datagrams: AtomicUsize,
    word: PollWord,
    /// Readers that have to wait take turns.
    turn: Mutex<()>,
    closed_reads: AtomicUsize,
}

impl Fd {
    fn new() -> Arc<Fd> {
        Arc::new(Fd {
            datagrams: AtomicUsize::new(0),
            word: PollWord::new(),
            turn: Mutex::new(()),
            closed_reads: AtomicUsize::new(0),
        })
    }

    fn try_read(&self) -> bool {
        let mut now = self.datagrams.load(Ordering::Acquire);
        while now != 0 {
            match self.datagrams.compare_exchange(now, now - 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(other) => now = other,
            }
        }
        false
    }

    /// Reads as `io/gate.rs` does.
    fn read(&self) -> bool {
        let me = me();
        let mut turn = None;
        loop {
            let observed = self.word.observe();
            if observed.is_closed() {
                self.closed_reads.fetch_add(1, Ordering::Relaxed);
                return false;
            }
            if self.try_read() {
                return true;
            }
            if turn.is_none() {
                turn = Some(self.turn.lock().unwrap());
            }
            if self.word.begin_wait(observed, me) {
                thread::park();
            }
        }
    }

    /// As [`read`](Fd::read), with a deadline that passes at once, as a foreign thread does it.
    fn read_briefly(&self) -> bool {
        let me = me();
        let observed = self.word.observe();
        if self.try_read() {
            return true;
        }
        let _turn = self.turn.lock().unwrap();
        if self.word.begin_wait(observed, me) && !self.word.cancel(me) {
            thread::park(); // the poller is about to ready us
        }
        self.try_read()
    }

    /// The kernel puts `count` datagrams in, and a poll sees one edge.
    fn deliver(&self, count: usize, poll: usize) {
        self.datagrams.fetch_add(count, Ordering::AcqRel);
        if let Some(waiter) = self.word.notify(poll, false) {
            ready(waiter);
        }
    }
}

/// A waiter's number is the address of its thread's handle, which is leaked.
fn me() -> usize {
    std::ptr::from_ref(Box::leak(Box::new(thread::current()))) as usize
}

fn ready(waiter: usize) {
    // SAFETY: a number that `me` returned.
    unsafe { &*(waiter as *const thread::Thread) }.unpark();
}

fn spawn(f: impl FnOnce() + 'static) -> thread::JoinHandle<()> {
    thread::spawn(f)
}

pub fn a_reader_gets_what_comes_at_any_moment() {
    loom::model(|| {
        let fd = Fd::new();
        let poller = {
            let fd = fd.clone();
            spawn(move || {
                fd.deliver(1, 1);
                fd.deliver(1, 2);
            })
        };
        assert!(fd.read());
        assert!(fd.read());
        poller.join().unwrap();
    });
}

pub fn two_datagrams_of_one_edge_reach_two_readers() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let fd = Fd::new();
        let other = {
            let fd = fd.clone();
            spawn(move || assert!(fd.read()))
        };
        let poller = {
            let fd = fd.clone();
            spawn(move || fd.deliver(2, 1))
        };
        assert!(fd.read());
        other.join().unwrap();
        poller.join().unwrap();
    });
}

pub fn edges_that_two_polls_deliver_in_any_order_are_both_seen() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let fd = Fd::new();
        let pollers: Vec<_> = (1..3)
            .map(|poll| {
                let fd = fd.clone();
                spawn(move || fd.deliver(1, poll))
            })
            .collect();
        assert!(fd.read());
        assert!(fd.read());
        pollers.into_iter().for_each(|poller| poller.join().unwrap());
    });
}

pub fn a_deadline_and_an_edge_never_both_end_a_wait() {
    loom::model(|| {
        let fd = Fd::new();
        let poller = {
            let fd = fd.clone();
            spawn(move || fd.deliver(1, 1))
        };
        // The wait that follows would end at once if a second `ready` had come for the first.
        let first = fd.read_briefly();
        if !first {
            assert!(fd.read());
        }
        poller.join().unwrap();
    });
}

pub fn close_wakes_all_readers() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let fd = Fd::new();
        let other = {
            let fd = fd.clone();
            spawn(move || assert!(!fd.read()))
        };
        let closer = {
            let fd = fd.clone();
            spawn(move || {
                if let Some(waiter) = fd.word.close() {
                    ready(waiter);
                }
            })
        };
        assert!(!fd.read());
        other.join().unwrap();
        closer.join().unwrap();
        assert_eq!(fd.closed_reads.load(Ordering::Relaxed), 2);
    });
}

pub fn a_changed_deadline_is_seen() {
    loom::model(|| {
        let fd = Fd::new();
        let deadline = Arc::new(AtomicUsize::new(0));
        let setter = {
            let (fd, deadline) = (fd.clone(), deadline.clone());
            spawn(move || {
                deadline.store(1, Ordering::Relaxed);
                if let Some(waiter) = fd.word.kick() {
                    ready(waiter);
                }
            })
        };
        // Waits until the deadline was set; nothing else ends the wait.
        let me = me();
        while deadline.load(Ordering::Relaxed) == 0 {
            if !fd.word.begin_wait(fd.word.observe(), me) {
                continue;
            }
            if deadline.load(Ordering::Relaxed) != 0 && fd.word.cancel(me) {
                break;
            }
            thread::park();
        }
        setter.join().unwrap();
    });
}
