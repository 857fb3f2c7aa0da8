//! The joke of a sorting algorithm: every number sleeps for as long as it is large. A sleeping goroutine costs
//! a timer, not a thread.
//!
//! `cargo run --example sleep_sort [number…]`

use std::time::{Duration, Instant};

use gort::chan::unbounded;

#[gort::main]
fn main() {
    let given: Vec<u32> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let numbers = if given.is_empty() { vec![12, 3, 8, 1, 17, 5, 20, 10, 15] } else { given };

    let (sender, sorted) = unbounded();
    // One start for all, so that it does not matter when each goroutine gets to run first.
    let start = Instant::now() + Duration::from_millis(20);
    for n in numbers {
        let sender = sender.clone();
        gort::spawn(move || {
            gort::time::sleep_until(start + Duration::from_millis(25) * n);
            sender.send(n).unwrap();
        });
    }
    drop(sender);

    let words: Vec<String> = sorted.iter().map(|n| n.to_string()).collect();
    println!("{}", words.join(" "));
}
