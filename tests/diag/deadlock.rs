//! The runtime finds deadlocks, and leaves alone what only looks like one.
//!
//! Each test plays its part in a process of its own, on the main thread. The usual test harness keeps a
//! thread for itself, and the detector must assume that this thread may end the wait. So this file has its
//! own `main`.

#[path = "../common/mod.rs"]
mod common;

use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::{Duration, Instant};

use common::traces::{assert_has, parsed};
use common::{Printed, TempDir, child, is_child, named, run, run_ok, spin_until, tid, until};
use gort::chan::{Receiver, Sender, bounded, unbounded};
use gort::runtime::{Config, OnDeadlock};
use gort::sync::{Barrier, Condvar, Mutex, RwLock, Semaphore, WaitGroup};
use gort::trace::{FlightRecorder, FlightRecorderConfig};

/// Longer than the detector takes for its first two checks.
const WHILE: Duration = Duration::from_millis(300);

/// Runs the test in a process of its own, where it plays the deadlock. Returns what that process printed.
#[track_caller]
fn must_be_found(test: &str, reasons: &[&str], play: fn()) -> Option<Printed> {
    if is_child("stuck") {
        play();
        return None;
    }
    let printed = run(child(test, "stuck"));
    let text = &printed.stderr;
    assert_eq!(printed.status.code(), Some(2), "{text}\n{}", printed.stdout);
    assert!(text.contains("fatal error: all goroutines are asleep - deadlock!\n\ngoroutine "), "{text}");
    for reason in reasons {
        assert!(text.contains(&format!(" [{reason}]")), "no [{reason}] in {text}");
    }
    assert!(text.contains("tests/diag/deadlock.rs:"), "no stack in {text}");
    Some(printed)
}

/// Runs the test in a process of its own, which must succeed.
#[track_caller]
fn must_be_left_alone(test: &str, play: fn()) {
    if is_child("alive") {
        return play();
    }
    let printed = run_ok(child(test, "alive"));
    assert!(!printed.stderr.contains("fatal error"), "{}", printed.stderr);
}

#[inline(never)]
fn ask_and_answer(questions: &Receiver<u32>, answers: &Sender<u32>) {
    let question = questions.recv().unwrap();
    answers.send(question + 1).unwrap();
}

fn two_that_receive_from_each_other() {
    let printed = must_be_found("two_that_receive_from_each_other", &["chan receive", "join"], || {
        gort::run(|| {
            let (to_left, left) = bounded(0);
            let (to_right, right) = bounded(0);
            let one = named("left", move || ask_and_answer(&left, &to_right));
            let two = named("right", move || ask_and_answer(&right, &to_left));
            one.join().unwrap();
            two.join().unwrap();
        });
    });
    let Some(printed) = printed else { return };
    let text = &printed.stderr;
    for name in ["left", "right"] {
        assert!(text.contains(&format!("[chan receive] {{name: {name}}}:")), "{text}");
    }
    assert_eq!(text.matches("deadlock::ask_and_answer\n").count(), 2, "{text}");
    assert!(text.contains("created by goroutine 1 at tests/diag/deadlock.rs:"), "{text}");
    assert!(text.contains("outside of gort waits too"), "{text}");
}

fn senders_without_a_receiver_that_listens() {
    must_be_found("senders_without_a_receiver_that_listens", &["chan send", "join"], || {
        gort::run(|| {
            let (sender, receiver) = bounded(1);
            let other = named("sender", move || while sender.send(()).is_ok() {});
            other.join().unwrap();
            drop(receiver);
        });
    });
}

fn select_of_channels_nobody_uses() {
    must_be_found("select_of_channels_nobody_uses", &["select"], || {
        gort::run(|| {
            let (_keep, one) = bounded::<()>(0);
            let (send, _receive) = bounded::<()>(0);
            gort::chan::select! {
                recv(one) -> _ => unreachable!(),
                send(send, ()) -> _ => unreachable!(),
            }
        });
    });
}

fn a_mutex_locked_twice() {
    let printed = must_be_found("a_mutex_locked_twice", &["sync.Mutex.Lock"], || {
        gort::run(|| {
            let mutex = Mutex::new(());
            let _first = mutex.lock();
            let _second = mutex.lock();
        });
    });
    let Some(printed) = printed else { return };
    assert!(printed.stderr.contains("waits for a lock that goroutine 1 holds"), "{}", printed.stderr);
}

fn two_mutexes_in_opposite_order() {
    let printed = must_be_found("two_mutexes_in_opposite_order", &["sync.Mutex.Lock", "join"], || {
        gort::run(|| {
            let locks = Arc::new((Mutex::new(()), Mutex::new(()), Barrier::new(2)));
            let others = locks.clone();
            let other = named("other", move || {
                let _second = others.1.lock();
                others.2.wait();
                let _first = others.0.lock();
            });
            let this = named("this", move || {
                let _first = locks.0.lock();
                locks.2.wait();
                let _second = locks.1.lock();
            });
            other.join().unwrap();
            this.join().unwrap();
        });
    });
    let Some(printed) = printed else { return };
    assert_eq!(printed.stderr.matches("waits for a lock that goroutine ").count(), 2, "{}", printed.stderr);
}

fn a_reader_that_wants_to_write() {
    let printed = must_be_found("a_reader_that_wants_to_write", &["sync.RWMutex.Lock"], || {
        gort::run(|| {
            let lock = RwLock::new(());
            let _read = lock.read();
            let _write = lock.write();
        });
    });
    let Some(printed) = printed else { return };
    let holder = "waits for a lock that 1 reader holds: goroutine 1";
    assert!(printed.stderr.contains(holder), "{}", printed.stderr);
}

fn a_wait_group_that_is_never_done() {
    must_be_found("a_wait_group_that_is_never_done", &["sync.WaitGroup.Wait"], || {
        gort::run(|| {
            let group = WaitGroup::new();
            group.add(2);
            group.done();
            group.wait();
        });
    });
}

fn a_condition_that_nobody_signals() {
    must_be_found("a_condition_that_nobody_signals", &["sync.Cond.Wait"], || {
        gort::run(|| {
            let (mutex, condition) = (Mutex::new(()), Condvar::new());
            let mut guard = mutex.lock();
            condition.wait(&mut guard);
        });
    });
}

fn two_that_join_each_other() {
    must_be_found("two_that_join_each_other", &["join", "chan receive"], || {
        gort::run(|| {
            let (give, take) = bounded::<gort::JoinHandle<()>>(1);
            let first = named("first", move || take.recv().unwrap().join().unwrap());
            let (tell, told) = bounded::<()>(0);
            let second = named("second", move || {
                first.join().unwrap();
                drop(tell);
            });
            give.send(second).unwrap();
            told.recv().unwrap();
        });
    });
}

fn more_permits_than_there_are() {
    must_be_found("more_permits_than_there_are", &["semacquire"], || {
        gort::run(|| {
            let semaphore = Semaphore::new(2);
            let _one = semaphore.acquire(1);
            let _two = semaphore.acquire(2);
        });
    });
}

fn a_bound_goroutine_that_waits() {
    must_be_found("a_bound_goroutine_that_waits", &["chan receive, locked to thread"], || {
        gort::run(|| {
            let _bound = gort::runtime::os_thread_guard();
            let (_sender, receiver) = bounded::<()>(0);
            let _ = receiver.recv();
        });
    });
}

fn a_barrier_that_is_short_of_one() {
    must_be_found("a_barrier_that_is_short_of_one", &["barrier wait", "scope wait"], || {
        gort::run(|| {
            let barrier = Barrier::new(3);
            gort::scope(|s| {
                s.spawn(|| barrier.wait());
                s.spawn(|| barrier.wait());
            });
        });
    });
}

fn a_deadlock_after_a_busy_time_and_a_thread_that_has_ended() {
    must_be_found("a_deadlock_after_a_busy_time_and_a_thread_that_has_ended", &["chan receive"], || {
        gort::run(|| {
            let (sender, receiver) = unbounded::<u32>();
            for i in 0..100 {
                let sender = sender.clone();
                gort::spawn(move || {
                    gort::sleep(Duration::from_micros(10 * i));
                    sender.send(0).unwrap();
                });
            }
            // This thread ends after the goroutines have gone to sleep, and nothing tells the runtime.
            std::thread::spawn(|| std::thread::sleep(Duration::from_millis(60)));
            while receiver.recv().is_ok() {}
        });
    });
}

fn main_waits_for_a_goroutine_that_has_not_sent() {
    if is_child("stuck") {
        let (sender, receiver) = bounded::<()>(0);
        gort::spawn(|| ()).join().unwrap();
        let _ = receiver.recv();
        return drop(sender);
    }
    let printed = run(child("main_waits_for_a_goroutine_that_has_not_sent", "stuck"));
    assert_eq!(printed.status.code(), Some(2), "{}", printed.stderr);
    assert!(printed.stderr.contains("outside of gort waits too"), "{}", printed.stderr);
}

/// Without the feature there is no debug server.
fn the_debug_server_does_not_hide_a_deadlock() {
    #[cfg(feature = "debug")]
    must_be_found("the_debug_server_does_not_hide_a_deadlock", &["chan receive"], || {
        use std::io::{Read, Write};
        let server = gort::debug::serve("127.0.0.1:0").unwrap();
        // Somebody looks: the thread of the history runs, and one of a connection.
        let mut stream = std::net::TcpStream::connect(server.local_addr()).unwrap();
        stream.write_all(b"GET /debug/live HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        stream.read_exact(&mut [0; 100]).unwrap();
        gort::run(|| {
            let (_sender, receiver) = bounded::<()>(0);
            let _ = receiver.recv();
        });
    });
}

/// Without the feature there are no profiles.
fn a_cpu_profile_does_not_hide_a_deadlock() {
    #[cfg(feature = "debug")]
    must_be_found("a_cpu_profile_does_not_hide_a_deadlock", &["chan receive"], || {
        let _profile = gort::profile::Cpu::start(gort::profile::DEFAULT_RATE).unwrap();
        gort::run(|| {
            let (_sender, receiver) = bounded::<()>(0);
            let _ = receiver.recv();
        });
    });
}

fn near_a_timer_is_pending() {
    must_be_left_alone("near_a_timer_is_pending", || {
        gort::run(|| {
            let (_sender, receiver) = bounded::<()>(0);
            assert!(receiver.recv_timeout(WHILE).is_err());
        });
    });
}

fn near_one_sleeps_and_then_sends() {
    must_be_left_alone("near_one_sleeps_and_then_sends", || {
        gort::run(|| {
            let (sender, receiver) = bounded(0);
            gort::spawn(move || {
                gort::sleep(WHILE);
                sender.send(1).unwrap();
            });
            assert_eq!(receiver.recv(), Ok(1));
        });
    });
}

fn near_a_marked_blocking_call() {
    must_be_left_alone("near_a_marked_blocking_call", || {
        gort::run(|| {
            let (sender, receiver) = bounded(0);
            gort::spawn(move || {
                gort::blocking(|| std::thread::sleep(WHILE));
                sender.send(1).unwrap();
            });
            assert_eq!(receiver.recv(), Ok(1));
        });
    });
}

fn near_an_unmarked_read() {
    must_be_left_alone("near_an_unmarked_read", || {
        gort::run(|| {
            let (sender, receiver) = bounded(0);
            gort::spawn(move || {
                let mut shell = Command::new("sh")
                    .args(["-c", "sleep 0.3; echo"])
                    .stdout(Stdio::piped())
                    .spawn()
                    .unwrap();
                let mut text = String::new();
                shell.stdout.take().unwrap().read_to_string(&mut text).unwrap();
                shell.wait().unwrap();
                sender.send(text).unwrap();
            });
            assert_eq!(receiver.recv().unwrap(), "\n");
        });
    });
}

fn near_waiting_for_a_process() {
    must_be_left_alone("near_waiting_for_a_process", || {
        gort::run(|| {
            let (sender, receiver) = bounded(0);
            gort::spawn(move || {
                sender.send(Command::new("sleep").arg("0.3").status().unwrap().success()).unwrap();
            });
            assert_eq!(receiver.recv(), Ok(true));
        });
    });
}

fn near_a_thread_that_sends_later() {
    must_be_left_alone("near_a_thread_that_sends_later", || {
        let (sender, receiver) = bounded(0);
        let thread = std::thread::spawn(move || {
            std::thread::sleep(WHILE);
            sender.send(1).unwrap();
        });
        gort::run(move || assert_eq!(receiver.recv(), Ok(1)));
        thread.join().unwrap();
    });
}

fn near_a_thread_that_waits_with_a_deadline() {
    must_be_left_alone("near_a_thread_that_waits_with_a_deadline", || {
        let (sender, receiver) = bounded(0);
        let thread = std::thread::spawn(move || {
            let (_keep, never) = bounded::<()>(0);
            assert!(never.recv_timeout(WHILE).is_err());
            sender.send(1).unwrap();
        });
        gort::run(move || assert_eq!(receiver.recv(), Ok(1)));
        thread.join().unwrap();
    });
}

fn near_a_thread_that_holds_the_lock() {
    must_be_left_alone("near_a_thread_that_holds_the_lock", || {
        let mutex = Arc::new(Mutex::new(0));
        let held = Arc::new(AtomicBool::new(false));
        let (theirs, tell) = (mutex.clone(), held.clone());
        let thread = std::thread::spawn(move || {
            let mut guard = theirs.lock();
            tell.store(true, Ordering::Release);
            std::thread::sleep(WHILE);
            *guard = 1;
        });
        spin_until("the thread holds the lock", || held.load(Ordering::Acquire));
        gort::run(move || assert_eq!(*mutex.lock(), 1));
        thread.join().unwrap();
    });
}

fn near_one_that_computes() {
    must_be_left_alone("near_one_that_computes", || {
        gort::run(|| {
            let (sender, receiver) = bounded(0);
            gort::spawn(move || {
                let start = Instant::now();
                while start.elapsed() < WHILE {}
                sender.send(1).unwrap();
            });
            assert_eq!(receiver.recv(), Ok(1));
        });
    });
}

fn near_one_that_waits_for_input() {
    must_be_left_alone("near_one_that_waits_for_input", || {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let theirs = std::os::fd::OwnedFd::from(theirs);
        // Longer than the time until the first check of a program that has sockets.
        let mut shell = Command::new("sh").args(["-c", "sleep 1.5; echo"]).stdout(theirs).spawn().unwrap();
        gort::run(|| {
            let mut ours = gort::net::UnixStream::from(ours);
            let mut byte = [0];
            ours.read_exact(&mut byte).unwrap();
            assert_eq!(byte, *b"\n");
        });
        shell.wait().unwrap();
    });
}

fn a_socket_that_nobody_waits_for_does_not_hide_a_deadlock() {
    must_be_found("a_socket_that_nobody_waits_for_does_not_hide_a_deadlock", &["chan receive"], || {
        gort::run(|| {
            let _listener = gort::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let (_sender, receiver) = bounded::<()>(0);
            let _ = receiver.recv();
        });
    });
}

/// The answer comes from another process, after the detector's first checks.
#[cfg(feature = "hyper")]
fn near_main_that_waits_for_a_future() {
    use std::pin::Pin;
    must_be_left_alone("near_main_that_waits_for_a_future", || {
        gort::spawn(|| ()).join().unwrap();
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut other = Command::new("sh");
        other.args(["-c", "sleep 3; echo x"]).stdout(std::os::fd::OwnedFd::from(theirs));
        let mut other = other.spawn().unwrap();
        let mut stream = gort::hyper::Stream::new(gort::net::UnixStream::from(ours));
        let mut bytes = [0; 8];
        let mut buf = hyper::rt::ReadBuf::new(&mut bytes);
        gort::future::block_on(std::future::poll_fn(|context| {
            hyper::rt::Read::poll_read(Pin::new(&mut stream), context, buf.unfilled())
        }))
        .unwrap();
        assert_eq!(buf.filled(), b"x\n");
        other.wait().unwrap();
    });
}

#[cfg(not(feature = "hyper"))]
fn near_main_that_waits_for_a_future() {}

fn near_main_that_is_elsewhere() {
    must_be_left_alone("near_main_that_is_elsewhere", || {
        let (sender, receiver) = bounded(0);
        let waits = gort::spawn(move || receiver.recv());
        std::thread::sleep(WHILE);
        sender.send(1).unwrap();
        assert_eq!(waits.join().unwrap(), Ok(1));
    });
}

fn near_main_that_does_not_wait_for_the_stuck() {
    must_be_left_alone("near_main_that_does_not_wait_for_the_stuck", || {
        let (sender, receiver) = bounded::<()>(0);
        gort::spawn(move || receiver.recv());
        std::thread::sleep(WHILE);
        std::mem::forget(sender);
    });
}

static FROM_HANDLER: OnceLock<Sender<i32>> = OnceLock::new();

extern "C" fn on_user_signal(signal: i32) {
    if let Some(sender) = FROM_HANDLER.get() {
        let _ = sender.try_send(signal);
    }
}

fn near_a_signal_handler() {
    must_be_left_alone("near_a_signal_handler", || {
        let (sender, receiver) = bounded(1);
        FROM_HANDLER.set(sender).unwrap();
        // SAFETY: all threads sleep when the signal comes, so the handler interrupts no code that it needs
        // itself.
        unsafe { libc::signal(libc::SIGUSR1, on_user_signal as *const () as usize) };
        let kill = format!("sleep 0.3; kill -USR1 {}", std::process::id());
        let mut shell = Command::new("sh").args(["-c", &kill]).spawn().unwrap();
        gort::run(move || assert_eq!(receiver.recv(), Ok(libc::SIGUSR1)));
        shell.wait().unwrap();
    });
}

fn near_one_that_awaits_a_signal() {
    must_be_left_alone("near_one_that_awaits_a_signal", || {
        let signals = gort::signal::notify(&[gort::signal::SIGUSR1]).unwrap();
        let script = format!("sleep {}; kill -USR1 $PPID", 2.0 * WHILE.as_secs_f64());
        let mut shell = Command::new("sh").args(["-c", &script]).spawn().unwrap();
        gort::run(move || signals.recv().unwrap());
        shell.wait().unwrap();
    });
}

fn an_earlier_wait_for_signals_hides_no_deadlock() {
    must_be_found("an_earlier_wait_for_signals_hides_no_deadlock", &["chan receive"], || {
        drop(gort::signal::notify(&[gort::signal::SIGUSR1]).unwrap());
        gort::run(|| {
            let (_sender, receiver) = bounded::<()>(0);
            receiver.recv().unwrap();
        });
    });
}

fn a_callback_gets_the_dump_and_the_program_waits_on() {
    if is_child("callback") {
        let (sender, receiver) = bounded(1);
        let action = OnDeadlock::Callback(Box::new(move |dump| {
            println!("goroutines={}", dump.goroutines().len());
            println!("state={}", dump.goroutines()[0].state());
            let _ = sender.try_send(());
        }));
        Config::new().max_procs(2).on_deadlock(action).start().unwrap();
        return gort::run(move || receiver.recv().unwrap());
    }
    let printed = run_ok(child("a_callback_gets_the_dump_and_the_program_waits_on", "callback"));
    assert_eq!((printed.value("goroutines"), printed.value("state")), ("1", "chan receive"));
    assert!(!printed.stderr.contains("fatal error"), "{}", printed.stderr);
}

fn stuck() {
    gort::run(|| {
        let (_sender, receiver) = bounded::<()>(0);
        let _ = receiver.recv();
    });
}

fn the_flight_recorder_does_not_hide_a_deadlock_and_makes_a_snapshot() {
    const DIRECTORY: &str = "GORT_TEST_DIRECTORY";
    if is_child("recorded") {
        let directory = std::env::var_os(DIRECTORY).unwrap();
        let recorder = FlightRecorder::new(FlightRecorderConfig::new().snapshots_in(directory));
        recorder.start().unwrap();
        return stuck();
    }
    let directory = TempDir::new();
    let mut command = child("the_flight_recorder_does_not_hide_a_deadlock_and_makes_a_snapshot", "recorded");
    command.env(DIRECTORY, directory.path());
    let printed = run(command);
    assert_eq!(printed.status.code(), Some(2), "{}", printed.stderr);
    assert!(printed.stderr.contains("all goroutines are asleep - deadlock!"), "{}", printed.stderr);
    let files: Vec<_> = std::fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap()).collect();
    let [file] = &files[..] else { panic!("not one file: {files:?}") };
    assert!(file.file_name().to_str().unwrap().ends_with("-1-deadlock.trace"), "{file:?}");
    if let Some(parsed) = parsed(&file.path()) {
        assert_has(&parsed, "Running->Waiting", "chan receive");
    }
}

/// The thread of a trace writes into a file, which wakes nobody.
fn a_trace_into_a_file_does_not_hide_a_deadlock() {
    must_be_found("a_trace_into_a_file_does_not_hide_a_deadlock", &["chan receive"], || {
        gort::trace::start(std::fs::File::create("/dev/null").unwrap()).unwrap();
        gort::run(|| {
            let (_kept, receiver) = bounded::<()>(0);
            receiver.recv().unwrap();
        });
    });
}

/// A trace whose writer sends messages: it will send the next one in a second.
fn near_a_trace_whose_writer_sends() {
    struct Sends(Sender<usize>);
    impl std::io::Write for Sends {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            // After the end of the test nobody receives.
            let _nobody_is_interested = self.0.send(bytes.len());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    must_be_left_alone("near_a_trace_whose_writer_sends", || {
        let (sender, receiver) = unbounded();
        gort::trace::start(Sends(sender)).unwrap();
        // The header, and two generations.
        gort::run(move || assert!(receiver.iter().take(3).all(|bytes| bytes > 0)));
        gort::trace::stop().unwrap();
    });
}

fn abort_leaves_a_core() {
    if is_child("abort") {
        Config::new().on_deadlock(OnDeadlock::Abort).start().unwrap();
        return stuck();
    }
    let printed = run(child("abort_leaves_a_core", "abort"));
    assert_eq!(printed.status.signal(), Some(libc::SIGABRT), "{}", printed.stderr);
    assert!(printed.stderr.contains("fatal error: all goroutines are asleep"), "{}", printed.stderr);
}

fn the_search_can_be_switched_off() {
    if is_child("ignored") {
        // SAFETY: no preconditions. The default action of the alarm ends the process.
        unsafe { libc::alarm(1) };
        return stuck();
    }
    let mut command = child("the_search_can_be_switched_off", "ignored");
    command.env("GORT_DEBUG", "deadlock=0");
    let printed = run(command);
    assert_eq!(printed.status.signal(), Some(libc::SIGALRM), "{}", printed.stderr);
    assert!(!printed.stderr.contains("fatal error"), "{}", printed.stderr);
}

fn settings_come_before_the_start_or_are_refused() {
    if is_child("config") {
        Config::new().max_procs(3).max_threads(5).preempt_by_signal(false).start().unwrap();
        assert_eq!(gort::runtime::max_procs(), 3);
        let error = Config::new().max_procs(4).start().unwrap_err().to_string();
        assert!(error.contains("must come before the first use of it"), "{error}");
        assert_eq!(gort::runtime::max_procs(), 3);
        gort::run(|| {
            // Many more blocking calls than threads: they take turns.
            let all: Vec<_> = (0..40)
                .map(|_| gort::spawn(|| gort::blocking(|| std::thread::sleep(Duration::from_millis(5)))))
                .collect();
            all.into_iter().for_each(|one| one.join().unwrap());
        });
        assert!(gort::runtime::stats().threads.alive <= 5);
        return;
    }
    let mut command = child("settings_come_before_the_start_or_are_refused", "config");
    command.env("GOMAXPROCS", "7");
    let printed = run_ok(command);
    assert!(printed.stderr.contains("gort: 5 threads run goroutines"), "{}", printed.stderr);
}

fn sigquit_prints_all_goroutines_and_exits_with_2() {
    if is_child("quit") {
        let (_sender, receiver) = bounded::<()>(0);
        named("waits forever", move || receiver.recv());
        named("computes", || {
            loop {
                std::hint::spin_loop();
            }
        });
        let thread = Arc::new(AtomicI32::new(0));
        let own = thread.clone();
        named("blocks", move || {
            own.store(tid(), Ordering::Relaxed);
            std::thread::sleep(Duration::from_secs(1000));
        });
        named("sleeps", || gort::sleep(Duration::from_secs(1000)));
        return gort::run(move || {
            until("one sleeps", || gort::runtime::dump().to_string().contains("[sleep]"));
            until("the goroutine that blocks is in its system call", || {
                let path = format!("/proc/self/task/{}/status", thread.load(Ordering::Relaxed));
                std::fs::read_to_string(path).is_ok_and(|status| status.contains("State:\tS"))
            });
            println!("ready=yes");
            gort::sleep(Duration::from_secs(1000));
        });
    }
    // The background jobs of a shell inherit that SIGQUIT is ignored.
    [libc::SIG_DFL, libc::SIG_IGN].into_iter().for_each(quit);
}

/// Sends SIGQUIT to a child that inherits `action` for it.
fn quit(action: libc::sighandler_t) {
    let mut command = child("sigquit_prints_all_goroutines_and_exits_with_2", "quit");
    // SAFETY: only a system call.
    unsafe {
        command.pre_exec(move || {
            libc::signal(libc::SIGQUIT, action);
            Ok(())
        });
    }
    let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = process.stdout.take().unwrap();
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("ready=yes") {
        let mut buffer = [0; 256];
        let count = stdout.read(&mut buffer).unwrap();
        assert_ne!(count, 0);
        seen.extend_from_slice(&buffer[..count]);
    }
    // SAFETY: a signal to our own child, which has not been waited for.
    unsafe { libc::kill(process.id() as i32, libc::SIGQUIT) };
    let output = process.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.starts_with("SIGQUIT: quit\n\ngoroutine "), "{text}");
    for part in [
        "[chan receive] {name: waits forever}:",
        "{name: computes}:\n",
        "sigquit_prints_all_goroutines_and_exits_with_2::{{closure}}",
        "[sleep]:",
        "nanosleep",
    ] {
        assert!(text.contains(part), "no {part} in {text}");
    }
}

type Test = (&'static str, fn());

macro_rules! tests {
    ($($name:ident)*) => { [$((stringify!($name), $name as fn())),*] };
}

#[cfg(feature = "transparent")]
fn two_mutexes_of_std_in_opposite_order() {
    let play = || {
        gort::transparent::enable().unwrap();
        #[inline(never)]
        fn locks_one_then_two(
            one: &std::sync::Mutex<()>,
            two: &std::sync::Mutex<()>,
            met: &std::sync::Barrier,
        ) {
            let _one = one.lock();
            met.wait();
            drop(two.lock());
        }
        let all = (std::sync::Mutex::new(()), std::sync::Mutex::new(()), std::sync::Barrier::new(2));
        let (mine, other) = (Arc::new(all), Arc::new(OnceLock::new()));
        let its = Arc::clone(&mine);
        gort::run(move || {
            let other = other.get_or_init(|| gort::spawn(move || locks_one_then_two(&its.1, &its.0, &its.2)));
            locks_one_then_two(&mine.0, &mine.1, &mine.2);
            assert!(other.is_finished());
        });
    };
    if let Some(printed) = must_be_found("two_mutexes_of_std_in_opposite_order", &["sync (futex)"], play) {
        assert_eq!(printed.stderr.matches("locks_one_then_two").count(), 2, "{}", printed.stderr);
    }
}

#[cfg(not(feature = "transparent"))]
fn two_mutexes_of_std_in_opposite_order() {}

/// Does what the usual harness does, as far as it is needed here: names are filters, `--list` and `--exact`
/// work.
fn main() -> std::process::ExitCode {
    #[rustfmt::skip]
    let tests = tests![
        two_that_receive_from_each_other
        senders_without_a_receiver_that_listens
        select_of_channels_nobody_uses
        a_mutex_locked_twice
        two_mutexes_in_opposite_order
        two_mutexes_of_std_in_opposite_order
        a_reader_that_wants_to_write
        a_wait_group_that_is_never_done
        a_condition_that_nobody_signals
        two_that_join_each_other
        more_permits_than_there_are
        a_bound_goroutine_that_waits
        a_barrier_that_is_short_of_one
        a_deadlock_after_a_busy_time_and_a_thread_that_has_ended
        main_waits_for_a_goroutine_that_has_not_sent
        the_debug_server_does_not_hide_a_deadlock
        a_cpu_profile_does_not_hide_a_deadlock
        near_a_timer_is_pending
        near_one_sleeps_and_then_sends
        near_a_marked_blocking_call
        near_an_unmarked_read
        near_waiting_for_a_process
        near_a_thread_that_sends_later
        near_a_thread_that_waits_with_a_deadline
        near_a_thread_that_holds_the_lock
        near_one_that_computes
        near_one_that_waits_for_input
        a_socket_that_nobody_waits_for_does_not_hide_a_deadlock
        near_main_that_waits_for_a_future
        near_main_that_is_elsewhere
        near_main_that_does_not_wait_for_the_stuck
        near_a_signal_handler
        near_one_that_awaits_a_signal
        an_earlier_wait_for_signals_hides_no_deadlock
        a_callback_gets_the_dump_and_the_program_waits_on
        the_flight_recorder_does_not_hide_a_deadlock_and_makes_a_snapshot
        a_trace_into_a_file_does_not_hide_a_deadlock
        near_a_trace_whose_writer_sends
        abort_leaves_a_core
        the_search_can_be_switched_off
        settings_come_before_the_start_or_are_refused
        sigquit_prints_all_goroutines_and_exits_with_2
    ];
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let filters: Vec<&String> = arguments.iter().filter(|argument| !argument.starts_with("--")).collect();
    let chosen = |name: &str| {
        let fits =
            |filter: &&&String| if has("--exact") { name == **filter } else { name.contains(**filter) };
        filters.is_empty() || filters.iter().any(|filter| fits(&filter))
    };
    let chosen: Vec<Test> = tests.into_iter().filter(|(name, _)| chosen(name)).collect();
    if has("--list") {
        chosen.iter().for_each(|(name, _)| println!("{name}: test"));
        return std::process::ExitCode::SUCCESS;
    }
    if let ([(_, part)], true) = (&chosen[..], std::env::var_os("GORT_TEST_CHILD").is_some()) {
        part();
        return std::process::ExitCode::SUCCESS;
    }
    println!("\nrunning {} tests", chosen.len());
    let mut failed = 0;
    for (name, test) in &chosen {
        let ok = std::panic::catch_unwind(test).is_ok();
        println!("test {name} ... {}", if ok { "ok" } else { "FAILED" });
        failed += usize::from(!ok);
    }
    println!("\ntest result: {} passed; {failed} failed\n", chosen.len() - failed);
    std::process::ExitCode::from(u8::from(failed != 0))
}
