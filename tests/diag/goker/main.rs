//! Go's leak programs: `runtime::leaked` finds what Go's goroutine leak profile finds, and nothing that can
//! still end.
//!
//! The programs are those of GoKer (Yuan and others, "GoBench: A Benchmark Suite of Real-World Go Concurrency
//! Bugs", doi:10.1109/CGO51591.2021.9370317), which Go's own tests use
//! (`runtime/testdata/testgoroutineleakprofile/goker`). Here they are written for gort, in the shortest form
//! that leaves the same goroutines behind, waiting for the same. Go runs many of them hundreds of times,
//! because the bug shows only in some orders of events; here flags and conditions force that order.
//!
//! | File | Programs of |
//! | --- | --- |
//! | `cockroach.rs` | CockroachDB |
//! | `etcd.rs` | etcd |
//! | `grpc.rs` | gRPC |
//! | `kubernetes.rs` | Kubernetes |
//! | `moby.rs` | Moby |
//! | `smaller.rs` | Hugo, Istio, Knative Serving, Syncthing |
//! | `rig.rs` | what they are made of |
//!
//! Each file is a table of programs. An entry says which goroutines leak: their role, the state that they
//! wait in, and their number. All programs of a file run at once; the names of their goroutines tell them
//! apart.

#[path = "../../common/mod.rs"]
mod common;

mod cockroach;
mod etcd;
mod grpc;
mod kubernetes;
mod moby;
mod rig;
mod smaller;

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use common::until;
use rig::{Leak, Program, Rig};

/// How often a program whose leaks were not all found runs again: a stale copy of a handle anywhere in memory
/// hides a leak for good.
const ROUNDS: usize = 30;

/// The number of goroutines of each role and state.
type Counts = BTreeMap<(String, &'static str), usize>;

/// A program that runs.
struct Started {
    program: &'static Program,
    prefix: String,
}

fn start(program: &'static Program, kept: Option<&'static Mutex<Vec<Box<dyn Any + Send>>>>) -> Started {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let prefix = format!("{}.{}", program.name, RUNS.fetch_add(1, Relaxed));
    let rig = Rig::new(&prefix, kept);
    // In a goroutine that ends, so that its stack is no root.
    gort::run(move || gort::spawn(move || (program.run)(&rig)).join().unwrap());
    Started { program, prefix }
}

impl Started {
    /// Its goroutines in a dump.
    fn count(&self, dump: &gort::runtime::Dump) -> Counts {
        let mut counts = Counts::new();
        for goroutine in dump.goroutines() {
            let role = goroutine.name().and_then(|name| name.strip_prefix(&self.prefix));
            if let Some(role) = role.and_then(|name| name.strip_prefix(' ')) {
                *counts.entry((role.into(), goroutine.state())).or_default() += 1;
            }
        }
        counts
    }

    fn expected(&self, which: impl Fn(&Leak) -> bool) -> Counts {
        let leaks = self.program.leaks.iter().filter(|leak| which(leak));
        leaks.map(|leak| ((leak.role.into(), leak.state), leak.count)).collect()
    }
}

/// Waits until all programs have done what they can: then exactly the goroutines that leak are left.
fn until_left_behind(started: &[Started]) {
    let mut last = gort::runtime::dump();
    let settled =
        |dump: &gort::runtime::Dump| started.iter().all(|one| one.count(dump) == one.expected(|_| true));
    let reached = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        until("only the goroutines that leak are left", || {
            last = gort::runtime::dump();
            settled(&last)
        });
    }));
    if reached.is_err() {
        for one in started.iter().filter(|one| one.count(&last) != one.expected(|_| true)) {
            println!("{}: {:?}, not {:?}", one.prefix, one.count(&last), one.expected(|_| true));
        }
        panic!("the programs above do not come to their end");
    }
}

fn some_are_more(counts: &Counts, than: &Counts) -> bool {
    counts.iter().any(|(key, count)| than.get(key).is_none_or(|most| count > most))
}

/// Runs the programs until all their leaks were found.
fn all_are_found(programs: &'static [Program]) {
    let mut left: Vec<&Program> = programs.iter().collect();
    let mut found = Vec::new();
    for round in 0..ROUNDS {
        let started: Vec<Started> = left.iter().map(|program| start(program, None)).collect();
        until_left_behind(&started);
        let Some(dump) = gort::runtime::leaked() else { continue };
        found = started.into_iter().map(|one| (one.count(&dump), one)).collect();
        for (counts, one) in &found {
            let expected = one.expected(|_| true);
            assert!(!some_are_more(counts, &expected), "{}: {counts:?}, not {expected:?}", one.prefix);
        }
        found.retain(|(counts, one)| some_are_more(&one.expected(|_| true), counts));
        left = found.iter().map(|(_, one)| one.program).collect();
        if left.is_empty() {
            println!("all found in round {round}");
            return;
        }
    }
    for (counts, one) in found {
        println!("{}: only {counts:?} of {:?}", one.prefix, one.expected(|_| true));
    }
    panic!("the leaks of the programs above were not found");
}

/// While channels, groups, contexts and condition variables stay in reach, only those goroutines are listed
/// that wait for locks which nobody will unlock.
fn what_can_end_is_not_listed(programs: &'static [Program]) {
    let kept: &'static Mutex<Vec<Box<dyn Any + Send>>> = Box::leak(Box::default());
    let started: Vec<Started> = programs.iter().map(|program| start(program, Some(kept))).collect();
    until_left_behind(&started);
    for _ in 0..common::amount(5, 200) {
        let Some(dump) = gort::runtime::leaked() else { continue };
        for one in &started {
            let (counts, allowed) = (one.count(&dump), one.expected(|leak| leak.always));
            assert!(!some_are_more(&counts, &allowed), "{}: {counts:?}, not {allowed:?}", one.prefix);
        }
    }
    assert!(!kept.lock().unwrap().is_empty(), "they were in reach until here");
}

macro_rules! of {
    ($project:ident) => {
        mod $project {
            #[test]
            fn leaks_are_found() {
                super::super::all_are_found(crate::$project::PROGRAMS);
            }

            #[test]
            fn what_can_end_is_not_listed() {
                super::super::what_can_end_is_not_listed(crate::$project::PROGRAMS);
            }
        }
    };
}

mod programs_of {
    of!(cockroach);
    of!(etcd);
    of!(grpc);
    of!(kubernetes);
    of!(moby);
    of!(smaller);
}

#[test]
fn all_of_gos_programs_are_here() {
    let all = [
        cockroach::PROGRAMS,
        etcd::PROGRAMS,
        grpc::PROGRAMS,
        kubernetes::PROGRAMS,
        moby::PROGRAMS,
        smaller::PROGRAMS,
    ];
    let names: std::collections::BTreeSet<_> = all.iter().copied().flatten().map(|one| one.name).collect();
    assert_eq!(names.len(), 63);
    assert_eq!(all.iter().map(|programs| programs.len()).sum::<usize>(), 63, "each once");
}
