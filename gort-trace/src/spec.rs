//! The events of the format: number on the wire, name, and how many arguments follow the time.

/// A kind of event that an M emits, as its number on the wire.
pub(crate) type Kind = u8;

/// The most arguments that an event has after its time.
pub(crate) const MAX_ARGS: usize = 4;

// Events that structure the file. They have no time.
pub(crate) const EVENT_BATCH: Kind = 1;
pub(crate) const STACKS: Kind = 2;
pub(crate) const STACK: Kind = 3;
pub(crate) const STRINGS: Kind = 4;
pub(crate) const STRING: Kind = 5;
pub(crate) const CPU_SAMPLES: Kind = 6;
pub(crate) const CPU_SAMPLE: Kind = 7;
pub(crate) const FREQUENCY: Kind = 8;
pub(crate) const EXPERIMENTAL_BATCH: Kind = 49;
pub(crate) const SYNC: Kind = 50;
pub(crate) const CLOCK_SNAPSHOT: Kind = 51;
pub(crate) const END_OF_GENERATION: Kind = 52;

/// A batch has at most this many bytes.
pub(crate) const MAX_BATCH: u64 = 64 << 10;
/// A stack has at most this many frames.
pub(crate) const MAX_FRAMES: u64 = 128;
/// A string has at most this many bytes.
pub(crate) const MAX_STRING: u64 = 1 << 10;
/// The id of an M that means "no thread".
pub(crate) const NO_M: u64 = u64::MAX;

macro_rules! timed_events {
    ($($constant:ident = $number:literal $name:literal $arguments:literal;)*) => {
        $(pub(crate) const $constant: Kind = $number;)*

        /// The name of an event with a time, and how many arguments follow the time.
        pub(crate) fn timed(kind: Kind) -> Option<(&'static str, usize)> {
            match kind {
                $($constant => Some(($name, $arguments)),)*
                // Experiments: heap spans, heap objects, goroutine stacks.
                128 | 129 => Some(("Span", 3)),
                131 | 132 => Some(("HeapObject", 2)),
                134 | 135 => Some(("GoroutineStack", 2)),
                130 | 133 | 136 => Some(("Free", 1)),
                _ => None,
            }
        }
    };
}

timed_events! {
    PROCS_CHANGE = 9 "ProcsChange" 2;
    PROC_START = 10 "ProcStart" 2;
    PROC_STOP = 11 "ProcStop" 0;
    PROC_STEAL = 12 "ProcSteal" 3;
    PROC_STATUS = 13 "ProcStatus" 2;
    GO_CREATE = 14 "GoCreate" 3;
    GO_CREATE_SYSCALL = 15 "GoCreateSyscall" 1;
    GO_START = 16 "GoStart" 2;
    GO_DESTROY = 17 "GoDestroy" 0;
    GO_DESTROY_SYSCALL = 18 "GoDestroySyscall" 0;
    GO_STOP = 19 "GoStop" 2;
    GO_BLOCK = 20 "GoBlock" 2;
    GO_UNBLOCK = 21 "GoUnblock" 3;
    GO_SYSCALL_BEGIN = 22 "GoSyscallBegin" 2;
    GO_SYSCALL_END = 23 "GoSyscallEnd" 0;
    GO_SYSCALL_END_BLOCKED = 24 "GoSyscallEndBlocked" 0;
    GO_STATUS = 25 "GoStatus" 3;
    STW_BEGIN = 26 "STWBegin" 2;
    STW_END = 27 "STWEnd" 0;
    GC_ACTIVE = 28 "GCActive" 1;
    GC_BEGIN = 29 "GCBegin" 2;
    GC_END = 30 "GCEnd" 1;
    GC_SWEEP_ACTIVE = 31 "GCSweepActive" 1;
    GC_SWEEP_BEGIN = 32 "GCSweepBegin" 1;
    GC_SWEEP_END = 33 "GCSweepEnd" 2;
    GC_MARK_ASSIST_ACTIVE = 34 "GCMarkAssistActive" 1;
    GC_MARK_ASSIST_BEGIN = 35 "GCMarkAssistBegin" 1;
    GC_MARK_ASSIST_END = 36 "GCMarkAssistEnd" 0;
    HEAP_ALLOC = 37 "HeapAlloc" 1;
    HEAP_GOAL = 38 "HeapGoal" 1;
    GO_LABEL = 39 "GoLabel" 1;
    USER_TASK_BEGIN = 40 "UserTaskBegin" 4;
    USER_TASK_END = 41 "UserTaskEnd" 2;
    USER_REGION_BEGIN = 42 "UserRegionBegin" 3;
    USER_REGION_END = 43 "UserRegionEnd" 3;
    USER_LOG = 44 "UserLog" 4;
    GO_SWITCH = 45 "GoSwitch" 2;
    GO_SWITCH_DESTROY = 46 "GoSwitchDestroy" 2;
    GO_CREATE_BLOCKED = 47 "GoCreateBlocked" 3;
    GO_STATUS_STACK = 48 "GoStatusStack" 4;
}

/// The name of an event, for messages.
pub(crate) fn name(kind: Kind) -> &'static str {
    timed(kind).map_or("an unknown event", |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_event_has_more_arguments_than_there_is_room_for() {
        let most = (0..=u8::MAX).filter_map(timed).map(|(_, arguments)| arguments).max();
        assert_eq!(most, Some(MAX_ARGS));
        assert_eq!((0..=u8::MAX).filter(|&kind| timed(kind).is_some()).count(), 40 + 9);
    }
}
