//! Descriptors of code that knows nothing of gort: waiting until one is ready (`wait.rs`), and what is known
//! of their numbers (`record.rs`).
//!
//! gort does not see every open, close and dup: some bypass libc's functions, or happen inside of libc. So
//! each wait verifies its state anew. It goes like this:
//!
//! 1. The attempt, which does not block, said that the call would block. O_NONBLOCK is not set.
//! 2. The call joins the users of this descriptor number (`User`) and takes the turn of its direction.
//! 3. It publishes itself in the poll word of the number's record, and then tells epoll to watch the number
//!    for the directions in which calls wait. epoll compares number and open file: if it does not know them
//!    together, they are added. If the descriptor is ready already, there is an edge at once. So between the
//!    attempt and the wait nothing is lost, and a reused number is watched anew.
//! 4. It parks, makes its attempt again, and goes on with 3 if that would block.
//!
//! An edge of an earlier open file of the same number wakes a waiter in vain, and does no other harm.
//!
//! **Closing.** With threads, a waiting call keeps using the open file after another thread closes the
//! number. So `close` and its kin (`close.rs`) duplicate a descriptor that has users (`users.rs`), let the
//! users go on with the duplicate, close the number, and wake the users. The last one closes the duplicate. A
//! close_range may close the duplicate, too: then they move on to another. A user that comes between the look
//! at the users and the close is woken after it, and its attempt fails with EBADF, as that of a thread which
//! called later. Where there can be no duplicate (the process has no number left, or a signal handler
//! closes), the users of that moment are outdated: their calls fail with EBADF.
//!
//! **False readiness.** epoll reports ready, but the call would still block: a datagram for a full socket, an
//! exceptional condition that poll does not know. A call that was woken twice in vain although the descriptor
//! is ready is made in a marked section, where it blocks its thread.

mod close;
mod kind;
mod known;
mod limited;
mod record;
mod trust;
mod users;
mod wait;

pub(super) use self::close::{PAIRS as CLOSE_PAIRS, close, close_quietly, close_range, dup2, dup3};
pub(super) use self::kind::{Kind, is_internet, socket_option, terminal_settings};
pub(super) use self::record::Descriptor;
pub(super) use self::trust::{
    PAIRS as TRUST_PAIRS, begin, call_made, command_given, is_new, message_passed, messages_passed,
    wait_limit,
};
pub(crate) use self::trust::{others_watch, watch_changed};
pub(super) use self::wait::{Mode, if_ready, is_ready, wait_for};
