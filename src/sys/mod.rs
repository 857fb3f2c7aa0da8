//! The operating-system layer: system calls, signals, /proc and /sys. It knows nothing of goroutines.

#[cfg(not(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64")))]
compile_error!(
    "gort needs Linux on x86-64 with glibc: it switches the thread pointer between glibc's TLS blocks, \
     sleeps on futexes and polls with epoll"
);

pub(crate) mod cgroup;
pub(crate) mod clock;
#[cfg(feature = "debug")]
pub(crate) mod cpu_timer;
pub(crate) mod cpus;
pub(crate) mod env;
pub(crate) mod epoll;
pub(crate) mod facts;
#[cfg(test)]
mod fake;
pub(crate) mod fd;
pub(crate) mod futex;
pub(crate) mod inspect;
pub(crate) mod libc_code;
pub(crate) mod mem;
pub(crate) mod membarrier;
pub(crate) mod objects;
pub(crate) mod process;
pub(crate) mod restart;
pub(crate) mod sanitizer;
pub(crate) mod signal;
pub(crate) mod stderr;
pub(crate) mod syscall;
pub(crate) mod thread;
pub(crate) mod timerfd;
pub(crate) mod topology;
