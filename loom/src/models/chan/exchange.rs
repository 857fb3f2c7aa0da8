//! Models of whole channels: every waiter is woken, and every message arrives once or comes back to its
//! sender.

use std::time::Instant;

use loom::sync::Arc;
use loom::thread;

use super::model;
use crate::chan::counter;
use crate::chan::errors::{RecvTimeoutError, SendTimeoutError, TryRecvError};
use crate::chan::flavors::array::Array;
use crate::chan::flavors::list::List;
use crate::chan::flavors::zero::Zero;
use crate::chan::waitq::Outcome;

type Msg = Arc<usize>;

/// The operations that the models use.
trait Channel: Send + Sync + 'static {
    fn send(&self, msg: Msg, deadline: Option<Instant>) -> Result<(), SendTimeoutError<Msg>>;
    fn recv(&self, deadline: Option<Instant>) -> Result<Msg, RecvTimeoutError>;
    fn try_recv(&self) -> Result<Msg, TryRecvError>;
    fn close(&self) -> bool;
    /// Chooses a send, as a select does.
    fn choose(&self) -> Outcome;
    /// Completes it, or takes it back.
    fn complete(&self, chosen: Outcome, msg: Option<Msg>) -> bool;
}

macro_rules! buffered {
    ($type:ident) => {
        impl Channel for $type<Msg> {
            fn send(&self, msg: Msg, deadline: Option<Instant>) -> Result<(), SendTimeoutError<Msg>> {
                self.send(msg, deadline)
            }
            fn recv(&self, deadline: Option<Instant>) -> Result<Msg, RecvTimeoutError> {
                self.recv(deadline)
            }
            fn try_recv(&self) -> Result<Msg, TryRecvError> {
                self.try_recv()
            }
            fn close(&self) -> bool {
                self.close()
            }
            fn choose(&self) -> Outcome {
                self.try_reserve()
            }
            fn complete(&self, chosen: Outcome, msg: Option<Msg>) -> bool {
                assert_eq!(chosen, Outcome::Credit);
                let Some(msg) = msg else {
                    self.cancel_reserved();
                    return false;
                };
                let mut msg = std::mem::ManuallyDrop::new(msg);
                let done = self.send_reserved(&raw const *msg) == Outcome::Done;
                if !done {
                    // SAFETY: not given away, dropped once.
                    unsafe { std::mem::ManuallyDrop::drop(&mut msg) };
                }
                done
            }
        }
    };
}

buffered!(Array);
buffered!(List);

impl Channel for Zero<Msg> {
    fn send(&self, msg: Msg, deadline: Option<Instant>) -> Result<(), SendTimeoutError<Msg>> {
        self.send(msg, deadline)
    }
    fn recv(&self, deadline: Option<Instant>) -> Result<Msg, RecvTimeoutError> {
        self.recv(deadline)
    }
    fn try_recv(&self) -> Result<Msg, TryRecvError> {
        self.try_recv()
    }
    fn close(&self) -> bool {
        self.close()
    }
    fn choose(&self) -> Outcome {
        self.try_meet()
    }
    fn complete(&self, chosen: Outcome, msg: Option<Msg>) -> bool {
        let Outcome::Peer(peer) = chosen else { panic!("{chosen:?}") };
        // SAFETY: met on this channel, used once; the message is given away.
        unsafe {
            match msg {
                Some(msg) => {
                    let msg = std::mem::ManuallyDrop::new(msg);
                    self.fulfil(peer, &raw const *msg);
                    true
                }
                None => {
                    self.withdraw(peer);
                    false
                }
            }
        }
    }
}

fn soon() -> Option<Instant> {
    Some(Instant::now())
}

fn messages_pass(make: fn() -> Arc<dyn Channel>) {
    model(move || {
        let chan = make();
        let sender = Arc::clone(&chan);
        let sender = thread::spawn(move || {
            sender.send(Arc::new(1), None).unwrap();
            sender.send(Arc::new(2), None).unwrap();
        });
        assert_eq!(*chan.recv(None).unwrap(), 1);
        assert_eq!(*chan.recv(None).unwrap(), 2);
        sender.join().unwrap();
        assert_eq!(chan.try_recv().map(|msg| *msg), Err(TryRecvError::Empty));
    });
}

fn two_senders_wake(make: fn() -> Arc<dyn Channel>) {
    model(move || {
        let chan = make();
        let senders = [1, 2].map(|msg| {
            let chan = Arc::clone(&chan);
            thread::spawn(move || chan.send(Arc::new(msg), None).unwrap())
        });
        assert_eq!(*chan.recv(None).unwrap() + *chan.recv(None).unwrap(), 3);
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
}

fn two_receivers_wake(make: fn() -> Arc<dyn Channel>) {
    model(move || {
        let chan = make();
        let receivers = [(); 2].map(|()| {
            let chan = Arc::clone(&chan);
            thread::spawn(move || *chan.recv(None).unwrap())
        });
        chan.send(Arc::new(1), None).unwrap();
        chan.send(Arc::new(2), None).unwrap();
        assert_eq!(receivers.into_iter().map(|receiver| receiver.join().unwrap()).sum::<usize>(), 3);
    });
}

/// A receive that gives up races with a send: the message is received, or is still there.
fn a_timeout_and_a_send_agree(make: fn() -> Arc<dyn Channel>) {
    model(move || {
        let chan = make();
        let receiver = Arc::clone(&chan);
        let receiver = thread::spawn(move || receiver.recv(soon()).is_ok());
        let sent = chan.send(Arc::new(1), soon()).is_ok();
        let received = receiver.join().unwrap();
        let left = chan.try_recv().is_ok();
        assert_eq!(usize::from(sent), usize::from(received) + usize::from(left));
    });
}

/// A close wakes both kinds of waiters, and no message is lost.
fn a_close_and_a_send_agree(make: fn() -> Arc<dyn Channel>) {
    model(move || {
        let chan = make();
        let sender = Arc::clone(&chan);
        let sender = thread::spawn(move || sender.send(Arc::new(1), None).is_ok());
        let receiver = Arc::clone(&chan);
        let receiver = thread::spawn(move || receiver.recv(None).is_ok());
        assert!(chan.close());
        assert_eq!(sender.join().unwrap(), receiver.join().unwrap());
        assert_eq!(chan.try_recv().map(|msg| *msg), Err(TryRecvError::Disconnected));
    });
}

/// A select that has chosen to send, with another sender and a receiver.
fn a_chosen_send_is_completed(make: fn() -> Arc<dyn Channel>, completes: bool) {
    model(move || {
        let chan = make();
        let sender = Arc::clone(&chan);
        let sender = thread::spawn(move || sender.send(Arc::new(1), None).unwrap());
        let chooser = Arc::clone(&chan);
        let chooser = thread::spawn(move || match chooser.choose() {
            Outcome::Pending => false,
            chosen => chooser.complete(chosen, completes.then(|| Arc::new(2))),
        });
        assert!(*chan.recv(None).unwrap() > 0);
        if chooser.join().unwrap() {
            assert!(*chan.recv(None).unwrap() > 0);
        }
        sender.join().unwrap();
        assert_eq!(chan.try_recv().map(|msg| *msg), Err(TryRecvError::Empty));
    });
}

macro_rules! models {
    ($module:ident, $make:expr) => {
        mod $module {
            use super::*;

            fn make() -> Arc<dyn Channel> {
                // loom's Arc does not coerce to an Arc of a trait object.
                Arc::from_std(std::sync::Arc::new($make))
            }

            #[test]
            fn messages_pass() {
                super::messages_pass(make);
            }

            #[test]
            fn two_senders_wake() {
                super::two_senders_wake(make);
            }

            #[test]
            fn two_receivers_wake() {
                super::two_receivers_wake(make);
            }

            #[test]
            fn a_timeout_and_a_send_agree() {
                super::a_timeout_and_a_send_agree(make);
            }

            #[test]
            fn a_close_and_a_send_agree() {
                super::a_close_and_a_send_agree(make);
            }
        }
    };
}

models!(ring_of_one, Array::<Msg>::new(1));
models!(ring_of_two, Array::<Msg>::new(2));
models!(zero, Zero::<Msg>::new());
models!(list, List::<Msg>::new(None));
models!(limited_list, List::<Msg>::new(Some(1)));

pub fn a_chosen_send_of_a_ring() {
    for completes in [true, false] {
        a_chosen_send_is_completed(|| Arc::from_std(std::sync::Arc::new(Array::<Msg>::new(1))), completes);
    }
}

pub fn a_chosen_send_of_a_limited_list() {
    for completes in [true, false] {
        a_chosen_send_is_completed(
            || Arc::from_std(std::sync::Arc::new(List::<Msg>::new(Some(1)))),
            completes,
        );
    }
}

pub fn a_chosen_send_of_a_meeting() {
    for completes in [true, false] {
        a_chosen_send_is_completed(|| Arc::from_std(std::sync::Arc::new(Zero::<Msg>::new())), completes);
    }
}

/// Five messages through blocks of two; the spare block is reused.
pub fn blocks_are_linked_left_and_used_again() {
    model(|| {
        let chan = Arc::new(List::<Msg>::new(None));
        let sender = Arc::clone(&chan);
        let sender = thread::spawn(move || {
            (1..=5).for_each(|msg| sender.send(Arc::new(msg), None).unwrap());
        });
        for expected in 1..=5 {
            assert_eq!(*chan.recv(None).unwrap(), expected);
        }
        sender.join().unwrap();
    });
}

/// The two sides leave at the same time, with a message in between.
pub fn the_last_one_frees_the_channel() {
    model(|| {
        let (s, r) = counter::new(Array::<Msg>::new(1));
        // SAFETY: the channel may be used by all threads that have its handles; each handle is released once.
        struct Carry<T>(T);
        // SAFETY: as above.
        unsafe impl<T> Send for Carry<T> {}
        let s = Carry(s);
        let sender = thread::spawn(move || {
            let s = s;
            let sent = s.0.send(Arc::new(1), None).is_ok();
            // SAFETY: released once, and not used any more.
            unsafe { s.0.release(|chan| _ = chan.close()) };
            sent
        });
        let received = r.recv(soon()).is_ok();
        // SAFETY: as above.
        unsafe { r.release(Array::close_and_discard) };
        assert!(sender.join().unwrap() || !received);
    });
}
