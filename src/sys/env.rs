//! Reads gort's settings from environment variables.
//!
//! | Variable | Meaning |
//! | --- | --- |
//! | `GOMAXPROCS` | the number of Ps, 1 to 1024 |
//! | `GODEBUG` | a list of options, `schedtrace=1000,scheddetail=1` |
//! | `GORT_MAXPROCS`, `GORT_DEBUG` | the same settings for gort alone: they override Go's variables |
//! | `GORT_GUARD=mprotect` | guard pages by mprotect, as on kernels before 6.13 |
//! | `GORT_MAX_STACK` | how deep a stack can grow: bytes, or `64M` and the like; at most `1G` |
//! | `GORT_STACK_SIZE` | what each stack can use at least: bytes, or `256K` and the like; at most `1G` |
//! | `GORT_SEED` | the seed of bubbles: a whole number |
//! | `GORT_SYSMON=eager` | sysmon keeps its scheduling policy |
//! | `GORT_TRACE` | a file for an execution trace of the whole run; `%p` in it stands for the process |
//!
//! Go's variables may be meant for a Go program that the same script starts, so gort silently ignores keys of
//! `GODEBUG` that it does not have. Every other invalid value gives a warning and is then ignored: for
//! `GORT_MAXPROCS=abc`, `GOMAXPROCS` counts. An empty variable counts as unset. `GORT_DEBUG` overrides
//! `GODEBUG` key by key: options that only `GODEBUG` sets still apply.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::cpus::MAX_PROCS;

/// The settings from the environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    /// The number of Ps, from 1 to [`MAX_PROCS`], if a variable gives it.
    pub(crate) max_procs: Option<usize>,
    pub(crate) debug: DebugOptions,
    /// What each stack can use at least, and how deep it can grow (bytes).
    pub(crate) stack_size: Option<usize>,
    pub(crate) max_stack: Option<usize>,
    /// Make guard pages with mprotect.
    pub(crate) guard_by_mprotect: bool,
    /// Leave sysmon's scheduling policy alone.
    pub(crate) eager_sysmon: bool,
    /// The file for an execution trace of the whole run.
    pub(crate) trace: Option<PathBuf>,
    /// Warnings about invalid values: lines to print, each without a newline.
    pub(crate) warnings: Vec<String>,
}

/// The options of `GODEBUG` and `GORT_DEBUG`. The names are Go's where Go has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DebugOptions {
    /// Print a line about the scheduler's state at this interval.
    pub(crate) schedtrace: Option<Duration>,
    /// Let `schedtrace` also print a line about every P, M and G.
    pub(crate) scheddetail: bool,
    /// Never preempt goroutines by signal.
    pub(crate) asyncpreemptoff: bool,
    /// Let CPU quotas limit the default number of Ps.
    pub(crate) containermaxprocs: bool,
    /// Adapt the number of Ps when the CPU limits change while the program runs.
    pub(crate) updatemaxprocs: bool,
    /// Detect deadlocks.
    pub(crate) deadlock: bool,
    /// Print all goroutines on SIGQUIT.
    pub(crate) sigquit: bool,
    /// Let dumps show the runtime's own frames, too.
    pub(crate) runtimeframes: bool,
}

impl Default for DebugOptions {
    fn default() -> DebugOptions {
        DebugOptions {
            schedtrace: None,
            scheddetail: false,
            asyncpreemptoff: false,
            containermaxprocs: true,
            updatemaxprocs: true,
            deadlock: true,
            sigquit: true,
            runtimeframes: false,
        }
    }
}

type Setter = fn(&mut DebugOptions, u32);

/// Every key, with the function that applies its value.
const KEYS: [(&str, Setter); 8] = [
    ("schedtrace", |debug, ms| debug.schedtrace = (ms > 0).then(|| Duration::from_millis(ms.into()))),
    ("scheddetail", |debug, on| debug.scheddetail = on > 0),
    ("asyncpreemptoff", |debug, on| debug.asyncpreemptoff = on > 0),
    ("containermaxprocs", |debug, on| debug.containermaxprocs = on > 0),
    ("updatemaxprocs", |debug, on| debug.updatemaxprocs = on > 0),
    ("deadlock", |debug, on| debug.deadlock = on > 0),
    ("sigquit", |debug, on| debug.sigquit = on > 0),
    ("runtimeframes", |debug, on| debug.runtimeframes = on > 0),
];

/// Reads this process's environment.
pub(crate) fn read() -> Settings {
    settings(|name| std::env::var_os(name))
}

/// The seed of bubbles. An invalid value gives a warning on standard error.
pub(crate) fn seed() -> Option<u64> {
    let text = std::env::var_os("GORT_SEED")?.to_string_lossy().trim().to_owned();
    let seed = text.parse().ok();
    if seed.is_none() && !text.is_empty() {
        let warning = format!("gort: GORT_SEED={text:?} is ignored: it must be a whole number below 2^64\n");
        super::stderr::write(&warning);
    }
    seed
}

fn settings(get: impl Fn(&str) -> Option<OsString>) -> Settings {
    let trace = get("GORT_TRACE").filter(|file| !file.is_empty()).map(PathBuf::from);
    // A value that is not UTF-8 is invalid anyway; the warning shows it with replacement characters.
    let get = |name: &str| {
        get(name).map(|value| value.to_string_lossy().trim().to_owned()).filter(|value| !value.is_empty())
    };
    let mut settings = Settings { trace, ..Settings::default() };
    let ours =
        get("GORT_MAXPROCS").and_then(|value| max_procs("GORT_MAXPROCS", &value, &mut settings.warnings));
    settings.max_procs = ours
        // With a valid GORT_MAXPROCS, GOMAXPROCS is not even checked.
        .or_else(|| max_procs("GOMAXPROCS", &get("GOMAXPROCS")?, &mut settings.warnings));
    for name in ["GODEBUG", "GORT_DEBUG"] {
        if let Some(list) = get(name) {
            let foreign_keys = name == "GODEBUG";
            debug_options(name, &list, foreign_keys, &mut settings.debug, &mut settings.warnings);
        }
    }
    settings.stack_size = size("GORT_STACK_SIZE", get("GORT_STACK_SIZE"), &mut settings.warnings);
    settings.max_stack = size("GORT_MAX_STACK", get("GORT_MAX_STACK"), &mut settings.warnings);
    let mut is_set = |name: &str, only: &str| {
        let value = get(name)?;
        if value != only {
            settings.warnings.push(format!("gort: {name}={value:?} is ignored: the only value is {only}"));
        }
        (value == only).then_some(())
    };
    let guard = is_set("GORT_GUARD", "mprotect");
    let sysmon = is_set("GORT_SYSMON", "eager");
    (settings.guard_by_mprotect, settings.eager_sysmon) = (guard.is_some(), sysmon.is_some());
    settings
}

/// The number of Ps that `value` asks for.
fn max_procs(name: &str, value: &str, warnings: &mut Vec<String>) -> Option<usize> {
    match parse_whole(value) {
        Some(n) if n > MAX_PROCS as u64 => {
            warnings
                .push(format!("gort: {name}={value} is more than gort can use; it runs with {MAX_PROCS}"));
            Some(MAX_PROCS)
        }
        Some(n @ 1..) => Some(n as usize),
        _ => {
            warnings.push(format!(
                "gort: {name}={value:?} is ignored: it must be a whole number from 1 to {MAX_PROCS}"
            ));
            None
        }
    }
}

/// The bytes that `value` asks for: a number, which may end in K, M or G (powers of 1024).
fn size(name: &str, value: Option<String>, warnings: &mut Vec<String>) -> Option<usize> {
    let value = value?;
    let (digits, shift) = match value.as_bytes().last() {
        Some(b'K' | b'k') => (&value[..value.len() - 1], 10),
        Some(b'M' | b'm') => (&value[..value.len() - 1], 20),
        Some(b'G' | b'g') => (&value[..value.len() - 1], 30),
        _ => (&*value, 0),
    };
    let bytes = parse_whole(digits).and_then(|n| n.checked_mul(1 << shift)).filter(|&n| n <= MAX_SIZE);
    if bytes.is_none() {
        warnings.push(format!(
            "gort: {name}={value:?} is ignored: it must be a size of at most 1G, as in 65536, 256K or 64M"
        ));
    }
    bytes.map(|bytes| bytes as usize)
}

/// The largest size of a stack (bytes).
const MAX_SIZE: u64 = 1 << 30;

/// Applies the list `key=value,key=value` to `debug`. If a key occurs twice, its last valid value counts.
fn debug_options(
    name: &str,
    list: &str,
    foreign_keys: bool,
    debug: &mut DebugOptions,
    warnings: &mut Vec<String>,
) {
    for item in list.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let (key, value) =
            item.split_once('=').map_or((item, None), |(key, value)| (key.trim_end(), Some(value)));
        let Some((_, set)) = KEYS.iter().find(|(known, _)| *known == key) else {
            if !foreign_keys {
                let known = KEYS.map(|(known, _)| known).join(", ");
                warnings.push(format!("gort: {name}: there is no option {key:?}; the options are {known}"));
            }
            continue;
        };
        match value.and_then(|value| u32::try_from(parse_whole(value.trim())?).ok()) {
            Some(value) => set(debug, value),
            None => warnings.push(format!(
                "gort: {name}: {item:?} is ignored: the value must be a whole number, as in {key}={}",
                if key == "schedtrace" { "1000" } else { "1" }
            )),
        }
    }
}

/// Parses a number that consists of digits only. A number that is too large gives `u64::MAX`.
fn parse_whole(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
