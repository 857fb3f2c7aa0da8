use std::sync::atomic::{AtomicU32, Ordering};

static DEPTH: AtomicU32 = AtomicU32::new(0);

#[gort::main]
fn main() -> Result<(), String> {
    if DEPTH.fetch_add(1, Ordering::Relaxed) < 3 {
        // The function as it is written, with its own type.
        let result: Result<(), String> = main();
        return result;
    }
    Ok(())
}
