//! Constants for the signals, and their names for printing.

use std::fmt;

use super::Signal;

macro_rules! names {
    ($($name:ident $what:literal,)*) => {
        $(#[doc = $what] pub const $name: Signal = Signal(libc::$name);)*

        impl fmt::Display for Signal {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.0 {
                    $(libc::$name => f.pad(stringify!($name)),)*
                    number => write!(f, "signal {number}"),
                }
            }
        }
    };
}

names! {
    SIGHUP "The terminal is gone. By convention, a daemon reads its configuration again.",
    SIGINT "Ctrl-C.",
    SIGQUIT "Ctrl-\\. Without [`notify`](super::notify), gort prints all goroutines and ends the process.",
    SIGILL "A bad instruction. Cannot be notified.",
    SIGTRAP "A breakpoint.",
    SIGABRT "`abort` was called.",
    SIGBUS "A bad memory access. Cannot be notified.",
    SIGFPE "An arithmetic error, such as division by zero. Cannot be notified.",
    SIGKILL "Ends the process at once. Cannot be notified.",
    SIGUSR1 "For the program's own use.",
    SIGSEGV "A bad memory access. Cannot be notified.",
    SIGUSR2 "For the program's own use.",
    SIGPIPE "A write to a pipe or socket that has no reader any more. Rust programs ignore it.",
    SIGALRM "A timer of `alarm` fired.",
    SIGTERM "The process should end.",
    SIGCHLD "A child process has ended or stopped.",
    SIGCONT "The process was stopped and goes on.",
    SIGSTOP "Stops the process. Cannot be notified.",
    SIGTSTP "Ctrl-Z.",
    SIGTTIN "A background process reads from its terminal.",
    SIGTTOU "A background process writes to its terminal.",
    SIGURG "Urgent data has arrived. gort uses it for preemption, so it cannot be notified.",
    SIGXCPU "The CPU time limit is reached.",
    SIGXFSZ "The file size limit is reached.",
    SIGVTALRM "A timer that counts CPU time fired.",
    SIGPROF "A profiling timer fired.",
    SIGWINCH "The terminal's size has changed.",
    SIGIO "I/O is possible.",
    SIGPWR "The power is failing.",
    SIGSYS "A bad system call.",
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
