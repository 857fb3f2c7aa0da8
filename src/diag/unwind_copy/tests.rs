use std::ffi::{CStr, c_void};
use std::hint::black_box;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::arch;
use crate::diag::dump::unwind::{self, Frames};
use crate::sched::types::current::current;
use crate::sys::inspect;

/// The stack of the goroutine that calls this.
fn own_stack() -> Range<usize> {
    current().expect("in a goroutine").slot.stack()
}

fn copy(stack: Range<usize>) -> Vec<usize> {
    let mut words = vec![0; (stack.end - stack.start) / WORD];
    assert!(inspect::copy_memory(stack.start, &mut words));
    words
}

/// Walks the caller's stack both ways.
#[inline(never)]
fn compare(least: usize) {
    let registers = arch::own_registers();
    let words = copy(registers.sp()..own_stack().end);
    let mut system = Frames::new();
    unwind::here(own_stack(), &mut system);
    let own = frames(Words { words: &words, start: registers.sp() }, Place::stopped(&registers));
    // The first one is in this function: another instruction of it.
    let callers = &own[1..];
    assert!(callers.len() >= least, "{callers:x?}");
    assert!(system.as_slice().ends_with(callers), "{callers:x?} {:x?}", system.as_slice());
    assert_eq!(system.as_slice().len() - callers.len(), black_box(3), "begin, here, this function");
}

#[inline(never)]
fn nested(depth: usize, f: &dyn Fn()) -> usize {
    let room = black_box([depth; 20]);
    match depth {
        0 => f(),
        _ => {
            nested(depth - 1, f);
        }
    }
    black_box(room)[depth]
}

#[test]
fn the_walk_agrees_with_that_of_the_system() {
    crate::spawn(|| nested(10, &|| compare(15))).join().unwrap();
}

#[test]
fn the_walk_passes_the_frame_of_a_signal() {
    static SEEN: AtomicBool = AtomicBool::new(false);
    extern "C" fn handler(_: i32) {
        compare(15);
        SEEN.store(true, Ordering::Relaxed);
    }
    let raise = || {
        // SAFETY: the handler returns; it runs on the goroutine's stack, which has room.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as *const () as usize;
            assert_eq!(libc::sigaction(libc::SIGUSR2, &raw const action, std::ptr::null_mut()), 0);
            assert_eq!(libc::raise(libc::SIGUSR2), 0);
        }
    };
    crate::Builder::new().stack_size(1 << 20).spawn(move || nested(10, &raise)).unwrap().join().unwrap();
    assert!(SEEN.load(Ordering::Relaxed));
}

/// Any words and registers: nothing outside of the copy and the tables is read.
#[test]
fn a_walk_through_garbage_ends() {
    let mut random = StdRng::seed_from_u64(1);
    let code = [
        nested as *const () as usize,
        compare as *const () as usize,
        libc::read as *const () as usize,
        libc::abort as *const () as usize,
        libc::qsort as *const () as usize,
    ];
    let (mut tables, mut listed) = (Tables::new(), 0);
    for _ in 0..if cfg!(debug_assertions) { 2_000 } else { 50_000 } {
        let start = random.random_range(1..1 << 40) * ALIGNMENT;
        let mut word = || match random.random_range(0..6) {
            0 => random.random::<u64>() as usize,
            1 => random.random_range(0..4096),
            2 => start.wrapping_add(random.random_range(0..4096)),
            3 => usize::MAX - random.random_range(0..64),
            _ => code[random.random_range(0..code.len())] + random.random_range(0..64),
        };
        let words: Vec<usize> = (0..200).map(|_| word()).collect();
        let mut place = Place { registers: [(); REGISTER_COUNT].map(|()| Some(word())), exact: true };
        place.set(STACK_POINTER, Some(start));
        if word() % 2 == 0 {
            place.set(FRAME_POINTER, None);
        }
        listed += Walk::new(&mut tables, Words { words: &words, start }).frames(place).len();
    }
    assert!(black_box(listed) > 0);
}

/// What a walk finds that begins at the first instruction of `function`, which the code at `back` called.
fn called(function: usize, back: usize) -> Vec<usize> {
    let start = 1 << 20;
    frames(Words { words: &[back, 0], start }, Place::known(function, start))
}

/// A library, and the address of a function in it, which stays an address of it when it is loaded again, or
/// is one of nothing.
fn open(function: &CStr) -> (*mut c_void, usize) {
    // SAFETY: any library may be loaded, and asked for any name.
    unsafe {
        let library = libc::dlopen(c"libm.so.6".as_ptr(), libc::RTLD_NOW);
        assert!(!library.is_null());
        (library, libc::dlsym(library, function.as_ptr()) as usize)
    }
}

fn close(library: *mut c_void) {
    // SAFETY: it is open, and none of its functions is used.
    assert_eq!(unsafe { libc::dlclose(library) }, 0);
}

#[test]
fn libraries_are_found_when_they_are_loaded_and_may_go_while_a_walk_reads_their_tables() {
    let own = nested as *const () as usize + 8;
    assert_eq!(called(nested as *const () as usize, own).len(), 2, "the tables are there");
    let (library, function) = open(c"cbrt");
    assert_eq!(called(function, own), [function, own - 1], "the tables are read again");
    close(library);
    assert_eq!(called(function, own), [function], "the library is gone");
    static DONE: AtomicBool = AtomicBool::new(false);
    let load = std::thread::spawn(|| {
        for _ in 0..if cfg!(debug_assertions) { 300 } else { 2_000 } {
            close(open(c"cbrt").0);
        }
        DONE.store(true, Ordering::Relaxed);
    });
    while !DONE.load(Ordering::Relaxed) {
        let found = called(function, own);
        assert!(found.starts_with(&[function]) && found.len() <= 3, "{found:x?}");
        // As for a word of the stack that may be a return address.
        call_before(function, function + 8);
    }
    load.join().unwrap();
}
