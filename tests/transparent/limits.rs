//! Contexts and reports see the waits of other code.

use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::time::{Duration, Instant};

use gort::context::Context;

use super::common::{alone, amount, cpu_time, until};

#[test]
fn the_end_of_a_context_ends_reads_and_timed_waits() {
    if !alone("limits::the_end_of_a_context_ends_reads_and_timed_waits") {
        return;
    }
    let _watchdog = super::enable();
    gort::run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        let (ctx, cancel) = Context::background().with_cancel();
        let limited = ctx.clone();
        let reads = gort::spawn(move || limited.limit(|| stream.read_exact(&mut [0; 1]).map(|()| stream)));
        until("it waits", || gort::runtime::stats().goroutines.waiting >= 1);
        cancel.cancel();
        assert_eq!(reads.join().unwrap().unwrap_err().kind(), ErrorKind::TimedOut);
        // It has ended already.
        assert_eq!(ctx.limit(|| listener.accept()).unwrap_err().kind(), ErrorKind::TimedOut);
        // A deadline, and then the socket works as before.
        let (soon, _cancel) = Context::background().with_timeout(Duration::from_millis(20));
        let error = soon.limit(|| UdpSocket::bind("127.0.0.1:0").unwrap().recv(&mut [0; 1])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert_eq!(peer.read(&mut [0; 1]).unwrap(), 0);
        // A timed wait for a condition times out; one without a timeout cannot give up.
        let (lock, condition) = (Mutex::new(()), Condvar::new());
        let long = Duration::from_secs(3600);
        let result = soon.limit(|| condition.wait_timeout(lock.lock().unwrap(), long).unwrap().1);
        assert!(result.timed_out());
    });
}

#[test]
fn a_read_inside_a_limit_that_does_not_end_gets_its_data() {
    let _watchdog = super::enable();
    gort::run(|| {
        let (one, two) = std::os::unix::net::UnixStream::pair().unwrap();
        let (ctx, _cancel) = Context::background().with_cancel();
        let reads = gort::spawn(move || {
            let mut all = Vec::new();
            ctx.limit(|| (&one).read_to_end(&mut all)).unwrap();
            all.len()
        });
        for _ in 0..100 {
            std::io::Write::write_all(&mut &two, &[1; 10]).unwrap();
            gort::yield_now();
        }
        drop(two);
        assert_eq!(reads.join().unwrap(), 1000);
    });
}

#[test]
fn a_goroutine_that_waits_for_a_lost_mutex_is_a_leak() {
    if !alone("limits::a_goroutine_that_waits_for_a_lost_mutex_is_a_leak") {
        return;
    }
    let _watchdog = super::enable();
    gort::run(|| {
        #[inline(never)]
        fn leaks() {
            gort::spawn(|| {
                let mutex = Arc::new(Mutex::new(()));
                std::mem::forget(mutex.lock());
                drop(mutex.lock());
            });
        }
        // An old value in a register or on a stack may hide one of them.
        (0..10).for_each(|_| leaks());
        until("all wait", || gort::runtime::stats().goroutines.waiting >= 10);
        until("some are found", || {
            gort::runtime::leaked().is_some_and(|found| found.goroutines().len() >= 5)
        });
    });
}

/// These call again until their own deadline, whatever ended the wait.
#[test]
fn timed_waits_in_a_context_that_has_ended_use_no_processor() {
    if !alone("limits::timed_waits_in_a_context_that_has_ended_use_no_processor") {
        return;
    }
    let _watchdog = super::enable();
    let wait = Duration::from_secs(1);
    gort::run(move || {
        let (ctx, cancel) = Context::background().with_cancel();
        cancel.cancel();
        ctx.limit(|| {
            let (_sender, receiver) = mpsc::channel::<()>();
            let (lock, condition) = (Mutex::new(()), Condvar::new());
            let (begin, before) = (Instant::now(), cpu_time());
            assert_eq!(receiver.recv_timeout(wait), Err(mpsc::RecvTimeoutError::Timeout));
            let result = condition.wait_timeout_while(lock.lock().unwrap(), wait, |()| true).unwrap().1;
            assert!(result.timed_out());
            let (passed, used) = (begin.elapsed(), cpu_time() - before);
            assert!(used < passed / 4, "{used:?} of CPU time in {passed:?}");
        });
        // It is still woken by what it waits for.
        let (sender, receiver) = mpsc::channel();
        let limited = ctx.clone();
        let waits = gort::spawn(move || limited.limit(|| receiver.recv_timeout(Duration::from_secs(3600))));
        gort::sleep(Duration::from_millis(50));
        sender.send(1).unwrap();
        assert_eq!(waits.join().unwrap(), Ok(1));
    });
}

/// Of several that see one connection, all but one go on waiting in the netpoller, where a context ends them.
#[test]
fn a_context_ends_those_that_did_not_get_the_connection() {
    if !alone("limits::a_context_ends_those_that_did_not_get_the_connection") {
        return;
    }
    let _watchdog = super::enable();
    gort::run(|| {
        for _ in 0..amount(50, 2_000) {
            let listener = Arc::new(TcpListener::bind("127.0.0.1:0").unwrap());
            let _connection = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (ctx, cancel) = Context::background().with_cancel();
            let begin = Arc::new(std::sync::Barrier::new(4));
            let accepts: Vec<_> = (0..4)
                .map(|_| {
                    let (listener, ctx, begin) = (Arc::clone(&listener), ctx.clone(), Arc::clone(&begin));
                    gort::spawn(move || {
                        begin.wait();
                        ctx.limit(|| listener.accept()).is_ok()
                    })
                })
                .collect();
            until("one has it", || accepts.iter().any(gort::JoinHandle::is_finished));
            cancel.cancel();
            until("all have ended", || accepts.iter().all(gort::JoinHandle::is_finished));
            let accepted = accepts.into_iter().map(|one| one.join().unwrap());
            assert_eq!(accepted.filter(|&accepted| accepted).count(), 1);
        }
    });
}
