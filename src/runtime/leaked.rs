//! Finding leaked goroutines: those that wait forever.

use std::collections::HashSet;

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
/// receiving from channels, selects of up to 16 cases, wait groups, joining a goroutine that waits forever
/// itself, and waiting for a lock that such a goroutine holds. (Of the locks that a goroutine holds for
/// reading, four at a time are known; those of shared-TLS goroutines are not.)
///
/// Every goroutine in the result does wait forever, in safe code that keeps its handles at aligned addresses
/// and forgets no guards. But the result may lack some: memory is searched word by word, and a word that is
/// no longer used, or that only looks like the address of a channel, counts as well; so does everything on
/// the heap, even if only a leaked goroutine can reach it. In particular, the function that started leaked
/// goroutines in a loop may have the handles of the last one in its frame until it returns. A goroutine that
/// is missed once is often found later, when memory was used for something else.
///
/// A signal stops all threads of the process for the search: for some milliseconds for each 10 MB of memory
/// in use. The result is `None` if the search was not possible: if a thread cannot be stopped (it blocks the
/// signal, or is in a system call that would fail with `EINTR`, or its goroutine is preempted by a signal),
/// if there is not enough memory, or if [`Config`](super::Config) has switched signals off.
#[must_use]
pub fn leaked() -> Option<Dump> {
    let ids: HashSet<u64> = leak::find()?.into_iter().collect();
    let mut dump = if ids.is_empty() { Dump::default() } else { Dump::take(false) };
    dump.keep(|goroutine| ids.contains(&goroutine.id()));
    Some(dump)
}
