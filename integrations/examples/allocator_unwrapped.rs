//! Prints the memory of a parked goroutine with mimalloc but without `OnThread`: see `tests/allocators.rs`.
//! The allocator takes every goroutine for a thread, which is expensive, but works.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    println!("{}", gort_integrations::bytes_of_parked(20_000));
}
