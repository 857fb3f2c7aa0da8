//! Prints the memory of a parked goroutine with jemalloc, wrapped in `OnThread`: see `tests/allocators.rs`.

#[global_allocator]
static ALLOCATOR: gort::alloc::OnThread<tikv_jemallocator::Jemalloc> =
    gort::alloc::OnThread(tikv_jemallocator::Jemalloc);

fn main() {
    println!("{}", gort_integrations::bytes_of_parked(20_000));
}
