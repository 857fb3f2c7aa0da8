//! Ending a test or a process that hangs: a lost wake-up fails the test run instead of blocking it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{full, patience};

/// How long after [`patience`] the watchdog ends the process. A condition that does not come true has failed
/// its own test by then, with a better message.
const GRACE: Duration = Duration::from_secs(20);

/// Ends the process when one test hangs, and says which. The drop of the watchdog ends the watch.
///
/// With `GORT_HOLD` in the environment the process stays, so that a debugger can look at it.
pub(crate) struct Watchdog(Arc<AtomicBool>);

impl Watchdog {
    pub(crate) fn start() -> Watchdog {
        let name = std::thread::current().name().unwrap_or("?").to_owned();
        let message = format!("watchdog: {name} hangs (pid {})\n", std::process::id());
        let alive = Arc::new(AtomicBool::new(true));
        let seen = alive.clone();
        let hold = std::env::var_os("GORT_HOLD").is_some();
        let limit = patience() + GRACE;
        std::thread::spawn(move || {
            let start = Instant::now();
            while seen.load(Ordering::Relaxed) {
                if start.elapsed() > limit {
                    // No malloc and no locks of std here: the thread that hangs may hold them.
                    // SAFETY: writes a string; ends the process.
                    unsafe {
                        libc::write(2, message.as_ptr().cast(), message.len());
                        if hold {
                            libc::sleep(100_000);
                        }
                        libc::abort();
                    }
                }
                std::thread::park_timeout(Duration::from_secs(1));
            }
        });
        Watchdog(alive)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Seconds after which the kernel ends a test process with SIGALRM, in a quick and in a full run. This is the
/// limit for tests without a watchdog. It needs no thread, which some tests would notice.
const LIFETIME: [u32; 2] = [1_800, 14_400];

extern "C" fn limit_lifetime() {
    if std::env::var_os("GORT_HOLD").is_none() {
        // SAFETY: no preconditions. The default action of the signal ends the process.
        unsafe { libc::alarm(LIFETIME[usize::from(full())]) };
    }
}

/// Runs before `main`, in every test binary that includes these helpers.
#[used]
// SAFETY: the section holds pointers to functions that the loader calls before `main`.
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = limit_lifetime;
