//! Goroutines look like threads: spawn them, join them, use what they return.
//!
//! `cargo run --example hello`

#[gort::main]
fn main() {
    // `go!` is the short form: it starts a goroutine without a handle. A channel carries the result.
    let (sender, receiver) = gort::chan::bounded(1);
    gort::go!(sender.send("Hello").unwrap());
    // `spawn` takes a closure and returns a handle to join, like `std::thread::spawn`.
    let name = gort::spawn(|| "goroutine".to_uppercase());
    println!("{}, {}!", receiver.recv().unwrap(), name.join().unwrap());

    // Ten thousand goroutines are nothing special. The sum does not depend on the order in which they run.
    let handles: Vec<_> = (1..=10_000u64).map(|n| gort::spawn(move || n)).collect();
    let sum: u64 = handles.into_iter().map(|handle| handle.join().unwrap()).sum();
    println!("10000 goroutines add up to {sum}");

    // A panic ends only its own goroutine. As with threads, `join` returns the payload.
    let bad = gort::Builder::new().name(String::from("bad"));
    let bad = bad.spawn(|| -> u32 { std::panic::resume_unwind(Box::new("oops")) }).unwrap();
    let payload = bad.join().unwrap_err();
    println!("the goroutine said: {}", payload.downcast_ref::<&str>().unwrap());
}
