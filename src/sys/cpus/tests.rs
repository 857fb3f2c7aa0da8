use super::super::fake::FakeRoot;
use super::*;

const MOUNT: &str = "25 20 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";

/// A process in the version 2 group /a/b/c, with the given quotas of /a, /a/b and /a/b/c.
fn nested(quotas: [&str; 3]) -> FakeRoot {
    let root = FakeRoot::with(&[("/proc/self/cgroup", "0::/a/b/c\n"), ("/proc/self/mountinfo", MOUNT)]);
    for (dir, quota) in ["a", "a/b", "a/b/c"].iter().zip(quotas) {
        root.write(&format!("/sys/fs/cgroup/{dir}/cpu.max"), quota);
    }
    root
}

#[test]
fn the_default_is_the_smaller_limit_rounded_up() {
    for (affinity, quota, expected) in [
        (8, None, 8),
        (8, Some(2.0), 2),
        (8, Some(2.01), 3),
        (8, Some(2.5), 3),
        (8, Some(2.99), 3),
        (8, Some(7.2), 8),
        (8, Some(8.5), 8),
        (8, Some(1e300), 8),
        (8, Some(1.0), 1),
        (8, Some(0.1), 1),
        (8, Some(0.001), 1),
        (1, Some(4.0), 1),
        (0, None, 1),
        (1023, None, 1023),
        (1024, None, 1024),
        (4096, None, 1024),
        (4096, Some(2000.0), 1024),
        (4096, Some(512.5), 513),
    ] {
        let quota = quota.map(|limit| Quota { limit, set_by: PathBuf::from("/sys/fs/cgroup") });
        let limits = CpuLimits { affinity, quota };
        assert_eq!(default_procs(&limits), expected, "{limits:?}");
    }
}

#[test]
fn the_tightest_level_sets_the_quota() {
    for (quotas, limit, level) in [
        (["max 100000", "max 100000", "300000 100000"], 3.0, "a/b/c"),
        (["200000 100000", "max 100000", "max 100000"], 2.0, "a"),
        (["200000 100000", "150000 100000", "300000 100000"], 1.5, "a/b"),
        // The ratio counts, not the quota alone.
        (["50000 10000", "100000 100000", "max 100000"], 1.0, "a/b"),
        // Equal limits: the innermost is named.
        (["200000 100000", "200000 100000", "200000 100000"], 2.0, "a/b/c"),
    ] {
        let root = nested(quotas);
        let set_by = root.at("/sys/fs/cgroup").join(level);
        let expected = CpuLimits { affinity: 16, quota: Some(Quota { limit, set_by }) };
        assert_eq!(QuotaWatch::at(root.path(), 16).limits(), expected);
    }
}

#[test]
fn without_quotas_only_the_affinity_counts() {
    for root in [nested(["max 100000", "garbage", ""]), FakeRoot::new()] {
        let watch = QuotaWatch::at(root.path(), 6);
        assert_eq!(watch.limits(), CpuLimits { affinity: 6, quota: None });
        assert_eq!(watch.default_procs(), 6);
    }
}

#[test]
fn a_changed_quota_is_reported_once() {
    let root = nested(["max 100000", "max 100000", "200000 100000"]);
    let mut watch = QuotaWatch::at(root.path(), 8);
    assert_eq!(watch.default_procs(), 2);
    assert_eq!(watch.update(8), None);

    root.write("/sys/fs/cgroup/a/b/c/cpu.max", "350000 100000");
    assert_eq!(watch.update(8), Some(4));
    assert_eq!(watch.update(8), None);

    // The limit changes, but the number of Ps stays the same.
    root.write("/sys/fs/cgroup/a/b/c/cpu.max", "390000 100000");
    assert_eq!(watch.update(8), None);
    assert_eq!(watch.limits().quota.unwrap().limit, 3.9);

    root.write("/sys/fs/cgroup/a/b/c/cpu.max", "max 100000");
    assert_eq!(watch.update(8), Some(8));
    assert_eq!(watch.default_procs(), 8);
}

#[test]
fn ancestors_are_followed_too() {
    let root = nested(["max 100000", "max 100000", "max 100000"]);
    let mut watch = QuotaWatch::at(root.path(), 8);
    assert_eq!(watch.default_procs(), 8);
    root.write("/sys/fs/cgroup/a/cpu.max", "300000 100000");
    assert_eq!(watch.update(8), Some(3));
    root.write("/sys/fs/cgroup/a/b/cpu.max", "100000 100000");
    assert_eq!(watch.update(8), Some(1));
    assert_eq!(watch.limits().quota.unwrap().set_by, root.at("/sys/fs/cgroup/a/b"));
}

#[test]
fn a_changed_affinity_is_followed() {
    let root = nested(["max 100000", "max 100000", "400000 100000"]);
    let mut watch = QuotaWatch::at(root.path(), 2);
    assert_eq!(watch.default_procs(), 2);
    assert_eq!(watch.update(3), Some(3));
    // Now the quota is the smaller limit.
    assert_eq!(watch.update(16), Some(4));
    assert_eq!(watch.update(32), None);
    assert_eq!(watch.limits().affinity, 32);
}

#[test]
fn a_controller_enabled_later_is_noticed() {
    let root = nested(["max 100000", "max 100000", "max 100000"]);
    for level in ["a", "a/b", "a/b/c"] {
        root.remove(&format!("/sys/fs/cgroup/{level}/cpu.max"));
    }
    let mut watch = QuotaWatch::at(root.path(), 8);
    assert_eq!(watch.default_procs(), 8);
    root.write("/sys/fs/cgroup/a/cpu.max", "200000 100000");
    assert_eq!(watch.update(8), Some(2));
    root.remove("/sys/fs/cgroup/a/cpu.max");
    assert_eq!(watch.update(8), Some(8));
}

#[test]
fn a_tree_out_of_sight_keeps_the_last_limits() {
    let root = nested(["max 100000", "300000 100000", "max 100000"]);
    let mut watch = QuotaWatch::at(root.path(), 8);
    root.remove("/sys");
    assert_eq!(watch.update(8), None);
    assert_eq!(watch.default_procs(), 3);
    // The watch still follows the affinity.
    assert_eq!(watch.update(2), Some(2));
}

#[test]
fn a_move_to_another_group_is_noticed() {
    let root = nested(["max 100000", "max 100000", "200000 100000"]);
    let mut watch = QuotaWatch::at(root.path(), 8);
    assert!(!watch.moved());
    for other in ["0::/a/b\n", "0::/a/b/d\n", "0::/a/b/c/longer\n", ""] {
        root.write("/proc/self/cgroup", other);
        assert!(watch.moved(), "{other:?}");
    }
    root.write("/proc/self/cgroup", "0::/a/b\n");
    assert_eq!(QuotaWatch::at(root.path(), 8).default_procs(), 8);

    root.write("/proc/self/cgroup", "0::/a/b/c\n");
    assert!(!watch.moved());
    root.remove("/proc");
    assert!(!watch.moved(), "what cannot be seen is not a move");
    assert!(!QuotaWatch::at(root.path(), 8).moved());
}

#[test]
fn masks_of_any_size_are_counted() {
    assert_eq!(count(&[]), 0);
    assert_eq!(count(&[0b1011]), 3);
    assert_eq!(count(&[u64::MAX; 16]), 1024);
    assert_eq!(count(&[u64::MAX; 128]), 8192);
    let mut sparse = [0; 1024];
    sparse[1023] = 1 << 63;
    assert_eq!(count(&sparse), 1);
}

#[test]
fn the_affinity_follows_a_pinned_thread() {
    let whole = affinity().unwrap();
    assert!(whole >= 1);
    let pinned = std::thread::spawn(|| {
        let mut watch = QuotaWatch::new();
        // SAFETY: both calls use only `set`, which is a valid mask, and affect only this thread.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            let size = size_of::<libc::cpu_set_t>();
            assert_eq!(libc::sched_getaffinity(0, size, &mut set), 0);
            let first = (0..libc::CPU_SETSIZE as usize).find(|&cpu| libc::CPU_ISSET(cpu, &set)).unwrap();
            libc::CPU_ZERO(&mut set);
            libc::CPU_SET(first, &mut set);
            assert_eq!(libc::sched_setaffinity(0, size, &set), 0);
        }
        watch.poll();
        (affinity(), watch.limits().affinity, watch.default_procs())
    });
    assert_eq!(pinned.join().unwrap(), (Some(1), 1, 1));
    assert_eq!(affinity(), Some(whole));
}

#[test]
fn this_machine_has_limits() {
    let limits = read();
    // std counts the CPUs of the same mask, but rounds quotas down.
    let std_count = std::thread::available_parallelism().unwrap().get();
    assert!(std_count <= limits.affinity, "{limits:?}");
    let procs = default_procs(&limits);
    assert!((1..=limits.affinity).contains(&procs), "{limits:?}");
    assert_eq!(QuotaWatch::new().default_procs(), procs);
}
