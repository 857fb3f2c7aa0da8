use super::super::fake::FakeRoot;
use super::*;

#[test]
fn kernel_releases() {
    for (release, expected) in [
        ("6.18.44-fc-v490", Some((6, 18))),
        ("5.10.0-28-amd64", Some((5, 10))),
        ("6.13-rc1", Some((6, 13))),
        ("4.19.0+", Some((4, 19))),
        ("6.1", Some((6, 1))),
        ("6", None),
        ("", None),
        ("linux-6.1", None),
        ("6.x", None),
        ("99999999999.1", None),
    ] {
        let kernel = Kernel::parse(release);
        assert_eq!(kernel.as_ref().map(|kernel| kernel.version), expected, "{release:?}");
        if let Some(kernel) = kernel {
            assert_eq!(kernel.release, release);
        }
    }
}

#[test]
fn huge_page_modes() {
    for (text, expected) in [
        ("[always] madvise never\n", Some(HugePages::Always)),
        ("always [madvise] never\n", Some(HugePages::Madvise)),
        ("always madvise [never]\n", Some(HugePages::Never)),
        ("always madvise never\n", None),
        ("[sometimes]\n", None),
        ("[always", None),
        ("", None),
    ] {
        assert_eq!(HugePages::parse(text), expected, "{text:?}");
    }
}

#[test]
fn overcommit_modes() {
    for (text, expected) in [
        ("0\n", Some(Overcommit::Heuristic)),
        ("1\n", Some(Overcommit::Always)),
        ("2", Some(Overcommit::Never)),
        ("3\n", None),
        ("", None),
    ] {
        assert_eq!(Overcommit::parse(text), expected, "{text:?}");
    }
}

#[test]
fn numbers_in_files() {
    let files = [
        ("/good", "65530\n"),
        ("/padded", "  7  \n"),
        ("/word", "max\n"),
        ("/negative", "-1\n"),
        ("/empty", ""),
    ];
    let root = FakeRoot::with(&files);
    let number = |name| number_in(root.path(), name);
    assert_eq!(number("good"), Some(65530));
    assert_eq!(number("padded"), Some(7));
    for name in ["word", "negative", "empty", "missing"] {
        assert_eq!(number(name), None, "{name}");
    }
}

#[test]
fn limits_may_be_infinite() {
    assert_eq!(finite(1024), Some(1024));
    assert_eq!(finite(libc::RLIM_INFINITY), None);
}

#[test]
fn the_facts_of_this_machine_agree_with_each_other() {
    let facts = Facts::read();
    let kernel = facts.kernel.unwrap();
    assert_eq!(kernel.release, std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap().trim());
    // A distribution may have added it to an older kernel; kernels from 6.13 on always have it.
    if kernel.version >= (6, 13) {
        assert_eq!(facts.guard_install, Some(true));
    }
    assert!(facts.default_procs <= facts.limits.affinity);
    assert!((1..=facts.cpus_online).contains(&facts.numa_nodes));
    let files = facts.open_files.unwrap();
    assert!(files.hard.is_none_or(|hard| files.soft.is_some_and(|soft| soft <= hard)), "{files:?}");
    assert!(facts.threads_max.unwrap() > 0 && facts.pid_max.unwrap() > 0);
    #[cfg(target_env = "gnu")]
    assert!(facts.glibc.unwrap().starts_with("2."));
}
