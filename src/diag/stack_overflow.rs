//! Stack overflows. When a goroutine runs into its guard page, a report names the goroutine and the process
//! aborts, as it does for a thread. Any other fault goes to the handler that was there before.

use std::ffi::c_void;
use std::fmt::{self, Write};

use crate::sched::machine::SCHED;
use crate::sched::types::g::G;
use crate::stack::size;
use crate::sys::signal::{self, MEMORY_FAULTS, Previous, SigInfo};
use crate::sys::{process, stderr, thread};

/// The handlers that were there before, in the order of [`MEMORY_FAULTS`].
static PREVIOUS: [Previous; 2] = [const { Previous::new() }; 2];

/// Called once, at start-up.
pub(super) fn init() {
    for (number, previous) in MEMORY_FAULTS.into_iter().zip(&PREVIOUS) {
        signal::install(number, on_fault, previous);
    }
}

extern "C" fn on_fault(number: i32, info: *mut SigInfo, context: *mut c_void) {
    // SAFETY: the kernel passes a valid record.
    let address = unsafe { signal::fault_address(info) };
    let g = SCHED.platform.m_of_thread(thread::tid()).and_then(|m| m.current());
    if let Some(g) = g
        && g.slot.guard().contains(&address)
    {
        report(g);
        process::abort();
    }
    let previous = MEMORY_FAULTS.iter().zip(&PREVIOUS).find(|(fault, _)| **fault == number);
    if !previous.is_some_and(|(_, previous)| previous.call(number, info, context)) {
        // The instruction will fault again, this time fatally.
        signal::reset_to_default(number);
    }
}

fn report(g: &'static G) {
    let mut out = Text { buffer: [0; 1024], length: 0 };
    let _ = write!(out, "\ngoroutine {}", g.id());
    // SAFETY: the info of a running goroutine is valid until it ends, and it is stopped right here.
    if let Some(name) = unsafe { g.info() }.and_then(|info| info.name.as_deref()) {
        // At most 64 characters, so that there is room for the rest.
        let _ = out.write_str(" '");
        for c in name.chars().take(64) {
            let _ = out.write_char(c);
        }
        let _ = out.write_str("'");
    }
    if let Some(site) = g.site.get() {
        let _ = write!(out, " (spawned at {site})");
    }
    let class = g.slot.class();
    let _ = write!(
        out,
        " has overflowed its stack of {} KiB\nfatal runtime error: stack overflow; ",
        class.usable() >> 10
    );
    let _ = out.write_str(if class.is_growable() {
        "stacks can grow further with GORT_MAX_STACK or gort::runtime::Config::max_stack\n"
    } else if size::max_stack() > class.usable() {
        "it could not grow, because it was started with a smaller stack_size, or while thousands of other \
         goroutines were alive, or because address space is limited (ulimit -v, vm.overcommit_memory). A \
         larger stack can be had with gort::Builder::stack_size; for all goroutines with GORT_STACK_SIZE or \
         gort::runtime::Config::stack_size\n"
    } else {
        "a larger stack can be had with gort::Builder::stack_size; for all goroutines with GORT_MAX_STACK or \
         gort::runtime::Config::max_stack\n"
    });
    stderr::write(out.as_str());
}

/// Collects text without allocating.
struct Text {
    buffer: [u8; 1024],
    length: usize,
}

impl Text {
    fn as_str(&self) -> &str {
        // `write_str` ends at the end of a character.
        std::str::from_utf8(&self.buffer[..self.length]).unwrap_or_default()
    }
}

impl Write for Text {
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
