//! Goroutines and threads on the same locks, channels, futexes and sockets, with timeouts, closes and
//! signals. Everything that goes in is counted, and comes out.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, RwLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::common::{Procs, alone, amount};

/// A goroutine or a thread, by turns.
enum Actor {
    Goroutine(gort::JoinHandle<()>),
    Thread(thread::JoinHandle<()>),
}

impl Actor {
    fn start(number: usize, f: impl FnOnce() + Send + 'static) -> Actor {
        match number % 3 {
            0 => Actor::Thread(thread::spawn(f)),
            _ => Actor::Goroutine(gort::spawn(f)),
        }
    }

    fn join(self) {
        match self {
            Actor::Goroutine(handle) => handle.join().unwrap(),
            Actor::Thread(handle) => handle.join().unwrap(),
        }
    }
}

/// A sequence of numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// A bounded queue of std's parts, whose waits time out now and then.
#[derive(Default)]
struct Bounded {
    queue: Mutex<VecDeque<u64>>,
    changed: Condvar,
}

impl Bounded {
    const ROOM: usize = 3;

    fn change<R>(&self, random: &mut Random, mut f: impl FnMut(&mut VecDeque<u64>) -> Option<R>) -> R {
        let mut queue = self.queue.lock().unwrap();
        loop {
            if let Some(result) = f(&mut queue) {
                self.changed.notify_all();
                return result;
            }
            queue = match random.below(3) {
                0 => {
                    let time = Duration::from_micros(random.below(300));
                    self.changed.wait_timeout(queue, time).unwrap().0
                }
                _ => self.changed.wait(queue).unwrap(),
            };
        }
    }

    fn push(&self, random: &mut Random, value: u64) {
        self.change(random, |queue| (queue.len() < Bounded::ROOM).then(|| queue.push_back(value)));
    }

    fn pop(&self, random: &mut Random) -> u64 {
        self.change(random, VecDeque::pop_front)
    }
}

/// A seed for the actors of one kind: `GORT_STRESS_SEED`, or the time of the start.
fn seed(number: u64) -> Random {
    static SEED: OnceLock<u64> = OnceLock::new();
    let seed = SEED.get_or_init(|| {
        let given = std::env::var("GORT_STRESS_SEED").ok().and_then(|value| value.parse().ok());
        let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let seed = given.unwrap_or_else(|| now().as_nanos() as u64);
        println!("GORT_STRESS_SEED={seed}");
        seed
    });
    Random((seed ^ (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)) | 1)
}

fn locks_and_conditions(rounds: usize) -> Vec<Actor> {
    let bounded = Arc::new(Bounded::default());
    let total = Arc::new(RwLock::new(0u64));
    let left = Arc::new(AtomicUsize::new(6));
    let mut all = Vec::new();
    for number in 0..6 {
        let (bounded, total, left) = (Arc::clone(&bounded), Arc::clone(&total), Arc::clone(&left));
        all.push(Actor::start(number, move || {
            let mut random = seed(number as u64);
            for round in 0..rounds as u64 {
                if number % 2 == 0 {
                    bounded.push(&mut random, round);
                } else {
                    let value = bounded.pop(&mut random);
                    *total.write().unwrap() += value;
                    assert!(*total.read().unwrap() >= value);
                }
            }
            if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                let rounds = rounds as u64;
                assert_eq!(*total.read().unwrap(), 3 * rounds * (rounds - 1) / 2);
                assert!(bounded.queue.lock().unwrap().is_empty());
            }
        }));
    }
    all
}

/// A ring of channels: numbers go around, and each station adds one.
fn channels(rounds: usize) -> Vec<Actor> {
    const STATIONS: usize = 5;
    let (first, mut receiver) = mpsc::sync_channel::<u64>(1);
    let mut all = Vec::new();
    for number in 0..STATIONS {
        let (sender, next) = mpsc::sync_channel(number % 3);
        let input = std::mem::replace(&mut receiver, next);
        all.push(Actor::start(number, move || {
            let mut random = seed(number as u64 + 17);
            loop {
                let value = match random.below(4) {
                    0 => match input.recv_timeout(Duration::from_micros(random.below(200))) {
                        Ok(value) => value,
                        Err(mpsc::RecvTimeoutError::Timeout) => continue,
                        Err(mpsc::RecvTimeoutError::Disconnected) => break,
                    },
                    _ => match input.recv() {
                        Ok(value) => value,
                        Err(_) => break,
                    },
                };
                sender.send(value + 1).unwrap();
            }
        }));
    }
    all.push(Actor::start(1, move || {
        for round in 0..rounds as u64 {
            first.send(round).unwrap();
            assert_eq!(receiver.recv().unwrap(), round + STATIONS as u64);
        }
    }));
    all
}

/// Parked by one, unparked by another; each gives the other a number.
fn parking(rounds: usize) -> Vec<Actor> {
    let turn = Arc::new(AtomicU64::new(0));
    let names = Arc::new((Mutex::new(Vec::<Option<thread::Thread>>::from([None, None])), Condvar::new()));
    let all = (0..2u64).map(|number| {
        let (turn, names) = (Arc::clone(&turn), Arc::clone(&names));
        Actor::start(number as usize, move || {
            let (known, changed) = &*names;
            known.lock().unwrap()[number as usize] = Some(thread::current());
            changed.notify_all();
            let known = changed.wait_while(known.lock().unwrap(), |all| all.contains_none()).unwrap();
            let other = known[1 - number as usize].clone().unwrap();
            drop(known);
            for round in 0..rounds as u64 {
                while turn.load(Ordering::Acquire) != 2 * round + number {
                    if round % 5 == 0 {
                        thread::park_timeout(Duration::from_micros(100));
                    } else {
                        thread::park();
                    }
                }
                turn.store(2 * round + number + 1, Ordering::Release);
                other.unpark();
            }
        })
    });
    all.collect()
}

trait ContainsNone {
    fn contains_none(&self) -> bool;
}

impl<T> ContainsNone for Vec<Option<T>> {
    fn contains_none(&self) -> bool {
        self.iter().any(Option::is_none)
    }
}

/// What tests need of both kinds of streams.
trait Stream: Read + Write + Send + 'static {
    fn wait_at_most(&self, time: Duration);
    fn end(&self);
}

impl Stream for TcpStream {
    fn wait_at_most(&self, time: Duration) {
        self.set_read_timeout(Some(time)).unwrap();
    }

    fn end(&self) {
        self.shutdown(Shutdown::Write).unwrap();
    }
}

impl Stream for UnixStream {
    fn wait_at_most(&self, time: Duration) {
        self.set_read_timeout(Some(time)).unwrap();
    }

    fn end(&self) {
        self.shutdown(Shutdown::Write).unwrap();
    }
}

/// Sends pieces of any size, and ends; the other side counts bytes and sums, with timeouts.
fn one_stream(seed: u64, bytes: usize, mut from: impl Stream, mut to: impl Stream) -> [Actor; 2] {
    let sends = Actor::start(seed as usize, move || {
        let mut random = self::seed(seed + 1000);
        let mut sent = 0;
        while sent < bytes {
            let most = if random.below(8) == 0 { 300_000 } else { 500 };
            let piece = (1 + random.below(most) as usize).min(bytes - sent);
            from.write_all(&(sent..sent + piece).map(|n| n as u8).collect::<Vec<_>>()).unwrap();
            sent += piece;
        }
        from.end();
        // The receiver closes first.
        assert_eq!(from.read(&mut [0]).unwrap(), 0);
    });
    let receives = Actor::start(seed as usize + 1, move || {
        to.wait_at_most(Duration::from_micros(500));
        let (mut received, mut buffer) = (0, vec![0; 70_000]);
        loop {
            match to.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => {
                    let expected = (received..received + length).map(|n| n as u8);
                    assert!(expected.eq(buffer[..length].iter().copied()), "at {received}");
                    received += length;
                }
                // A thread's call with a timeout is not restarted after a signal.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
        assert_eq!(received, bytes);
    });
    [sends, receives]
}

/// Connections that come and go, so that numbers of descriptors are used again and again.
fn streams(rounds: usize) -> Vec<Actor> {
    let listener = Arc::new(TcpListener::bind("127.0.0.1:0").unwrap());
    let all = (0..4u64).map(|number| {
        let listener = Arc::clone(&listener);
        Actor::start(number as usize, move || {
            for round in 0..rounds as u64 {
                let seed = number * 1000 + round;
                let bytes = 1 + (seed as usize * 7919) % 400_000;
                let both = if number % 2 == 0 {
                    let (one, other) = UnixStream::pair().unwrap();
                    one_stream(seed, bytes, one, other)
                } else {
                    // Two that connect may get each other's connection: then both ends are somebody else's.
                    static ONE: Mutex<()> = Mutex::new(());
                    let turn = ONE.lock().unwrap();
                    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                    let other = listener.accept().unwrap().0;
                    drop(turn);
                    one_stream(seed, bytes, one, other)
                };
                both.into_iter().for_each(Actor::join);
            }
        })
    });
    all.collect()
}

/// Numbers that are closed, or given to another open file, while others wait for them.
fn closes(rounds: usize) -> Vec<Actor> {
    let all = (0..3usize).map(|number| {
        Actor::start(number, move || {
            let mut random = seed(number as u64 + 100);
            for round in 0..rounds {
                let (one, mut two) = UnixStream::pair().unwrap();
                let fd = one.into_raw_fd();
                let begun = Arc::new(AtomicBool::new(false));
                let begins = Arc::clone(&begun);
                let reads = Actor::start(number + round, move || {
                    let mut byte = 0u8;
                    begins.store(true, Ordering::Release);
                    // The call may begin when its number is closed, or another open file's.
                    let read = unsafe { libc::read(fd, (&raw mut byte).cast(), 1) };
                    let error = std::io::Error::last_os_error().raw_os_error();
                    assert!(
                        (read, byte) == (1, b'c') || read == 0 || error == Some(libc::EBADF),
                        "{read} {byte} {error:?}"
                    );
                });
                while !begun.load(Ordering::Acquire) {
                    thread::yield_now();
                }
                thread::sleep(Duration::from_micros(random.below(300)));
                // The end of a stream takes the number, so that a late call ends as well.
                let null = std::fs::File::open("/dev/null").unwrap();
                if random.below(2) == 0 {
                    assert_eq!(unsafe { libc::dup2(null.as_raw_fd(), fd) }, fd);
                } else {
                    assert_eq!(unsafe { libc::dup3(null.as_raw_fd(), fd, libc::O_CLOEXEC) }, fd);
                }
                two.write_all(b"c")
                    .or_else(|error| match error.kind() {
                        // Nobody waits: the socket is closed.
                        ErrorKind::BrokenPipe => Ok(()),
                        _ => Err(error),
                    })
                    .unwrap();
                reads.join();
                assert_eq!(unsafe { libc::close(fd) }, 0);
            }
        })
    });
    all.collect()
}

static SIGNALS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count_signals(_: i32) {
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

/// Sends signals to all of the process until the drop.
struct Storm {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Storm {
    fn start() -> Storm {
        // SAFETY: a handler that only counts.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = count_signals as *const () as usize;
            action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
            assert_eq!(libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()), 0);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let send = move || {
            while !stopped.load(Ordering::Relaxed) {
                for task in std::fs::read_dir("/proc/self/task").unwrap() {
                    let tid: i32 = task.unwrap().file_name().to_str().unwrap().parse().unwrap();
                    // SAFETY: the thread may be gone, which the call reports.
                    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, libc::SIGUSR1) };
                }
                thread::sleep(Duration::from_micros(200));
            }
        };
        Storm { stop, thread: Some(thread::spawn(send)) }
    }
}

impl Drop for Storm {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
        assert!(SIGNALS.load(Ordering::Relaxed) > 0);
    }
}

#[test]
fn goroutines_and_threads_share_everything_of_std() {
    if !alone("stress::goroutines_and_threads_share_everything_of_std") {
        return;
    }
    let _watchdog = super::enable();
    // In a full run, ten minutes.
    let end = Instant::now() + Duration::from_secs(amount(0, 600) as u64);
    loop {
        for procs in [1, 2, 8, 64] {
            let _procs = Procs::set(procs);
            let _storm = Storm::start();
            gort::run(|| {
                let all = [locks_and_conditions(300), channels(200), parking(300), streams(3), closes(50)];
                all.into_iter().flatten().for_each(Actor::join);
            });
        }
        if Instant::now() >= end {
            break;
        }
    }
}
