//! Prints the memory of a parked goroutine with the system's allocator: see `tests/allocators.rs`.

#[global_allocator]
static ALLOCATOR: std::alloc::System = std::alloc::System;

fn main() {
    println!("{}", gort_integrations::bytes_of_parked(20_000));
}
