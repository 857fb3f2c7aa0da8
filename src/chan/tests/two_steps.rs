//! Tests of the sends of selects, which have two steps: a send is chosen first, and completed later or never.

#![allow(clippy::diverging_sub_expression, reason = "what is tested is that a message may panic")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::Counted;
use crate::chan::{
    RecvTimeoutError, Select, SelectedOperation, SendError, Sender, TryRecvError, TrySendError, bounded,
    limited_list, select, unbounded,
};
use crate::test_util::until;

fn choose<T>(s: &Sender<T>) -> SelectedOperation<'_> {
    let mut sel = Select::new();
    sel.send(s);
    sel.select()
}

fn abandon(oper: SelectedOperation<'_>) {
    let panic = catch_unwind(AssertUnwindSafe(|| drop(oper))).unwrap_err();
    let text = *panic.downcast_ref::<&str>().unwrap();
    assert_eq!(text, "dropped `SelectedOperation` without completing the operation");
}

#[test]
fn a_chosen_send_keeps_its_place() {
    let (s, r) = bounded(2);
    let oper = choose(&s);
    s.send(1).unwrap();
    assert_eq!(s.try_send(2), Err(TrySendError::Full(2)));
    assert!(Select::new_biased().try_ready().is_err());
    // The buffered message can be received, and the place stays reserved.
    assert_eq!(r.recv(), Ok(1));
    assert_eq!(r.try_recv(), Err(TryRecvError::Empty));
    s.send(3).unwrap();
    assert_eq!(s.try_send(4), Err(TrySendError::Full(4)));
    oper.send(&s, 5).unwrap();
    assert!(s.is_full());
    assert!(r.try_iter().eq([3, 5]));

    let (s, r) = limited_list(2);
    let oper = choose(&s);
    s.send(1).unwrap();
    assert_eq!(s.try_send(2), Err(TrySendError::Full(2)));
    assert_eq!(r.recv(), Ok(1));
    s.send(3).unwrap();
    oper.send(&s, 5).unwrap();
    assert!(s.is_full());
    assert!(r.try_iter().eq([3, 5]));
}

#[test]
fn with_all_places_kept_messages_go_hand_to_hand() {
    let (s, r) = bounded(1);
    let oper = choose(&s);
    thread::scope(|scope| {
        // A sender waits: a receiver that comes takes its message directly.
        let sender = scope.spawn(|| s.send(1));
        until(|| s.waiting_senders() == 1);
        assert!(r.is_empty());
        assert_eq!(r.try_recv(), Ok(1));
        assert_eq!(sender.join().unwrap(), Ok(()));
        // A receiver waits: a sender that comes gives it its message directly.
        let receiver = scope.spawn(|| r.recv());
        until(|| s.waiting_receivers() == 1);
        assert_eq!(s.try_send(2), Ok(()));
        assert_eq!(receiver.join().unwrap(), Ok(2));
        // A waiting receiver gets the chosen send's message directly. Then the reserved place is free.
        let receiver = scope.spawn(|| r.recv());
        until(|| s.waiting_receivers() == 1);
        oper.send(&s, 3).unwrap();
        assert_eq!(receiver.join().unwrap(), Ok(3));
        assert_eq!(s.try_send(4), Ok(()));
        assert_eq!(s.try_send(5), Err(TrySendError::Full(5)));
    });
}

#[test]
fn an_abandoned_send_gives_its_place_to_who_waits() {
    let (s, r) = bounded(1);
    let oper = choose(&s);
    thread::scope(|scope| {
        let sender = scope.spawn(|| s.send(1));
        until(|| s.waiting_senders() == 1);
        abandon(oper);
        assert_eq!(sender.join().unwrap(), Ok(()));
        assert_eq!(r.try_recv(), Ok(1));

        // Another select waits.
        let oper = choose(&s);
        let select = scope.spawn(|| choose(&s).send(&s, 2));
        until(|| s.waiting_senders() == 1);
        abandon(oper);
        assert_eq!(select.join().unwrap(), Ok(()));
        assert_eq!(r.try_recv(), Ok(2));
    });
    abandon(choose(&s));
    assert_eq!(s.try_send(3), Ok(()));

    let (s, r) = limited_list::<()>(1);
    let oper = choose(&s);
    thread::scope(|scope| {
        let sender = scope.spawn(|| s.send(()));
        until(|| s.waiting_senders() == 1);
        abandon(oper);
        assert_eq!(sender.join().unwrap(), Ok(()));
    });
    drop(r);

    let (s, r) = unbounded();
    abandon(choose(&s));
    s.send(1).unwrap();
    assert_eq!(r.recv(), Ok(1));
}

#[test]
fn an_abandoned_meeting_lets_the_receiver_wait_on() {
    let (s, r) = bounded(0);
    thread::scope(|scope| {
        let receiver = scope.spawn(|| r.recv());
        until(|| s.waiting_receivers() == 1);
        abandon(choose(&s));
        until(|| s.waiting_receivers() == 1);
        s.send(1).unwrap();
        assert_eq!(receiver.join().unwrap(), Ok(1));

        // The select waits, and the receiver finds it.
        let select = scope.spawn(|| abandon(choose(&s)));
        until(|| s.waiting_senders() == 1);
        assert_eq!(r.try_recv(), Err(TryRecvError::Empty));
        select.join().unwrap();

        // Both sides are selects.
        let receiver = scope.spawn(|| {
            let mut sel = Select::new();
            sel.recv(&r);
            sel.select().recv(&r)
        });
        until(|| s.waiting_receivers() == 1);
        abandon(choose(&s));
        until(|| s.waiting_receivers() == 1);
        choose(&s).send(&s, 2).unwrap();
        assert_eq!(receiver.join().unwrap(), Ok(2));
    });
}

#[test]
fn a_receiver_that_was_met_waits_for_the_message_beyond_its_deadline() {
    let (s, r) = bounded(0);
    thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            loop {
                match r.recv_timeout(Duration::from_millis(1)) {
                    Err(RecvTimeoutError::Timeout) => {}
                    got => break got,
                }
            }
        });
        let oper = choose(&s);
        // The receiver was met: it is no longer queued, but has not returned.
        thread::sleep(Duration::from_millis(5));
        assert_eq!(s.waiting_receivers(), 0);
        assert!(!receiver.is_finished());
        oper.send(&s, 1).unwrap();
        assert_eq!(receiver.join().unwrap(), Ok(1));
    });
}

#[test]
fn a_close_between_choice_and_message_is_an_error() {
    for cap in [1, 2] {
        let (s, r) = bounded(cap);
        let oper = choose(&s);
        s.close();
        assert_eq!(oper.send(&s, 1), Err(SendError(1)));
        assert!(r.recv().is_err());
    }
    let (s, r) = unbounded();
    let oper = choose(&s);
    drop(r);
    assert_eq!(oper.send(&s, 1), Err(SendError(1)));

    let (s, r) = limited_list::<()>(1);
    let oper = choose(&s);
    drop(r);
    assert_eq!(oper.send(&s, ()), Err(SendError(())));

    // A close does not separate a send and a receive that have met.
    let (s, r) = bounded(0);
    thread::scope(|scope| {
        let receiver = scope.spawn(|| r.recv());
        until(|| s.waiting_receivers() == 1);
        let oper = choose(&s);
        s.close();
        assert_eq!(oper.send(&s, 1), Ok(()));
        assert_eq!(receiver.join().unwrap(), Ok(1));
    });
}

#[test]
fn an_abandoned_receive_drops_its_message() {
    for (s, r) in super::every_kind() {
        let drops: Arc<AtomicUsize> = Arc::default();
        thread::scope(|scope| {
            scope.spawn(|| s.send(Counted::new(&drops)).unwrap());
            let mut sel = Select::new();
            sel.recv(&r);
            abandon(sel.select());
        });
        assert_eq!(drops.load(Ordering::SeqCst), 1);
        drop((s, r));
        assert_eq!(drops.load(Ordering::SeqCst), 1);
    }
}

#[test]
#[allow(unreachable_code, clippy::diverging_sub_expression)]
fn a_message_whose_expression_panics_or_leaves_does_no_harm() {
    let (s, r) = bounded(1);
    for _ in 0..3 {
        let result = catch_unwind(|| {
            select! { send(s, panic!("no message")) -> _ => {} }
        });
        assert!(result.is_err());
    }
    for i in 0..3 {
        select! { send(s, if i < 3 { continue } else { i }) -> _ => {} }
    }
    s.try_send(1).unwrap();
    assert_eq!(r.try_recv(), Ok(1));

    let (s, r) = bounded(0);
    thread::scope(|scope| {
        let receiver = scope.spawn(|| r.recv());
        until(|| s.waiting_receivers() == 1);
        let result = catch_unwind(|| {
            select! { send(s, panic!("no message")) -> _ => {} }
        });
        assert!(result.is_err());
        s.send(2).unwrap();
        assert_eq!(receiver.join().unwrap(), Ok(2));
    });
}

#[test]
fn completing_with_the_wrong_handle_panics_and_undoes() {
    let (s, r) = bounded(1);
    let (other, _r) = bounded(1);
    let oper = choose(&s);
    assert!(catch_unwind(AssertUnwindSafe(|| oper.send(&other, 1))).is_err());
    assert_eq!(s.try_send(2), Ok(()));
    assert_eq!(r.recv(), Ok(2));
}
