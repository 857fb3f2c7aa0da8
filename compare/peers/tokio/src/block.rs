//! Group "block": blocking system calls. There are no hogs here, because Tokio does not preempt.

use crate::warm_then_time;
use compare_common::{Args, BLOCK_NAP, BLOCKERS, Outcome, Report};
use tokio::task;

/// Every nap runs on Tokio's pool of blocking threads, as Tokio recommends.
pub fn blocking(args: &Args) -> Outcome {
    let naps = args.size(20);
    let time = warm_then_time(args, naps, |naps| async move {
        let sleeper = || {
            tokio::spawn(async move {
                for _ in 0..naps {
                    task::spawn_blocking(|| std::thread::sleep(BLOCK_NAP)).await.unwrap();
                }
            })
        };
        let sleepers: Vec<_> = (0..BLOCKERS).map(|_| sleeper()).collect();
        for sleeper in sleepers {
            sleeper.await.unwrap();
        }
    });
    Ok(Report::blocking(naps, time))
}

/// `block_in_place` is the cheapest way to tell Tokio about a blocking call.
pub fn syscall_short(args: &Args) -> Outcome {
    let n = args.size(100_000);
    let time = warm_then_time(args, n, |n| async move {
        for _ in 0..n {
            // SAFETY: getppid takes no argument and accesses no memory of this process.
            task::block_in_place(|| unsafe { libc::syscall(libc::SYS_getppid) });
        }
    });
    Ok(Report::new(n, time))
}
