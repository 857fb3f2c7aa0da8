//! The jobs of the service: one kind computes, one reads a file, one asks a backend over TCP. The right
//! answer to each job is known in advance, so that every answer can be checked.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gort::context::Context;
use gort::sync::Semaphore;

use super::backend::Backend;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Compute,
    File,
    Network,
    /// Waits for a partner that never answers. Only its context can end it.
    Stuck,
}

/// A job. `variant` selects its input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) kind: Kind,
    pub(crate) variant: usize,
}

impl Job {
    /// The `n`th job of a mixed load.
    pub(crate) fn mixed(n: usize) -> Job {
        Job { kind: [Kind::Compute, Kind::File, Kind::Network][n % 3], variant: n / 3 }
    }
}

/// How a job ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    Right,
    Wrong(String),
    Cancelled,
}

/// What jobs need: inputs with known answers, the backend, and the permits for CPU-bound work.
pub(crate) struct Tools {
    /// Ranges of numbers, and how many primes each contains.
    ranges: Vec<(u64, u64, usize)>,
    files: Files,
    backend: Backend,
    /// One permit for each CPU-bound job that may run at once.
    cpu: Semaphore,
    cpu_running: AtomicUsize,
    cpu_most: AtomicUsize,
}

/// The size of each file, in bytes.
const FILE_SIZE: usize = 256 * 1024;
/// The number of different inputs of each kind of job.
const VARIANTS: usize = 8;

impl Tools {
    pub(crate) fn new(cpu_slots: usize) -> io::Result<Tools> {
        let width = width_of_a_millisecond();
        let ranges = (0..VARIANTS as u64)
            .map(|n| {
                let (from, to) = (100_000, 100_000 + width * (n + 1) / 4);
                (from, to, count_primes(from, to))
            })
            .collect();
        Ok(Tools {
            ranges,
            files: Files::create()?,
            backend: Backend::start()?,
            cpu: Semaphore::new(cpu_slots),
            cpu_running: AtomicUsize::new(0),
            cpu_most: AtomicUsize::new(0),
        })
    }

    /// The largest number of CPU-bound jobs that ran at once.
    pub(crate) fn cpu_at_once(&self) -> usize {
        self.cpu_most.load(Ordering::Relaxed)
    }

    pub(crate) fn run(&self, ctx: &Context, job: Job) -> Outcome {
        if ctx.err().is_some() {
            return Outcome::Cancelled;
        }
        match job.kind {
            Kind::Compute => self.compute(ctx, job.variant),
            Kind::File => self.read_file(job.variant),
            Kind::Network => match self.backend.ask(ctx, job.variant as u8) {
                Ok(echoed) => check(echoed, || "the backend sent other bytes back".into()),
                Err(_) if ctx.err().is_some() => Outcome::Cancelled,
                Err(error) => Outcome::Wrong(format!("the backend: {error}")),
            },
            Kind::Stuck => match gort::time::sleep_ctx(ctx, Duration::from_secs(86_400)) {
                Ok(()) => Outcome::Wrong("a day passed".into()),
                Err(_) => Outcome::Cancelled,
            },
        }
    }

    fn compute(&self, ctx: &Context, variant: usize) -> Outcome {
        let Ok(_permit) = self.cpu.acquire_ctx(ctx, 1) else { return Outcome::Cancelled };
        self.cpu_most.fetch_max(self.cpu_running.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        let (from, to, primes) = self.ranges[variant % self.ranges.len()];
        let found = count_primes(from, to);
        self.cpu_running.fetch_sub(1, Ordering::Relaxed);
        check(found == primes, || format!("{found} primes from {from} to {to} instead of {primes}"))
    }

    fn read_file(&self, variant: usize) -> Outcome {
        let (path, sum) = &self.files.list[variant % self.files.list.len()];
        // Plain `std::fs`: gort notices if the read blocks.
        match fs::read(path) {
            Ok(bytes) => {
                let found = checksum(&bytes);
                check(found == *sum, || format!("{} has sum {found:x} instead of {sum:x}", path.display()))
            }
            Err(error) => Outcome::Wrong(format!("{}: {error}", path.display())),
        }
    }
}

fn check(right: bool, why: impl FnOnce() -> String) -> Outcome {
    if right { Outcome::Right } else { Outcome::Wrong(why()) }
}

/// Files with known contents, in a directory of their own that the drop removes.
struct Files {
    directory: PathBuf,
    list: Vec<(PathBuf, u64)>,
}

impl Files {
    fn create() -> io::Result<Files> {
        let directory = own_directory()?;
        let mut files = Files { directory, list: Vec::new() };
        for n in 0..VARIANTS {
            let path = files.directory.join(format!("{n}.bin"));
            let bytes = noise(n as u64 + 1, FILE_SIZE);
            fs::write(&path, &bytes).map_err(|error| at(&path, &error))?;
            files.list.push((path, checksum(&bytes)));
        }
        Ok(files)
    }
}

/// Creates a directory that only this user may access.
fn own_directory() -> io::Result<PathBuf> {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    loop {
        let name = format!("gort-demo-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let directory = std::env::temp_dir().join(name);
        match fs::DirBuilder::new().mode(0o700).create(&directory) {
            Ok(()) => return Ok(directory),
            // Left by an earlier process of the same id.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(at(&directory, &error)),
        }
    }
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot write {}: {error}", path.display()))
}

impl Drop for Files {
    fn drop(&mut self) {
        // A file that cannot be removed stays in the directory for temporary files, which the system cleans.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Pseudo-random bytes (xorshift), the same ones for the same seed.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect()
}

/// The FNV-1a hash.
fn checksum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// Counts primes by trial division: work that needs only the CPU.
pub(crate) fn count_primes(from: u64, to: u64) -> usize {
    (from.max(2)..to).filter(|&n| (2..).take_while(|d| d * d <= n).all(|d| n % d != 0)).count()
}

/// How many numbers, starting at 100,000, `count_primes` checks in about a millisecond.
pub(crate) fn width_of_a_millisecond() -> u64 {
    let once = || {
        let begin = Instant::now();
        std::hint::black_box(count_primes(100_000, std::hint::black_box(100_200)));
        begin.elapsed()
    };
    // The shortest of eight runs: other load on the machine can only make a run longer.
    let best = (0..8).map(|_| once()).min().unwrap_or_default().as_nanos().max(1) as u64;
    (200 * 1_000_000 / best).clamp(10, 100_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_job_gives_the_right_answer() {
        gort::run(|| {
            let tools = Tools::new(1).unwrap();
            let directory = tools.files.directory.clone();
            assert!(directory.is_dir());
            for n in 0..12 {
                let outcome = tools.run(&Context::background(), Job::mixed(n));
                assert!(matches!(outcome, Outcome::Right), "{n}: {outcome:?}");
            }
            assert_eq!(tools.cpu_at_once(), 1);
            drop(tools);
            assert!(!directory.exists());
        });
    }

    #[test]
    fn a_stuck_job_ends_with_its_context() {
        gort::run(|| {
            let tools = Tools::new(1).unwrap();
            let (ctx, cancel) = Context::background().with_cancel();
            let waiting = gort::spawn(move || tools.run(&ctx, Job { kind: Kind::Stuck, variant: 0 }));
            cancel.cancel();
            assert!(matches!(waiting.join().unwrap(), Outcome::Cancelled));
        });
    }

    #[test]
    fn a_file_that_changed_is_noticed() {
        gort::run(|| {
            let tools = Tools::new(1).unwrap();
            fs::write(&tools.files.list[0].0, b"something else").unwrap();
            assert!(matches!(tools.read_file(0), Outcome::Wrong(_)));
        });
    }
}
