//! Group "block": the workloads that need `gort::blocking`.

use crate::warm_then_time;
use compare_common::{Args, BLOCK_NAP, BLOCKERS, Outcome, Report};
use std::thread;

/// Tells the scheduler that the calls block.
pub fn blocking(args: &Args) -> Outcome {
    naps(args, || gort::blocking(|| thread::sleep(BLOCK_NAP)))
}

/// Does not tell the scheduler, which has to notice by itself that the calls block.
pub fn blocking_unmarked(args: &Args) -> Outcome {
    naps(args, || thread::sleep(BLOCK_NAP))
}

fn naps(args: &Args, nap: fn()) -> Outcome {
    let naps = args.size(20);
    let time = warm_then_time(naps, move |naps| {
        let sleeper = || gort::spawn(move || (0..naps).for_each(|_| nap()));
        let sleepers: Vec<_> = (0..BLOCKERS).map(|_| sleeper()).collect();
        sleepers.into_iter().for_each(|h| h.join().unwrap());
    });
    Ok(Report::blocking(naps, time))
}

pub fn syscall_short(args: &Args) -> Outcome {
    let n = args.size(2_000_000);
    let time = warm_then_time(n, |n| {
        for _ in 0..n {
            // SAFETY: getppid takes no argument and accesses no memory of this process.
            gort::blocking(|| unsafe { libc::syscall(libc::SYS_getppid) });
        }
    });
    Ok(Report::new(n, time))
}
