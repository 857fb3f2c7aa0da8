//! What the flight recorder remembers of events that it has dropped, so that a snapshot has names, functions
//! and stacks for goroutines whose beginning it does not have. Each table has a limit; what comes after that
//! is not remembered.

use std::collections::{HashMap, HashSet};
use std::panic::Location;
use std::sync::Arc;

use super::window::Block;
use crate::sched::event::record::{Kind, VALUE};
use crate::sched::types::g::G;
use crate::trace::generation::Stack;
use crate::trace::inbox::Details;
use crate::trace::model::Path;

/// The most names, and the most stacks.
const MOST_NAMES: usize = 16_384;
const MOST_STACKS: usize = 4_096;
/// If most names are those of living goroutines, this many find no room before the next look.
const CLEAN_EVERY: usize = 4_096;

/// It is copied for each snapshot.
#[derive(Clone, Default)]
pub(in crate::trace) struct Memory {
    /// By the address of the place where a goroutine was made: the function that it runs. There are as many
    /// as the program has such places.
    functions: HashMap<usize, &'static str>,
    /// The names of goroutines that have one, until they end.
    names: HashMap<u64, Arc<str>>,
    /// How many more names may find no room before goroutines that have ended are looked for.
    pause: usize,
    pub(super) stacks: HashMap<Path, Stack>,
}

/// What an event is about, beside its details.
pub(super) struct About {
    pub(super) kind: Kind,
    pub(super) g: u64,
    pub(super) reason: u8,
    pub(super) depth: u16,
}

impl Memory {
    /// Learns from a block that is dropped. Most events have no details.
    pub(super) fn learn(&mut self, block: &Block) {
        let mut details = Details::default();
        let mut has_details = false;
        for &record in block.records.iter() {
            if record.is_detail() {
                has_details |= details.add(record);
                continue;
            }
            let about = About {
                kind: record.kind(),
                g: record.second & VALUE,
                reason: record.extra(),
                depth: (record.second >> 48) as u16,
            };
            if has_details {
                self.learn_event(about, &std::mem::take(&mut details));
                has_details = false;
            }
        }
    }

    /// Learns from an event that is dropped, or lies before the window.
    pub(super) fn learn_event(&mut self, about: About, details: &Details) {
        let Some(site) = details.site.map(|site| std::ptr::from_ref(site) as usize) else { return };
        match about.kind {
            Kind::Create => {
                if let Some(function) = details.function {
                    self.functions.insert(site, function);
                }
                if let Some(name) = details.texts.first() {
                    self.learn_name(about.g, name.as_str().into());
                }
            }
            Kind::End => drop(self.names.remove(&about.g)),
            kind if !details.frames.is_empty() => {
                let path = (site, (kind, about.reason), about.depth);
                if self.stacks.len() < MOST_STACKS || self.stacks.contains_key(&path) {
                    self.stacks.insert(path, Stack::Addresses(details.frames[..].into()));
                }
            }
            _ => {}
        }
    }

    pub(super) fn learn_name(&mut self, g: u64, name: Arc<str>) {
        if self.names.len() >= MOST_NAMES {
            match self.pause.checked_sub(1) {
                Some(left) => self.pause = left,
                None => {
                    self.forget_ended();
                    let mostly_living = self.names.len() > MOST_NAMES / 2;
                    self.pause = if mostly_living { CLEAN_EVERY } else { 0 };
                }
            }
        }
        if self.names.len() < MOST_NAMES {
            self.names.insert(g, name);
        }
    }

    /// Forgets the names of goroutines that have ended. The log that has a goroutine's end may be dropped
    /// before the one that has its beginning, and then its name is learned after it was to be forgotten.
    fn forget_ended(&mut self) {
        let mut living = HashSet::new();
        G::for_each(|g| _ = living.insert(g.id()));
        self.names.retain(|g, _| living.contains(g));
    }

    /// The name of `g`, or the function of goroutines that were made there.
    pub(super) fn title(&self, g: u64, site: Option<&'static Location<'static>>) -> Option<Box<str>> {
        if let Some(name) = self.names.get(&g) {
            return Some((&**name).into());
        }
        let function = self.functions.get(&(std::ptr::from_ref(site?) as usize))?;
        (!function.contains("dyn ")).then(|| (*function).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_goroutines_that_have_ended_leave_room_for_others() {
        let mut memory = Memory::default();
        // No goroutine of this process has such a number.
        let first = 1 << 40;
        for g in first..first + 2 * MOST_NAMES as u64 {
            memory.learn_name(g, "ended".into());
        }
        memory.learn_name(first - 1, "new".into());
        assert!(memory.names.len() <= MOST_NAMES);
        assert_eq!(memory.title(first - 1, None).as_deref(), Some("new"));
    }
}
