//! One goroutine: its stack, where it was spawned, what it waits for and which goroutine holds that. And the
//! functions of groups of goroutines, from a few of their stacks.

use std::collections::HashMap;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::table::{Row, Table};
use super::{SHARE, lock};
use crate::debug::http::listener::STACK;
use crate::debug::json::Json;
use crate::diag::dump::one::{self, Effort};
use crate::diag::dump::{Function, GoroutineTrace, Names};
use crate::sched::machine::SCHED;
use crate::sched::types::g::G;
use crate::sys::thread;

/// Functions by address, for all requests: to look one up takes a fraction of a millisecond, and the first a
/// second in a large program.
static NAMES: Mutex<Option<Names>> = Mutex::new(None);

fn functions(trace: &GoroutineTrace) -> Vec<Arc<Function>> {
    lock(&NAMES).get_or_insert_default().of(trace.addresses(), false)
}

/// The goroutine of a row as JSON; `None` if it has ended.
pub(in crate::debug) fn describe(row: &Row, table: &Table) -> Option<String> {
    let (trace, waits_for) = one::look(row.g, row.id, Effort::Full)?;
    let mut json = Json::new();
    json.object(|json| {
        json.key("id").value(trace.id());
        json.key("name").text(trace.name());
        json.key("state").string(trace.state());
        json.key("waitNs").number(trace.waiting_for().map(|time| time.as_nanos() as u64));
        json.key("locked").value(trace.is_locked_to_thread());
        json.key("cpu").value(row.share);
        json.key("cpuNs").value(trace.cpu_time().as_nanos());
        json.key("labels").object(|json| {
            trace.labels().iter().for_each(|(key, value)| json.key(key).string(value));
        });
        json.key("site").text(trace.spawned_at().map(Location::to_string));
        json.key("parent");
        write_other(trace.parent(), table, json);
        json.key("children").array(|json| {
            let children = table.rows.iter().filter(|other| other.parent == row.id).take(MOST_CHILDREN);
            children.for_each(|child| write_other(Some(child.id), table, json));
        });
        json.key("waitsFor").object(|json| {
            json.key("object").text(waits_for.object.map(|address| format!("{address:#x}")));
            json.key("joins");
            write_other(waits_for.joins, table, json);
            json.key("heldBy").value(waits_for.held_by);
            json.key("holders").array(|json| {
                waits_for.holders.iter().for_each(|&id| write_other(Some(id), table, json));
            });
        });
        json.key("stack").array(|json| write_stack(&functions(&trace), json));
    });
    Some(json.finish())
}

/// At most this many children are listed.
const MOST_CHILDREN: usize = 20;

/// Another goroutine: its id and name.
fn write_other(id: Option<u64>, table: &Table, json: &mut Json) {
    let Some(id) = id else { return json.raw("null") };
    let found = table.rows.iter().find(|row| row.id == id);
    json.object(|json| {
        json.key("id").value(id);
        json.key("name").text(found.and_then(|row| row.name.as_deref()));
        json.key("lives").value(found.is_some());
    });
}

fn write_stack(functions: &[Arc<Function>], json: &mut Json) {
    for function in functions {
        json.object(|json| {
            json.key("function").string(&function.name);
            let (file, line) = function.place.as_ref().map_or(("", 0), |(file, line)| (file, *line));
            json.key("file").string(file);
            json.key("line").value(line);
            json.key("library").value(is_library(&function.name));
        });
    }
}

/// Crates, and modules of gort, that are not the program's own code.
const LIBRARIES: [&str; 23] = [
    "std",
    "core",
    "alloc",
    "gort::blocking",
    "gort::chan",
    "gort::context",
    "gort::diag",
    "gort::future",
    "gort::goroutine",
    "gort::http",
    "gort::hyper",
    "gort::io",
    "gort::net",
    "gort::process",
    "gort::runtime",
    "gort::sched",
    "gort::signal",
    "gort::sync",
    "gort::time",
    "gort::arch",
    "gort::base",
    "hyper",
    "tokio",
];

/// Whether the function is one of std or gort: what it is called by is of more interest.
fn is_library(function: &str) -> bool {
    // "<gort::chan::iter::IntoIter<T> as core::iter::Iterator>::next"
    let path = function.trim_start_matches(['<', '&']);
    LIBRARIES.iter().any(|library| path.strip_prefix(library).is_some_and(|rest| rest.starts_with("::")))
}

/// The goroutine of a row as text, as in a dump.
pub(in crate::debug) fn text(row: &Row) -> Option<String> {
    one::look(row.g, row.id, Effort::Full).map(|(trace, _)| trace.to_string())
}

/// The functions in which the goroutines of a group are, and which they run: the innermost frame of the
/// program's own code, and the outermost frame, of one of them.
pub(in crate::debug) struct Sampled {
    pub(in crate::debug) inner: String,
    pub(in crate::debug) outer: String,
    at: Instant,
}

/// Of each group, at most this many stacks are looked at, until one has functions.
const EACH: usize = 3;
/// Afterwards another goroutine of the group is looked at: it may be elsewhere.
const FRESH: Duration = Duration::from_secs(2);
/// The most groups that are remembered.
const REMEMBERED: usize = 4096;

/// What a group is known by: its state, and its spawn site by address.
pub(in crate::debug) type Key = (&'static str, usize);

static SAMPLED: Mutex<Option<HashMap<Key, Arc<Sampled>>>> = Mutex::new(None);
/// A thread takes samples.
static SAMPLING: AtomicBool = AtomicBool::new(false);

/// The functions of each group, where they are known. `groups` has some rows of each group. Groups of which
/// nothing new is known are looked at by a thread, so that no answer waits for it.
pub(in crate::debug) fn sample(groups: &[(Key, Vec<&Row>)]) -> Vec<Option<Arc<Sampled>>> {
    let mut sampled = lock(&SAMPLED);
    let known = sampled.get_or_insert_default();
    let found: Vec<_> = groups.iter().map(|(key, _)| known.get(key).cloned()).collect();
    drop(sampled);
    let is_old = |sampled: &Option<Arc<Sampled>>| sampled.as_ref().is_none_or(|s| s.at.elapsed() > FRESH);
    let old = groups.iter().zip(&found).filter(|(_, sampled)| is_old(sampled));
    let wanted: Vec<Wanted> = old
        .map(|((key, rows), _)| (*key, rows.iter().take(EACH).map(|row| (row.g, row.id)).collect()))
        .collect();
    if !wanted.is_empty() && !SAMPLING.swap(true, Ordering::AcqRel) {
        let take = move || SCHED.platform.observers.observe(|| take_samples(&wanted));
        if thread::start("gort-debug", STACK, take).is_err() {
            SAMPLING.store(false, Ordering::Release);
        }
    }
    found
}

/// A group, and some of its goroutines with their ids.
type Wanted = (Key, Vec<(&'static G, u64)>);

/// Takes the samples on a thread of its own, and rests afterwards: it takes at most a twentieth of a core,
/// but for the first look-up of names.
fn take_samples(wanted: &[Wanted]) {
    struct Done;
    impl Drop for Done {
        fn drop(&mut self) {
            SAMPLING.store(false, Ordering::Release);
        }
    }
    let (_done, start) = (Done, Instant::now());
    for (key, goroutines) in wanted {
        let sample = |&(g, id): &(&'static G, u64)| {
            let functions = functions(&one::look(g, id, Effort::Stack)?.0);
            let own = functions.iter().find(|function| !is_library(&function.name));
            let inner = own.or(functions.first())?.name.clone();
            Some(Sampled { inner, outer: functions.last()?.name.clone(), at: Instant::now() })
        };
        if let Some(found) = goroutines.iter().find_map(sample) {
            let mut sampled = lock(&SAMPLED);
            let known = sampled.get_or_insert_default();
            if known.len() >= REMEMBERED {
                known.clear();
            }
            known.insert(*key, Arc::new(found));
        }
    }
    std::thread::sleep((start.elapsed() * SHARE).min(FRESH));
}
