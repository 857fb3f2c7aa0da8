//! Primes by a chain of filters: every prime found adds a goroutine that stops its multiples.
//! Nearly all of the time goes into switching between goroutines.
//!
//! `cargo run --example prime_sieve`

use gort::chan::{Receiver, bounded};

/// 2, 3, 4, … until nobody listens.
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

/// The numbers of `input` that `prime` does not divide.
fn filter(input: Receiver<u32>, prime: u32) -> Receiver<u32> {
    let (sender, receiver) = bounded(0);
    gort::spawn(move || {
        for n in input.iter().filter(|n| n % prime != 0) {
            // The next filter is gone. This one ends and drops its input, so the one before it ends as well.
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
        // What passes all filters so far is prime.
        let prime = numbers.recv().unwrap();
        primes.push(prime);
        numbers = filter(numbers, prime);
    }
    println!("{:?}", &primes[..10]);
    println!("the 100th prime is {}", primes[99]);
}
