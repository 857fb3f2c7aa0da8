//! Inside a goroutine, std works as in a thread: blocking calls, locks, output, processes and threads.

#[path = "../common/mod.rs"]
mod common;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex, Once, OnceLock, RwLock, mpsc};
use std::time::{Duration, Instant};

use common::{Procs, Watchdog, amount, migrate, until};

/// Runs `f` with one P, where a call that blocks its thread would stop all others, and with four.
fn with_few_and_many_procs(f: impl Fn()) {
    for procs in [1, 4] {
        let _procs = Procs::set(procs);
        f();
    }
}

#[test]
fn std_knows_the_name_of_a_goroutine() {
    let name_of = |builder: gort::Builder| {
        builder.spawn(|| std::thread::current().name().map(str::to_owned)).unwrap().join().unwrap()
    };
    // The same slots are used again and again.
    for n in 0..1_000 {
        let name = format!("goroutine {n}{}", "x".repeat(n % 50));
        assert_eq!(name_of(gort::Builder::new().name(name.clone())), Some(name));
        assert_eq!(name_of(gort::Builder::new()), None, "the next one is not called so");
    }
    assert_eq!(name_of(gort::Builder::new().name("with\0nul".into())), None);
    assert_eq!(name_of(gort::Builder::new().name(String::new())), Some(String::new()));
    // A `Thread` may outlive its goroutine.
    let named = gort::Builder::new().name("short-lived".into());
    let thread = named.spawn(std::thread::current).unwrap().join().unwrap();
    assert_eq!(thread.name(), Some("short-lived"));
    thread.unpark();
    // A shared-TLS goroutine has the `Thread` of its M.
    // SAFETY: the closure waits for nothing.
    let shared = unsafe {
        let builder = gort::Builder::new().name("shared".into());
        builder.spawn_shared_tls(|| std::thread::current().name().map(str::to_owned)).unwrap()
    };
    assert_ne!(shared.join().unwrap().as_deref(), Some("shared"));
}

#[test]
fn threads_can_be_started_and_joined() {
    with_few_and_many_procs(|| {
        let sum: usize = gort::run(|| {
            let threads: Vec<_> = (0..10)
                .map(|n| {
                    std::thread::spawn(move || {
                        assert_eq!(gort::current().id(), 0);
                        n
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(sum, 45);
    });
}

#[test]
fn a_scope_of_threads_can_borrow_from_a_goroutine() {
    with_few_and_many_procs(|| {
        gort::run(|| {
            let mut numbers = [1, 2, 3];
            std::thread::scope(|s| {
                for number in &mut numbers {
                    s.spawn(move || *number += gort::run(|| 10));
                }
            });
            assert_eq!(numbers, [11, 12, 13]);
        });
    });
}

#[test]
fn park_and_unpark_of_std_work_on_goroutines() {
    with_few_and_many_procs(|| {
        let (sender, receiver) = mpsc::channel();
        let woken = Arc::new(AtomicBool::new(false));
        let seen = woken.clone();
        let sleeper = gort::spawn(move || {
            sender.send(std::thread::current()).unwrap();
            while !seen.load(Ordering::Acquire) {
                std::thread::park();
            }
        });
        let thread = receiver.recv().unwrap();
        gort::spawn(move || {
            woken.store(true, Ordering::Release);
            thread.unpark();
        })
        .join()
        .unwrap();
        sleeper.join().unwrap();
        // The token is there already.
        gort::run(|| {
            std::thread::current().unpark();
            std::thread::park();
        });
    });
}

#[test]
fn sleeping_in_std_lasts_as_long_as_asked() {
    with_few_and_many_procs(|| {
        let start = Instant::now();
        let handles: Vec<_> =
            (0..20).map(|_| gort::spawn(|| std::thread::sleep(Duration::from_millis(5)))).collect();
        for handle in handles {
            handle.join().unwrap();
        }
        assert!(start.elapsed() >= Duration::from_millis(5));
    });
}

#[test]
fn locks_of_std_work_between_goroutines_even_held_across_migrations() {
    with_few_and_many_procs(|| {
        let shared = Arc::new((Mutex::new(0), RwLock::new(0)));
        let handles: Vec<_> = (0..8)
            .map(|_| {
                let shared = shared.clone();
                gort::spawn(move || {
                    for _ in 0..10 {
                        let mut count = shared.0.lock().unwrap();
                        let before = *count;
                        gort::yield_now();
                        *count = before + 1;
                        drop(count);
                        let mut count = shared.1.write().unwrap();
                        let before = *count;
                        migrate();
                        *count = before + 1;
                        drop(count);
                        assert!(*shared.1.read().unwrap() > 0);
                    }
                })
            })
            .collect();
        for handle in handles {
            handle.join().unwrap();
        }
        assert_eq!((*shared.0.lock().unwrap(), *shared.1.read().unwrap()), (80, 80));
    });
}

#[test]
fn channels_of_std_work_between_goroutines_and_threads() {
    with_few_and_many_procs(|| {
        let rounds = amount(100, 10_000);
        let (to_pong, pings) = mpsc::sync_channel::<usize>(0);
        let (to_ping, pongs) = mpsc::channel();
        let pong = gort::spawn(move || {
            for n in pings {
                to_ping.send(n + 1).unwrap();
            }
        });
        let ping = move || {
            for n in 0..rounds {
                to_pong.send(n).unwrap();
                assert_eq!(pongs.recv().unwrap(), n + 1);
            }
        };
        gort::spawn(ping).join().unwrap();
        pong.join().unwrap();
    });
}

#[test]
fn condvars_barriers_and_onces_of_std_work_between_goroutines() {
    with_few_and_many_procs(|| {
        let pair = Arc::new((Mutex::new(false), Condvar::new()));
        let waiters: Vec<_> = (0..8)
            .map(|_| {
                let pair = pair.clone();
                gort::spawn(move || {
                    let mut go = pair.0.lock().unwrap();
                    while !*go {
                        go = pair.1.wait(go).unwrap();
                    }
                })
            })
            .collect();
        *pair.0.lock().unwrap() = true;
        pair.1.notify_all();
        for waiter in waiters {
            waiter.join().unwrap();
        }

        let barrier = Arc::new(Barrier::new(6));
        let leaders = Arc::new(AtomicUsize::new(0));
        let parties: Vec<_> = (0..6)
            .map(|_| {
                let (barrier, leaders) = (barrier.clone(), leaders.clone());
                gort::spawn(move || {
                    for _ in 0..5 {
                        leaders.fetch_add(usize::from(barrier.wait().is_leader()), Ordering::Relaxed);
                    }
                })
            })
            .collect();
        for party in parties {
            party.join().unwrap();
        }
        assert_eq!(leaders.load(Ordering::Relaxed), 5);

        let cell = Arc::new((Once::new(), OnceLock::new(), AtomicUsize::new(0)));
        let users: Vec<_> = (0..8)
            .map(|_| {
                let cell = cell.clone();
                gort::spawn(move || {
                    cell.0.call_once(|| {
                        gort::yield_now();
                        cell.2.fetch_add(1, Ordering::Relaxed);
                    });
                    *cell.1.get_or_init(|| {
                        gort::yield_now();
                        cell.2.fetch_add(1, Ordering::Relaxed);
                        7
                    })
                })
            })
            .collect();
        for user in users {
            assert_eq!(user.join().unwrap(), 7);
        }
        assert_eq!(cell.2.load(Ordering::Relaxed), 2);
    });
}

#[test]
fn a_poisoned_mutex_is_poisoned_by_the_goroutine_that_panicked() {
    let mutex = Arc::new(Mutex::new(1));
    let poisons = mutex.clone();
    let failed = gort::spawn(move || {
        let _guard = poisons.lock().unwrap();
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(failed.join().is_err());
    assert!(mutex.is_poisoned());
}

#[test]
fn processes_can_be_started() {
    with_few_and_many_procs(|| {
        let handles: Vec<_> = (0..amount(5, 200))
            .map(|n| {
                gort::spawn(move || {
                    let output = Command::new("echo").arg(n.to_string()).output().unwrap();
                    assert!(output.status.success());
                    assert_eq!(output.stdout, format!("{n}\n").as_bytes());
                    let mut cat = Command::new("cat");
                    let mut child = cat.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
                    child.stdin.take().unwrap().write_all(b"through a pipe").unwrap();
                    let mut text = String::new();
                    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
                    assert_eq!(text, "through a pipe");
                    assert!(child.wait().unwrap().success());
                    let missing = Command::new("/there/is/no/such/program").spawn().unwrap_err();
                    assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
                })
            })
            .collect();
        for handle in handles {
            handle.join().unwrap();
        }
    });
}

#[test]
fn names_can_be_resolved() {
    with_few_and_many_procs(|| {
        let handles: Vec<_> = (0..10)
            .map(|_| {
                gort::spawn(|| {
                    let addresses: Vec<_> = ("localhost", 80).to_socket_addrs().unwrap().collect();
                    assert!(addresses.iter().any(|address| address.ip().is_loopback()), "{addresses:?}");
                    migrate();
                    assert!("127.0.0.1:80".to_socket_addrs().unwrap().next().is_some());
                    assert!(("there.is.no.such.host.invalid", 80).to_socket_addrs().is_err());
                })
            })
            .collect();
        for handle in handles {
            handle.join().unwrap();
        }
    });
}

#[test]
fn sockets_and_files_of_std_work() {
    with_few_and_many_procs(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = gort::spawn(move || {
            for _ in 0..5 {
                let (mut stream, _) = listener.accept().unwrap();
                gort::spawn(move || {
                    let mut text = [0; 4];
                    stream.read_exact(&mut text).unwrap();
                    stream.write_all(&text).unwrap();
                });
            }
        });
        let clients: Vec<_> = (0..5)
            .map(|_| {
                gort::spawn(move || {
                    let mut stream = TcpStream::connect(address).unwrap();
                    stream.write_all(b"ping").unwrap();
                    let mut text = [0; 4];
                    stream.read_exact(&mut text).unwrap();
                    assert_eq!(&text, b"ping");
                })
            })
            .collect();
        for client in clients {
            client.join().unwrap();
        }
        server.join().unwrap();
        let own = gort::spawn(|| std::fs::read(std::env::current_exe().unwrap()).unwrap()).join().unwrap();
        assert_eq!(&own[1..4], b"ELF");
    });
}

#[test]
fn output_is_whole_lines_and_its_lock_may_be_held_across_migrations() {
    const NAME: &str = "output_is_whole_lines_and_its_lock_may_be_held_across_migrations";
    const GOROUTINES: usize = 50;
    if common::is_child("main") {
        gort::runtime::set_max_procs(4);
        let handles: Vec<_> = (0..GOROUTINES)
            .map(|n| {
                gort::spawn(move || {
                    println!("goroutine={n}");
                    let mut lock = std::io::stdout().lock();
                    write!(lock, "locked {n} ").unwrap();
                    migrate();
                    // The same goroutine, on another thread: the lock is its own.
                    println!("and again {n}");
                    writeln!(lock, "until here {n}").unwrap();
                    drop(lock);
                    eprintln!("error {n}");
                })
            })
            .collect();
        for handle in handles {
            handle.join().unwrap();
        }
        return;
    }
    let _watchdog = Watchdog::start();
    let printed = common::run_ok(common::child(NAME, "main"));
    for n in 0..GOROUTINES {
        let block = format!("\nlocked {n} and again {n}\nuntil here {n}\n");
        assert!(printed.stdout.contains(&block), "no {block:?} in\n{}", printed.stdout);
        assert!(printed.stdout.contains(&format!("goroutine={n}\n")));
        assert!(printed.stderr.contains(&format!("error {n}\n")));
    }
}

#[test]
fn backtraces_can_be_taken_anywhere() {
    #[inline(never)]
    fn a_function_with_a_name() -> String {
        migrate();
        std::backtrace::Backtrace::force_capture().to_string()
    }
    let _procs = Procs::set(4);
    let handles: Vec<_> = (0..10).map(|_| gort::spawn(a_function_with_a_name)).collect();
    for handle in handles {
        let trace = handle.join().unwrap();
        assert!(trace.contains("a_function_with_a_name"), "{trace}");
    }
}

#[test]
fn a_goroutine_that_blocks_its_thread_is_not_in_the_way_of_the_end_of_others() {
    let _procs = Procs::set(1);
    let (sender, receiver) = mpsc::channel::<()>();
    let blocked = gort::spawn(move || receiver.recv().unwrap_err());
    let count = Arc::new(AtomicUsize::new(0));
    for _ in 0..100 {
        let count = count.clone();
        gort::spawn(move || count.fetch_add(1, Ordering::Relaxed));
    }
    until("the others have run", || count.load(Ordering::Relaxed) == 100);
    drop(sender);
    blocked.join().unwrap();
}
