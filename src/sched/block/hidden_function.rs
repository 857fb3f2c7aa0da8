//! Functions of libc that gort defines, too: the linker prefers gort's definition, which calls libc's.

use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::sys::process;

/// A function of libc that is hidden by a definition of ours.
pub(crate) struct Hidden {
    name: &'static CStr,
    address: AtomicUsize,
}

impl Hidden {
    pub(crate) const fn new(name: &'static CStr) -> Hidden {
        Hidden { name, address: AtomicUsize::new(0) }
    }

    /// Its address; 0 if libc does not have it.
    pub(crate) fn address(&self) -> usize {
        match self.address.load(Ordering::Relaxed) {
            0 => {
                let found = process::next_definition(self.name);
                self.address.store(found, Ordering::Relaxed);
                found
            }
            found => found,
        }
    }
}
