//! The steps of the model: each writes one event of the trace, and changes the world as a reader of the trace
//! will. The caller has made sure that the event fits.

use super::generation::{Stack, Type};
use super::inbox::{Details, Event};
use super::model::Model;
use super::symbols::Frame;
use super::world::{Goroutine, ProcState, State, Thread};
use crate::sched::event::reader::OUTSIDE;
use crate::sched::event::record::Kind;
use crate::sched::word::status::WaitReason;

impl Model {
    pub(super) fn event(&mut self, m: u32, kind: Type, arguments: &[u64]) {
        self.generation.event(m.into(), self.now, kind, arguments);
    }

    /// Writes the status of `g`, unless this generation has it.
    pub(super) fn introduce(&mut self, m: u32, g: u64) {
        const NO_THREAD: u64 = u64::MAX;
        let number = self.number;
        let Some(goroutine) = self.world.goroutines.get_mut(&g) else { return };
        if goroutine.generation == number {
            return;
        }
        (goroutine.generation, goroutine.sequence) = (number, 0);
        let (state, own) = (goroutine.state, goroutine.m);
        let thread = match state {
            State::Running | State::Syscall => own.into(),
            State::Runnable | State::Waiting => NO_THREAD,
        };
        // The stack tells what the goroutine is.
        match self.title(g) {
            Some(stack) => self.event(m, Type::GoStatusStack, &[g, thread, state as u64, stack]),
            None => self.event(m, Type::GoStatus, &[g, thread, state as u64]),
        }
    }

    pub(super) fn next_sequence(&mut self, g: u64) -> u64 {
        let Some(goroutine) = self.world.goroutines.get_mut(&g) else { return 0 };
        goroutine.sequence += 1;
        goroutine.sequence
    }

    pub(super) fn next_proc_sequence(&mut self, p: u32) -> u64 {
        let p = self.world.proc(p);
        p.sequence += 1;
        p.sequence
    }

    /// The stack by which tools name a goroutine.
    pub(super) fn title(&mut self, g: u64) -> Option<u64> {
        let goroutine = self.world.goroutines.get(&g)?;
        let site = goroutine.site;
        let function = match (&goroutine.title, site) {
            (Some(title), _) => title.clone(),
            (None, Some(site)) => format!("goroutine of {}:{}", site.file(), site.line()).into(),
            (None, None) => return None,
        };
        let (file, line) = site.map_or(("", 0), |site| (site.file(), site.line()));
        Some(self.generation.stack(&Stack::Place(Frame { function, file: file.into(), line })))
    }

    pub(super) fn create(&mut self, m: u32, g: u64, details: Option<&Details>) {
        if self.world.goroutines.contains_key(&g) {
            return;
        }
        let site = details.and_then(|details| details.site);
        let name = details.and_then(|details| details.texts.first()).map(|name| name.as_str().into());
        let function = details.and_then(|details| details.function).filter(|f| !f.contains("dyn "));
        let title = name.or_else(|| function.map(Into::into));
        let new = Goroutine::new(State::Runnable, 0, site);
        match self.world.host(m) {
            Some(host) => self.introduce_new(host, g, new, title),
            None => self.unborn.push((g, new, title)),
        }
    }

    /// Writes goroutines that were made while no M had a P; now `m` has one.
    fn bring_to_life(&mut self, m: u32) {
        for (g, new, title) in std::mem::take(&mut self.unborn) {
            self.introduce_new(m, g, new, title);
        }
    }

    /// A new goroutine, made on `host`.
    pub(super) fn introduce_new(&mut self, host: u32, g: u64, mut new: Goroutine, title: Option<Box<str>>) {
        let site = new.site;
        (new.generation, new.title) = (self.number, title);
        self.world.goroutines.insert(g, new);
        let title = self.title(g).unwrap_or(0);
        let made_at = site.map_or(0, |site| {
            let function = "spawn".into();
            let frame = Frame { function, file: site.file().into(), line: site.line() };
            self.generation.stack(&Stack::Place(frame))
        });
        self.event(host, Type::GoCreate, &[g, title, made_at]);
    }

    pub(super) fn start(&mut self, m: u32, g: u64) {
        self.introduce(m, g);
        let sequence = self.next_sequence(g);
        self.event(m, Type::GoStart, &[g, sequence]);
        if let Some(goroutine) = self.world.goroutines.get_mut(&g) {
            (goroutine.state, goroutine.m) = (State::Running, m);
        }
        self.world.threads.entry(m).or_default().g = Some(g);
    }

    /// `g`, which runs on `m`, stops and stays runnable.
    pub(super) fn stop(&mut self, m: u32, g: u64, reason: &str) {
        let reason = self.generation.string(reason);
        self.event(m, Type::GoStop, &[reason, 0]);
        self.leave(m, g, State::Runnable);
    }

    pub(super) fn leave(&mut self, m: u32, g: u64, state: State) {
        if let Some(goroutine) = self.world.goroutines.get_mut(&g) {
            goroutine.state = state;
        }
        self.world.threads.entry(m).or_default().g = None;
    }

    /// `g`, which runs on `m`, ends.
    pub(super) fn end(&mut self, m: u32, g: u64) {
        self.event(m, Type::GoDestroy, &[]);
        self.world.goroutines.remove(&g);
        self.world.threads.entry(m).or_default().g = None;
    }

    pub(super) fn wait(&mut self, m: u32, event: &Event, details: Option<&Details>) {
        let stack = self.stack_of(event.subject, event, details);
        self.block(m, event.subject, reason(WaitReason::from_u8(event.reason)), stack);
    }

    /// `g`, which runs on `m`, waits.
    pub(super) fn block(&mut self, m: u32, g: u64, reason: &str, stack: Option<Stack>) {
        let stack = stack.map_or(0, |stack| self.generation.stack(&stack));
        let reason = self.generation.string(reason);
        self.event(m, Type::GoBlock, &[reason, stack]);
        self.leave(m, g, State::Waiting);
    }

    /// The stack of `g` at an event: the sampled one, or that of an earlier one on the same path.
    pub(super) fn stack_of(&mut self, g: u64, event: &Event, details: Option<&Details>) -> Option<Stack> {
        let site = details.and_then(|details| details.site).or(self.world.goroutines.get(&g)?.site)?;
        let path = (std::ptr::from_ref(site) as usize, (event.kind, event.reason), event.depth);
        match details.map(|details| &details.frames[..]) {
            None | Some([]) => self.stacks.get(&path).cloned(),
            Some(frames) => {
                let stack = Stack::Addresses(frames.into());
                self.stacks.insert(path, stack.clone());
                Some(stack)
            }
        }
    }

    pub(super) fn unblock(&mut self, m: u32, g: u64, stack: Option<Stack>) {
        self.introduce(m, g);
        let sequence = self.next_sequence(g);
        let stack = stack.map_or(0, |stack| self.generation.stack(&stack));
        self.event(m, Type::GoUnblock, &[g, sequence, stack]);
        if let Some(goroutine) = self.world.goroutines.get_mut(&g) {
            goroutine.state = State::Runnable;
        }
    }

    /// The goroutine of `m` enters a blocking call. Its P stays with the M until another thread takes it.
    pub(super) fn begin_call(&mut self, m: u32, stack: Option<Stack>) {
        let Thread { g: Some(g), p: Some(p) } = self.world.thread(m) else { return };
        let sequence = self.next_proc_sequence(p);
        let stack = stack.map_or(0, |stack| self.generation.stack(&stack));
        self.event(m, Type::GoSyscallBegin, &[sequence, stack]);
        self.world.proc(p).state = ProcState::Syscall;
        if let Some(goroutine) = self.world.goroutines.get_mut(&g) {
            goroutine.state = State::Syscall;
        }
    }

    pub(super) fn end_call(&mut self, m: u32) {
        let Thread { g: Some(g), p: Some(p) } = self.world.thread(m) else { return };
        self.event(m, Type::GoSyscallEnd, &[]);
        self.world.proc(p).state = ProcState::Running;
        if let Some(goroutine) = self.world.goroutines.get_mut(&g) {
            goroutine.state = State::Running;
        }
        self.bring_to_life(m);
    }

    pub(super) fn end_call_without_p(&mut self, m: u32) {
        let Some(g) = self.world.thread(m).g else { return };
        self.event(m, Type::GoSyscallEndBlocked, &[]);
        self.leave(m, g, State::Runnable);
    }

    pub(super) fn start_proc(&mut self, m: u32, p: u32) {
        if !self.world.procs.contains_key(&p) {
            // A P that was made after the trace began.
            self.event(OUTSIDE, Type::ProcStatus, &[p.into(), ProcState::Idle as u64]);
        }
        let sequence = self.next_proc_sequence(p);
        self.event(m, Type::ProcStart, &[p.into(), sequence]);
        let proc = self.world.proc(p);
        (proc.state, proc.m) = (ProcState::Running, m);
        self.world.threads.entry(m).or_default().p = Some(p);
        self.bring_to_life(m);
    }

    pub(super) fn stop_proc(&mut self, m: u32) {
        let Some(p) = self.world.thread(m).p else { return };
        self.event(m, Type::ProcStop, &[]);
        self.world.proc(p).state = ProcState::Idle;
        self.world.threads.entry(m).or_default().p = None;
    }

    /// A thread whose log is `thief` takes the P from an M in a call.
    pub(super) fn steal(&mut self, thief: u32, (m, p): (u32, u32)) {
        let sequence = self.next_proc_sequence(p);
        self.event(thief, Type::ProcSteal, &[p.into(), sequence, m.into()]);
        self.world.proc(p).state = ProcState::Idle;
        self.world.threads.entry(m).or_default().p = None;
    }

    pub(super) fn note(&mut self, m: u32, event: &Event, details: Option<&Details>) {
        let task = event.subject;
        let text = |index: usize| details.and_then(|d| d.texts.get(index)).map_or("", String::as_str);
        let around = details.map_or(0, |details| details.task);
        let Some(g) = self.world.thread(m).g else { return };
        let first = self.generation.string(text(0));
        match event.kind {
            Kind::TaskBegin => self.event(m, Type::UserTaskBegin, &[task, around, first, 0]),
            Kind::TaskEnd => self.event(m, Type::UserTaskEnd, &[task, 0]),
            Kind::Log => {
                let second = self.generation.string(text(1));
                self.event(m, Type::UserLog, &[task, first, second, 0]);
            }
            Kind::RegionBegin | Kind::RegionEnd => {
                let Some(goroutine) = self.world.goroutines.get_mut(&g) else { return };
                let region = (task, text(0).into());
                let begins = event.kind == Kind::RegionBegin;
                if begins {
                    goroutine.regions.push(region);
                } else if goroutine.regions.pop_if(|last| *last == region).is_none() {
                    // It began before the trace, or regions do not end in order.
                    return;
                }
                let kind = if begins { Type::UserRegionBegin } else { Type::UserRegionEnd };
                self.event(m, kind, &[task, first, 0]);
            }
            _ => {}
        }
    }
}

/// The reason of a wait, such that Go's profiles find it: they look for `network`, and for names that contain
/// `chan`, `select` or `sync`.
fn reason(reason: WaitReason) -> &'static str {
    match reason {
        WaitReason::IoRead | WaitReason::IoWrite => "network",
        WaitReason::Join => "sync.Join",
        WaitReason::Barrier => "sync.Barrier.Wait",
        WaitReason::Semaphore => "sync.Semaphore.Acquire",
        WaitReason::Group => "sync.Group.Wait",
        WaitReason::Scope => "sync.Scope",
        other => other.name(),
    }
}
