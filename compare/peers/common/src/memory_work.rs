//! Work on memory: deep recursion, and malloc.

use std::hint::black_box;

/// `stack_deep` recurses this often, with a frame of a little more than 1 KiB: to 1 MiB.
pub const DEEP_FRAMES: u64 = 1000;

/// The number of goroutines in `malloc-1000`.
pub const MALLOC_CROWD: u64 = 1000;

/// Recurses `frames` times; each frame has 1 KiB.
#[inline(never)]
pub fn deep(frames: u64) -> u64 {
    let frame = black_box([frames; 128]);
    if frames == 0 { 0 } else { frame[5] - frames + 1 + deep(frames - 1) }
}

/// Allocates `n` buffers of mixed sizes, of which 64 are kept at a time, and frees them.
pub fn use_malloc(n: u64) {
    let mut kept: [Vec<u8>; 64] = std::array::from_fn(|_| Vec::new());
    for i in 0..n {
        let size = [16, 24, 48, 100, 250, 600, 1_000, 4_000][(i * 7 % 8) as usize];
        let mut buffer = Vec::with_capacity(size);
        buffer.push(i as u8);
        kept[(i * 13 % 64) as usize] = black_box(buffer);
    }
}
