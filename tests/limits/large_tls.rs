//! A program whose thread-locals are larger than a goroutine's usual slot.

use std::cell::Cell;

thread_local! {
    static LARGE: [Cell<u8>; 300 << 10] = const { [const { Cell::new(0) }; 300 << 10] };
}

fn touch(value: u8) {
    LARGE.with(|large| large.iter().step_by(1000).for_each(|cell| cell.set(value)));
    gort::yield_now();
    LARGE.with(|large| assert!(large.iter().step_by(1000).all(|cell| cell.get() == value)));
}

/// Uses this number of bytes of stack.
fn use_stack(bytes: usize) -> u8 {
    fn down_to(end: usize) -> u8 {
        let piece = std::hint::black_box([1u8; 256]);
        if piece.as_ptr() as usize <= end { piece[0] } else { piece[1].min(down_to(end)) }
    }
    let here = 0u8;
    down_to(std::ptr::from_ref(&here) as usize - bytes)
}

#[test]
fn large_thread_locals_leave_room_for_the_stack() {
    let goroutines: Vec<_> = (0..20)
        .map(|n| {
            gort::spawn(move || {
                touch(n);
                use_stack(150 << 10)
            })
        })
        .collect();
    assert!(goroutines.into_iter().all(|handle| handle.join().unwrap() == 1));
    let shared: Vec<_> = (0..20)
        .map(|_| {
            // SAFETY: it uses no thread-local.
            unsafe { gort::Builder::new().spawn_shared_tls(|| use_stack(30 << 10)) }.unwrap()
        })
        .collect();
    assert!(shared.into_iter().all(|handle| handle.join().unwrap() == 1));
    gort::Builder::new().stack_size(1 << 20).spawn(|| use_stack(800 << 10)).unwrap().join().unwrap();
}
