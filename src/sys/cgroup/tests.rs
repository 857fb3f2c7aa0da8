use super::super::fake::FakeRoot;
use super::*;

const V2_AT_ROOT: &str = "25 20 0:22 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
const V1_AT_ROOT: &str = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n";

/// A fake machine with this membership, these mounts and these quota files.
fn machine(membership: &str, mountinfo: &str, files: &[(&str, &str)]) -> FakeRoot {
    let root = FakeRoot::with(files);
    root.write("/proc/self/cgroup", membership);
    root.write("/proc/self/mountinfo", mountinfo);
    root
}

/// The groups that are found, as (directory, reading).
fn readings(root: &FakeRoot) -> Vec<(String, Reading)> {
    let strip = |group: &CpuGroup| format!("/{}", group.dir().strip_prefix(root.path()).unwrap().display());
    cpu_groups(root.path()).iter().map(|group| (strip(group), group.read())).collect()
}

#[track_caller]
fn check(root: &FakeRoot, expected: &[(&str, Reading)]) {
    let found = readings(root);
    let found: Vec<(&str, Reading)> = found.iter().map(|(dir, reading)| (dir.as_str(), *reading)).collect();
    assert_eq!(found, expected);
}

use Reading::{Limit, Unlimited};

#[test]
fn every_level_of_version_2_is_read() {
    let root = machine(
        "0::/pod/app\n",
        V2_AT_ROOT,
        &[
            ("/sys/fs/cgroup/pod/cpu.max", "200000 100000\n"),
            ("/sys/fs/cgroup/pod/app/cpu.max", "max 100000\n"),
        ],
    );
    check(
        &root,
        &[
            ("/sys/fs/cgroup/pod/app", Unlimited),
            ("/sys/fs/cgroup/pod", Limit(2.0)),
            // The root group never has the file.
            ("/sys/fs/cgroup", Unlimited),
        ],
    );
}

#[test]
fn every_level_of_version_1_is_read() {
    let base = "/sys/fs/cgroup/cpu,cpuacct";
    let root = machine("5:memory:/other\n4:cpu,cpuacct:/a/b\n1:name=systemd:/x\n", V1_AT_ROOT, &[]);
    for (dir, quota) in [("", "-1\n"), ("/a", "350000\n"), ("/a/b", "50000\n")] {
        root.write(&format!("{base}{dir}/cpu.cfs_quota_us"), quota);
        root.write(&format!("{base}{dir}/cpu.cfs_period_us"), "100000\n");
    }
    check(
        &root,
        &[
            ("/sys/fs/cgroup/cpu,cpuacct/a/b", Limit(0.5)),
            ("/sys/fs/cgroup/cpu,cpuacct/a", Limit(3.5)),
            ("/sys/fs/cgroup/cpu,cpuacct", Unlimited),
        ],
    );
}

#[test]
fn hybrid_mounts_use_the_hierarchy_that_has_the_controller() {
    let mounts = format!("41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n{V1_AT_ROOT}");
    let v1 = "/sys/fs/cgroup/cpu,cpuacct/a";
    let root = machine(
        "2:cpu,cpuacct:/a\n0::/session\n",
        &mounts,
        &[
            ("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "150000"),
            ("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "50000"),
        ],
    );
    root.create_dir("/sys/fs/cgroup/unified/session");
    let limits: Vec<_> = readings(&root).into_iter().filter(|(_, reading)| *reading != Unlimited).collect();
    assert_eq!(limits, [(v1.to_string(), Limit(3.0))]);

    // These mounts with the controller in version 2: the line of version 1 then has no "cpu".
    let mounts = "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
                  32 31 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
    let root = machine(
        "2:memory:/a\n0::/session\n",
        mounts,
        &[("/sys/fs/cgroup/unified/session/cpu.max", "70000 100000\n")],
    );
    check(&root, &[("/sys/fs/cgroup/unified/session", Limit(0.7)), ("/sys/fs/cgroup/unified", Unlimited)]);
}

#[test]
fn a_mount_of_a_subtree_shows_the_groups_below_its_root() {
    // A version 1 container without a cgroup namespace: the path is the host's, the mount is the container's.
    let root = machine(
        "4:cpu:/docker/abc/inner\n",
        "33 32 0:29 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n",
        &[
            ("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n"),
            ("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
            ("/sys/fs/cgroup/cpu/inner/cpu.cfs_quota_us", "-1\n"),
            ("/sys/fs/cgroup/cpu/inner/cpu.cfs_period_us", "100000\n"),
        ],
    );
    check(&root, &[("/sys/fs/cgroup/cpu/inner", Unlimited), ("/sys/fs/cgroup/cpu", Limit(2.0))]);
}

#[test]
fn a_mount_beside_or_below_the_group_is_not_its_business() {
    for (group, mount_root) in [
        ("/nomad/shared", "/system.slice/docker-1"),
        ("/dockers", "/docker"),
        ("/docker", "/docker/abc"),
        ("/", "/docker"),
        ("/../x", "/"),
        ("/..", "/"),
        ("/../../x", "/.."),
        ("/a", "/../b"),
        ("/../a", "/../../b"),
        ("/../ab", "/../a"),
    ] {
        let mounts = format!("25 20 0:22 {mount_root} /cg rw - cgroup2 cgroup2 rw\n");
        let root = machine(&format!("0::{group}\n"), &mounts, &[("/cg/cpu.max", "100000 100000\n")]);
        assert_eq!(readings(&root), [], "group {group}, mount root {mount_root}");
    }
}

#[test]
fn in_a_namespace_the_root_is_the_group() {
    let root = machine("0::/\n", V2_AT_ROOT, &[("/sys/fs/cgroup/cpu.max", "150000 100000\n")]);
    check(&root, &[("/sys/fs/cgroup", Limit(1.5))]);
}

#[test]
fn a_group_outside_the_namespace_is_found_through_a_mount_that_reaches_it() {
    let mounts = "25 20 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n\
                  26 20 0:22 /../.. /host rw - cgroup2 cgroup2 rw\n";
    let root = machine(
        "0::/../../init/x\n",
        mounts,
        &[
            ("/sys/fs/cgroup/cpu.max", "10000 100000\n"),
            ("/host/cpu.max", "400000 100000\n"),
            ("/host/init/x/cpu.max", "300000 100000\n"),
        ],
    );
    check(&root, &[("/host/init/x", Limit(3.0)), ("/host/init", Unlimited), ("/host", Limit(4.0))]);
}

#[test]
fn a_mount_root_above_the_namespace_counts_by_itself() {
    // The names between /../.. and the namespace are hidden, but the quota of /../.. limits everything below
    // it.
    let mounts = "25 20 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n\
                  26 20 0:22 /../.. /host rw - cgroup2 cgroup2 rw\n";
    let files = [("/sys/fs/cgroup/app/cpu.max", "400000 100000\n"), ("/host/cpu.max", "200000 100000\n")];
    let root = machine("0::/app\n", mounts, &files);
    check(&root, &[("/sys/fs/cgroup/app", Limit(4.0)), ("/sys/fs/cgroup", Unlimited), ("/host", Limit(2.0))]);
}

#[test]
fn missing_levels_fall_back_to_what_is_there() {
    // Some sandboxes show the host's path but mount only their own group, and claim that it is the root.
    let root =
        machine("0::/kubepods/pod1/c1\n", V2_AT_ROOT, &[("/sys/fs/cgroup/cpu.max", "250000 100000\n")]);
    check(&root, &[("/sys/fs/cgroup", Limit(2.5))]);
}

#[test]
fn the_same_group_is_read_through_one_mount_only() {
    let mounts = format!(
        "{V2_AT_ROOT}30 20 0:22 / /mnt/again rw - cgroup2 cgroup2 rw\n\
         31 20 0:22 / /gone rw - cgroup2 none rw\n"
    );
    let files =
        [("/sys/fs/cgroup/a/cpu.max", "100000 100000\n"), ("/mnt/again/a/cpu.max", "100000 100000\n")];
    check(
        &machine("0::/a\n", &mounts, &files),
        &[("/sys/fs/cgroup/a", Limit(1.0)), ("/sys/fs/cgroup", Unlimited)],
    );
    // Something else hides the first mount: the group is read through the second.
    check(
        &machine("0::/a\n", &mounts, &files[1..]),
        &[("/mnt/again/a", Limit(1.0)), ("/mnt/again", Unlimited)],
    );
}

#[test]
fn a_later_mount_hides_the_one_it_covers() {
    let mounts = format!("{V2_AT_ROOT}40 25 0:22 /a /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    let files =
        [("/sys/fs/cgroup/cpu.max", "100000 100000\n"), ("/sys/fs/cgroup/a/cpu.max", "900000 100000\n")];
    check(&machine("0::/a\n", &mounts, &files), &[("/sys/fs/cgroup", Limit(1.0))]);
}

#[test]
fn escaped_mount_points_and_odd_names_are_decoded() {
    let root = machine(
        "0::/a:b/with space\n",
        "25 20 0:22 /a:b /my\\040cg\\134\\011x rw shared:1 master:2 - cgroup2 cgroup2 rw\n",
        &[("/my cg\\\tx/with space/cpu.max", "100000 50000\n")],
    );
    check(&root, &[("/my cg\\\tx/with space", Limit(2.0)), ("/my cg\\\tx", Unlimited)]);

    assert_eq!(unescape(b"plain").unwrap(), b"plain");
    assert_eq!(unescape(b"\\377\\000").unwrap(), [0o377, 0]);
    for malformed in [&b"\\"[..], b"\\04", b"\\09x", b"\\400", b"x\\040\\4"] {
        assert_eq!(unescape(malformed), None, "{}", malformed.escape_ascii());
    }
}

#[test]
fn garbage_is_passed_over() {
    let good = ("/sys/fs/cgroup/cpu.max", "100000 100000\n");
    let expected = [("/sys/fs/cgroup", Limit(1.0))];
    for junk in
        ["", "x\n", "25 20\n", "25 20 0:22 nopath /p rw - cgroup2 c rw\n", "1 2 3 / /p rw shared:1\n", "\n\n"]
    {
        let root = machine("0::/\n", &format!("{junk}{V2_AT_ROOT}{junk}"), &[good]);
        check(&root, &expected);
    }
    for junk in ["::\n", "0:\n", "7\n", "0::relative\n", "1:cpu:/a/../b\n", "0::/a/../b\n"] {
        let root = machine(&format!("{junk}0::/\n"), V2_AT_ROOT, &[good]);
        check(&root, &expected);
    }
    for membership in ["", "0::\n", "2:cpuset,cpuacct:/\n", "\u{0}\n"] {
        assert_eq!(readings(&machine(membership, V2_AT_ROOT, &[good])), [], "{membership:?}");
    }
    assert_eq!(readings(&FakeRoot::new()), []);
}

#[test]
fn quota_lines_of_version_2() {
    for (text, expected) in [
        ("max 100000\n", Unlimited),
        ("200000 100000\n", Limit(2.0)),
        ("150000 100000", Limit(1.5)),
        ("1000 1000000\n", Limit(0.001)),
        ("18446744073709551 1000\n", Limit(18446744073709551.0 / 1000.0)),
        ("", Unlimited),
        ("\n", Unlimited),
        ("max\n", Unlimited),
        ("200000\n", Unlimited),
        ("200000 0\n", Unlimited),
        ("0 100000\n", Unlimited),
        ("-1 100000\n", Unlimited),
        ("200000 -100000\n", Unlimited),
        ("abc def\n", Unlimited),
        ("200000 100000 7\n", Unlimited),
        ("99999999999999999999 100000\n", Unlimited),
    ] {
        let root = machine("0::/\n", V2_AT_ROOT, &[("/sys/fs/cgroup/cpu.max", text)]);
        check(&root, &[("/sys/fs/cgroup", expected)]);
    }
}

#[test]
fn quota_files_of_version_1() {
    for (quota, period, expected) in [
        (Some("200000\n"), Some("100000\n"), Limit(2.0)),
        (Some("25000\n"), Some("100000\n"), Limit(0.25)),
        (Some("-1\n"), Some("100000\n"), Unlimited),
        (Some("-1\n"), None, Unlimited),
        (Some("0\n"), Some("100000\n"), Unlimited),
        (Some("200000\n"), Some("0\n"), Unlimited),
        (Some("200000\n"), Some("x\n"), Unlimited),
        (Some("max\n"), Some("100000\n"), Unlimited),
        (Some("200000\n"), None, Unlimited),
        (None, Some("100000\n"), Unlimited),
        (None, None, Unlimited),
    ] {
        let root = machine("1:cpu:/\n", V1_AT_ROOT, &[]);
        root.create_dir("/sys/fs/cgroup/cpu,cpuacct");
        for (name, text) in [("quota", quota), ("period", period)] {
            if let Some(text) = text {
                root.write(&format!("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_{name}_us"), text);
            }
        }
        check(&root, &[("/sys/fs/cgroup/cpu,cpuacct", expected)]);
    }
}

#[test]
fn an_unreadable_quota_is_unknown_not_unlimited() {
    let root = machine("0::/\n", V2_AT_ROOT, &[("/sys/fs/cgroup/cpu.max", "100000 100000\n")]);
    let [group] = &cpu_groups(root.path())[..] else { panic!("one group") };
    assert_eq!(group.read(), Limit(1.0));
    // A directory can be opened but not read.
    root.remove("/sys/fs/cgroup/cpu.max");
    root.create_dir("/sys/fs/cgroup/cpu.max");
    assert_eq!(group.read(), Reading::Unknown);
    // The controller is disabled: the file is gone, but the group still exists.
    root.remove("/sys/fs/cgroup/cpu.max");
    assert_eq!(group.read(), Unlimited);
    // The whole cgroup tree is gone.
    root.remove("/sys/fs/cgroup");
    assert_eq!(group.read(), Reading::Unknown);
}

#[test]
fn this_machine_can_be_read() {
    for group in cpu_groups(Path::new("/")) {
        assert!(group.dir().is_dir());
        assert_ne!(group.read(), Reading::Unknown, "{group:?}");
    }
}
