//! GOMAXPROCS follows the CPU quota of a real control group. The test is skipped where it cannot make one:
//! that takes root and a writable hierarchy.

#[path = "../common/mod.rs"]
mod common;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::until;

/// A control group with a CPU quota. The drop removes it.
struct Group {
    dir: PathBuf,
    unified: bool,
}

impl Group {
    /// Makes a group below the one that this process is in.
    fn make() -> io::Result<Group> {
        let own = fs::read_to_string("/proc/self/cgroup")?;
        let path_of = |wanted: &dyn Fn(&str) -> bool| {
            let mut lines = own.lines().map(|line| line.splitn(3, ':').skip(1));
            lines.find_map(|mut line| line.next().filter(|names| wanted(names)).and(line.next()))
        };
        let name = format!("gort-test-{}", std::process::id());
        if let Some(path) = path_of(&|names| names.split(',').any(|name| name == "cpu")) {
            let dir = Path::new("/sys/fs/cgroup/cpu").join(path.trim_start_matches('/')).join(name);
            fs::create_dir(&dir)?;
            return Ok(Group { dir, unified: false });
        }
        let path = path_of(&str::is_empty).ok_or(io::ErrorKind::NotFound)?;
        let parent = Path::new("/sys/fs/cgroup").join(path.trim_start_matches('/'));
        let dir = parent.join(name);
        fs::create_dir(&dir)?;
        let group = Group { dir, unified: true };
        if !group.dir.join("cpu.max").exists() {
            return Err(io::Error::other("the group has no CPU controller"));
        }
        Ok(group)
    }

    /// The group of that directory. Another process made it and will remove it.
    fn at(dir: PathBuf) -> std::mem::ManuallyDrop<Group> {
        let unified = dir.join("cpu.max").exists();
        std::mem::ManuallyDrop::new(Group { dir, unified })
    }

    fn allow(&self, percent: u32) -> io::Result<()> {
        if self.unified {
            return fs::write(self.dir.join("cpu.max"), format!("{} 100000", percent * 1000));
        }
        fs::write(self.dir.join("cpu.cfs_period_us"), "100000")?;
        fs::write(self.dir.join("cpu.cfs_quota_us"), (percent * 1000).to_string())
    }

    fn enter(&self) -> io::Result<()> {
        fs::write(self.dir.join("cgroup.procs"), std::process::id().to_string())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _nothing_to_be_done = fs::remove_dir(&self.dir);
    }
}

#[test]
fn the_quota_of_a_real_group_is_followed_live() {
    const NAME: &str = "the_quota_of_a_real_group_is_followed_live";
    const DIR: &str = "GORT_TEST_GROUP";
    if !common::is_child("limited") {
        if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
            println!("skipped: there is one CPU");
            return;
        }
        let group = match Group::make().and_then(|group| group.allow(150).map(|()| group)) {
            Ok(group) => group,
            Err(error) => return println!("skipped: no control group can be made: {error}"),
        };
        let mut child = common::child(NAME, "limited");
        child.env(DIR, &group.dir);
        common::run_ok(child);
        return;
    }
    let group = Group::at(std::env::var_os(DIR).unwrap().into());
    group.enter().unwrap();
    assert_eq!(gort::runtime::max_procs(), 2, "one and a half are rounded up");
    // The runtime looks at the limits while it has something to do.
    let work = gort::spawn(|| {
        loop {
            gort::sleep(Duration::from_millis(5))
        }
    });
    for (percent, expected) in [(100, 1), (20, 1), (200, 2), (100, 1)] {
        group.allow(percent).unwrap();
        until("the number follows", || gort::runtime::max_procs() == expected);
    }
    drop(work);
    // The number also follows when hogs have to be interrupted for it, and other goroutines still get threads
    // to block.
    group.allow(200).unwrap();
    until("the number follows", || gort::runtime::max_procs() == 2);
    for _ in 0..2 {
        gort::spawn(|| {
            loop {
                std::hint::spin_loop();
            }
        });
    }
    group.allow(100).unwrap();
    until("the number follows", || gort::runtime::max_procs() == 1);
    let blocked: Vec<_> =
        (0..8).map(|_| gort::spawn(|| std::thread::sleep(Duration::from_millis(50)))).collect();
    blocked.into_iter().for_each(|handle| handle.join().unwrap());
}
