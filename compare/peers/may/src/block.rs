//! Group "block": blocking system calls. may has no way to mark them, so each call occupies its thread. There
//! are no hogs here, because may does not preempt.

use crate::{go, warm_then_time};
use compare_common::{Args, BLOCK_NAP, BLOCKERS, Outcome, Report};

pub fn blocking(args: &Args) -> Outcome {
    let naps = args.size(2);
    let time = warm_then_time(naps, |naps| {
        let sleepers: Vec<_> = (0..BLOCKERS)
            .map(|_| go(move || (0..naps).for_each(|_| std::thread::sleep(BLOCK_NAP))))
            .collect();
        sleepers.into_iter().for_each(|h| h.join().unwrap());
    });
    Ok(Report::blocking(naps, time))
}

pub fn syscall_short(args: &Args) -> Outcome {
    let n = args.size(2_000_000);
    let time = warm_then_time(n, |n| {
        for _ in 0..n {
            // SAFETY: getppid takes no argument and accesses no memory of this process.
            unsafe { libc::syscall(libc::SYS_getppid) };
        }
    });
    Ok(Report::new(n, time))
}
