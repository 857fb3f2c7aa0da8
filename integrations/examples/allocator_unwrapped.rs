//! As `allocator_system`, with an allocator that takes every goroutine for a thread: dear, but it works.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    println!("{}", gort_integrations::bytes_of_parked(20_000));
}
