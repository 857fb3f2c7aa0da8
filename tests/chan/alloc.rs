//! Waiting at a channel allocates nothing: all it needs is on the waiter's stack.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use gort::chan::{RecvTimeoutError, Select, bounded, select};

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The runtime's own threads may allocate at any time.
    static COUNTED: Cell<bool> = const { Cell::new(false) };
}

// SAFETY: the system's allocator, counted.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if COUNTED.get() {
            ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        }
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn waiting_allocates_nothing() {
    const ROUNDS: usize = 200;
    // Two large message types: their slots in a select are on the stack, too.
    let (s1, r1) = bounded::<[u64; 50]>(0);
    let (s2, r2) = bounded::<[u64; 60]>(1);
    let (s3, r3) = bounded::<u64>(4);
    let (ack, acked) = bounded::<()>(0);
    let (_silent, quiet) = bounded::<()>(1);

    thread::scope(|scope| {
        scope.spawn(|| {
            COUNTED.set(true);
            wait_once();
            let mut sel = Select::new();
            sel.recv(&r3);
            sel.recv(&quiet);
            for round in 0..ROUNDS {
                for _ in 0..2 {
                    select! {
                        recv(r1) -> msg => assert_eq!(msg.unwrap()[0], round as u64),
                        recv(r2) -> msg => assert_eq!(msg.unwrap()[0], round as u64),
                        recv(quiet) -> _ => unreachable!(),
                        default(Duration::from_secs(60)) => panic!("nobody sent"),
                    }
                }
                assert_eq!(r3.recv_timeout(Duration::from_secs(60)), Ok(1));
                let oper = sel.select();
                assert_eq!((oper.index(), oper.recv(&r3)), (0, Ok(2)));
                // The end of a thread may allocate: its record goes back to a pool.
                COUNTED.set(round + 1 < ROUNDS);
                ack.send(()).unwrap();
            }
        });
        COUNTED.set(true);
        wait_once();
        let mut before = 0;
        for round in 0..ROUNDS {
            s1.send([round as u64; 50]).unwrap();
            select! {
                send(s2, [round as u64; 60]) -> res => res.unwrap(),
                recv(acked) -> _ => unreachable!(),
            }
            s3.send(1).unwrap();
            s3.send(2).unwrap();
            acked.recv().unwrap();
            if round == ROUNDS / 2 {
                // By now both threads have allocated the records that they keep.
                before = ALLOCATIONS.load(Ordering::Relaxed);
            }
        }
        assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), before);
    });
}

/// Waits once. The first wait of a thread allocates the record that the thread keeps. Whether a later
/// operation has to wait is a matter of chance.
fn wait_once() {
    let (_sender, receiver) = bounded::<()>(1);
    assert_eq!(receiver.recv_timeout(Duration::from_millis(1)), Err(RecvTimeoutError::Timeout));
}
