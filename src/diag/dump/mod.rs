//! Dumps: where every goroutine is. `snapshot.rs` collects them; this file has the public types and prints
//! them.

pub(crate) mod ask_running;
#[cfg(feature = "debug")]
pub(crate) mod one;
pub(crate) mod snapshot;
pub(super) mod stack_copy;
pub(crate) mod unwind;

use std::collections::HashMap;
use std::ffi::c_void;
use std::fmt::{self, Write};
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use self::snapshot::{Holder, Snapshot};

use crate::goroutine::Labels;
use crate::sched::word::status::Status;

/// Every goroutine of the process with its stack, at about one moment. See [`dump`].
///
/// Printed (`{}`), it looks like Go's:
///
/// ```text
/// goroutine 18 [chan receive, 3 minutes] {name: reader}:
/// server::read_requests
///         /home/me/server/src/main.rs:48
/// created by goroutine 1 at src/main.rs:31:9
/// ```
///
/// The frames with which the runtime stopped a goroutine or started it are left out. `{:#}` prints them, too,
/// and `GORT_DEBUG=runtimeframes=1` shows them in every dump.
#[derive(Clone, Default)]
pub struct Dump {
    goroutines: Vec<GoroutineTrace>,
}

/// One goroutine of a [`Dump`].
#[derive(Clone)]
pub struct GoroutineTrace(pub(super) Snapshot);

/// Describes every goroutine: what it does, what it waits for and since when, which goroutine spawned it, and
/// its stack.
///
/// The world is not stopped. Goroutines that wait or are queued are kept from running for some ten
/// microseconds each; a goroutine that runs is interrupted by a signal for as long. A goroutine in a system
/// call that is not marked by [`blocking`](crate::blocking) is not interrupted, because the call might fail
/// with `EINTR`; its stack is empty in the dump. The stack is also empty if a goroutine does not answer the
/// signal in time, or if preemption by signals is off.
///
/// Function names are looked up only when the dump is printed, which takes much longer than making it.
///
/// ```
/// let (sender, receiver) = gort::chan::bounded::<()>(0);
/// let reader = gort::Builder::new().name("reader".into()).spawn(move || receiver.recv()).unwrap();
/// # while !gort::runtime::dump().goroutines().iter().any(|g| g.state() == "chan receive") {}
/// let dump = gort::runtime::dump();
/// let found = dump.goroutines().iter().find(|g| g.name() == Some("reader")).unwrap();
/// assert_eq!(found.state(), "chan receive");
/// println!("{dump}");
/// # drop(sender);
/// # reader.join().unwrap().unwrap_err();
/// ```
pub fn dump() -> Dump {
    Dump::take(false)
}

impl Dump {
    pub(crate) fn take(last_words: bool) -> Dump {
        Dump { goroutines: snapshot::all(last_words).into_iter().map(GoroutineTrace).collect() }
    }

    /// Keeps only the goroutines for which `f` returns true.
    pub(crate) fn keep(&mut self, f: impl Fn(&GoroutineTrace) -> bool) {
        self.goroutines.retain(f);
    }

    /// The goroutines: the one that made the dump first, the others by id.
    pub fn goroutines(&self) -> &[GoroutineTrace] {
        &self.goroutines
    }
}

impl GoroutineTrace {
    /// The goroutine's id.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// Its name, if it has one.
    pub fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }

    /// Its labels.
    pub fn labels(&self) -> &Labels {
        &self.0.labels
    }

    /// The CPU time that it has used, as [`CpuTime`](crate::runtime::CpuTime) explains.
    pub fn cpu_time(&self) -> Duration {
        self.0.cpu_time
    }

    /// What it does: "running", "runnable", "syscall", "preempted", or what it waits for, in Go's words:
    /// "chan receive".
    pub fn state(&self) -> &'static str {
        match self.0.wait {
            Some((reason, _)) if self.0.status == Status::Waiting => reason.name(),
            _ => self.0.status.name(),
        }
    }

    /// How long it has been waiting, give or take a second.
    pub fn waiting_for(&self) -> Option<Duration> {
        self.0.wait.map(|(_, time)| time)
    }

    /// Whether it is bound to its OS thread. See [`lock_os_thread`](crate::runtime::lock_os_thread).
    pub fn is_locked_to_thread(&self) -> bool {
        self.0.locked
    }

    /// The source location of its spawn.
    pub fn spawned_at(&self) -> Option<&'static Location<'static>> {
        self.0.site
    }

    /// The id of the goroutine that spawned it; `None` if a thread outside of gort did.
    pub fn parent(&self) -> Option<u64> {
        (self.0.parent != 0).then_some(self.0.parent)
    }

    /// Code addresses of its stack, the innermost first, of at most 64 frames. The runtime's own are among
    /// them.
    pub fn addresses(&self) -> &[usize] {
        &self.0.frames
    }

    /// If it waits for a mutex or an `RwLock` that one goroutine holds: that goroutine's id.
    pub fn waits_for_goroutine(&self) -> Option<u64> {
        match &self.0.holder {
            Some(Holder::One(id)) => *id,
            Some(Holder::Readers(1, known)) if known.len() == 1 => known.first().copied(),
            _ => None,
        }
    }
}

impl fmt::Debug for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.goroutines).finish()
    }
}

impl fmt::Debug for GoroutineTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GoroutineTrace")
            .field("id", &self.id())
            .field("name", &self.name())
            .field("labels", &self.labels())
            .field("state", &self.state())
            .field("spawned_at", &self.spawned_at())
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names = Names::default();
        for (index, goroutine) in self.goroutines.iter().enumerate() {
            if index != 0 {
                writeln!(f)?;
            }
            goroutine.write(f, &mut names)?;
        }
        Ok(())
    }
}

/// Writes, for example, "waits for a lock that 3 readers hold: goroutines 5, 7".
fn write_readers(f: &mut fmt::Formatter<'_>, count: u64, known: &[u64]) -> fmt::Result {
    let (readers, hold) = if count == 1 { ("reader", "holds") } else { ("readers", "hold") };
    write!(f, "waits for a lock that {count} {readers} {hold}")?;
    for (index, id) in known.iter().enumerate() {
        let before = match (index, known.len()) {
            (0, 1) => ": goroutine ",
            (0, _) => ": goroutines ",
            _ => ", ",
        };
        write!(f, "{before}{id}")?;
    }
    writeln!(f)
}

impl fmt::Display for GoroutineTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, &mut Names::default())
    }
}

#[cfg(feature = "debug")]
impl GoroutineTrace {
    /// The text of this goroutine in a dump, with function names that were looked up before.
    pub(crate) fn with_names(&self, names: &mut Names) -> String {
        struct Text<'a>(&'a GoroutineTrace, std::cell::RefCell<&'a mut Names>);
        impl fmt::Display for Text<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.write(f, &mut self.1.borrow_mut())
            }
        }
        Text(self, std::cell::RefCell::new(names)).to_string()
    }
}

impl GoroutineTrace {
    fn write(&self, f: &mut fmt::Formatter<'_>, names: &mut Names) -> fmt::Result {
        write!(f, "goroutine {} [{}", self.id(), self.state())?;
        let minutes = self.waiting_for().map_or(0, |time| time.as_secs() / 60);
        if minutes > 0 {
            write!(f, ", {minutes} minutes")?;
        }
        if self.is_locked_to_thread() {
            write!(f, ", locked to thread")?;
        }
        write!(f, "]")?;
        self.write_properties(f)?;
        writeln!(f, ":")?;
        match &self.0.holder {
            Some(Holder::One(Some(id))) => writeln!(f, "waits for a lock that goroutine {id} holds")?,
            Some(Holder::One(None)) => writeln!(f, "waits for a lock that a thread outside of gort holds")?,
            Some(Holder::Readers(count, known)) => write_readers(f, *count, known)?,
            None => {}
        }
        let whole = f.alternate() || RUNTIME_FRAMES.load(Ordering::Relaxed);
        let functions = names.of(&self.0.frames, whole);
        if functions.is_empty() && self.0.status == Status::Syscall {
            writeln!(f, "\t(in a system call that is not marked as blocking)")?;
        } else if functions.is_empty() && self.0.status == Status::Running {
            writeln!(f, "\t(did not answer)")?;
        }
        for function in &functions {
            writeln!(f, "{}", function.name)?;
            if let Some((file, line)) = &function.place {
                writeln!(f, "\t{file}:{line}")?;
            }
        }
        if let Some(site) = self.0.site {
            match self.parent() {
                Some(parent) => writeln!(f, "created by goroutine {parent} at {site}")?,
                None => writeln!(f, "created by a thread outside of gort at {site}")?,
            }
        }
        Ok(())
    }
}

impl GoroutineTrace {
    /// Writes, for example, ` {name: reader, labels: {shard: 7}}`.
    fn write_properties(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = " {";
        if let Some(name) = self.name() {
            write!(f, "{before}name: ")?;
            // Control characters are escaped, so that the name stays on one line.
            for c in name.chars() {
                if c.is_control() { write!(f, "{}", c.escape_debug())? } else { f.write_char(c)? }
            }
            before = ", ";
        }
        if !self.labels().is_empty() {
            write!(f, "{before}labels: {}", self.labels())?;
            before = ", ";
        }
        if before == ", " { f.write_str("}") } else { Ok(()) }
    }
}

/// Every dump shows the runtime's own frames.
static RUNTIME_FRAMES: AtomicBool = AtomicBool::new(false);

/// Called at boot.
pub(super) fn show_runtime_frames(yes: bool) {
    RUNTIME_FRAMES.store(yes, Ordering::Relaxed);
}

/// A function, and the place in its source.
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) place: Option<(String, u32)>,
}

/// A cache of looked-up functions: most goroutines are in the same few places, and to look one up takes as
/// long as to print a hundred.
#[derive(Default)]
pub(crate) struct Names(HashMap<usize, Vec<Arc<Function>>>);

/// Parts of the names of functions that call a goroutine's closure.
const STARTED_BY: [&str; 2] = ["gort::goroutine::join::ResultPlace", "gort::sched::run::spawn::Body>::run"];

/// Parts of the names of functions that stop a goroutine, or look at the one that makes the dump.
const STOPPED_BY: [&str; 4] = ["gort::sched::", "gort::arch::", "gort::transparent::", "gort::diag::dump::"];

impl Names {
    /// The functions at these addresses, inlined ones included. Unless the `whole` stack is wanted, without
    /// gort's own frames at both ends: those that stopped the goroutine, and those that started it.
    pub(crate) fn of(&mut self, addresses: &[usize], whole: bool) -> Vec<Arc<Function>> {
        let mut functions = Vec::new();
        for &address in addresses {
            functions.extend_from_slice(self.0.entry(address).or_insert_with(|| look_up(address)));
        }
        if whole {
            return functions;
        }
        if let Some(start) = functions.iter().position(|f| STARTED_BY.iter().any(|by| f.name.contains(by))) {
            functions.truncate(start);
        }
        let is_inner = |f: &&Arc<Function>| STOPPED_BY.iter().any(|by| f.name.contains(by));
        let inner = functions.iter().take_while(is_inner).count();
        if inner < functions.len() {
            functions.drain(..inner);
        }
        functions
    }
}

fn look_up(address: usize) -> Vec<Arc<Function>> {
    let mut functions = Vec::new();
    backtrace::resolve(address as *mut c_void, |symbol| {
        let name = symbol.name().map_or_else(|| format!("{address:#x}"), |name| format!("{name:#}"));
        let place = symbol.filename().zip(symbol.lineno());
        let place = place.map(|(file, line)| (file.display().to_string(), line));
        functions.push(Arc::new(Function { name, place }));
    });
    if functions.is_empty() {
        functions.push(Arc::new(Function { name: format!("{address:#x}"), place: None }));
    }
    functions
}
