//! What a function of libc costs more because gort defines it, for callers that it does not concern: threads
//! that run no goroutine. `cargo bench --features transparent --bench pass_through`.

use std::time::{Duration, Instant};

type Read = unsafe extern "C" fn(i32, *mut std::ffi::c_void, usize) -> isize;

/// Calls in one sample.
const CALLS: u32 = 100_000;
/// Samples of each function, of which the fastest counts: others were disturbed.
const SAMPLES: usize = 200;

/// The time of one call, which fails at once: there is no such descriptor.
fn sample(read: Read) -> Duration {
    let begin = Instant::now();
    for _ in 0..CALLS {
        // SAFETY: the call fails before it looks at the buffer.
        unsafe { std::hint::black_box(read)(-1, std::ptr::null_mut(), 0) };
    }
    begin.elapsed() / CALLS
}

fn main() {
    // SAFETY: the name is NUL-terminated, and libc's function has that type.
    let libcs: Read = unsafe {
        std::mem::transmute::<*mut std::ffi::c_void, Read>(libc::dlsym(libc::RTLD_NEXT, c"read".as_ptr()))
    };
    let fastest = || {
        let both = (0..SAMPLES).map(|_| (sample(libc::read), sample(libcs)));
        both.fold((Duration::MAX, Duration::MAX), |best, now| (best.0.min(now.0), best.1.min(now.1)))
    };
    let (ours, plain) = fastest();
    println!("before enable: {ours:?}, libc's own {plain:?}");
    gort::transparent::enable().expect("this program is linked as usual");
    let (ours, plain) = fastest();
    println!("after enable:  {ours:?}, libc's own {plain:?}");
    gort::run(|| ());
    let (ours, plain) = fastest();
    println!("with runtime:  {ours:?}, libc's own {plain:?}");
}
