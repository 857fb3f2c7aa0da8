//! The table of all goroutines: for each what any thread may read at any time. Its stack is not touched.
//!
//! A row takes about 100 bytes, so a million goroutines take 100 MB for as long as somebody looks. Names are
//! read in batches, because goroutines that end wait meanwhile (`word/pinned_readers.rs`).

use std::collections::{BTreeMap, HashMap};
use std::panic::Location;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::{SHARE, lock};
use crate::sched::account::labels::Labels;
use crate::sched::types::g::G;
use crate::sched::word::pinned_readers;
use crate::sched::word::status::{Status, WaitReason};
use crate::sys::clock::nanotime;
use crate::sys::thread;

/// A table is shared for at least this long.
const FRESH: Duration = Duration::from_millis(200);
/// How many names are read at once.
const BATCH: usize = 64;

/// A goroutine, as it was when the table was made.
pub(in crate::debug) struct Row {
    pub(in crate::debug) g: &'static G,
    pub(in crate::debug) id: u64,
    pub(in crate::debug) parent: u64,
    pub(in crate::debug) name: Option<Arc<str>>,
    pub(in crate::debug) site: Option<&'static Location<'static>>,
    /// When it began to wait (ns), to about a second; 0 if it does not wait.
    pub(in crate::debug) since: u64,
    pub(in crate::debug) status: Status,
    pub(in crate::debug) reason: WaitReason,
    pub(in crate::debug) locked: bool,
    pub(in crate::debug) labels: Labels,
    /// CPU time (ns): since its start, and the share of one core since a second or two ago.
    pub(in crate::debug) cpu: u64,
    pub(in crate::debug) share: f32,
}

impl Row {
    fn read(g: &'static G) -> Option<Row> {
        let status = g.status();
        let waits = status == Status::Waiting;
        (status != Status::Dead).then(|| Row {
            g,
            id: g.id(),
            parent: g.parent.get(),
            name: None,
            site: g.site.get(),
            since: if waits { g.parked_at.load(Relaxed) } else { 0 },
            status,
            reason: g.wait_reason(),
            locked: g.lock_count.get() != 0,
            labels: Labels::NONE,
            cpu: 0,
            share: 0.0,
        })
    }

    /// In the words of dumps: "running", "chan receive".
    pub(in crate::debug) fn state(&self) -> &'static str {
        if self.status == Status::Waiting { self.reason.name() } else { self.status.name() }
    }

    /// For how long it has waited (ns), if it waits.
    pub(in crate::debug) fn waited(&self, now: u64) -> Option<u64> {
        (self.since != 0).then(|| now.saturating_sub(self.since))
    }
}

pub(in crate::debug) struct Table {
    pub(in crate::debug) rows: Vec<Row>,
    /// When it was made (ns).
    pub(in crate::debug) at: u64,
    by_status: [usize; Status::COUNT],
    by_reason: [usize; WaitReason::COUNT],
}

impl Table {
    fn make(base: &Base) -> Table {
        let mut table = Table {
            rows: Vec::new(),
            at: nanotime(),
            by_status: [0; Status::COUNT],
            by_reason: [0; WaitReason::COUNT],
        };
        let mut batch = [const { None }; BATCH];
        let mut count = 0;
        G::for_each(|g| {
            let Some(row) = Row::read(g) else { return };
            batch[count] = Some(row);
            count += 1;
            if count == BATCH {
                table.add(&mut batch, base);
                count = 0;
            }
        });
        table.add(&mut batch, base);
        table
    }

    fn add(&mut self, batch: &mut [Option<Row>; BATCH], base: &Base) {
        // Goroutines that end wait until this is dropped, so nothing is allocated meanwhile.
        let reading = pinned_readers::begin();
        for row in batch.iter_mut().flatten().filter(|_| reading.is_some()) {
            // SAFETY: if the info is there now, it stays until we are done (`word/pinned_readers.rs`).
            let Some(info) = (unsafe { row.g.info() }) else { continue };
            row.name = info.name.clone();
            // SAFETY: we are a pinned reader.
            row.labels = unsafe { info.account.labels.get() };
            row.cpu = info.account.nanos();
        }
        drop(reading);
        for row in batch.iter_mut().filter_map(Option::take) {
            // If the id has changed, its slot has passed to another goroutine, which is in no table yet.
            if row.id != 0 && row.g.id() == row.id {
                let before = base.cpu.get(&row.id).copied().unwrap_or(0);
                let row = Row { share: base.share(row.cpu.saturating_sub(before), self.at), ..row };
                self.by_status[row.status as usize] += 1;
                self.by_reason[row.reason as usize] += usize::from(row.status == Status::Waiting);
                self.rows.push(row);
            }
        }
    }

    pub(in crate::debug) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The numbers of goroutines by state.
    pub(in crate::debug) fn states(&self) -> Vec<(&'static str, usize)> {
        let all = self.by_status.iter().enumerate();
        let living = all.filter(|&(status, _)| status != Status::Dead as usize);
        living.map(|(status, &count)| (Status::from_u8(status as u8).name(), count)).collect()
    }

    /// The numbers of waiting goroutines by what they wait for, where there are any.
    pub(in crate::debug) fn reasons(&self) -> BTreeMap<&'static str, usize> {
        let all = self.by_reason.iter().enumerate().filter(|&(_, &count)| count != 0);
        all.map(|(reason, &count)| (WaitReason::from_u8(reason as u8).name(), count)).collect()
    }
}

/// The CPU times (ns) of an earlier table, without those that had none.
#[derive(Default)]
struct Base {
    at: u64,
    cpu: HashMap<u64, u64>,
}

impl Base {
    fn of(table: &Table) -> Base {
        let used = table.rows.iter().filter(|row| row.cpu != 0);
        Base { at: table.at, cpu: used.map(|row| (row.id, row.cpu)).collect() }
    }

    fn share(&self, nanos: u64, now: u64) -> f32 {
        if self.at == 0 { 0.0 } else { nanos as f32 / now.saturating_sub(self.at).max(1) as f32 }
    }
}

static LATEST: Mutex<Option<Latest>> = Mutex::new(None);

/// A base is replaced by a newer one after this time (ns).
const BASE: u64 = 1_000_000_000;

struct Latest {
    table: Arc<Table>,
    /// Until then it is shared.
    until: Instant,
    /// What CPU times are compared with, and what they will be compared with next.
    base: Base,
    next_base: Base,
}

/// A table that is new enough: the latest, or a new one. Callers that come meanwhile wait for that one.
pub(in crate::debug) fn latest() -> Arc<Table> {
    let mut latest = lock(&LATEST);
    if let Some(latest) = latest.as_ref().filter(|latest| Instant::now() < latest.until) {
        return latest.table.clone();
    }
    // The memory of the old one can be used for the new one.
    let bases = latest.take().map(|latest| (latest.base, latest.next_base));
    let (mut base, mut next_base) = bases.unwrap_or_default();
    let cpu = || Duration::from_nanos(thread::cpu_nanos(thread::tid()).unwrap_or(0));
    let start = cpu();
    let table = Arc::new(Table::make(&base));
    let took = cpu().saturating_sub(start);
    if base.at == 0 {
        (base, next_base) = (Base::of(&table), Base::of(&table));
    } else if table.at - next_base.at > BASE {
        base = std::mem::replace(&mut next_base, Base::of(&table));
    }
    let until = Instant::now() + FRESH.max(took * SHARE);
    *latest = Some(Latest { table: table.clone(), until, base, next_base });
    table
}

/// Gives the memory back.
pub(super) fn forget() {
    *lock(&LATEST) = None;
}
