//! One consumer with several sources and a deadline: `select!` waits for the first event.
//!
//! `cargo run --example producer_consumer`

use std::time::Duration;

use gort::chan::{Receiver, after, bounded, never, select, tick};

/// Sends 1 to `count` with a pause before each number, then closes the channel.
fn produce(count: u32, pause: Duration) -> Receiver<u32> {
    let (sender, receiver) = bounded(4);
    gort::spawn(move || {
        for n in 1..=count {
            gort::sleep(pause);
            if sender.send(n).is_err() {
                return;
            }
        }
    });
    receiver
}

#[gort::main]
fn main() {
    let mut fast = produce(100, Duration::from_millis(1));
    let mut slow = produce(10, Duration::from_millis(10));
    let (mut fast_sum, mut slow_sum, mut open) = (0, 0, 2);
    let heartbeat = tick(Duration::from_millis(20));
    let mut beats = 0;
    while open > 0 || beats < 3 {
        select! {
            recv(fast) -> item => match item {
                Ok(n) => fast_sum += n,
                // A closed channel is always ready, so `never()` replaces it: this arm is never chosen again.
                Err(_) => (fast, open) = (never(), open - 1),
            },
            recv(slow) -> item => match item {
                Ok(n) => slow_sum += n,
                Err(_) => (slow, open) = (never(), open - 1),
            },
            recv(heartbeat) -> _ => beats += 1,
        }
    }
    println!("fast producer: sum {fast_sum}");
    println!("slow producer: sum {slow_sum}");
    println!("the heart has beaten at least 3 times");

    // `default` with a duration gives up when nothing has arrived for that long.
    let (_silent, silence) = bounded::<u32>(0);
    select! {
        recv(silence) -> _ => unreachable!("nobody sends"),
        default(Duration::from_millis(30)) => println!("nothing arrived within 30 ms"),
    }

    // `after` is a channel, so one deadline can limit a whole loop, however many items arrive.
    let deadline = after(Duration::from_millis(60));
    let endless = produce(u32::MAX, Duration::from_millis(1));
    let mut last = 0;
    loop {
        select! {
            recv(endless) -> item => last = item.unwrap(),
            recv(deadline) -> _ => break,
        }
    }
    println!("the deadline has ended an endless producer: {}", last < u32::MAX);
}
