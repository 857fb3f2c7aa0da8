//! Saying which goroutine panicked.

use std::io::{self, Write};
use std::panic;
use std::sync::atomic::Ordering;

use crate::sched::section;

/// Puts a hook before the current panic hook that names the goroutine. A hook that the program sets later
/// replaces both and can ask [`current`](crate::current) itself.
pub(crate) fn install_hook() {
    if std::thread::panicking() {
        return; // the hook cannot be changed now
    }
    let previous = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if let Some(g) = section::current() {
            // SAFETY: the info of a running goroutine is valid until it ends, and this is that goroutine.
            let name = unsafe { g.info.load(Ordering::Relaxed).as_ref() }.and_then(|i| i.name.as_deref());
            let name = name.map(|n| format!(" '{n}'")).unwrap_or_default();
            let site = g.site.get().map(|site| format!(" (spawned at {site})")).unwrap_or_default();
            // A panic in here would end the process.
            let _nobody_listens = writeln!(io::stderr(), "\ngoroutine {}{name}{site}:", g.id());
        }
        previous(info);
    }));
}
