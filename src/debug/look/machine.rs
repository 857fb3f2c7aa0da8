//! A sample: what the Ps, the Ms and the queues are doing at one moment, as JSON. `page/data.js` reads it:
//! change both together.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::debug::json::Json;
use crate::netpoll;
use crate::runtime;
use crate::sched::idle::due_timers;
use crate::sched::machine::SCHED;
use crate::sched::types::g::G;
use crate::sched::types::m::M;
use crate::sched::types::p::P;
use crate::sched::word::pinned_readers;
use crate::sched::word::status::Status;
use crate::sys::clock::nanotime;
use crate::timer::NEVER;

/// How many goroutines of a ring are listed.
const LISTED: usize = 8;
/// The most Ms without a P that are listed; of the others, the sample has the numbers.
const MS: usize = 64;
/// The longest name, in characters.
const NAME: usize = 60;

/// What an M does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MState {
    Running,
    Spinning,
    /// In a marked blocking call, or in an unmarked one: without a P.
    Blocked,
    /// It keeps a goroutine that a signal stopped inside libc, and waits for a P with it.
    Preempted,
    /// It sleeps until it is needed; one of these may wait in the netpoller.
    Parked,
}

/// Writes a sample. `now` is in milliseconds.
pub(super) fn sample(number: u64, now: u64) -> String {
    let ps: Vec<SeenP> = SCHED.ps_in_use().map(SeenP::look).collect();
    let ms: Vec<SeenM> = SCHED.platform.live_ms().map(SeenM::look).collect();
    let mut wanted: Vec<&'static G> = ps.iter().flat_map(|p| [p.running, p.next]).flatten().collect();
    let blocked = ms.iter().filter(|m| !matches!(m.state, MState::Running | MState::Parked));
    wanted.extend(blocked.take(MS).filter_map(|m| m.current));
    let names = Names::of(&wanted);
    let mut json = Json::new();
    json.object(|json| {
        json.key("n").value(number);
        json.key("t").value(now);
        json.key("goroutines").value(runtime::living());
        json.key("spinning").value(SCHED.idle.spinning());
        json.key("global").value(SCHED.global_len());
        json.key("preempted").value(SCHED.preempted_len());
        let timers: usize = SCHED.all_ps().map(|p| p.timers.len()).sum();
        json.key("timers").value(timers);
        let next = due_timers::earliest();
        json.key("due").number((next != NEVER).then(|| next.saturating_sub(nanotime())));
        json.key("descriptors").value(netpoll::registered());
        json.key("polling").value(SCHED.platform.poll.busy.load(Relaxed));
        json.key("polls").value(netpoll::polls());
        json.key("p").array(|json| ps.iter().for_each(|p| p.write(&names, json)));
        write_ms(&ms, &names, json);
    });
    json.finish()
}

/// What is seen of a P. The goroutines were there a moment ago.
struct SeenP {
    p: &'static P,
    m: Option<&'static M>,
    state: runtime::ProcessorState,
    running: Option<&'static G>,
    next: Option<&'static G>,
}

impl SeenP {
    fn look(p: &'static P) -> SeenP {
        let state = runtime::processor(p).state;
        // `P::m` may be the last owner: it counts only if it still has this P.
        let owns = |m: &&'static M| m.p().is_some_and(|its| ptr::eq(its, p)) || p.in_syscall_of(m);
        let m = p.m().filter(owns);
        // SAFETY: the queue holds pointers to Gs only, and Gs are never unmapped (G1).
        let next = unsafe { p.runq.peek_next().as_ref() };
        SeenP { p, m, state, running: m.and_then(M::current), next }
    }

    /// An array, because there may be hundreds of Ps: state, M, running goroutine and its name, runnext and
    /// its name, length of the queue, the first of it, steals, stolen goroutines, last victim, hand-offs,
    /// switches.
    fn write(&self, names: &Names, json: &mut Json) {
        use runtime::ProcessorState::{Blocking, Idle, Running, Searching};
        let counted = &self.p.stats;
        json.array(|json| {
            json.value(match self.state {
                Idle => 0,
                Searching => 1,
                Running => 2,
                Blocking => 3,
            });
            json.number(self.m.map(|m| m.id.into()));
            names.write(self.running, json);
            names.write(self.next, json);
            json.value(self.p.runq.len());
            json.array(|json| {
                let mut listed = [ptr::null_mut(); LISTED];
                let count = self.p.runq.peek_ring(&mut listed);
                for g in &listed[..count] {
                    // SAFETY: as in `look`.
                    json.number(unsafe { g.as_ref() }.map(G::id));
                }
            });
            json.value(counted.steals.get());
            json.value(counted.stolen.get());
            json.value(i64::from(counted.last_victim.load(Relaxed)) - 1);
            json.value(counted.hand_offs.get());
            json.value(self.p.tick.load(Relaxed));
        });
    }
}

struct SeenM {
    m: &'static M,
    state: MState,
    current: Option<&'static G>,
}

impl SeenM {
    fn look(m: &'static M) -> SeenM {
        let current = m.current();
        let state = match (m.p(), current) {
            _ if !m.interrupted.load(Relaxed).is_null() => MState::Preempted,
            (Some(_), Some(_)) => MState::Running,
            (None, Some(_)) => MState::Blocked,
            (_, None) if m.spinning.get() || m.p().is_some() => MState::Spinning,
            (_, None) => MState::Parked,
        };
        SeenM { m, state, current }
    }

    /// State, id, its goroutine and its name, whether the call is marked, whether a goroutine is bound to it.
    fn write(&self, names: &Names, json: &mut Json) {
        json.array(|json| {
            json.value(self.state as u8);
            json.value(self.m.id);
            names.write(self.current, json);
            json.value(u8::from(self.current.is_some_and(|g| g.blocking.get())));
            json.value(u8::from(self.m.locked_g.get().is_some()));
        });
    }
}

/// The numbers of Ms by state, and those of them that have no P but do something.
fn write_ms(ms: &[SeenM], names: &Names, json: &mut Json) {
    let count = |state| ms.iter().filter(|m| m.state == state).count();
    json.key("ms").array(|json| {
        use MState::{Blocked, Parked, Preempted, Running, Spinning};
        for state in [Running, Spinning, Blocked, Preempted, Parked] {
            json.value(count(state));
        }
    });
    let order = [MState::Blocked, MState::Preempted, MState::Spinning, MState::Parked];
    json.key("m").array(|json| {
        let listed = order.iter().flat_map(|state| ms.iter().filter(move |m| m.state == *state));
        listed.take(MS).for_each(|m| m.write(names, json));
    });
}

/// The names of some goroutines; where one has no name, its spawn site.
pub(super) struct Names(Vec<(&'static G, u64, String)>);

impl Names {
    pub(super) fn of(goroutines: &[&'static G]) -> Names {
        let mut read: Vec<(&'static G, u64, Option<Arc<str>>)> = Vec::with_capacity(goroutines.len());
        // While it reads, goroutines that end wait for it. So it allocates nothing: there is room for all.
        let reading = pinned_readers::begin();
        for &g in goroutines {
            let id = g.id();
            // SAFETY: if the info is there now, it stays until we are done (`word/pinned_readers.rs`).
            let info = reading.as_ref().and_then(|_| unsafe { g.info() });
            let name = info.and_then(|info| info.name.clone()).filter(|_| g.id() == id);
            read.push((g, id, name));
        }
        drop(reading);
        let shown = |(g, id, name): (&'static G, u64, Option<Arc<str>>)| {
            let name = name.map(|name| shorten(&name)).unwrap_or_else(|| site_name(g));
            (g, id, name)
        };
        Names(read.into_iter().map(shown).collect())
    }

    /// Id and name, or two times `null`.
    fn write(&self, g: Option<&'static G>, json: &mut Json) {
        let living = g.filter(|g| g.status() != Status::Dead);
        let found = living.and_then(|g| self.0.iter().find(|(other, ..)| ptr::eq(*other, g)));
        json.number(found.map(|(_, id, _)| *id));
        json.text(found.map(|(.., name)| name));
    }
}

fn shorten(name: &str) -> String {
    match name.char_indices().nth(NAME) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

/// The last part of the file and the line of the spawn: "main.rs:31".
fn site_name(g: &G) -> String {
    g.site.get().map_or_else(String::new, |site| {
        let file = site.file().rsplit('/').next().unwrap_or_default();
        format!("{file}:{}", site.line())
    })
}
