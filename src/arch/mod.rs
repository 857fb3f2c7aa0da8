//! The architecture seam: everything that depends on the instruction set, one folder per architecture.
//!
//! Each folder provides the same items; the rest of the tree uses them and never names an architecture.
//!
//! | items | for |
//! | --- | --- |
//! | [`prepare`], [`switch`], [`Message`] | switching stacks (`sched/run/schedule.rs`) |
//! | [`thread_pointer`], [`set_thread_pointer`], [`thread_pointer_init`] | private thread-locals (`tls/`) |
//! | [`carry_with_thread_pointer`] | what follows the OS thread (`sys/sanitizer.rs`) |
//! | [`load_at_thread_pointer`] | finding the current goroutine (`sched/types/current.rs`) |
//! | [`SignalFrame`] | what a signal interrupted (`sys/signal.rs`, `diag/`, `sched/monitor/preempt.rs`) |
//! | [`jump`] | stopping interrupted code (`sched/monitor/interrupted.rs`) |
//! | [`Registers`], [`own_registers`], [`saved_registers`] | where a goroutine stopped (`diag/dump/`) |
//! | [`Suspended`], [`suspended`], [`is_callee_saved`], numbers of registers | walking a copied stack (`diag/unwind_copy/`) |
//! | [`Call`], [`call_at_end`] | whether an address is one that a call returns to |
//! | [`unwind_from`] | walking the stack of another goroutine (`diag/dump/unwind.rs`) |
//! | [`FOR_DEBUGGERS`] | suspended contexts, as a debugger sees them (`diag/gdb/`) |
//! | [`stack_pointer`] | recording which goroutine holds a lock (`sync/holder/mark.rs`) |
//! | [`syscall6`] | system calls without libc (`sys/syscall.rs`) |
//! | [`libc_syscall_end`], [`LIBC_SYSCALL_NUMBER`] | which call was interrupted (`sys/restart.rs`) |
//! | `libc_syscall`, `vfork_address`, `VFORKS` | libc functions that are assembly (`transparent/`) |
//! | [`runs_on_valgrind`] | what an emulator cannot do (`sched/monitor/signal_handler.rs`) |
//! | [`prefetch`] | fetching memory into the cache (`base/prefetch.rs`) |
//! | [`RED_ZONE`] | bytes below the stack pointer that a function may use |

#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "x86_64")]
pub(crate) use self::x86_64::*;
