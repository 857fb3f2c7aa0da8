//! `gort::signal`. Signals belong to the process, so each test uses signals of its own.

#[path = "../common/mod.rs"]
mod common;

use std::io::ErrorKind;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{Watchdog, child, is_child, run, until};
use gort::context::Context;
use gort::signal::{
    Received, SIGALRM, SIGBUS, SIGCONT, SIGFPE, SIGHUP, SIGILL, SIGINT, SIGKILL, SIGQUIT, SIGSEGV, SIGSTOP,
    SIGTERM, SIGURG, SIGUSR1, SIGUSR2, SIGWINCH, Signal, notify, notify_context, notify_with_capacity,
};

/// Sends a signal to the process, not to the calling thread.
fn send(signal: Signal) {
    // SAFETY: no preconditions.
    assert_eq!(unsafe { libc::kill(libc::getpid(), signal.as_raw()) }, 0);
}

#[test]
fn every_receiver_gets_the_signal() {
    let _watchdog = Watchdog::start();
    gort::run(|| {
        let one = notify(&[SIGUSR1, SIGUSR2]).unwrap();
        let two = notify(&[SIGUSR1]).unwrap();
        send(SIGUSR1);
        assert_eq!((one.recv(), two.recv()), (Ok(SIGUSR1), Ok(SIGUSR1)));
        drop(two);
        send(SIGUSR2);
        assert_eq!(one.recv(), Ok(SIGUSR2));
        let again = notify(&[SIGUSR2]).unwrap();
        drop(one);
        send(SIGUSR2);
        assert_eq!(again.recv(), Ok(SIGUSR2));
    });
}

#[test]
fn the_earlier_action_comes_back() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn count(_signal: i32) {
        CALLS.fetch_add(1, Ordering::SeqCst);
    }
    let calls = || CALLS.load(Ordering::SeqCst);
    // SAFETY: the handler counts.
    unsafe { libc::signal(libc::SIGWINCH, count as extern "C" fn(i32) as usize) };
    send(SIGWINCH);
    until("the handler ran", || calls() == 1);
    for round in 1..4 {
        let (one, two) = (notify(&[SIGWINCH]).unwrap(), notify(&[SIGWINCH]).unwrap());
        send(SIGWINCH);
        assert_eq!(one.recv(), Ok(SIGWINCH));
        one.stop();
        send(SIGWINCH);
        assert_eq!(two.recv(), Ok(SIGWINCH));
        assert_eq!(two.recv(), Ok(SIGWINCH));
        assert_eq!(calls(), round, "the handler is not called while somebody is notified");
        two.stop();
        send(SIGWINCH);
        until("the handler ran again", || calls() == round + 1);
    }
}

#[test]
fn the_default_action_comes_back() {
    if is_child("end") {
        let signals = notify(&[SIGTERM]).unwrap();
        send(SIGTERM);
        assert_eq!(signals.recv(), Ok(SIGTERM));
        drop(signals);
        println!("received=yes");
        send(SIGTERM);
        loop {
            std::thread::park();
        }
    }
    use std::os::unix::process::ExitStatusExt;
    let printed = run(child("the_default_action_comes_back", "end"));
    assert_eq!(printed.value("received"), "yes");
    assert_eq!(printed.status.signal(), Some(libc::SIGTERM));
}

#[test]
fn a_full_receiver_does_not_hold_up_the_others() {
    let _watchdog = Watchdog::start();
    gort::run(|| {
        let full = notify_with_capacity(&[SIGHUP], 0).unwrap(); // There is room for one at least.
        let witness = notify(&[SIGHUP]).unwrap();
        for _ in 0..10 {
            send(SIGHUP);
            assert_eq!(witness.recv(), Ok(SIGHUP));
        }
        assert_eq!(full.try_iter().count(), 1);
    });
}

/// Handlers run one after the other, not nested: a thread's signal stack has room for two.
#[test]
fn signals_that_come_together_do_not_pile_up() {
    let _watchdog = Watchdog::start();
    let numbers: Vec<i32> = (4..20).map(|n| libc::SIGRTMIN() + n).collect();
    let signals: Vec<_> = numbers.iter().copied().map(Signal::from_raw).collect();
    let receiver = notify(&signals).unwrap();
    std::thread::spawn(move || {
        // SAFETY: the calling thread blocks a set of signals, sends them to itself, and unblocks them.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            numbers.iter().for_each(|number| assert_eq!(libc::sigaddset(&mut set, *number), 0));
            assert_eq!(libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()), 0);
            for number in numbers {
                assert_eq!(libc::pthread_kill(libc::pthread_self(), number), 0);
            }
            assert_eq!(libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut()), 0);
        }
    })
    .join()
    .unwrap();
    let mut received: Vec<_> = receiver.iter().take(signals.len()).collect();
    received.sort_unstable_by_key(|signal| signal.as_raw());
    assert_eq!(received, signals);
}

#[test]
fn signals_that_cannot_be_delivered_are_refused() {
    let all = [SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGURG];
    for signal in all.into_iter().chain([0, -1, 32, 65, i32::MAX, i32::MIN].map(Signal::from_raw)) {
        let error = notify(&[SIGALRM, signal]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().starts_with(&signal.to_string()), "{error}");
        // SAFETY: plain data, which the call fills in.
        let action = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(libc::SIGALRM, std::ptr::null(), &mut action);
            action.sa_sigaction
        };
        assert_eq!(action, libc::SIG_DFL, "the others are left alone");
    }
    assert!(notify(&[SIGURG]).unwrap_err().to_string().contains("gort uses it"));
}

#[test]
fn a_context_ends_with_a_signal_or_without() {
    let _watchdog = Watchdog::start();
    gort::run(|| {
        let (ctx, _cancel) = notify_context(&Context::background(), &[SIGCONT, SIGINT]).unwrap();
        assert!(ctx.err().is_none());
        send(SIGINT);
        ctx.done().recv().unwrap_err();
        assert_eq!(ctx.cause().unwrap().to_string(), Received(SIGINT).to_string());
        let (ctx, cancel) = notify_context(&Context::background(), &[SIGCONT]).unwrap();
        cancel.cancel();
        ctx.done().recv().unwrap_err();
    });
}

#[test]
fn a_thread_may_wait_for_signals_and_sigquit_is_free() {
    let _watchdog = Watchdog::start();
    let signals = notify(&[SIGQUIT]).unwrap();
    let waiting = std::thread::spawn(move || (signals.iter().take(3).collect::<Vec<_>>(), signals));
    while !waiting.is_finished() {
        send(SIGQUIT);
        std::thread::yield_now();
    }
    let (received, signals) = waiting.join().unwrap();
    assert_eq!(received, [SIGQUIT; 3]);
    // The last signal may still be on its way, and must not find the former action.
    std::mem::forget(signals);
}

#[test]
fn many_come_and_go_at_once() {
    let _watchdog = Watchdog::start();
    let rounds = common::amount(50, 2_000);
    // A receiver may get the signal of another round, and end before its own signal was delivered. That
    // signal must not find the default action, so one receiver stays.
    std::mem::forget(notify(&[Signal::from_raw(libc::SIGRTMIN() + 3)]).unwrap());
    gort::scope(|s| {
        for _ in 0..8 {
            s.spawn(|| {
                for _ in 0..rounds {
                    let signals = notify(&[Signal::from_raw(libc::SIGRTMIN() + 3)]).unwrap();
                    send(Signal::from_raw(libc::SIGRTMIN() + 3));
                    signals.recv().unwrap();
                }
            });
        }
    });
}

/// Signals that come more often than a call's timeout lasts do not prolong the call forever.
#[test]
fn a_call_with_a_timeout_ends_whatever_comes() {
    if !common::alone("a_call_with_a_timeout_ends_whatever_comes") {
        return;
    }
    let _received = notify(&[SIGUSR1]).unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    let waiting = std::thread::spawn(move || {
        // SAFETY: no preconditions.
        tell.send(unsafe { libc::pthread_self() }).unwrap();
        // SAFETY: nothing is polled.
        unsafe { libc::poll(std::ptr::null_mut(), 0, 500) };
    });
    let thread = told.recv().unwrap();
    until("the call has ended", || {
        if waiting.is_finished() {
            return true;
        }
        // SAFETY: it is not joined yet.
        unsafe { libc::pthread_kill(thread, libc::SIGUSR1) };
        std::thread::sleep(std::time::Duration::from_millis(20));
        false
    });
    waiting.join().unwrap();
}

/// A handler of SIGURG that was installed after gort's and, as is usual, passes signals on to it.
#[test]
fn handlers_that_pass_signals_on_to_each_other_do_so_once() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    static BEFORE: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn count(signal: i32, info: *mut libc::siginfo_t, context: *mut std::ffi::c_void) {
        CALLS.fetch_add(1, Ordering::SeqCst);
        // SAFETY: the former handler takes these arguments.
        let before: extern "C" fn(i32, *mut libc::siginfo_t, *mut std::ffi::c_void) =
            unsafe { std::mem::transmute(BEFORE.load(Ordering::SeqCst)) };
        before(signal, info, context);
    }
    if !common::alone("handlers_that_pass_signals_on_to_each_other_do_so_once") {
        return;
    }
    gort::runtime::set_max_procs(1);
    // SAFETY: the handler has the type that its flags say.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        assert_eq!(libc::sigaction(libc::SIGURG, std::ptr::null(), &mut action), 0);
        assert!(action.sa_flags & libc::SA_SIGINFO != 0, "ours");
        BEFORE.store(action.sa_sigaction, Ordering::SeqCst);
        action.sa_sigaction = count as *const () as usize;
        assert_eq!(libc::sigaction(libc::SIGURG, &action, std::ptr::null_mut()), 0);
    }
    // gort puts its handler on top again when it has to interrupt a thread.
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let hog = gort::spawn({
        let stop = stop.clone();
        move || while !stop.load(Ordering::Relaxed) {}
    });
    gort::spawn(|| ()).join().unwrap();
    let before = CALLS.load(Ordering::SeqCst);
    for n in 1..20 {
        send(SIGURG);
        until("the signal was passed on", || CALLS.load(Ordering::SeqCst) >= before + n);
    }
    stop.store(true, Ordering::Relaxed);
    hog.join().unwrap();
}
