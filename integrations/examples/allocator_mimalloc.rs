//! As `allocator_system`, with mimalloc.

#[global_allocator]
static ALLOCATOR: gort::alloc::OnThread<mimalloc::MiMalloc> = gort::alloc::OnThread(mimalloc::MiMalloc);

fn main() {
    println!("{}", gort_integrations::bytes_of_parked(20_000));
}
