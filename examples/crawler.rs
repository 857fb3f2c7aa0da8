//! The shape of a crawler: find pages by following links, each page once, so many fetches at a time.
//!
//! `cargo run --example crawler`

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gort::chan::{bounded, unbounded};

const MAX_PAGE: u32 = 200;
const MAX_FETCHES: usize = 8;

static RUNNING: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// The web: page n links to 2n, 3n and n - 1. A fetch takes a while.
fn fetch(page: u32) -> Vec<u32> {
    MOST.fetch_max(RUNNING.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
    gort::sleep(Duration::from_millis(u64::from(page % 5)));
    RUNNING.fetch_sub(1, Ordering::Relaxed);
    [page * 2, page * 3, page - 1].into_iter().filter(|link| (1..=MAX_PAGE).contains(link)).collect()
}

#[gort::main]
fn main() {
    // A channel of so many places is a semaphore: sending takes a place, receiving frees one.
    let (acquire, release) = bounded(MAX_FETCHES);
    let (found, pages) = unbounded();
    let mut depth_of = BTreeMap::from([(1, 0)]);
    let mut level = vec![1];

    // Level by level, so that the depth of a page is the shortest way to it, whatever order fetches end in.
    for depth in 1.. {
        for page in level.drain(..) {
            let (acquire, release, found) = (acquire.clone(), release.clone(), found.clone());
            gort::spawn(move || {
                acquire.send(()).unwrap();
                let links = fetch(page);
                release.recv().unwrap();
                found.send(links).unwrap();
            });
        }
        let fetched = depth_of.values().filter(|&&d| d == depth - 1).count();
        for link in pages.iter().take(fetched).flatten() {
            depth_of.entry(link).or_insert_with(|| {
                level.push(link);
                depth
            });
        }
        println!("depth {}: {fetched} pages", depth - 1);
        if level.is_empty() {
            break;
        }
    }
    println!(
        "{} pages found, never more than {MAX_FETCHES} fetches at once: {}",
        depth_of.len(),
        MOST.load(Ordering::Relaxed) <= MAX_FETCHES
    );
}
