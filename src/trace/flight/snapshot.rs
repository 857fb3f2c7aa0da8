//! A snapshot: takes what the window has, and makes a trace of it. Nothing stops while that happens, and the
//! recorder keeps recording.
//!
//! The window may begin in the middle of everything. What was there before comes from four sources:
//! - the first event about an object says what state it was in before; an object without an event is in the
//!   state that it has now (`start_state.rs`);
//! - the scheduler knows names and spawn sites of goroutines that live;
//! - the last event of a goroutine, and each sample of its stack, say where it was made;
//! - the recorder remembers names, functions and stacks of events that it has dropped ([`Memory`]).

use std::io;
use std::sync::Arc;

use super::memory::{About, Memory};
use super::window::{Block, Window};
use crate::sched::event::record::Kind;
use crate::trace::generation::{HEADER, Stack};
use crate::trace::inbox::{Event, Inbox};
use crate::trace::intake::intake;
use crate::trace::merge::Merge;
use crate::trace::session::{MOST_BYTES, Summary};
use crate::trace::start_state::{self, Seen};
use crate::trace::symbols::Symbols;
use crate::trace::world::World;

/// If events are lost while a snapshot is being prepared, it begins anew, at most this often.
const ATTEMPTS: usize = 10;

/// What a snapshot is made of.
pub(super) struct Taken {
    /// All events after this time (ns), up to the horizon, are there.
    from: u64,
    horizon: u64,
    seen: Seen,
    blocks: Vec<Block>,
    memory: Memory,
}

pub(super) fn stopped() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "the flight recorder is off: call FlightRecorder::start first")
}

/// Takes what the window has.
pub(super) fn take() -> io::Result<Taken> {
    for _ in 0..ATTEMPTS {
        let from = with_window(|window| {
            window.hold();
            window.complete_from()
        })?;
        let _held = Held;
        let seen = Seen::now();
        // Dropped before `_held`, which locks it again.
        let mut intake = intake();
        let (horizon, _) = intake.read_to_horizon(false);
        let window = intake.window.as_mut().ok_or_else(stopped)?;
        if window.complete_from() == from {
            return Ok(Taken { from, horizon, seen, blocks: window.blocks(), memory: window.memory.clone() });
        }
    }
    Err(io::Error::other("events are lost all the time: the machine is too busy for a snapshot"))
}

/// The window is held until this is dropped.
struct Held;

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(window) = &mut intake().window {
            window.release();
        }
    }
}

fn with_window<T>(f: impl FnOnce(&mut Window) -> T) -> io::Result<T> {
    let mut intake = intake();
    intake.read();
    intake.window.as_mut().map(f).ok_or_else(stopped)
}

impl Taken {
    /// Makes a trace of it: its bytes, and what it says about itself.
    pub(super) fn into_trace(mut self) -> (Vec<u8>, Summary) {
        let mut inbox = Inbox::default();
        for block in &self.blocks {
            for &record in block.records.iter() {
                inbox.add(block.log, record, block.added);
            }
        }
        // What lies before the window, because other logs have nothing from that time, is good for names.
        for (_, event) in inbox.all().filter(|(_, event)| event.time <= self.from) {
            let Event { kind, subject: g, reason, depth, .. } = *event;
            if let Some(details) = event.details.as_deref() {
                self.memory.learn_event(About { kind, g, reason, depth }, details);
            }
        }
        inbox.forget_before(self.from + 1);
        let mut world = start_state::world(&Seen::default(), &self.seen, &inbox, self.horizon);
        let began = inbox.heads().map(|(time, _)| time).min().unwrap_or(self.horizon);
        let mut merge = Merge::new(began);
        merge.inbox = inbox;
        merge.model.stacks = self.memory.stacks.clone();
        learn_sites_and_stacks(&mut world, &mut merge);
        for (&g, goroutine) in &mut world.goroutines {
            if goroutine.title.is_none() {
                goroutine.title = self.memory.title(g, goroutine.site);
            }
        }
        merge.model.begin_with(world, began);

        let mut bytes = HEADER.to_vec();
        let mut summary = Summary::default();
        let mut symbols = Symbols::default();
        while merge.process(self.horizon, MOST_BYTES) {
            write_generation(&mut merge, &mut symbols, &mut bytes, &mut summary);
        }
        write_generation(&mut merge, &mut symbols, &mut bytes, &mut summary);
        summary.repairs = merge.model.repairs;
        summary.repaired = merge.model.repaired;
        (bytes, summary)
    }
}

fn write_generation(merge: &mut Merge, symbols: &mut Symbols, bytes: &mut Vec<u8>, summary: &mut Summary) {
    let generation = merge.model.next_generation();
    summary.events += generation.events;
    summary.generations += 1;
    bytes.extend_from_slice(&generation.finish(symbols));
}

/// Finds where goroutines were made of which only events are left, and stacks for events that come before the
/// first sample of theirs.
fn learn_sites_and_stacks(world: &mut World, merge: &mut Merge) {
    let Merge { inbox, model } = merge;
    for (_, event) in inbox.all() {
        let Some(details) = event.details.as_deref() else { continue };
        let Some(site) = details.site else { continue };
        if matches!(event.kind, Kind::Wait | Kind::CallBegin | Kind::End)
            && let Some(goroutine) = world.goroutines.get_mut(&event.subject)
        {
            goroutine.site.get_or_insert(site);
        }
        if !details.frames.is_empty() {
            let path = (std::ptr::from_ref(site) as usize, (event.kind, event.reason), event.depth);
            model.stacks.entry(path).or_insert_with(|| Stack::Addresses(details.frames[..].into()));
        }
    }
}

/// The names of goroutines, as far as the scheduler knows them.
pub(super) fn names_now() -> Vec<(u64, Arc<str>)> {
    Seen::now().names().map(|(g, name)| (g, Arc::clone(name))).collect()
}
