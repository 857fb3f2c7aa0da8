//! A pipeline of goroutines that are connected by channels, and a context that ends all of them.
//!
//! `cargo run --example pipeline`

use gort::JoinHandle;
use gort::chan::{Receiver, bounded};
use gort::context::Context;

/// Starts a goroutine that sends all `items`, until there are no more, the receiver is dropped, or the
/// context ends. The handle returns the number of items sent.
fn stage<T: Send + 'static>(
    ctx: &Context,
    items: impl Iterator<Item = T> + Send + 'static,
) -> (Receiver<T>, JoinHandle<usize>) {
    let (output, next) = bounded(0);
    let ctx = ctx.clone();
    let handle = gort::spawn(move || {
        // An error means that the context has ended or that the next stage has dropped its receiver. In both
        // cases this stage ends, too, and drops its input, which ends the previous stage.
        items.map_while(|item| output.send_ctx(&ctx, item).ok()).count()
    });
    (next, handle)
}

#[gort::main]
fn main() {
    let (ctx, cancel) = Context::background().with_cancel();

    // The first stage is endless: without the cancellation it would wait forever to send the next number.
    let (numbers, source) = stage(&ctx, 1u64..);
    let (odd, filter) = stage(&ctx, numbers.into_iter().filter(|n| n % 2 == 1));
    let (squares, square) = stage(&ctx, odd.into_iter().map(|n| n * n));

    let first: Vec<u64> = squares.iter().take(8).collect();
    println!("squares of odd numbers: {first:?}");

    cancel.cancel();
    let [made, kept, squared] = [source, filter, square].map(|stage| stage.join().unwrap());
    assert!(made >= kept && kept >= squared && squared >= 8);
    println!("all stages have ended");
}
