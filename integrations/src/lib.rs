//! Code that the examples share. The tests run the examples.

/// Starts `n` goroutines that allocate, free and then park. Returns how much memory each of them keeps, in
/// bytes.
pub fn bytes_of_parked(n: usize) -> usize {
    let keep = |n: usize| {
        gort::run(move || {
            let gate = gort::chan::bounded::<()>(0);
            let waiting = std::sync::Arc::new(gort::sync::WaitGroup::new());
            for _ in 0..n {
                waiting.add(1);
                let (gate, waiting) = (gate.1.clone(), waiting.clone());
                gort::spawn(move || {
                    let used: Vec<Vec<u8>> = (4..12).map(|bits| vec![1; 1 << bits]).collect();
                    drop(std::hint::black_box(used));
                    waiting.done();
                    gate.recv().unwrap_err();
                });
            }
            waiting.wait();
            resident()
        })
    };
    // The first goroutines also pay for memory that all of them share, so measure relative to them.
    let before = keep(100);
    keep(n).saturating_sub(before) / n
}

fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc is mounted");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a line of the kernel's");
    let kilobytes = line.split_whitespace().nth(1).and_then(|number| number.parse::<usize>().ok());
    kilobytes.expect("a number of the kernel's") * 1024
}
