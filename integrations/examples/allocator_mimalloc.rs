//! Prints the memory of a parked goroutine with mimalloc, wrapped in `OnThread`: see `tests/allocators.rs`.

#[global_allocator]
static ALLOCATOR: gort::alloc::OnThread<mimalloc::MiMalloc> = gort::alloc::OnThread(mimalloc::MiMalloc);

fn main() {
    println!("{}", gort_integrations::bytes_of_parked(20_000));
}
