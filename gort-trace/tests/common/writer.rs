//! Writes made-up traces: batches of events that the test names one by one.

/// Numbers of events, as Go's format has them.
pub(crate) mod ev {
    pub(crate) const PROC_START: u8 = 10;
    pub(crate) const PROC_STOP: u8 = 11;
    pub(crate) const PROC_STEAL: u8 = 12;
    pub(crate) const PROC_STATUS: u8 = 13;
    pub(crate) const GO_CREATE: u8 = 14;
    pub(crate) const GO_START: u8 = 16;
    pub(crate) const GO_DESTROY: u8 = 17;
    pub(crate) const GO_STOP: u8 = 19;
    pub(crate) const GO_BLOCK: u8 = 20;
    pub(crate) const GO_UNBLOCK: u8 = 21;
    pub(crate) const GO_SYSCALL_BEGIN: u8 = 22;
    pub(crate) const GO_SYSCALL_END: u8 = 23;
    pub(crate) const GO_SYSCALL_END_BLOCKED: u8 = 24;
    pub(crate) const GO_STATUS: u8 = 25;
    pub(crate) const GO_LABEL: u8 = 39;
    pub(crate) const TASK_BEGIN: u8 = 40;
    pub(crate) const TASK_END: u8 = 41;
    pub(crate) const REGION_BEGIN: u8 = 42;
    pub(crate) const REGION_END: u8 = 43;
}

/// Statuses of goroutines and Ps.
pub(crate) mod status {
    pub(crate) const G_RUNNABLE: u64 = 1;
    pub(crate) const G_RUNNING: u64 = 2;
    pub(crate) const G_SYSCALL: u64 = 3;
    pub(crate) const G_WAITING: u64 = 4;
    pub(crate) const P_RUNNING: u64 = 1;
    pub(crate) const P_IDLE: u64 = 2;
}

/// An event: its kind, its time, its other arguments.
pub(crate) type Event = (u8, u64, Vec<u64>);

/// An event at a time of the trace, in nanoseconds.
pub(crate) fn at(time: u64, kind: u8, args: &[u64]) -> Event {
    (kind, time, args.to_vec())
}

pub(crate) fn number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A file that grows.
pub(crate) struct File(pub(crate) Vec<u8>);

impl File {
    pub(crate) fn new() -> File {
        File(b"go 1.26 trace\0\0\0".to_vec())
    }

    /// A batch with this content.
    pub(crate) fn raw(&mut self, generation: u64, m: u64, time: u64, data: &[u8]) -> &mut File {
        self.0.push(1);
        [generation, m, time, data.len() as u64].into_iter().for_each(|value| number(&mut self.0, value));
        self.0.extend_from_slice(data);
        self
    }

    /// The events of an M.
    pub(crate) fn events(&mut self, generation: u64, m: u64, events: &[Event]) -> &mut File {
        let start = events.first().map_or(0, |event| event.1);
        let (mut data, mut now) = (Vec::new(), start);
        for (kind, time, args) in events {
            data.push(*kind);
            number(&mut data, time - now);
            now = *time;
            args.iter().for_each(|&value| number(&mut data, value));
        }
        self.raw(generation, m, start, &data)
    }

    /// Strings with the ids 1, 2, …
    pub(crate) fn strings(&mut self, generation: u64, strings: &[&str]) -> &mut File {
        let mut data = vec![4];
        for (id, text) in (1..).zip(strings) {
            data.push(5);
            number(&mut data, id);
            number(&mut data, text.len() as u64);
            data.extend_from_slice(text.as_bytes());
        }
        self.raw(generation, u64::MAX, 0, &data)
    }

    /// Stacks with the ids `first`, `first + 1`, …; a frame is a function, a file and a line, the first two
    /// as ids of strings.
    pub(crate) fn stacks(&mut self, generation: u64, first: u64, stacks: &[&[[u64; 3]]]) -> &mut File {
        let mut data = vec![2];
        for (id, stack) in (first..).zip(stacks) {
            data.push(3);
            number(&mut data, id);
            number(&mut data, stack.len() as u64);
            for frame in *stack {
                number(&mut data, 0x1000);
                frame.iter().for_each(|&value| number(&mut data, value));
            }
        }
        self.raw(generation, u64::MAX, 0, &data)
    }

    /// The clock, whose unit is a nanosecond, and the end of the generation.
    pub(crate) fn end(&mut self, generation: u64) -> &mut File {
        let mut data = vec![50, 8];
        number(&mut data, 1_000_000_000);
        data.push(51);
        [0, 0, 1_700_000_000, 0].into_iter().for_each(|value| number(&mut data, value));
        self.raw(generation, u64::MAX, 0, &data);
        self.0.push(52);
        self
    }
}
