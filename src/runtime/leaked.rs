//! Goroutines that wait for ever.

use std::collections::HashSet;

use super::Dump;
use crate::diag::leak;

/// The goroutines that wait for ever: whatever could end their wait cannot be reached any more, by anybody.
///
/// ```
/// // Each waits for the other, and nobody else has the senders.
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
/// These waits are understood, if they have no timeout and no context limits them: to send to and to receive
/// from channels, selects of up to 16 cases, wait groups, and joining a goroutine that waits for ever itself
/// or waiting for a lock that it holds (of locks that it reads, four at a time are known, and those of
/// shared-TLS goroutines are not).
///
/// What is listed does wait for ever, in safe code that keeps its handles at aligned addresses and forgets no
/// guards. Not everything that does is listed: memory is searched word by word, and a word that is no longer
/// used, or only looks like the address of a channel, counts as well; so does whatever lies on the heap, even
/// if only a leaked goroutine can reach it. What is missed once is often found later, when memory was used
/// for something else.
///
/// All threads of the process are stopped for the search, by a signal: for some milliseconds for each 10 MB
/// of memory in use. If one of them cannot be stopped (it blocks the signal, or is in a system call that
/// would fail with `EINTR`, or a signal has stopped its goroutine because others want to run), if there is no
/// memory for it, or if [`Config`](super::Config) has switched signals off, nothing can be said: `None`.
#[must_use]
pub fn leaked() -> Option<Dump> {
    let ids: HashSet<u64> = leak::find()?.into_iter().collect();
    let mut dump = if ids.is_empty() { Dump::default() } else { Dump::take(false) };
    dump.keep(|goroutine| ids.contains(&goroutine.id()));
    Some(dump)
}
