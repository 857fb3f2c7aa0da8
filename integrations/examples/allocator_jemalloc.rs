//! As `allocator_system`, with jemalloc.

#[global_allocator]
static ALLOCATOR: gort::alloc::OnThread<tikv_jemallocator::Jemalloc> =
    gort::alloc::OnThread(tikv_jemallocator::Jemalloc);

fn main() {
    println!("{}", gort_integrations::bytes_of_parked(20_000));
}
