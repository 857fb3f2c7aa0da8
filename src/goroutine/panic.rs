//! The panic hook that prints which goroutine panicked.

use std::io::{self, Write};
use std::panic;
use std::sync::atomic::Ordering;

use crate::sched::types::current::current;
use crate::tls::output_capture;

/// Installs a panic hook that prints the goroutine's id, name and origin and then calls the previous hook. A
/// hook that the program sets later replaces both; it can call [`current`](crate::current) itself.
pub(crate) fn install_hook() {
    if std::thread::panicking() {
        return; // the hook cannot be changed now
    }
    let previous = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if let Some(g) = current() {
            // SAFETY: the info of a running goroutine is valid until it ends, and this is that goroutine.
            let name = unsafe { g.info.load(Ordering::Relaxed).as_ref() }.and_then(|i| i.name.as_deref());
            let name = name.map(|n| format!(" '{n}'")).unwrap_or_default();
            let site = g.site.get().map(|site| format!(" (spawned at {site})")).unwrap_or_default();
            let line = format!("\ngoroutine {}{name}{site}:", g.id());
            if output_capture::is_active() {
                eprintln!("{line}"); // to memory
            } else {
                // Ignore a write error: a panic inside the hook would abort the process.
                let _nobody_listens = writeln!(io::stderr(), "{line}");
            }
        }
        previous(info);
    }));
}
