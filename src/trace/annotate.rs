//! Annotations of a trace by the program: tasks, regions, messages.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::sched::event::record::Kind;
use crate::sched::event::{self, Note};
use crate::sched::run::runtime_section;

/// Something that the program does and that a trace shows as a whole, with all that belongs to it in
/// whichever goroutines: a request, a job. It ends when it is dropped. See [`task`].
#[derive(Debug)]
#[must_use = "a task ends when it is dropped"]
pub struct Task {
    id: u64,
}

/// The number of the next task. 0 is "no task".
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Begins a task. In Go: `trace.NewTask`.
///
/// Annotations are made by goroutines. On other threads they do nothing, nor do they while no trace is made
/// and no flight recorder is on.
///
/// ```
/// gort::run(|| {
///     let task = gort::trace::task("upload");
///     let part = task.task("checksum");
///     task.log("file", "a.txt");
///     drop(part);
/// });
/// ```
pub fn task(name: &str) -> Task {
    begin_task(name, 0)
}

/// Marks what the calling goroutine does until the result is dropped. In Go: `trace.StartRegion`. Regions of
/// a goroutine end in the opposite order of their beginnings.
///
/// ```
/// gort::run(|| {
///     let _region = gort::trace::region("parse");
///     // ...
/// });
/// ```
pub fn region(name: &'static str) -> Region {
    begin_region(name, 0)
}

/// Writes a message with a category to the trace. In Go: `trace.Log`.
///
/// ```
/// gort::run(|| gort::trace::log("cache", "miss"));
/// ```
pub fn log(category: &str, message: &str) {
    write(Kind::Log, 0, 0, &[category, message]);
}

impl Task {
    /// Begins a task that is a part of this one.
    pub fn task(&self, name: &str) -> Task {
        begin_task(name, self.id)
    }

    /// As [`region`](fn@region), for this task.
    pub fn region(&self, name: &'static str) -> Region {
        begin_region(name, self.id)
    }

    /// As [`log`](fn@log), for this task.
    pub fn log(&self, category: &str, message: &str) {
        write(Kind::Log, self.id, 0, &[category, message]);
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        write(Kind::TaskEnd, self.id, 0, &[]);
    }
}

/// A part of what a goroutine does. See [`region`](fn@region).
#[derive(Debug)]
#[must_use = "a region ends when it is dropped"]
pub struct Region {
    name: &'static str,
    task: u64,
    /// It belongs to the goroutine that began it.
    _not_send: PhantomData<*const ()>,
}

impl Drop for Region {
    fn drop(&mut self) {
        write(Kind::RegionEnd, self.task, 0, &[self.name]);
    }
}

fn begin_task(name: &str, parent: u64) -> Task {
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    write(Kind::TaskBegin, id, parent, &[name]);
    Task { id }
}

fn begin_region(name: &'static str, task: u64) -> Region {
    write(Kind::RegionBegin, task, 0, &[name]);
    Region { name, task, _not_send: PhantomData }
}

#[inline]
fn write(kind: Kind, task: u64, parent: u64, texts: &[&str]) {
    if event::is_traced()
        && let Some(section) = runtime_section::enter()
    {
        section.m().log.noted(&Note { kind, task, parent, texts });
    }
}
