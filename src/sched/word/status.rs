//! What a goroutine does: its status, which says who owns its stack (see the diagram in ARCHITECTURE.md), and
//! why it waits, if it does.

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
    /// Stopped by a signal: the queue of preempted goroutines owns it, or its M, which waits for a P with it.
    Preempted,
    /// Ended or never used: a cache owns it.
    Dead,
}

impl Status {
    /// How many there are.
    pub(crate) const COUNT: usize = Status::Dead as usize + 1;

    pub(crate) const fn from_u8(value: u8) -> Status {
        const ALL: [Status; Status::COUNT] = [
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
    pub(crate) const fn name(self) -> &'static str {
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

/// What a parked goroutine waits for. The names are Go's where Go has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum WaitReason {
    Join,
    ChanSend,
    ChanReceive,
    Select,
    SelectNoCases,
    Mutex,
    RwLockRead,
    RwLockWrite,
    Condvar,
    Once,
    Barrier,
    WaitGroup,
    Semaphore,
    Group,
    Sleep,
    Scope,
    Context,
    Future,
    IoRead,
    IoWrite,
    TimerService,
    Crew,
    Bubble,
    /// On a futex, in code that waits by system calls of its own (`transparent/`).
    Futex,
    /// For a pending fork, as a helper of `join`.
    ForkHelper,
}

impl WaitReason {
    /// How many there are.
    pub(crate) const COUNT: usize = WaitReason::ForkHelper as usize + 1;

    /// Whether the netpoller ends the wait.
    pub(crate) fn is_io(self) -> bool {
        matches!(self, WaitReason::IoRead | WaitReason::IoWrite)
    }

    /// Whether a timer or the netpoller ends the wait, also for the runtime's own goroutines.
    pub(crate) fn is_for_time_or_io(self) -> bool {
        self.is_io() || matches!(self, WaitReason::Sleep | WaitReason::TimerService | WaitReason::Crew)
    }

    /// The text of dumps and traces.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            WaitReason::Join => "join",
            WaitReason::ChanSend => "chan send",
            WaitReason::ChanReceive => "chan receive",
            WaitReason::Select => "select",
            WaitReason::SelectNoCases => "select (no cases)",
            WaitReason::Mutex => "sync.Mutex.Lock",
            WaitReason::RwLockRead => "sync.RWMutex.RLock",
            WaitReason::RwLockWrite => "sync.RWMutex.Lock",
            WaitReason::Condvar => "sync.Cond.Wait",
            WaitReason::Once => "sync.Once.Do",
            WaitReason::Barrier => "barrier wait",
            WaitReason::WaitGroup => "sync.WaitGroup.Wait",
            WaitReason::Semaphore => "semacquire",
            WaitReason::Group => "group wait",
            WaitReason::Sleep => "sleep",
            WaitReason::Scope => "scope wait",
            WaitReason::Context => "context wait",
            WaitReason::Future => "future wait",
            WaitReason::IoRead => "IO wait (read)",
            WaitReason::IoWrite => "IO wait (write)",
            WaitReason::TimerService => "timer goroutine (idle)",
            WaitReason::Crew => "future goroutine (idle)",
            WaitReason::Bubble => "bubble wait",
            WaitReason::Futex => "sync (futex)",
            WaitReason::ForkHelper => "fork goroutine (idle)",
        }
    }

    /// From the number that a G stores.
    pub(crate) const fn from_u8(value: u8) -> WaitReason {
        const ALL: [WaitReason; WaitReason::COUNT] = [
            WaitReason::Join,
            WaitReason::ChanSend,
            WaitReason::ChanReceive,
            WaitReason::Select,
            WaitReason::SelectNoCases,
            WaitReason::Mutex,
            WaitReason::RwLockRead,
            WaitReason::RwLockWrite,
            WaitReason::Condvar,
            WaitReason::Once,
            WaitReason::Barrier,
            WaitReason::WaitGroup,
            WaitReason::Semaphore,
            WaitReason::Group,
            WaitReason::Sleep,
            WaitReason::Scope,
            WaitReason::Context,
            WaitReason::Future,
            WaitReason::IoRead,
            WaitReason::IoWrite,
            WaitReason::TimerService,
            WaitReason::Crew,
            WaitReason::Bubble,
            WaitReason::Futex,
            WaitReason::ForkHelper,
        ];
        ALL[value as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::WaitReason;

    #[test]
    fn numbers_and_reasons_agree() {
        for value in 0..=WaitReason::ForkHelper as u8 {
            assert_eq!(WaitReason::from_u8(value) as u8, value);
        }
    }
}
