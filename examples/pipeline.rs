//! Stages connected by channels, and one channel that cancels all of them.
//!
//! `cargo run --example pipeline`

use gort::JoinHandle;
use gort::chan::{Receiver, bounded, select};

/// Nothing is ever sent on it: it only closes, and everybody who listens notices.
type Done = Receiver<()>;

/// A stage: starts a goroutine that applies `f` to everything that comes from `input`, until that ends, nobody
/// listens any more, or `done` closes. Gives the output and a handle that says how many items passed.
fn stage<T, U>(
    input: Receiver<T>,
    done: Done,
    mut f: impl FnMut(T) -> Option<U> + Send + 'static,
) -> (Receiver<U>, JoinHandle<u32>)
where
    T: Send + 'static,
    U: Send + 'static,
{
    let (output, next) = bounded(0);
    let handle = gort::spawn(move || {
        let mut passed = 0;
        for item in input {
            let Some(item) = f(item) else { continue };
            select! {
                send(output, item) -> sent => if sent.is_err() { break },
                recv(done) -> _ => break,
            }
            passed += 1;
        }
        passed
    });
    (next, handle)
}

#[gort::main]
fn main() {
    let (cancel, done) = bounded::<()>(0);

    // An endless source: without the cancellation it would wait for ever to send the next number.
    let (source, numbers) = bounded(0);
    let stop = done.clone();
    let producer = gort::spawn(move || {
        for n in 1u64.. {
            select! {
                send(source, n) -> sent => if sent.is_err() { break },
                recv(stop) -> _ => break,
            }
        }
    });

    let (odd, filter) = stage(numbers, done.clone(), |n| (n % 2 == 1).then_some(n));
    let (squares, square) = stage(odd, done.clone(), |n| Some(n * n));

    let first: Vec<u64> = squares.iter().take(8).collect();
    println!("squares of odd numbers: {first:?}");

    // Dropping the only sender closes the channel: all stages end, and so do their goroutines.
    drop(cancel);
    producer.join().unwrap();
    let (filtered, squared) = (filter.join().unwrap(), square.join().unwrap());
    assert!(squared >= 8 && filtered >= squared);
    println!("all stages have ended");
}
