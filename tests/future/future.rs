//! `gort::future`, and channels and handles as futures.

#[path = "../common/mod.rs"]
mod common;

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use common::{Watchdog, amount, until};
use gort::chan::{Receiver, RecvError, SendError, Sender, after, bounded, never, tick, unbounded};
use gort::future::{block_on, sleep, sleep_until, spawn};

/// Is ready at its second poll, and wakes at once.
fn yield_once() -> impl Future<Output = ()> {
    let mut polled = false;
    poll_fn(move |context| {
        if std::mem::replace(&mut polled, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
}

/// Another runtime's `block_on`: its wakers are not gort's.
fn foreign_block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Two futures at once, polled with the same waker.
async fn both<A: Future, B: Future>(a: A, b: B) -> (A::Output, B::Output) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut left, mut right) = (None, None);
    poll_fn(move |context| {
        if left.is_none()
            && let Poll::Ready(output) = a.as_mut().poll(context)
        {
            left = Some(output);
        }
        if right.is_none()
            && let Poll::Ready(output) = b.as_mut().poll(context)
        {
            right = Some(output);
        }
        if left.is_some() && right.is_some() {
            return Poll::Ready((left.take().unwrap(), right.take().unwrap()));
        }
        Poll::Pending
    })
    .await
}

/// Polls once with a waker that does nothing.
fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn block_on_works_everywhere_and_nested() {
    let _watchdog = Watchdog::start();
    let nested = || {
        block_on(async {
            yield_once().await;
            block_on(async {
                yield_once().await;
                1 + block_on(async { 1 })
            })
        })
    };
    assert_eq!(nested(), 2);
    assert_eq!(gort::run(nested), 2);
    assert_eq!(std::thread::spawn(nested).join().unwrap(), 2);
    // SAFETY: no reference to a thread-local is held.
    let shared = unsafe { gort::Builder::new().spawn_shared_tls(nested) }.unwrap();
    assert_eq!(shared.join().unwrap(), 2);
}

#[test]
fn a_nested_wait_does_not_swallow_the_wake_up_of_the_outer_future() {
    let _watchdog = Watchdog::start();
    for _ in 0..amount(200, 20_000) {
        gort::run(|| {
            let (s, r) = bounded(1);
            let (inner_s, inner_r) = bounded(1);
            gort::spawn(move || {
                s.send(1).unwrap();
                inner_s.send(2).unwrap();
            });
            let outer = both(r.recv_async(), async { block_on(inner_r.recv_async()) });
            assert_eq!(block_on(outer), (Ok(1), Ok(2)));
        });
    }
}

#[test]
fn wakers_may_be_called_by_anybody_at_any_time() {
    let _watchdog = Watchdog::start();
    let rounds = amount(2_000, 100_000);
    let waker: Arc<Mutex<Option<Waker>>> = Arc::default();
    let (seen, stop) = (waker.clone(), Arc::new(AtomicUsize::new(0)));
    let stopped = stop.clone();
    // Also long after the future, and the goroutine, has ended.
    let caller = std::thread::spawn(move || {
        while stopped.load(Ordering::Relaxed) == 0 {
            if let Some(waker) = seen.lock().unwrap().clone() {
                waker.wake();
            }
        }
    });
    for _ in 0..rounds / 20 {
        let waker = waker.clone();
        gort::spawn(move || {
            for _ in 0..20 {
                let mut polls = 0;
                block_on(poll_fn(|context| {
                    *waker.lock().unwrap() = Some(context.waker().clone());
                    polls += 1;
                    if polls == 3 { Poll::Ready(()) } else { Poll::Pending }
                }));
            }
        })
        .join()
        .unwrap();
    }
    stop.store(1, Ordering::Relaxed);
    caller.join().unwrap();
}

#[test]
fn a_panic_in_a_future_goes_to_who_waits() {
    let handle = spawn(async {
        if true {
            panic!("in a future")
        }
    });
    assert_eq!(*handle.join().unwrap_err().downcast::<&str>().unwrap(), "in a future");
    let handle = spawn(async {
        gort::spawn(|| {
            if true {
                panic!("deeper")
            }
        })
        .await
    });
    assert_eq!(*handle.join().unwrap().unwrap_err().downcast::<&str>().unwrap(), "deeper");
}

#[test]
fn handles_are_futures() {
    let _watchdog = Watchdog::start();
    let add = || async {
        let mut sum = 0;
        for n in 0..100 {
            sum += gort::spawn(move || n).await.unwrap();
        }
        let (one, two) = both(gort::spawn(|| 1), spawn(async { gort::spawn(|| 2).await.unwrap() })).await;
        sum + one.unwrap() + two.unwrap()
    };
    assert_eq!(block_on(add()), 4953);
    assert_eq!(gort::run(|| block_on(add())), 4953);
    assert_eq!(foreign_block_on(add()), 4953);
    // Polled, and then joined instead; or dropped.
    let (s, r) = bounded::<()>(0);
    let other = r.clone();
    let mut handle = gort::spawn(move || r.recv());
    let mut dropped = gort::spawn(move || other.recv());
    for _ in 0..3 {
        assert!(poll_once(Pin::new(&mut handle)).is_pending());
        assert!(poll_once(Pin::new(&mut dropped)).is_pending());
    }
    drop(dropped);
    drop(s);
    assert_eq!(handle.join().unwrap(), Err(RecvError));
    // Once more than it can be: an error of the caller, and of nobody else.
    let mut handle = gort::spawn(|| 5);
    assert_eq!(block_on(&mut handle).unwrap(), 5);
    let again = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| handle.join()));
    assert!(again.unwrap_err().downcast::<&str>().unwrap().contains("joined again"));
}

/// All the messages arrive, once, whoever sends and receives.
fn exchange(cap: Option<usize>, run: fn(Pin<Box<dyn Future<Output = usize> + Send>>) -> usize) {
    let _watchdog = Watchdog::start();
    let (rounds, each) = (amount(300, 20_000), 3);
    let (s, r): (Sender<usize>, Receiver<usize>) = cap.map_or_else(unbounded, bounded);
    let mut senders = Vec::new();
    for n in 0..each {
        let (async_s, sync_s) = (s.clone(), s.clone());
        senders.push(std::thread::spawn(move || {
            run(Box::pin(async move {
                for i in 0..rounds {
                    async_s.send_async(n * rounds + i).await.unwrap();
                }
                0
            }))
        }));
        gort::spawn(move || (0..rounds).for_each(|i| sync_s.send(n * rounds + i).unwrap()));
    }
    drop(s);
    let mut receivers = Vec::new();
    for _ in 0..each {
        let (async_r, sync_r) = (r.clone(), r.clone());
        receivers.push(std::thread::spawn(move || {
            run(Box::pin(async move {
                let mut sum = 0;
                while let Ok(n) = async_r.recv_async().await {
                    sum += n;
                }
                sum
            }))
        }));
        receivers.push(std::thread::spawn(move || gort::run(move || sync_r.iter().sum())));
    }
    drop(r);
    let sum: usize = receivers.into_iter().map(|receiver| receiver.join().unwrap()).sum();
    let total = each * rounds;
    assert_eq!(sum, total * (total - 1));
    senders.into_iter().for_each(|sender| assert_eq!(sender.join().unwrap(), 0));
}

#[test]
fn channels_without_a_buffer() {
    exchange(Some(0), |future| gort::run(|| block_on(future)));
}

#[test]
fn channels_with_a_buffer() {
    exchange(Some(3), |future| gort::run(|| block_on(future)));
}

#[test]
fn channels_without_limit() {
    exchange(None, |future| gort::run(|| block_on(future)));
}

#[test]
fn channels_and_another_runtimes_wakers() {
    exchange(Some(0), foreign_block_on);
    exchange(Some(2), foreign_block_on);
    exchange(None, foreign_block_on);
}

#[test]
fn two_futures_of_one_goroutine_meet() {
    let (s, r) = bounded(0);
    let met = both(s.send_async("hello"), r.recv_async());
    assert_eq!(block_on(met), (Ok(()), Ok("hello")));
}

#[test]
fn ends_of_channels_are_seen() {
    let _watchdog = Watchdog::start();
    for cap in [0, 1] {
        let (s, r) = bounded::<String>(cap);
        let waiting = spawn(async move { r.recv_async().await });
        drop(s);
        assert_eq!(waiting.join().unwrap(), Err(RecvError));
        let (s, r) = bounded(cap);
        (0..cap).for_each(|_| s.send(String::new()).unwrap());
        let waiting = spawn(async move { s.send_async("back".to_owned()).await });
        drop(r);
        assert_eq!(waiting.join().unwrap(), Err(SendError("back".to_owned())));
    }
}

#[test]
fn a_dropped_receive_loses_nothing() {
    let _watchdog = Watchdog::start();
    for cap in [0, 1, 7] {
        let (s, r) = bounded(cap);
        let rounds = amount(2_000, 100_000);
        let sender = gort::spawn(move || (0..rounds).for_each(|n| s.send(n).unwrap()));
        let received = gort::spawn(move || {
            let mut next = 0;
            while next < rounds {
                // Gives up after a poll or two, at whatever moment.
                let mut future = pin!(r.recv_async());
                let mut polls = 0;
                let got = block_on(poll_fn(|context| match future.as_mut().poll(context) {
                    Poll::Ready(got) => Poll::Ready(Some(got.unwrap())),
                    Poll::Pending if polls == 1 => Poll::Ready(None),
                    Poll::Pending => {
                        polls += 1;
                        context.waker().wake_by_ref();
                        Poll::Pending
                    }
                }));
                if let Some(got) = got {
                    assert_eq!(got, next);
                    next += 1;
                }
            }
        });
        received.join().unwrap();
        sender.join().unwrap();
    }
}

#[test]
fn a_dropped_send_drops_its_message_or_was_received() {
    let _watchdog = Watchdog::start();
    static ALIVE: AtomicUsize = AtomicUsize::new(0);
    struct Message;
    impl Message {
        fn new() -> Message {
            ALIVE.fetch_add(1, Ordering::Relaxed);
            Message
        }
    }
    impl Drop for Message {
        fn drop(&mut self) {
            ALIVE.fetch_sub(1, Ordering::Relaxed);
        }
    }
    for cap in [0, 1] {
        let (s, r) = bounded(cap);
        let receiver = gort::spawn(move || r.iter().count());
        gort::run(move || {
            for n in 0..amount(2_000, 100_000) {
                let mut future = Box::pin(s.send_async(Message::new()));
                for _ in 0..n % 3 {
                    if poll_once(future.as_mut()).is_ready() {
                        break;
                    }
                    gort::yield_now();
                }
                drop(future);
            }
        });
        receiver.join().unwrap();
        assert_eq!(ALIVE.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn sleeps_are_not_early_and_can_be_dropped() {
    let _watchdog = Watchdog::start();
    let check = |run: fn(Pin<Box<dyn Future<Output = ()>>>)| {
        let start = Instant::now();
        run(Box::pin(async {
            let mut dropped = Box::pin(sleep(Duration::from_secs(1000)));
            assert!(poll_once(dropped.as_mut()).is_pending());
            drop(dropped);
            both(sleep(Duration::from_millis(3)), sleep_until(Instant::now() + Duration::from_millis(5)))
                .await;
            let mut moved = Box::pin(sleep(Duration::MAX));
            assert!(poll_once(moved.as_mut()).is_pending());
            moved.as_mut().reset(Instant::now() + Duration::from_millis(2));
            moved.await;
        }));
        assert!(start.elapsed() >= Duration::from_millis(7));
    };
    check(block_on);
    check(foreign_block_on);
    gort::spawn(move || check(block_on)).join().unwrap();
}

#[test]
fn channels_of_time() {
    let _watchdog = Watchdog::start();
    let times = || async {
        let start = Instant::now();
        let ticks = tick(Duration::from_millis(2));
        after(Duration::from_millis(3)).recv_async().await.unwrap();
        for _ in 0..3 {
            ticks.recv_async().await.unwrap();
        }
        assert!(start.elapsed() >= Duration::from_millis(6));
        let timer = gort::time::Timer::new(Duration::from_secs(1000));
        let first = Arc::new(AtomicUsize::new(0));
        let mut waiting = pin!(timer.c().recv_async());
        poll_fn(|context| {
            let poll = waiting.as_mut().poll(context);
            if first.fetch_add(1, Ordering::Relaxed) == 0 {
                assert!(timer.reset(Duration::from_millis(1)), "the future that waits is told");
            }
            poll.map(|got| got.unwrap())
        })
        .await;
        let silent = never::<()>();
        assert!(poll_once(pin!(silent.recv_async())).is_pending());
    };
    block_on(times());
    gort::run(move || block_on(times()));
    foreign_block_on(times());
}

#[test]
fn many_futures_at_once() {
    let _watchdog = Watchdog::start();
    let woken = Arc::new(AtomicUsize::new(0));
    let (s, r) = bounded::<()>(0);
    let count = amount(2_000, 100_000);
    for _ in 0..count {
        let (woken, r) = (woken.clone(), r.clone());
        spawn(async move {
            both(sleep(Duration::from_millis(1)), r.recv_async()).await.1.unwrap_err();
            woken.fetch_add(1, Ordering::Relaxed);
        });
    }
    drop(s);
    until("all were woken", || woken.load(Ordering::Relaxed) == count);
}

#[cfg(feature = "tokio")]
#[test]
fn tokios_io_and_timers_inside_goroutines() {
    let _watchdog = Watchdog::start();
    use std::io::Write;
    let listener = gort::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = gort::spawn(move || {
        for _ in 0..20 {
            listener.accept().unwrap().0.write_all(b"x").unwrap();
        }
    });
    let clients: Vec<_> = (0..20)
        .map(|_| {
            gort::spawn(move || {
                gort::future::tokio(async {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
                    let mut byte = [0];
                    loop {
                        stream.readable().await.unwrap();
                        match stream.try_read(&mut byte) {
                            Ok(n) => break n,
                            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
                        }
                    }
                })
            })
        })
        .collect();
    assert!(clients.into_iter().all(|client| client.join().unwrap() == 1));
    server.join().unwrap();
}
