//! Lets the goroutine of a `#[gort::test]` print to where the test harness collects the output of the test.
//!
//! The harness gives a test's thread a buffer, an `Arc` in a thread-local of std. `print!`, `eprint!` and
//! panic messages go there. A thread that this thread starts inherits a clone of the `Arc`, by way of another
//! `Arc` with hooks that it inherits as well. A goroutine has thread-locals of its own, and std has no stable
//! function for these. So the places of what threads inherit are found ([`find`]): they are the words of
//! static TLS that are zero in a new thread's image, that have the same address in the test's thread and in
//! two threads started by it, where the count at that address grew by one with each of them and is as before
//! when they have ended. The goroutine gets clones, as a thread would. If there is no such word, nothing is
//! captured.
//!
//! - O1. Such a word is an `Arc` or null; the strong count is the first word that it points to.
//! - O2. std gives the word up in the destructor of its thread-local, which the first use registers. A word
//!   that is not used stays behind: then its `Arc`, of which each test process has a few, is never freed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{OnceLock, mpsc};

use super::block;
use crate::arch;
use crate::sys::inspect;

/// The offsets of the words from the thread pointer.
static PLACES: OnceLock<Vec<isize>> = OnceLock::new();

/// What a thread would inherit from the calling test: the places and clones.
pub(crate) struct Capture(Vec<(isize, usize)>);

impl Capture {
    /// Clones of what the calling thread has, which runs no goroutine.
    pub(crate) fn of_this_thread() -> Capture {
        let clone = |&place: &isize| {
            let shared = word(place);
            // SAFETY: O1, and the thread keeps its own count meanwhile.
            let count = unsafe { (shared as *const AtomicUsize).as_ref() }?;
            count.fetch_add(1, Ordering::Relaxed);
            Some((place, shared))
        };
        Capture(PLACES.get_or_init(|| find().unwrap_or_default()).iter().filter_map(clone).collect())
    }

    /// Lets the calling goroutine, which has a private block and has done nothing yet, inherit the clones.
    pub(crate) fn install(self) {
        for (place, shared) in self.0 {
            if word(place) == 0 {
                let address = arch::thread_pointer().wrapping_add_signed(place) as *mut usize;
                // SAFETY: the thread-local is this goroutine's, is not in use, and gets the clone's count
                // (O1).
                unsafe { address.write(shared) };
            }
        }
        print!(""); // the first use of the buffer: now its destructor is registered (O2)
    }
}

/// Whether the caller's output is captured.
pub(crate) fn is_active() -> bool {
    PLACES.get().is_some_and(|places| places.iter().any(|&place| word(place) != 0))
}

fn word(place: isize) -> usize {
    // SAFETY: a word of static TLS, which all threads and blocks have at the same offset.
    unsafe { *(arch::thread_pointer().wrapping_add_signed(place) as *const usize) }
}

/// The offsets of all words of static TLS that are zero in a new thread.
fn zero_words() -> Vec<isize> {
    let Ok(layout) = block::layout() else { return Vec::new() };
    let modules = layout.modules.iter().filter(|module| !module.is_libc);
    let of_module = |module: &super::layout::Module| {
        let start = -(module.offset as isize);
        let zeroed = (start + module.image_size as isize + 7) & !7;
        (zeroed..start + module.size as isize - 7).step_by(size_of::<usize>())
    };
    modules.flat_map(of_module).collect()
}

/// Finds the places. `None`: no thread could be started. The calling thread has started no thread yet that
/// may end meanwhile.
fn find() -> Option<Vec<isize>> {
    let places = zero_words();
    let words = || places.iter().map(|&place| word(place)).collect::<Vec<usize>>();
    let own = words();
    let counts = |own: &[usize]| own.iter().map(|&word| inspect::word_at(word)).collect::<Vec<_>>();
    let before = counts(&own);
    let (first, second, one, two) = std::thread::scope(|scope| {
        let start = || {
            let ((tell, told), (end, ended)) = (mpsc::channel(), mpsc::channel::<()>());
            let words = &words;
            let started = std::thread::Builder::new().spawn_scoped(scope, move || {
                let _asker_waits = tell.send(words());
                let _asker_is_done = ended.recv();
            });
            Some((started.ok()?, told.recv().ok()?, end))
        };
        let (thread, first, end) = start()?;
        let one = counts(&own);
        let (other, second, end_too) = start()?;
        let two = counts(&own);
        drop((end, end_too));
        // When they have been joined, they have given up their shares.
        thread.join().and(other.join()).ok()?;
        Some((first, second, one, two))
    })?;
    let after = counts(&own);
    let inherited = |&i: &usize| {
        let same = own[i] != 0 && own[i] == first[i] && own[i] == second[i];
        let counted = before[i].is_some_and(|n| {
            n != 0 && n < 1 << 20 && one[i] == Some(n + 1) && two[i] == Some(n + 2) && after[i] == Some(n)
        });
        same && counted
    };
    Some((0..places.len()).filter(inherited).map(|i| places[i]).collect())
}
