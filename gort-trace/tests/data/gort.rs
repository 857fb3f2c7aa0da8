//! Makes gort.trace: a bit of everything that gort writes into a trace. See README.md.

use std::time::{Duration, Instant};

fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {}
}

fn main() -> std::io::Result<()> {
    let file = std::env::args().nth(1).expect("the name of the file");
    gort::runtime::set_max_procs(2);
    gort::trace::start(std::fs::File::create(file)?)?;
    gort::run(|| {
        let task = gort::trace::task("batch");
        let (jobs, work) = gort::chan::bounded::<u64>(1);
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let work = work.clone();
                gort::spawn(move || work.iter().for_each(|_| spin(Duration::from_micros(200))))
            })
            .collect();
        let named = gort::Builder::new().name("feeder".into()).spawn(move || {
            let _region = gort::trace::region("feed");
            (0..10).for_each(|job| jobs.send(job).unwrap());
            gort::trace::log("jobs", "all sent");
        });
        named.unwrap().join().unwrap();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        drop(task);

        let marked = gort::spawn(|| gort::blocking(|| std::thread::sleep(Duration::from_millis(5))));
        let unmarked = gort::spawn(|| std::thread::sleep(Duration::from_millis(30)));
        let hogs: Vec<_> = (0..3).map(|_| gort::spawn(|| spin(Duration::from_millis(25)))).collect();
        let lock = gort::sync::Mutex::new(());
        gort::scope(|scope| {
            let guard = lock.lock();
            scope.spawn(|| drop(lock.lock()));
            gort::yield_now();
            gort::sleep(Duration::from_millis(1));
            drop(guard);
        });
        hogs.into_iter().chain([marked, unmarked]).for_each(|goroutine| goroutine.join().unwrap());
        for procs in [1, 3] {
            gort::runtime::set_max_procs(procs);
            gort::sleep(Duration::from_millis(2));
        }
        gort::sleep(Duration::from_millis(1100)); // a second generation
        gort::spawn(|| gort::sleep(Duration::MAX)); // it stays
        gort::sleep(Duration::from_millis(1));
    });
    gort::trace::stop().map(drop)
}
