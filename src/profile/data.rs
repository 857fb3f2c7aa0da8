//! A profile: stacks with labels, and two numbers for each.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::diag::dump::Dump;

/// What a profile counts. The names, types and units are Go's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Cpu,
    Goroutine,
    GoroutineLeak,
    ThreadCreate,
    Block,
    Mutex,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Cpu => "cpu",
            Kind::Goroutine => "goroutine",
            Kind::GoroutineLeak => "goroutineleak",
            Kind::ThreadCreate => "threadcreate",
            Kind::Block => "block",
            Kind::Mutex => "mutex",
        }
    }

    /// Type and unit of each number.
    pub(super) fn types(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Kind::Cpu => &[("samples", "count"), ("cpu", "nanoseconds")],
            Kind::Goroutine => &[("goroutine", "count")],
            Kind::GoroutineLeak => &[("goroutineleak", "count")],
            Kind::ThreadCreate => &[("threadcreate", "count")],
            Kind::Block | Kind::Mutex => &[("contentions", "count"), ("delay", "nanoseconds")],
        }
    }

    /// Type and unit of the period.
    pub(super) fn period_type(self) -> (&'static str, &'static str) {
        match self {
            Kind::Cpu => ("cpu", "nanoseconds"),
            other => other.types()[0],
        }
    }
}

/// Where something happened.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Stack {
    /// Code addresses, innermost first; for frames that made a call, an address within the call.
    Addresses(Box<[usize]>),
    /// A place that has no address.
    Named(&'static str),
}

/// Names and values, sorted by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Labels(Vec<(Arc<str>, Arc<str>)>);

impl Labels {
    pub(super) fn set(&mut self, key: &str, value: &str) {
        match self.0.binary_search_by(|(other, _)| (**other).cmp(key)) {
            Ok(index) => self.0[index].1 = value.into(),
            Err(index) => self.0.insert(index, (key.into(), value.into())),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A profile, which [`write_to`](Profile::write_to) writes in pprof's format.
#[derive(Clone, Debug)]
pub struct Profile {
    pub(super) kind: Kind,
    pub(super) samples: HashMap<(Stack, Labels), [i64; 2]>,
    /// When it was taken.
    pub(super) time: SystemTime,
    /// Over how long a time; 0 for a profile of a moment.
    pub(super) duration: Duration,
    pub(super) period: u64,
    /// What a reader should know.
    pub(super) comments: Vec<String>,
    /// The goroutines that it counts.
    pub(super) dump: Option<Dump>,
}

impl Profile {
    pub(super) fn new(kind: Kind) -> Profile {
        Profile {
            kind,
            samples: HashMap::new(),
            time: SystemTime::now(),
            duration: Duration::ZERO,
            period: 1,
            comments: Vec::new(),
            dump: None,
        }
    }

    pub(super) fn add(&mut self, stack: Stack, labels: Labels, values: [i64; 2]) {
        let sum = self.samples.entry((stack, labels)).or_default();
        *sum = [sum[0] + values[0], sum[1] + values[1]];
    }

    /// Its name, which [`lookup`](super::lookup) takes: "cpu", "goroutine", "mutex", ….
    pub fn name(&self) -> &'static str {
        self.kind.name()
    }

    /// The sum of what it counts: samples, goroutines, threads or waits.
    pub fn count(&self) -> i64 {
        self.samples.values().map(|values| values[0]).sum()
    }

    /// How many of its stacks differ, in their frames or their labels.
    pub fn stacks(&self) -> usize {
        self.samples.len()
    }

    /// CPU time, or time that goroutines waited; zero for profiles without times.
    pub fn time(&self) -> Duration {
        Duration::from_nanos(self.samples.values().map(|values| values[1].max(0) as u64).sum())
    }

    /// What has happened since the profile `earlier` was taken: the difference of both. For profiles of a
    /// moment, such as `goroutine`, numbers may be negative.
    ///
    /// ```
    /// let before = gort::profile::goroutine();
    /// let (_sender, receiver) = gort::chan::bounded::<()>(0);
    /// let waits = gort::spawn(move || receiver.recv());
    /// let profile = gort::profile::goroutine().since(&before)?;
    /// assert_eq!(profile.count(), 1);
    /// # drop((_sender, waits));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the profiles are not of the same kind, or are CPU profiles, of which each begins anew.
    pub fn since(&self, earlier: &Profile) -> io::Result<Profile> {
        let (name, other) = (self.name(), earlier.name());
        if self.kind != earlier.kind || self.kind == Kind::Cpu {
            let why = match self.kind {
                Kind::Cpu => "the difference of CPU profiles: each of them begins anew".into(),
                _ => format!("the difference of the profiles {name:?} and {other:?}: take two of one kind"),
            };
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let mut difference = Profile { dump: None, ..self.clone() };
        difference.duration = self.time.duration_since(earlier.time).unwrap_or_default();
        for ((stack, labels), values) in &earlier.samples {
            difference.add(stack.clone(), labels.clone(), values.map(|value| -value));
        }
        difference.samples.retain(|_, values| *values != [0, 0]);
        Ok(difference)
    }
}
