//! Finding leaked goroutines: those that wait forever.

use super::Dump;
use crate::diag::leak;

/// The goroutines that wait forever: nothing that could end their wait is reachable any more.
///
/// ```
/// // Each waits for the other, and no one else has the senders.
/// fn forget() {
///     let (ask, questions) = gort::chan::bounded::<u32>(0);
///     let (answer, answers) = gort::chan::bounded::<u32>(0);
///     gort::spawn(move || questions.recv().map(|n| answer.send(n)));
///     gort::spawn(move || answers.recv().map(|n| ask.send(n)));
/// }
/// gort::spawn(forget).join().unwrap();
/// let leaked = gort::runtime::leaked().expect("the search was possible");
/// for goroutine in leaked.goroutines() {
///     println!("{} since {:?}: {}", goroutine.id(), goroutine.waiting_for(), goroutine.state());
/// }
/// ```
///
/// The search understands these waits, if they have no timeout and no context limits them: sending to and
/// receiving from channels, selects of up to 16 cases, contexts, wait groups, condition variables on the
/// heap, joining a goroutine that waits forever itself, and waiting for a lock (or a `Once`) that such a
/// goroutine holds, or that a goroutine held when it ended. (Of the locks that a goroutine holds for reading,
/// four at a time are known, until it ends; those of shared-TLS goroutines are not.)
///
/// Every goroutine in the result does wait forever, in safe code that keeps its handles at aligned addresses
/// and forgets no guards. Unsafe code must not hide pointers to blocks of the heap that contain handles, as
/// for any garbage collector: in the upper bits of words, in the kernel only, or in files.
///
/// But the result may lack some: memory is searched word by word, and a word that is no longer used, or that
/// only looks like an address, counts as well. In particular, the function that started leaked goroutines in
/// a loop may have the handles of the last one in its frame until it returns. A goroutine that is missed once
/// is often found later, when memory was used for something else. Handles on the heap count only if their
/// block can be reached, if the program's `malloc` is glibc's and the block has less than 16 KiB.
///
/// A signal stops all threads of the process for the search: for some milliseconds for each 10 MB of memory
/// in use. The result is `None` if the search was not possible: if a thread cannot be stopped (it blocks the
/// signal, or is in a system call that would fail with `EINTR`, or its goroutine is preempted by a signal),
/// if there is not enough memory, or if [`Config`](super::Config) has switched signals off.
#[must_use]
pub fn leaked() -> Option<Dump> {
    leak::dump()
}
