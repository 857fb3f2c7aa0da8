//! The handler of the timers' signal: writes a sample into the [`Ring`].
//!
//! It runs on any thread of the process, in the middle of anything: user code, the allocator, a switch of
//! goroutines, another runtime's code. So it takes no lock, allocates nothing, uses no thread-local, and does
//! not unwind. It copies the registers and the top of the stack; the collecting thread unwinds the copy
//! (`diag/unwind_copy/`). The kernel makes that copy, so that the handler never faults, whatever the stack
//! pointer says.
//!
//! Which goroutine runs is known from the M of the thread. While an M switches, its goroutine and its stack
//! do not belong together for some instructions. So a goroutine counts if the stack pointer is on its stack,
//! or if it is in user code (then it runs on a stack of another library). All else is time of the scheduler.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::ring::Ring;
use crate::arch::{Registers, SignalFrame};
use crate::sched::account::labels::Labels;
use crate::sched::machine::SCHED;
use crate::sched::types::g::G;
use crate::sys::clock::nanotime;
use crate::sys::signal::SigInfo;
use crate::sys::{cpu_timer, inspect, restart, thread};

/// The value that marks signals of our timers: "gort" in ASCII.
pub(super) const OURS: usize = 0x676f_7274;

/// Bytes of a stack that a sample holds at most; of a stack that is not the goroutine's, and whose end is not
/// known, fewer.
const DEEPEST: usize = 64 << 10;
const DEEPEST_ELSEWHERE: usize = 32 << 10;

static RING: Ring = Ring::new();
/// How many samples found no room.
static LOST: AtomicUsize = AtomicUsize::new(0);

/// The words of a record. Behind them lies the stack. A record owns a reference to the goroutine's name, and
/// one to its labels: to take one in a handler is an atomic addition.
#[repr(usize)]
enum Word {
    Time,
    Thread,
    Periods,
    Goroutine,
    M,
    P,
    Name,
    NameLength,
    Labels,
    StackLength,
    Registers,
}

const REGISTERS: usize = 8;
const STACK: usize = Word::Registers as usize + REGISTERS;

/// A sample, as it was written.
pub(super) struct Raw {
    /// When it was taken (ns).
    pub(super) time: u64,
    pub(super) thread: u32,
    /// How many periods it stands for.
    pub(super) periods: u64,
    /// The goroutine, or 0.
    pub(super) goroutine: u64,
    pub(super) name: Option<Arc<str>>,
    pub(super) labels: Labels,
    /// The numbers of the M and the P, if there were some.
    pub(super) m: Option<u32>,
    pub(super) p: Option<u32>,
    pub(super) registers: Registers,
    /// The stack from the stack pointer on, as far as it was copied.
    pub(super) stack: Vec<usize>,
}

/// Makes the ring ready.
pub(super) fn prepare() -> std::io::Result<()> {
    RING.fill()?;
    drain(drop);
    LOST.store(0, Ordering::Relaxed);
    Ok(())
}

/// How many samples were lost since [`prepare`].
pub(super) fn lost() -> usize {
    LOST.load(Ordering::Relaxed)
}

/// Passes all samples that are complete to `take`. True: none is being written.
pub(super) fn drain(mut take: impl FnMut(Raw)) -> bool {
    while RING.take(|words| take(Raw::read(words))) {}
    RING.is_empty()
}

pub(super) extern "C" fn on_signal(_: i32, info: *mut SigInfo, context: *mut c_void) {
    // SAFETY: the kernel passed both.
    unsafe {
        if let Some(periods) = cpu_timer::periods(info, OURS)
            && write(SignalFrame::new(context), periods).is_none()
        {
            LOST.fetch_add(periods as usize, Ordering::Relaxed);
        }
        // The thread used its CPU when the timer fired, but it may have begun to wait since.
        restart::restart_call(context, true);
    }
}

/// Writes a sample. `None`: there is no room.
fn write(frame: SignalFrame, periods: u32) -> Option<()> {
    let (tid, sp) = (thread::tid(), frame.sp());
    let m = SCHED.platform.m_of_thread(tid);
    let current = m.and_then(|m| m.current());
    let on_own_stack = current.is_some_and(|g| g.slot.stack().contains(&sp));
    let in_user_code = current.is_some_and(|g| g.in_runtime.get() == 0);
    let goroutine = current.filter(|_| on_own_stack || in_user_code);
    let depth = match goroutine {
        Some(g) if on_own_stack => (g.slot.stack().end - sp).min(DEEPEST),
        _ => DEEPEST_ELSEWHERE,
    };
    let reserved = RING.reserve(STACK + depth / size_of::<usize>())?;
    let words = reserved.words();
    let set = |word: Word, value: usize| words[word as usize].store(value, Ordering::Relaxed);
    set(Word::Time, nanotime() as usize);
    set(Word::Thread, tid as usize);
    set(Word::Periods, periods as usize);
    set(Word::Goroutine, goroutine.map_or(0, G::id) as usize);
    set(Word::M, m.map_or(0, |m| m.id as usize + 1));
    set(Word::P, m.and_then(|m| m.p()).map_or(0, |p| p.id as usize + 1));
    for (word, register) in words[Word::Registers as usize..].iter().zip(frame.registers().to_words()) {
        word.store(register, Ordering::Relaxed);
    }
    if let Some(g) = goroutine {
        // SAFETY: the goroutine is what this handler interrupts. If its end has begun, it has no info any
        // more.
        let (name, labels) = unsafe { (g.info().and_then(|info| info.name.clone()), g.labels()) };
        set(Word::Labels, labels.into_pointer() as usize);
        if let Some(name) = name {
            set(Word::NameLength, name.len());
            set(Word::Name, Arc::into_raw(name).cast::<u8>() as usize);
        }
    }
    // SAFETY: the words behind `STACK` are reserved for that.
    let copied = unsafe { inspect::copy_up_to(sp, words[STACK..].as_ptr().cast_mut().cast(), depth & !7) };
    set(Word::StackLength, copied / size_of::<usize>());
    reserved.publish();
    Some(())
}

impl Raw {
    fn read(words: &[AtomicUsize]) -> Raw {
        let get = |index: usize| words[index].load(Ordering::Relaxed);
        let number = |word: Word| u32::try_from(get(word as usize)).ok()?.checked_sub(1);
        let name =
            ptr::slice_from_raw_parts(get(Word::Name as usize) as *const u8, get(Word::NameLength as usize));
        let labels = get(Word::Labels as usize) as *mut _;
        // SAFETY: the record owns these references, and is read once.
        let (name, labels) = unsafe {
            let name = (!name.is_null()).then(|| Arc::from_raw(name as *const str));
            (name, Labels::from_pointer(labels))
        };
        Raw {
            time: get(Word::Time as usize) as u64,
            thread: get(Word::Thread as usize) as u32,
            periods: get(Word::Periods as usize) as u64,
            goroutine: get(Word::Goroutine as usize) as u64,
            name,
            labels,
            m: number(Word::M),
            p: number(Word::P),
            registers: Registers::from_words(std::array::from_fn(|n| get(Word::Registers as usize + n))),
            stack: (0..get(Word::StackLength as usize)).map(|n| get(STACK + n)).collect(),
        }
    }
}
