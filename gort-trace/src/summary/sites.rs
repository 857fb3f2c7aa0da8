//! The site of an event: the innermost frame of its stack that belongs to the program, not to a runtime or a
//! standard library.

use std::borrow::Cow;

use crate::model::Trace;
use crate::tables::{Frame, StackId};

/// Functions with these prefixes belong to gort, to Rust's standard library, or to Go's packages that wait.
const NOT_THE_PROGRAMS: [&str; 30] = [
    "gort::",
    "gort_",
    "std::",
    "core::",
    "alloc::",
    "__",
    "_start",
    "start_thread",
    "clone3",
    "libc::",
    "crossbeam",
    "backtrace::",
    "hyper::",
    "httparse::",
    "runtime.",
    "runtime/",
    "internal/",
    "sync.",
    "sync/",
    "syscall.",
    "net.",
    "net/",
    "os.",
    "io.",
    "bufio.",
    "time.",
    "iter.",
    "context.",
    "fmt.",
    "golang.org/x/sys/",
];

/// The demo of the program `gort` shares its first name with the runtime.
const DEMO: &str = "gort::demo::";

fn is_the_programs(function: &str) -> bool {
    // "<gort::net::TcpStream as std::io::Read>::read"
    let name = function.trim_start_matches(['<', '&', '_']);
    let function = if function.starts_with("__") || function.starts_with("_start") { function } else { name };
    let is_not = || NOT_THE_PROGRAMS.iter().any(|prefix| function.starts_with(prefix));
    !function.is_empty() && (function.starts_with(DEMO) || !is_not())
}

/// Whether a function only calls what it was given, as `core::ops::function::FnOnce::call_once` does.
fn only_calls(function: &str) -> bool {
    function.trim_start_matches('<').starts_with("core::ops::function::")
        || function.contains(" as core::ops::function::")
}

/// The site of each stack: the innermost frame that belongs to the program; if there is none, the innermost
/// one that does not only call another.
pub(super) struct Sites {
    by_stack: Vec<Site>,
}

/// A frame that is a site; `None` if the stack is not known.
pub(super) type Site = Option<Frame>;

impl Sites {
    pub(super) fn new(trace: &Trace<'_>) -> Sites {
        let own: Vec<bool> = (trace.stacks.frames().iter())
            .map(|frame| is_the_programs(trace.strings.get(frame.function)))
            .collect();
        let site = |id: usize| {
            let stack = trace.stacks.indices(id as StackId);
            let own = stack.iter().find(|&&index| own[index as usize]);
            let says = |&&index: &&u32| {
                !only_calls(trace.strings.get(trace.stacks.frames()[index as usize].function))
            };
            let first = own.or_else(|| stack.iter().find(says)).or(stack.first());
            first.map(|&index| trace.stacks.frames()[index as usize])
        };
        Sites { by_stack: (0..trace.stacks.count()).map(site).collect() }
    }

    pub(super) fn of(&self, stack: StackId) -> Site {
        self.by_stack.get(stack as usize).copied().flatten()
    }
}

/// "function (file:line)"; empty if the stack is not known. Text is made only of the sites that are listed: a
/// file may have many stacks with long names.
pub(super) fn text(trace: &Trace<'_>, site: Site) -> String {
    let Some(frame) = site else { return String::new() };
    let path = trace.strings.get(frame.file);
    // The last two parts of a path say enough.
    let parts: Vec<&str> = path.rsplit('/').take(2).collect();
    let file: Cow<'_, str> = match parts[..] {
        [file, folder] if !folder.is_empty() => format!("{folder}/{file}").into(),
        _ => path.into(),
    };
    format!("{} ({file}:{})", trace.strings.get(frame.function), frame.line)
}

#[cfg(test)]
mod tests {
    use super::{is_the_programs, only_calls};

    #[test]
    fn runtimes_and_standard_libraries_are_not_the_programs() {
        for own in [
            "app::worker",
            "main.client",
            "<app::Job as app::Run>::run",
            "main.main.func1",
            "gort::demo::load::ask",
        ] {
            assert!(is_the_programs(own), "{own}");
        }
        for other in [
            "",
            "gort::chan::recv",
            "<gort::net::TcpStream as std::io::Read>::read",
            "<&std::fs::File as std::io::Read>::read",
            "runtime.gopark",
            "internal/poll.(*FD).Read",
            "__libc_read",
        ] {
            assert!(!is_the_programs(other), "{other}");
        }
    }

    #[test]
    fn what_only_calls_something_says_nothing() {
        assert!(only_calls("core::ops::function::FnOnce::call_once"));
        assert!(only_calls("<alloc::boxed::Box<F> as core::ops::function::Fn<()>>::call"));
        assert!(!only_calls("gort::sched::wake::ready"));
    }
}
