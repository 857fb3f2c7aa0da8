//! The states of a goroutine, and who owns its stack in each; see the diagram in ARCHITECTURE.md.

/// What a goroutine does right now. Dumps and statistics read it. It synchronises nothing: ownership passes
/// through queues and park words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Status {
    /// In a run queue: the queue owns it.
    Runnable,
    /// On an M with a P, running user code or the runtime: that M owns it.
    Running,
    /// On an M, in a blocking call; the M may have lost its P.
    Syscall,
    /// No M runs it; the stack belongs to the waker that will ready it.
    Waiting,
    /// Stopped by a signal, still on its M, waiting for a P.
    Preempted,
    /// Ended or never used: a cache owns it.
    Dead,
}

impl Status {
    pub(crate) fn from_u8(value: u8) -> Status {
        const ALL: [Status; 6] = [
            Status::Runnable,
            Status::Running,
            Status::Syscall,
            Status::Waiting,
            Status::Preempted,
            Status::Dead,
        ];
        ALL[value as usize]
    }

    /// Go's word for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Status::Runnable => "runnable",
            Status::Running => "running",
            Status::Syscall => "syscall",
            Status::Waiting => "waiting",
            Status::Preempted => "preempted",
            Status::Dead => "dead",
        }
    }
}
