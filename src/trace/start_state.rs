//! The state with which a trace begins. Nothing stops while it is established:
//!
//! 1. Events are turned on, or the window of the flight recorder begins.
//! 2. Later the scheduler is asked about every goroutine, P and M ([`Seen::now`]).
//! 3. The horizon: from here on events are left aside.
//! 4. Then the logs are read. They are not read at once, so of two later events the second may be there
//!    without the first; but all events before the horizon are there.
//!
//! If the logs have an event about an object, the first one says what state it was in before. If they have
//! none, then the object did not change between 1 and 3, so 2 saw the state that it had all the time.

use std::collections::{HashMap, HashSet};
use std::panic::Location;
use std::sync::Arc;

use super::inbox::{Event, Inbox};
use super::world::{Goroutine, Proc, ProcState, State, Thread, World};
use crate::sched::event::reader::OUTSIDE;
use crate::sched::event::record::Kind;
use crate::sched::machine::SCHED;
use crate::sched::park::hold_parked;
use crate::sched::types::g::G;
use crate::sched::word::status::Status;

/// What the first events say.
#[derive(Default)]
struct First {
    /// The state of a goroutine; `None`: it did not exist.
    goroutines: HashMap<u64, Option<(State, u32)>>,
    /// The goroutine of an M.
    running: HashMap<u32, Option<u64>>,
    /// The P of an M, and whether the M was in a call.
    owned: HashMap<u32, Option<u32>>,
    in_call: HashMap<u32, bool>,
    /// Ps that have had an event.
    procs: HashSet<u32>,
}

impl First {
    fn of(inbox: &Inbox, horizon: u64) -> First {
        let mut events: Vec<(u32, &Event)> = inbox.all().filter(|(_, event)| event.time <= horizon).collect();
        // A stable sort: those of one log stay in order.
        events.sort_by_key(|(_, event)| event.time);
        let mut first = First::default();
        for (m, event) in events {
            first.see(m, event);
        }
        first
    }

    fn see(&mut self, m: u32, event: &Event) {
        let id = event.subject;
        let state = match event.kind {
            Kind::Create => None,
            Kind::Start => Some((State::Runnable, 0)),
            Kind::Unblock => Some((State::Waiting, 0)),
            Kind::Wait | Kind::Yield | Kind::Preempt | Kind::End | Kind::CallBegin => {
                Some((State::Running, m))
            }
            Kind::CallEnd | Kind::CallEndWithoutP => Some((State::Syscall, m)),
            Kind::ProcStart => {
                self.owned.entry(m).or_insert(None);
                self.procs.insert(id as u32);
                return;
            }
            Kind::ProcStop => {
                self.owned.entry(m).or_insert(Some(id as u32));
                self.in_call.entry(m).or_insert(false);
                self.procs.insert(id as u32);
                return;
            }
            Kind::Steal | Kind::Detach => {
                let (m, p) = event.m_and_p();
                self.in_call.entry(m).or_insert(event.kind == Kind::Steal);
                if self.procs.insert(p) {
                    // The M had this P until now. If the M's own log says that it got another one, that
                    // came later: a thread that takes a P writes it down after it has taken it.
                    self.owned.insert(m, Some(p));
                }
                return;
            }
            _ => return,
        };
        self.goroutines.entry(id).or_insert(state);
        match event.kind {
            Kind::Start => {
                self.running.entry(m).or_insert(None);
            }
            Kind::Create | Kind::Unblock => {}
            _ => {
                self.running.entry(m).or_insert(Some(id));
                let in_call = matches!(event.kind, Kind::CallEnd | Kind::CallEndWithoutP);
                self.in_call.entry(m).or_insert(in_call);
            }
        }
    }
}

/// What the scheduler said at one moment. Objects that changed meanwhile may contradict each other.
#[derive(Default)]
pub(super) struct Seen {
    /// All Ps, with the M that has each or had it last.
    procs: Vec<(u32, u32)>,
    threads: Vec<SeenThread>,
    goroutines: Vec<SeenGoroutine>,
}

struct SeenThread {
    m: u32,
    p: Option<(u32, ProcState)>,
    g: Option<u64>,
}

struct SeenGoroutine {
    id: u64,
    state: State,
    site: Option<&'static Location<'static>>,
    /// Its name, if it has one and waits. Others cannot be asked.
    name: Option<Arc<str>>,
}

impl Seen {
    /// The names of goroutines, as far as they are known.
    pub(super) fn names(&self) -> impl Iterator<Item = (u64, &Arc<str>)> {
        self.goroutines.iter().filter_map(|seen| Some((seen.id, seen.name.as_ref()?)))
    }

    pub(super) fn now() -> Seen {
        let procs = SCHED.all_ps().map(|p| (p.id, p.m().map_or(OUTSIDE, |m| m.id)));
        let mut seen = Seen { procs: procs.collect(), ..Seen::default() };
        for m in SCHED.platform.live_ms() {
            let left_in_call =
                || SCHED.all_ps().find(|p| p.in_syscall_of(m)).map(|p| (p.id, ProcState::Syscall));
            let p = m.p().map(|p| (p.id, ProcState::Running)).or_else(left_in_call);
            seen.threads.push(SeenThread { m: m.id, p, g: m.current().map(G::id) });
        }
        G::for_each(|g| {
            let id = g.id();
            let state = match g.status() {
                Status::Dead => return,
                Status::Waiting => State::Waiting,
                Status::Syscall => State::Syscall,
                Status::Running => State::Running,
                _ => State::Runnable,
            };
            // SAFETY: while it is held it does not end.
            let held = || unsafe { g.info() }.and_then(|info| Some((g.id(), info.name.clone()?)));
            let name =
                (state == State::Waiting).then(|| hold_parked::while_held(g, held).flatten()).flatten();
            let name = name.filter(|(of, _)| *of == id).map(|(_, name)| name);
            let site = g.site.get();
            // Its slot may have passed to another one meanwhile.
            if g.id() == id {
                seen.goroutines.push(SeenGoroutine { id, state, site, name });
            }
        });
        seen
    }
}

/// The world before the first events of `inbox`, which was read after `horizon` (ns), which was after `seen`.
/// `earlier` knows the names of goroutines that have ended since the events were turned on.
pub(super) fn world(earlier: &Seen, seen: &Seen, inbox: &Inbox, horizon: u64) -> World {
    let mut world = World::default();
    let first = First::of(inbox, horizon);
    for &(p, last) in &seen.procs {
        world.procs.insert(p, Proc::new(ProcState::Idle, last));
    }
    // Ms with a P, and the goroutine that each runs. Of Ms whose threads have ended there are events.
    let known: HashSet<u32> = seen.threads.iter().map(|seen| seen.m).collect();
    let ended: HashSet<u32> =
        first.owned.keys().chain(first.running.keys()).copied().filter(|m| !known.contains(m)).collect();
    let ended: Vec<SeenThread> = ended.into_iter().map(|m| SeenThread { m, p: None, g: None }).collect();
    for seen in seen.threads.iter().chain(&ended) {
        let owned = match first.owned.get(&seen.m) {
            Some(known) => known.map(|p| (p, ProcState::Running)),
            None => seen.p,
        };
        let owned = match (owned, first.in_call.get(&seen.m)) {
            (Some((p, _)), Some(&in_call)) => {
                Some((p, if in_call { ProcState::Syscall } else { ProcState::Running }))
            }
            (owned, _) => owned,
        };
        let thread = world.threads.entry(seen.m).or_default();
        if let Some((p, state)) = owned
            && let Some(proc) = world.procs.get_mut(&p).filter(|proc| proc.state == ProcState::Idle)
        {
            *proc = Proc::new(state, seen.m);
            thread.p = Some(p);
        }
        thread.g = first.running.get(&seen.m).copied().unwrap_or(seen.g);
    }
    world.threads.entry(OUTSIDE).or_default();
    for seen in &seen.goroutines {
        let state = match first.goroutines.get(&seen.id) {
            Some(None) => continue,
            Some(&Some((state, _))) => state,
            None if seen.id == 0 => continue,
            None => seen.state,
        };
        let title = seen.name.as_deref().map(Into::into);
        world.goroutines.insert(seen.id, Goroutine { title, ..Goroutine::new(state, 0, seen.site) });
    }
    // Goroutines that ended meanwhile, and whose slot has another one now.
    for (&id, state) in &first.goroutines {
        if let &Some((state, _)) = state {
            world.goroutines.entry(id).or_insert_with(|| Goroutine::new(state, 0, None));
        }
    }
    for seen in &earlier.goroutines {
        if let Some(goroutine) = world.goroutines.get_mut(&seen.id).filter(|known| known.site.is_none()) {
            goroutine.site = seen.site;
            goroutine.title = seen.name.as_deref().map(Into::into);
        }
    }
    agree(&mut world);
    world
}

/// Makes threads and goroutines agree: a goroutine that runs, or is in a call, has an M that knows it, and
/// one that runs has a P.
fn agree(world: &mut World) {
    for (&m, thread) in &mut world.threads {
        let Some(g) = thread.g else { continue };
        let p = thread.p.and_then(|p| world.procs.get_mut(&p));
        match world.goroutines.get_mut(&g) {
            Some(goroutine) if matches!(goroutine.state, State::Running | State::Syscall) => {
                goroutine.m = m;
                goroutine.state = match p.map(|p| p.state) {
                    Some(ProcState::Running) => State::Running,
                    _ => State::Syscall,
                };
            }
            _ => thread.g = None,
        }
    }
    let threads: HashMap<u32, Thread> = world.threads.clone();
    for (&g, goroutine) in &mut world.goroutines {
        let has_thread = threads.get(&goroutine.m).is_some_and(|thread| thread.g == Some(g));
        if matches!(goroutine.state, State::Running | State::Syscall) && !has_thread {
            goroutine.state = State::Runnable;
        }
    }
    // A P in a call without a goroutine that is in it.
    for (&m, thread) in &mut world.threads {
        if let Some(p) = thread.p
            && thread.g.is_none()
            && let Some(proc) = world.procs.get_mut(&p)
            && proc.state == ProcState::Syscall
        {
            *proc = Proc::new(ProcState::Running, m);
        }
    }
}
