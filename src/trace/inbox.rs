//! Events as the logs hold them, put together from their records and queued by log.

use std::collections::{BTreeMap, VecDeque};
use std::panic::Location;

use crate::sched::event::record::{Kind, Record, VALUE};

/// What an event's details say.
#[derive(Default)]
pub(super) struct Details {
    pub(super) site: Option<&'static Location<'static>>,
    pub(super) function: Option<&'static str>,
    pub(super) texts: Vec<String>,
    pub(super) frames: Vec<usize>,
    pub(super) task: u64,
    /// A part of the next text.
    text: Vec<u8>,
}

impl Details {
    /// Adds a detail. False: it is no detail, or only fills a place.
    pub(super) fn add(&mut self, record: Record) -> bool {
        match record.kind() {
            Kind::Site => {
                // SAFETY: the writers of this kind, all in `sched/event/`, pass the address of a static
                // Location, or 0.
                self.site = unsafe { (record.second as *const Location<'static>).as_ref() };
            }
            Kind::Function => {
                let length = record.value() as usize;
                // SAFETY: `New::records` wrote address and length of a static str.
                let bytes = unsafe { std::slice::from_raw_parts(record.second as *const u8, length) };
                self.function = std::str::from_utf8(bytes).ok();
            }
            Kind::Text => {
                let (bytes, length) = record.text_bytes();
                self.text.extend_from_slice(&bytes[..length]);
            }
            Kind::TextEnd => {
                self.texts.push(String::from_utf8_lossy(&self.text).into_owned());
                self.text.clear();
            }
            Kind::Frame => self.frames.push(record.second as usize),
            Kind::Task => self.task = record.second,
            _ => return false,
        }
        true
    }
}

/// An event of a log.
pub(super) struct Event {
    pub(super) time: u64,
    pub(super) kind: Kind,
    /// The reason of a wait.
    pub(super) reason: u8,
    /// How deep the goroutine's stack was, in units of 16 bytes, modulo 2^16.
    pub(super) depth: u16,
    /// A goroutine, a P, a task, or an M and a P.
    pub(super) subject: u64,
    pub(super) details: Option<Box<Details>>,
}

impl Event {
    /// The M and the P of `Steal` and `Detach`.
    pub(super) fn m_and_p(&self) -> (u32, u32) {
        ((self.subject >> 32) as u32, self.subject as u32)
    }
}

/// The events of one log that were not processed yet, and details of the next one.
#[derive(Default)]
struct Queue {
    events: VecDeque<Event>,
    details: Option<Box<Details>>,
}

/// The queues of all logs.
#[derive(Default)]
pub(super) struct Inbox {
    queues: BTreeMap<u32, Queue>,
}

impl Inbox {
    /// Adds the next record of a log. `now` (ns) is about the present.
    pub(super) fn add(&mut self, log: u32, record: Record, now: u64) {
        let queue = self.queues.entry(log).or_default();
        let kind = record.kind();
        match kind {
            Kind::Pad => {}
            _ if record.is_detail() => {
                queue.details.get_or_insert_default().add(record);
            }
            _ => {
                let of_goroutine = matches!(
                    kind,
                    Kind::Wait
                        | Kind::Unblock
                        | Kind::Yield
                        | Kind::Preempt
                        | Kind::End
                        | Kind::CallBegin
                        | Kind::CallEndWithoutP
                );
                let (subject, depth) = match of_goroutine {
                    true => (record.second & VALUE, (record.second >> 48) as u16),
                    false => (record.second, 0),
                };
                let details = queue.details.take();
                let time = record.time(now);
                queue.events.push_back(Event { time, kind, reason: record.extra(), depth, subject, details });
            }
        }
    }

    /// The logs that have events, with the time of the first one.
    pub(super) fn heads(&self) -> impl Iterator<Item = (u64, u32)> {
        self.queues.iter().filter_map(|(&log, queue)| Some((queue.events.front()?.time, log)))
    }

    /// The next event of a log.
    pub(super) fn head(&self, log: u32) -> Option<&Event> {
        self.queues.get(&log)?.events.front()
    }

    pub(super) fn pop(&mut self, log: u32) -> Option<Event> {
        self.queues.get_mut(&log)?.events.pop_front()
    }

    /// All events, by log and in order.
    pub(super) fn all(&self) -> impl Iterator<Item = (u32, &Event)> {
        self.queues.iter().flat_map(|(&log, queue)| queue.events.iter().map(move |event| (log, event)))
    }

    /// Forgets all events before `time` (ns), of all logs.
    pub(super) fn forget_before(&mut self, time: u64) {
        for queue in self.queues.values_mut() {
            queue.events.retain(|event| event.time >= time);
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.queues.clear();
    }
}
