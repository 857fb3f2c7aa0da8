//! Finds primes with a chain of filters: every prime adds a goroutine that removes its multiples.
//! Nearly all of the time is spent on switches between goroutines.
//!
//! `cargo run --example prime_sieve`

use gort::chan::{Receiver, bounded};

/// Sends 2, 3, 4, … until the receiver is dropped.
fn generate() -> Receiver<u32> {
    let (sender, receiver) = bounded(0);
    gort::spawn(move || {
        for n in 2.. {
            if sender.send(n).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Passes on the numbers of `input` that `prime` does not divide.
fn filter(input: Receiver<u32>, prime: u32) -> Receiver<u32> {
    let (sender, receiver) = bounded(0);
    gort::spawn(move || {
        for n in input.iter().filter(|n| n % prime != 0) {
            // The next filter has ended. This one ends, too, and drops its input, which ends the previous
            // one.
            if sender.send(n).is_err() {
                return;
            }
        }
    });
    receiver
}

#[gort::main]
fn main() {
    let mut numbers = generate();
    let mut primes = Vec::new();
    for _ in 0..100 {
        // A number that passes all filters so far is prime.
        let prime = numbers.recv().unwrap();
        primes.push(prime);
        numbers = filter(numbers, prime);
    }
    println!("{:?}", &primes[..10]);
    println!("the 100th prime is {}", primes[99]);
}
