//! Saying which goroutine panicked.

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
            match g.site.get() {
                Some(site) => eprintln!("\ngoroutine {}{name} (spawned at {site}):", g.id()),
                None => eprintln!("\ngoroutine {}{name}:", g.id()),
            }
        }
        previous(info);
    }));
}
