//! Steps that must have happened although no event says so: between two events that do not fit, because one
//! is missing, and between the worlds before and after a gap.

use std::collections::HashMap;

use super::inbox::Event;
use super::model::Model;
use super::world::{Goroutine, ProcState, State, Thread, World};
use crate::sched::event::reader::OUTSIDE;
use crate::sched::event::record::Kind;

/// This many repairs are described.
const MOST_DESCRIBED: usize = 10;

impl Model {
    /// Counts an event of log `m` that does not fit, and says why, as far as the state tells.
    pub(super) fn count_repair(&mut self, m: u32, event: &Event) {
        self.repairs += 1;
        if self.repaired.len() < MOST_DESCRIBED {
            let log = |m: u32| if m == OUTSIDE { "outside".into() } else { m.to_string() };
            let (kind, subject, late) = (event.kind, event.subject, self.now.saturating_sub(event.time));
            let Thread { g, p } = self.world.thread(m);
            let (proc, state) = (self.world.proc_state(m), self.world.state(subject));
            let on = self.world.goroutines.get(&subject).map(|goroutine| goroutine.m);
            let m = log(m);
            self.repaired.push(format!(
                "{kind:?} of {subject:#x} by M {m}, {late} ns late: the M has G {g:?} and P {p:?} \
                 ({proc:?}); as a goroutine, the subject is {state:?}, last on M {on:?}"
            ));
        }
    }

    /// Writes the steps that must have happened before an event that does not fit. False: the event is to be
    /// left out.
    pub(super) fn make_possible(&mut self, m: u32, event: &Event) -> bool {
        let g = event.subject;
        match event.kind {
            Kind::Start => {
                self.make_runnable(g) && {
                    self.free_thread(m);
                    self.give_proc(m)
                }
            }
            Kind::Wait | Kind::Yield | Kind::Preempt | Kind::End | Kind::CallBegin => self.make_run(g, m),
            Kind::CallEndWithoutP if self.world.runs_on(g, m) => {
                self.begin_call(m, None);
                true
            }
            Kind::ProcStart => {
                self.free_proc(g as u32);
                self.take_proc_away(m);
                true
            }
            Kind::ProcStop if self.world.thread(m).p == Some(g as u32) => {
                self.free_thread(m);
                self.world.thread(m).p.is_some()
            }
            _ => false,
        }
    }

    /// Makes `g` run on `m`.
    fn make_run(&mut self, g: u64, m: u32) -> bool {
        if self.world.runs_on(g, m) {
            return true;
        }
        if !self.make_runnable(g) {
            return false;
        }
        self.free_thread(m);
        if !self.give_proc(m) {
            return false;
        }
        self.start(m, g);
        true
    }

    /// Makes `g` runnable. False: there is no such goroutine, and none can be made.
    fn make_runnable(&mut self, g: u64) -> bool {
        let Some(goroutine) = self.world.goroutines.get(&g) else {
            let host = self.world.host(OUTSIDE);
            if let Some(host) = host {
                self.create(host, g, None);
            }
            return host.is_some();
        };
        let m = goroutine.m;
        match goroutine.state {
            State::Runnable => return true,
            State::Waiting => self.unblock(OUTSIDE, g, None),
            State::Running | State::Syscall => self.free_thread(m),
        }
        true
    }

    /// Stops the goroutine of `m`, if it has one.
    fn free_thread(&mut self, m: u32) {
        let Some(g) = self.world.thread(m).g else { return };
        if self.world.state(g) == Some(State::Running) {
            if self.world.proc_state(m) == Some(ProcState::Running) {
                return self.stop(m, g, "unknown");
            }
            return;
        }
        if let Some(p) = self.world.thread(m).p {
            self.steal(OUTSIDE, (m, p));
        }
        self.end_call_without_p(m);
    }

    /// Makes sure that `m` has a P that runs.
    fn give_proc(&mut self, m: u32) -> bool {
        match self.world.proc_state(m) {
            Some(ProcState::Running) => return true,
            Some(_) => self.take_proc_away(m),
            None => {}
        }
        let idle = self.world.procs.iter().find(|(_, p)| p.state == ProcState::Idle).map(|(&id, _)| id);
        if let Some(p) = idle {
            self.start_proc(m, p);
        }
        idle.is_some()
    }

    /// Makes a P idle.
    fn free_proc(&mut self, p: u32) {
        match self.world.procs.get(&p).map(|p| (p.state, p.m)) {
            None | Some((ProcState::Idle, _)) => {}
            Some((_, m)) => self.take_proc_away(m),
        }
    }

    /// Makes the P of `m` idle.
    fn take_proc_away(&mut self, m: u32) {
        let Some(p) = self.world.thread(m).p else { return };
        if self.world.proc_state(m) == Some(ProcState::Syscall) {
            return self.steal(OUTSIDE, (m, p));
        }
        self.free_thread(m);
        self.stop_proc(m);
    }

    /// Goes on after a gap: writes steps that lead from the world before it to the `present` one. They happen
    /// at one moment, most of them on the thread [`OUTSIDE`], and are no repairs: the gap is what is counted.
    pub(super) fn move_to(&mut self, present: World) {
        for m in keys(&self.world.threads) {
            self.free_thread(m);
            self.take_proc_away(m);
        }
        if let Some(&p) = self.world.procs.keys().min() {
            self.start_proc(OUTSIDE, p);
            self.move_goroutines(&present);
            self.stop_proc(OUTSIDE);
            self.move_threads(&present, p);
        }
    }

    /// Lets goroutines end, begin, wait and be runnable as in `present`. None of them runs, and [`OUTSIDE`]
    /// has a P.
    fn move_goroutines(&mut self, present: &World) {
        for g in keys(&self.world.goroutines) {
            let waits = self.world.state(g) == Some(State::Waiting);
            match present.state(g) {
                Some(State::Waiting) if waits => {}
                Some(State::Waiting) => {
                    self.start(OUTSIDE, g);
                    self.block(OUTSIDE, g, "unknown", None);
                }
                Some(_) if waits => self.unblock(OUTSIDE, g, None),
                Some(_) => {}
                None => {
                    if waits {
                        self.unblock(OUTSIDE, g, None);
                    }
                    self.start(OUTSIDE, g);
                    self.end(OUTSIDE, g);
                }
            }
        }
        for g in keys(&present.goroutines) {
            let Some(new) = present.goroutines.get(&g).filter(|_| !self.world.goroutines.contains_key(&g))
            else {
                continue;
            };
            self.introduce_new(OUTSIDE, g, Goroutine::new(State::Runnable, 0, new.site), new.title.clone());
            if new.state == State::Waiting {
                self.start(OUTSIDE, g);
                self.block(OUTSIDE, g, "unknown", None);
            }
        }
    }

    /// Gives threads the Ps and the goroutines that they have in `present`. All Ps are idle, `lent` among
    /// them.
    fn move_threads(&mut self, present: &World, lent: u32) {
        let mut threads = keys(&present.threads);
        // First those without a P: each needs one for a moment.
        threads.sort_by_key(|&m| present.thread(m).p);
        for m in threads {
            let Thread { g, p } = present.thread(m);
            match (g, p) {
                (None, None) => {}
                (None, Some(p)) => self.start_proc(m, p),
                (Some(g), None) => {
                    self.start_proc(m, lent);
                    self.start(m, g);
                    self.begin_call(m, None);
                    self.steal(OUTSIDE, (m, lent));
                }
                (Some(g), Some(p)) => {
                    self.start_proc(m, p);
                    self.start(m, g);
                    if present.state(g) == Some(State::Syscall) {
                        self.begin_call(m, None);
                    }
                }
            }
        }
    }
}

fn keys<K: Copy + Ord, V>(map: &HashMap<K, V>) -> Vec<K> {
    let mut keys: Vec<K> = map.keys().copied().collect();
    keys.sort_unstable();
    keys
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::world::Proc;

    const M: u32 = 1;
    const G: u64 = 7;

    /// A goroutine in a call on an M with a P, and another one that waits.
    fn model() -> Model {
        let mut world = World::default();
        world.procs.insert(0, Proc::new(ProcState::Syscall, M));
        world.procs.insert(1, Proc::new(ProcState::Idle, 0));
        world.threads.insert(OUTSIDE, Thread::default());
        world.threads.insert(M, Thread { g: Some(G), p: Some(0) });
        world.goroutines.insert(G, Goroutine::new(State::Syscall, M, None));
        world.goroutines.insert(8, Goroutine::new(State::Waiting, 0, None));
        let mut model = Model::new(0);
        model.begin_with(world, 0);
        model
    }

    fn event(kind: Kind, subject: u64) -> Event {
        Event { time: 1, kind, reason: 0, depth: 0, subject, details: None }
    }

    #[test]
    fn every_event_that_does_not_fit_counts_once() {
        for (m, misfit) in [
            (2, event(Kind::CallEndWithoutP, G)), // the call is on another M
            (2, event(Kind::Start, G)),           // it is in a call elsewhere
            (2, event(Kind::Start, 8)),           // it waits, and the M has no P
            (2, event(Kind::ProcStart, 0)),       // another M has the P
            (2, event(Kind::Wait, 99)),           // there is no such goroutine
            (2, event(Kind::CallEnd, G)),         // the call is on another M
            (M, event(Kind::ProcStop, 1)),        // it has another P
        ] {
            let mut model = model();
            assert!(!model.is_possible(m, &misfit), "{:?}", misfit.kind);
            model.apply(m, &misfit);
            assert_eq!(model.repairs, 1, "{:?}", misfit.kind);
            assert!(model.repaired[0].starts_with(&format!("{:?} of ", misfit.kind)), "{:?}", model.repaired);
        }
    }

    #[test]
    fn a_p_may_be_used_before_it_is_written_down_that_it_was_taken() {
        let steal = event(Kind::Steal, u64::from(M) << 32);
        let mut model = model();
        model.apply(M, &event(Kind::CallEndWithoutP, G));
        assert_eq!(model.world.state(G), Some(State::Runnable));
        model.apply(OUTSIDE, &steal);
        model.apply(2, &event(Kind::ProcStart, 0));
        model.apply(2, &event(Kind::Start, G));
        assert_eq!(model.repairs, 0, "{:?}", model.repaired);
        // It is the same one only until the P is used again.
        assert!(!model.is_possible(OUTSIDE, &steal));
    }

    #[test]
    fn a_goroutine_that_is_made_while_no_m_has_a_p_is_written_when_one_has() {
        let mut model = model();
        model.apply(OUTSIDE, &event(Kind::Create, 9));
        assert_eq!(model.world.state(9), None);
        model.apply(M, &event(Kind::CallEnd, G));
        assert_eq!(model.world.state(9), Some(State::Runnable));
        model.apply(2, &event(Kind::ProcStart, 1));
        model.apply(2, &event(Kind::Start, 9));
        assert_eq!(model.repairs, 0, "{:?}", model.repaired);
    }

    #[test]
    fn what_fits_and_what_follows_a_gap_is_no_repair() {
        let mut model = model();
        model.apply(M, &event(Kind::CallEnd, G));
        model.apply(M, &event(Kind::Unblock, 8));
        model.apply(M, &event(Kind::End, G));
        model.apply(M, &event(Kind::ProcStop, 0));
        let mut present = World::default();
        present.procs.insert(0, Proc::new(ProcState::Running, 3));
        present.threads.insert(3, Thread { g: Some(9), p: Some(0) });
        present.goroutines.insert(9, Goroutine::new(State::Running, 3, None));
        model.begin_with(present, 2);
        assert!(model.world.runs_on(9, 3));
        assert_eq!(model.repairs, 0);
    }
}
