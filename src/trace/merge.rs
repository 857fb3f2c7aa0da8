//! Merging the logs: hands the events of the [`Inbox`] to the [`Model`] in the order of their times. An event
//! that does not fit the model's state waits until what led to it has come.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::inbox::Inbox;
use super::model::Model;

/// An event waits this long (ns) for what led to it, before the model makes up for it.
const PATIENCE: u64 = 200_000_000;

pub(super) struct Merge {
    pub(super) inbox: Inbox,
    pub(super) model: Model,
}

impl Merge {
    /// A merge for a trace that begins at `now` (ns).
    pub(super) fn new(now: u64) -> Merge {
        Merge { inbox: Inbox::default(), model: Model::new(now) }
    }

    /// Hands events up to the time `horizon` (ns) to the model. True: the generation has `most` bytes, and
    /// there may be more events.
    pub(super) fn process(&mut self, horizon: u64, most: usize) -> bool {
        let mut heads: BinaryHeap<Reverse<(u64, u32)>> = self.inbox.heads().map(Reverse).collect();
        let mut waiting: Vec<(u64, u32)> = Vec::new();
        while self.model.generation.len() < most {
            let Some(Reverse((time, log))) = heads.pop().filter(|Reverse((time, _))| *time <= horizon) else {
                // Nothing else is possible. An event that has waited too long, or the oldest at the end, is
                // written all the same.
                let oldest = waiting.iter().copied().min();
                match oldest {
                    Some((time, log)) if time.saturating_add(PATIENCE) <= horizon => {
                        self.apply_head(log);
                        heads = self.inbox.heads().map(Reverse).collect();
                        waiting.clear();
                        continue;
                    }
                    _ => return false,
                }
            };
            if !self.inbox.head(log).is_some_and(|event| self.model.is_possible(log, event)) {
                waiting.push((time, log));
                continue;
            }
            self.apply_head(log);
            heads.extend(waiting.drain(..).map(Reverse));
            heads.extend(self.inbox.head(log).map(|event| Reverse((event.time, log))));
        }
        true
    }

    fn apply_head(&mut self, log: u32) {
        if let Some(event) = self.inbox.pop(log) {
            self.model.apply(log, &event);
        }
    }
}
