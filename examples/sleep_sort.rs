//! The joke sorting algorithm: one goroutine per number sleeps for a time proportional to that number. A
//! sleeping goroutine costs a timer, not a thread.
//!
//! In a bubble, time is virtual: it stands still while a goroutine runs, and jumps ahead when all of them
//! wait. So these goroutines sleep for years, are done at once, and the result is always sorted. Tests of
//! timeouts and deadlines can be written the same way.
//!
//! `cargo run --example sleep_sort [number…]`

use std::time::Duration;

use gort::chan::unbounded;
use gort::testing::bubble;

const DAY: Duration = Duration::from_secs(24 * 3600);

fn sleep_sort(numbers: Vec<u32>) -> Vec<u32> {
    let (sender, sorted) = unbounded();
    for n in numbers {
        let sender = sender.clone();
        gort::spawn(move || {
            gort::sleep(DAY * n);
            sender.send(n).unwrap();
        });
    }
    drop(sender);
    sorted.iter().collect()
}

#[gort::main]
fn main() {
    let given: Vec<u32> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let numbers = if given.is_empty() { vec![1200, 3, 88, 1, 170, 5, 2000, 10, 15] } else { given };

    let (sorted, slept) = bubble(|| {
        let start = gort::time::now();
        (sleep_sort(numbers), gort::time::now() - start)
    });
    println!("{sorted:?}");
    println!("slept for {} days", slept.as_secs() / DAY.as_secs());
}
