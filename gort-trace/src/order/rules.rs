//! What each event needs, and what it changes: the scheduler's states, replayed.
//!
//! An event that needs something which only its own M can provide, and does not have it, is an error at once.
//! An event that depends on other Ms waits (`Outcome::NotYet`).

use super::state::{GoStatus, ProcStatus, State, Wait};
use super::{Outcome, Step};
use crate::error::Error;
use crate::spec;

fn broken(step: &Step, what: impl std::fmt::Display) -> Error {
    Error::broken(step.event.offset, format!("{}: {what}", spec::name(step.event.kind)))
}

/// The M of the event.
fn m(step: &Step) -> Result<u32, Error> {
    step.context.m.ok_or_else(|| broken(step, "comes from no M"))
}

/// The M and the P of the event.
fn m_and_p(step: &Step) -> Result<(u32, u32), Error> {
    let m = m(step)?;
    Ok((m, step.context.p.ok_or_else(|| broken(step, "its M has no P"))?))
}

/// The M, the P and the goroutine of the event.
fn all(step: &Step) -> Result<(u32, u32, u32), Error> {
    let (m, p) = m_and_p(step)?;
    Ok((m, p, step.context.g.ok_or_else(|| broken(step, "its M has no goroutine"))?))
}

impl State {
    pub(super) fn apply(&mut self, mut step: Step) -> Result<Outcome, Error> {
        let wait = match step.event.kind {
            spec::PROC_STATUS => self.proc_status(&mut step)?,
            spec::PROC_START => self.proc_start(&mut step)?,
            spec::PROC_STOP => self.proc_stop(&mut step)?,
            spec::PROC_STEAL => self.proc_steal(&mut step)?,
            spec::GO_STATUS | spec::GO_STATUS_STACK => self.go_status(&mut step)?,
            spec::GO_CREATE | spec::GO_CREATE_BLOCKED => self.go_create(&mut step)?,
            spec::GO_CREATE_SYSCALL => self.go_create_syscall(&mut step)?,
            spec::GO_START => self.go_start(&mut step)?,
            spec::GO_STOP | spec::GO_BLOCK | spec::GO_DESTROY => self.go_stop(&mut step)?,
            spec::GO_UNBLOCK => self.go_unblock(&mut step)?,
            spec::GO_SWITCH | spec::GO_SWITCH_DESTROY => self.go_switch(&mut step)?,
            spec::GO_SYSCALL_BEGIN => self.syscall_begin(&mut step)?,
            spec::GO_SYSCALL_END => self.syscall_end(&mut step)?,
            spec::GO_SYSCALL_END_BLOCKED => self.syscall_end_blocked(&mut step)?,
            spec::GO_DESTROY_SYSCALL => self.destroy_syscall(&mut step)?,
            spec::GC_ACTIVE | spec::GC_BEGIN | spec::GC_END => self.collector(&step)?,
            spec::HEAP_ALLOC | spec::HEAP_GOAL | spec::GC_SWEEP_BEGIN | spec::GC_SWEEP_END => {
                m_and_p(&step)?;
                None
            }
            spec::GC_MARK_ASSIST_ACTIVE | spec::GC_SWEEP_ACTIVE => {
                step.g = self.goroutine(step.event.args[0]);
                None
            }
            kind if kind >= 128 => None,
            // ProcsChange, STW, mark assists, labels, tasks, regions, logs: a goroutine does them.
            _ => {
                all(&step)?;
                None
            }
        };
        Ok(wait.map_or(Outcome::Happened(step), Outcome::NotYet))
    }

    fn proc_status(&mut self, step: &mut Step) -> Result<Option<Wait>, Error> {
        let id = step.event.args[0];
        let status = ProcStatus::of(step.event.args[1])
            .ok_or_else(|| broken(step, format!("P {id} has the unknown status {}", step.event.args[1])))?;
        let index = match self.proc(id) {
            None => self.new_proc(id, status),
            Some(index) => {
                let p = &mut self.ps[index as usize];
                let refined = status == ProcStatus::Abandoned && p.status == ProcStatus::Syscall;
                if p.status != status && !refined {
                    return Err(broken(step, format!("P {id} is {status:?}, but was {:?}", p.status)));
                }
                p.seq = (self.generation, 0);
                self.proc_changed(index);
                index
            }
        };
        if let Some(m) = step.context.m
            && matches!(status, ProcStatus::Running | ProcStatus::Syscall)
        {
            self.ms[m as usize].p = Some(index);
        }
        step.p = Some(index);
        Ok(None)
    }

    fn proc_start(&mut self, step: &mut Step) -> Result<Option<Wait>, Error> {
        let m = m(step)?;
        if step.context.p.is_some() {
            return Ok(Some(Wait::LosesProc { m })); // in a call, and not yet seen that the P was taken
        }
        let [id, seq, ..] = step.event.args;
        let before = (self.generation, seq.wrapping_sub(1));
        let due = |state: &State, index: u32| {
            let p = &state.ps[index as usize];
            p.status == ProcStatus::Idle && p.seq == before
        };
        let Some(index) = self.proc(id).filter(|&index| due(self, index)) else {
            return Ok(Some(Wait::Proc { id, seq: before.1, status: ProcStatus::Idle }));
        };
        let p = &mut self.ps[index as usize];
        (p.status, p.seq.1) = (ProcStatus::Running, seq);
        self.ms[m as usize].p = Some(index);
        step.p = Some(index);
        Ok(None)
    }

    fn proc_stop(&mut self, step: &mut Step) -> Result<Option<Wait>, Error> {
        let (m, index) = m_and_p(step)?;
        let p = &mut self.ps[index as usize];
        if !matches!(p.status, ProcStatus::Running | ProcStatus::Syscall) {
            return Err(broken(step, format!("P {} is {:?}", p.id, p.status)));
        }
        p.status = ProcStatus::Idle;
        self.ms[m as usize].p = None;
        self.proc_changed(index);
        step.p = Some(index);
        Ok(None)
    }

    fn proc_steal(&mut self, step: &mut Step) -> Result<Option<Wait>, Error> {
        m(step)?;
        let [id, seq, victim, ..] = step.event.args;
        let before = (self.generation, seq.wrapping_sub(1));
        let due = |state: &State, index: u32| {
            let p = &state.ps[index as usize];
            matches!(p.status, ProcStatus::Syscall | ProcStatus::Abandoned) && p.seq == before
        };
        let Some(index) = self.proc(id).filter(|&index| due(self, index)) else {
            return Ok(Some(Wait::Proc { id, seq: before.1, status: ProcStatus::Syscall }));
        };
        let p = &mut self.ps[index as usize];
        let abandoned = p.status == ProcStatus::Abandoned;
        (p.status, p.seq.1) = (ProcStatus::Idle, seq);
        self.proc_changed(index);
        step.p = Some(index);
        if abandoned {
            return Ok(None); // the M may have gone on
        }
        let Some(victim_m) = self.thread(victim) else {
            return Err(broken(step, format!("takes P {id} from M {victim}, which does not exist")));
        };
        let of = &mut self.ms[victim_m as usize];
        if of.p != Some(index) {
            return Err(broken(step, format!("takes P {id} from M {victim}, which does not have it")));
        }
        of.p = None;
        step.other = of.g;
        self.changes.push(Wait::LosesProc { m: victim_m });
        Ok(None)
    }

    fn go_status(&mut self, step: &mut Step) -> Result<Option<Wait>, Error> {
        let [id, m_id, number, ..] = step.event.args;
        let status = GoStatus::of(number)
            .ok_or_else(|| broken(step, format!("goroutine {id} has the unknown status {number}")))?;
        let index = match self.goroutine(id) {
            Some(index) => {
                let g = &mut self.gs[index as usize];
                if g.status != status {
                    return Err(broken(
                        step,
                        format!("goroutine {id} is {status:?}, but was {:?}", g.status),
                    ));
                }
                g.seq = (self.generation, 0);
                self.goroutine_changed(index);
                index
            }
            None if self.is_first => self.new_goroutine(id, status),
            None => {
                return Err(broken(
                    step,
                    format!("goroutine {id} is new, but this is not the first generation"),
                ));
            }
        };
        step.g = Some(index);
        match status {
            GoStatus::Running => {
                let m = m(step)?;
                self.ms[m as usize].g = Some(index);
                step.other = Some(m);
            }
            GoStatus::Syscall => {
                if m_id == spec::NO_M {
                    return Err(broken(step, format!("goroutine {id} is in a call without an M")));
                }
                let known = self.thread(m_id).filter(|&m| Some(m) != step.context.m || !self.is_first);
                if let Some(m) = known
                    && self.ms[m as usize].g != Some(index)
                {
                    return Err(broken(
                        step,
                        format!("goroutine {id} is in a call on another M than {m_id}"),
                    ));
                }
                let m = self.m_index(m_id);
                self.ms[m as usize].g = Some(index);
                step.other = Some(m);
            }
            GoStatus::Runnable | GoStatus::Waiting => {}
        }
        Ok(None)
    }

    fn go_create(&mut self, step: &mut Step) -> Result<Option<Wait>, Error> {
        m_and_p(step)?;
        if let Some(g) = step.context.g {
            self.must_run(step, g)?;
        }
        let id = step.event.args[0];
        if self.goroutine(id).is_some() {
            return Err(broken(step, format!("goroutine {id} exists already")));
        }
        let blocked = step.event.kind == spec::GO_CREATE_BLOCKED;
        let status = if blocked { GoStatus::Waiting } else { GoStatus::Runnable };
        step.g = Some(self.new_goroutine(id, status));
        Ok(None)
    }

    fn go_create_syscall(&mut self, step: &mut Step) -> Result<Option<Wait>, Error> {
        let m = m(step)?;
        let id = step.event.args[0];
        if step.context.g.is_some() || self.goroutine(id).is_some() {
            return Err(broken(step, format!("goroutine {id} exists already, or its M has another")));
        }
        let index = self.new_goroutine(id, GoStatus::Syscall);
        self.ms[m as usize].g = Some(index);
        step.g = Some(index);
        Ok(None)
    }

    /// The goroutine with this id, if it is in the status and the event's number is its next one.
    fn due(&self, id: u64, seq: u64, status: GoStatus) -> Result<u32, Wait> {
        let before = seq.wrapping_sub(1);
        self.goroutine(id)
            .filter(|&index| {
                let g = &self.gs[index as usize];
                g.status == status && g.seq == (self.generation, before)
            })
            .ok_or(Wait::Goroutine { id, seq: before, status })
    }

    fn go_start(&mut self, step: &mut Step) -> Result<Option<Wait>, Error> {
        let [id, seq, ..] = step.event.args;
        let index = match self.due(id, seq, GoStatus::Runnable) {
            Ok(index) => index,
            Err(wait) => return Ok(Some(wait)),
        };
        let (m, _) = m_and_p(step)?;
        if step.context.g.is_some() {
            return Err(broken(step, format!("goroutine {id} starts while its M has another")));
        }
        let g = &mut self.gs[index as usize];
        (g.status, g.seq.1) = (GoStatus::Running, seq);
        self.ms[m as usize].g = Some(index);
        step.g = Some(index);
        Ok(None)
    }

    fn go_unblock(&mut self, step: &mut Step) -> Result<Option<Wait>, Error> {
        let [id, seq, ..] = step.event.args;
        let index = match self.due(id, seq, GoStatus::Waiting) {
            Ok(index) => index,
            Err(wait) => return Ok(Some(wait)),
        };
        let g = &mut self.gs[index as usize];
        (g.status, g.seq.1) = (GoStatus::Runnable, seq);
        self.goroutine_changed(index);
        step.g = Some(index);
        Ok(None)
    }

    fn must_run(&self, step: &Step, index: u32) -> Result<(), Error> {
        let g = &self.gs[index as usize];
        if g.status == GoStatus::Running {
            Ok(())
        } else {
            Err(broken(step, format!("goroutine {} is {:?}", g.id, g.status)))
        }
    }

    /// The goroutine of the M yields, blocks or ends.
    fn go_stop(&mut self, step: &mut Step) -> Result<Option<Wait>, Error> {
        let (m, _, index) = all(step)?;
        self.must_run(step, index)?;
        match step.event.kind {
            spec::GO_STOP => self.gs[index as usize].status = GoStatus::Runnable,
            spec::GO_BLOCK => self.gs[index as usize].status = GoStatus::Waiting,
            _ => {
                self.g_ids.remove(&self.gs[index as usize].id);
            }
        }
        self.goroutine_changed_unless_gone(index);
        self.ms[m as usize].g = None;
        step.g = Some(index);
        Ok(None)
    }

    fn goroutine_changed_unless_gone(&mut self, index: u32) {
        if self.goroutine(self.gs[index as usize].id) == Some(index) {
            self.goroutine_changed(index);
        }
    }

    fn go_switch(&mut self, step: &mut Step) -> Result<Option<Wait>, Error> {
        let (m, _, current) = all(step)?;
        self.must_run(step, current)?;
        let [id, seq, ..] = step.event.args;
        let next = match self.due(id, seq, GoStatus::Waiting) {
            Ok(index) => index,
            Err(wait) => return Ok(Some(wait)),
        };
        if step.event.kind == spec::GO_SWITCH {
            self.gs[current as usize].status = GoStatus::Waiting;
        } else {
            self.g_ids.remove(&self.gs[current as usize].id);
        }
        self.goroutine_changed_unless_gone(current);
        let g = &mut self.gs[next as usize];
        (g.status, g.seq.1) = (GoStatus::Running, seq);
        self.ms[m as usize].g = Some(next);
        step.g = Some(next);
        Ok(None)
    }

    fn syscall_begin(&mut self, step: &mut Step) -> Result<Option<Wait>, Error> {
        let (_, p_index, g_index) = all(step)?;
        self.must_run(step, g_index)?;
        let seq = step.event.args[0];
        let p = &mut self.ps[p_index as usize];
        if p.seq != (self.generation, seq.wrapping_sub(1)) {
            return Err(broken(step, format!("P {} is at {}, not before {seq}", p.id, p.seq.1)));
        }
        (p.status, p.seq.1) = (ProcStatus::Syscall, seq);
        self.gs[g_index as usize].status = GoStatus::Syscall;
        self.proc_changed(p_index);
        step.g = Some(g_index);
        Ok(None)
    }

    fn must_be_in_call(&self, step: &Step, index: u32) -> Result<(), Error> {
        let g = &self.gs[index as usize];
        if g.status == GoStatus::Syscall {
            Ok(())
        } else {
            Err(broken(step, format!("goroutine {} is {:?}, in no call", g.id, g.status)))
        }
    }

    fn syscall_end(&mut self, step: &mut Step) -> Result<Option<Wait>, Error> {
        let (_, p_index, g_index) = all(step)?;
        self.must_be_in_call(step, g_index)?;
        let p = &mut self.ps[p_index as usize];
        if p.status != ProcStatus::Syscall {
            return Err(broken(step, format!("P {} is {:?}, in no call", p.id, p.status)));
        }
        p.status = ProcStatus::Running;
        self.gs[g_index as usize].status = GoStatus::Running;
        step.g = Some(g_index);
        Ok(None)
    }

    fn syscall_end_blocked(&mut self, step: &mut Step) -> Result<Option<Wait>, Error> {
        let m = m(step)?;
        if let Some(p) = step.context.p
            && self.ps[p as usize].status == ProcStatus::Syscall
        {
            return Ok(Some(Wait::LosesProc { m })); // the event says that the P is lost during the call
        }
        let index = step.context.g.ok_or_else(|| broken(step, "its M has no goroutine"))?;
        self.must_be_in_call(step, index)?;
        self.gs[index as usize].status = GoStatus::Runnable;
        self.goroutine_changed(index);
        self.ms[m as usize].g = None;
        step.g = Some(index);
        Ok(None)
    }

    fn destroy_syscall(&mut self, step: &mut Step) -> Result<Option<Wait>, Error> {
        let m = m(step)?;
        let index = step.context.g.ok_or_else(|| broken(step, "its M has no goroutine"))?;
        self.must_be_in_call(step, index)?;
        if let Some(p_index) = step.context.p {
            let p = &mut self.ps[p_index as usize];
            if p.status != ProcStatus::Syscall {
                return Err(broken(step, format!("P {} is {:?}, in no call", p.id, p.status)));
            }
            p.status = ProcStatus::Abandoned;
            self.proc_changed(p_index);
        }
        self.g_ids.remove(&self.gs[index as usize].id);
        (self.ms[m as usize].g, self.ms[m as usize].p) = (None, None);
        step.g = Some(index);
        Ok(None)
    }

    fn collector(&mut self, step: &Step) -> Result<Option<Wait>, Error> {
        let (kind, seq) = (step.event.kind, step.event.args[0]);
        let begins = kind == spec::GC_BEGIN;
        let first = self.collecting.is_none() && (begins || (kind == spec::GC_ACTIVE && self.is_first));
        if !first {
            if seq.wrapping_sub(1) != self.collector_seq {
                return Ok(Some(Wait::Collector { seq: seq.wrapping_sub(1) }));
            }
            if self.collecting != Some(!begins) {
                return Err(broken(step, "does not fit to what the collector did before"));
            }
            all(step)?;
        }
        self.collecting = Some(kind != spec::GC_END);
        self.collector_seq = seq;
        self.changes.push(Wait::Collector { seq });
        Ok(None)
    }
}
