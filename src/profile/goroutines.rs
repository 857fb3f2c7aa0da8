//! The profiles `goroutine`, `goroutineleak` and `threadcreate`.

use super::data::{Kind, Labels, Profile, Stack};
use crate::diag::dump::{self, Dump};
use crate::diag::leak;
use crate::sched::machine::SCHED;

/// All goroutines, by stack and labels.
pub(super) fn goroutine() -> Profile {
    of_dump(Kind::Goroutine, dump::dump())
}

/// The goroutines that wait forever.
pub(super) fn goroutineleak() -> Option<Profile> {
    Some(of_dump(Kind::GoroutineLeak, leak::dump()?))
}

fn of_dump(kind: Kind, dump: Dump) -> Profile {
    let mut profile = Profile::new(kind);
    for goroutine in dump.goroutines() {
        let mut labels = Labels::default();
        goroutine.labels().iter().for_each(|(key, value)| labels.set(key, value));
        profile.add(stack(goroutine.addresses(), goroutine.state()), labels, [1, 0]);
    }
    profile.dump = Some(dump);
    profile
}

/// A goroutine whose stack could not be walked shows what it does instead.
fn stack(addresses: &[usize], state: &'static str) -> Stack {
    match addresses {
        [] => Stack::Named(state),
        addresses => Stack::Addresses(addresses.into()),
    }
}

/// The threads that gort has started, by what they are for.
pub(super) fn threadcreate() -> Profile {
    let mut profile = Profile::new(Kind::ThreadCreate);
    let mut add = |name, count: usize| {
        if count != 0 {
            profile.add(Stack::Named(name), Labels::default(), [count as i64, 0]);
        }
    };
    add("gort::sched::M", SCHED.platform.live_count());
    let service = SCHED.platform.service_threads().count();
    add("gort::sched::monitor", service);
    profile
}
