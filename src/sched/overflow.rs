//! Stack overflows: a goroutine that runs into its guard page gets a report that names it, and the process aborts, as
//! it does for a thread. Any other fault goes to the handler that was there before.

use std::ffi::c_void;
use std::fmt::{self, Write};
use std::sync::atomic::Ordering;

use super::g::G;
use super::m;
use crate::stack::size::SizeClass;
use crate::sys::mem::PAGE;
use crate::sys::signal::{self, Previous};
use crate::sys::{syscall, thread};

static PREVIOUS_SEGV: Previous = Previous::new();
static PREVIOUS_BUS: Previous = Previous::new();

/// Once, at start-up.
pub(crate) fn init() {
    signal::install(libc::SIGSEGV, on_fault, &PREVIOUS_SEGV);
    signal::install(libc::SIGBUS, on_fault, &PREVIOUS_BUS);
}

extern "C" fn on_fault(number: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid record; faults have an address.
    let address = unsafe { (*info).si_addr() } as usize;
    let tid = thread::tid();
    let g = m::all().find(|m| m.tid() == tid).and_then(|m| m.current());
    if let Some(g) = g
        && (g.slot_start()..g.slot_start() + PAGE).contains(&address)
    {
        report(g);
        // SAFETY: ends the process.
        unsafe { libc::abort() };
    }
    let previous = if number == libc::SIGBUS { &PREVIOUS_BUS } else { &PREVIOUS_SEGV };
    if !previous.call(number, info, context) {
        // The instruction will fault again, this time fatally.
        signal::reset_to_default(number);
    }
}

fn report(g: &'static G) {
    let mut out = Stderr { buffer: [0; 1024], length: 0 };
    let _ = write!(out, "\ngoroutine {}", g.id());
    // SAFETY: the info of a running goroutine is valid until it ends, and it is stopped right here.
    if let Some(name) = unsafe { g.info.load(Ordering::Relaxed).as_ref() }.and_then(|i| i.name.as_deref()) {
        // Not so much of it that the rest has no room.
        let _ = out.write_str(" '");
        for c in name.chars().take(64) {
            let _ = out.write_char(c);
        }
        let _ = out.write_str("'");
    }
    if let Some(site) = g.site.get() {
        let _ = write!(out, " (spawned at {site})");
    }
    let usable = SizeClass::of_slot(g.slot_size()).usable();
    let _ = writeln!(
        out,
        " has overflowed its stack of {} KiB\nfatal runtime error: stack overflow; a larger stack can be had with \
         gort::Builder::stack_size",
        usable >> 10
    );
    out.flush();
}

/// Collects text without allocating.
struct Stderr {
    buffer: [u8; 1024],
    length: usize,
}

impl Stderr {
    fn flush(&self) {
        // SAFETY: writes initialised bytes to descriptor 2.
        unsafe {
            syscall::syscall6(libc::SYS_write, 2, self.buffer.as_ptr() as usize, self.length, 0, 0, 0);
        }
    }
}

impl Write for Stderr {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = &mut self.buffer[self.length..];
        let mut count = text.len().min(room.len());
        while !text.is_char_boundary(count) {
            count -= 1;
        }
        room[..count].copy_from_slice(&text.as_bytes()[..count]);
        self.length += count;
        Ok(())
    }
}
