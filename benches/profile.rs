//! What profiles cost: the CPU time of the process for a loop that computes and for one that sends messages,
//! with and without each profile, in turns.

use std::hint::black_box;
use std::time::Duration;

use gort::profile::{self, Cpu};

const ROUNDS: usize = 11;

/// CPU time that the process has used.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the time.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn compute() {
    gort::run(|| {
        for step in 0..1_000_000_000u64 {
            black_box(step);
        }
    });
}

/// Each message waits for its answer: nothing but parks and wake-ups.
fn channels() {
    send(1_000_000);
}

fn few_messages() {
    send(50_000);
}

fn send(count: u64) {
    gort::run(move || {
        let (ask, questions) = gort::chan::bounded::<u64>(0);
        let (answer, answers) = gort::chan::bounded::<u64>(0);
        let other = gort::spawn(move || questions.iter().try_for_each(|n| answer.send(n)));
        for n in 0..count {
            ask.send(n).unwrap();
            answers.recv().unwrap();
        }
        drop((ask, answers));
        let _the_channel_is_closed = other.join().unwrap();
    });
}

fn measure(work: fn()) -> f64 {
    // A CPU profile reads the unwind tables first, which takes about a millisecond.
    std::thread::sleep(Duration::from_millis(100));
    let start = cpu_time();
    work();
    (cpu_time() - start).as_secs_f64()
}

fn lower_quartile(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 4]
}

/// Prints the ratio of both, from `ROUNDS` rounds of each in turns.
fn compare(name: &str, work: fn(), with: impl Fn(fn()) -> f64) {
    // Arguments that are no options choose rows by words in their names.
    let mut words = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).peekable();
    if words.peek().is_some() && !words.any(|word| name.contains(&word)) {
        return;
    }
    work();
    let (mut off, mut on) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        off.push(measure(work));
        on.push(with(work));
    }
    let (off, on) = (lower_quartile(off), lower_quartile(on));
    println!(
        "{name:45} off {:8.1} ms   on {:8.1} ms   {:+.1} %",
        off * 1e3,
        on * 1e3,
        (on / off - 1.0) * 100.0
    );
}

/// CPU time (ns) of the thread that collects samples.
fn collector() -> Option<u64> {
    let threads = std::fs::read_dir("/proc/self/task").ok()?;
    threads.filter_map(Result::ok).find_map(|thread| {
        let read = |file| std::fs::read_to_string(thread.path().join(file)).ok();
        let is_it = read("comm")?.trim() == "gort-profile";
        is_it.then(|| read("schedstat")?.split(' ').next()?.parse().ok())?
    })
}

/// Prints the part of the CPU time that the collecting thread takes, while `work` runs.
fn share_of_collector(name: &str, work: fn(), rate: u32) {
    let cpu = Cpu::start(rate).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let (before, start) = (collector().unwrap_or(0), cpu_time());
    (0..5).for_each(|_| work());
    let all = (cpu_time() - start).as_nanos() as f64;
    let own = collector().unwrap_or(0).saturating_sub(before) as f64;
    drop(cpu);
    println!("{name:45} the collecting thread takes {:.2} %", own / all * 100.0);
}

fn main() {
    gort::runtime::set_max_procs(1);
    let cpu = |rate| {
        move |work: fn()| {
            let cpu = Cpu::start(rate).unwrap();
            let time = measure(work);
            drop(cpu);
            time
        }
    };
    let block = |rate| {
        move |work: fn()| {
            profile::set_block_profile_rate(rate).unwrap();
            let time = measure(work);
            profile::set_block_profile_rate(Duration::ZERO).unwrap();
            time
        }
    };
    share_of_collector("a loop that computes, cpu at 100 Hz", compute, 100);
    share_of_collector("two goroutines that send, cpu at 100 Hz", channels, 100);
    share_of_collector("two goroutines that send, cpu at 1,000 Hz", channels, 1000);
    compare("a loop that computes, nothing", compute, measure);
    compare("a loop that computes, cpu at 100 Hz", compute, cpu(100));
    compare("a loop that computes, cpu at 1,000 Hz", compute, cpu(1000));
    compare("two goroutines that send, nothing", channels, measure);
    compare("two goroutines that send, cpu at 100 Hz", channels, cpu(100));
    compare("two goroutines that send, block at 10 us", channels, block(Duration::from_micros(10)));
    compare("two goroutines that send, block at 1 ns", few_messages, block(Duration::from_nanos(1)));
}
