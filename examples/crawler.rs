//! A crawler: one goroutine per page, each page visited once, a limited number of fetches at a time, and a
//! deadline.
//!
//! `cargo run --example crawler`

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gort::Scope;
use gort::context::Context;
use gort::sync::{Mutex, Semaphore};

struct Crawl {
    ctx: Context,
    /// One permit per fetch that may be in progress.
    fetches: Semaphore,
    seen: Mutex<BTreeSet<u32>>,
}

impl Crawl {
    /// Visits `page`, unless it was seen before, and all pages reachable from it, in goroutines of the scope.
    fn visit<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, page: u32) {
        if !self.seen.lock().insert(page) {
            return;
        }
        scope.spawn(move || {
            // Without a permit before the deadline, this branch ends.
            let Ok(permit) = self.fetches.acquire_ctx(&self.ctx, 1) else { return };
            if self.ctx.err().is_some() {
                return;
            }
            let links = fetch(page);
            drop(permit);
            links.into_iter().for_each(|link| self.visit(scope, link));
        });
    }
}

/// A simulated web: page n links to 2n, 3n and n - 1, up to 500. A fetch takes 0 to 4 ms.
fn fetch(page: u32) -> Vec<u32> {
    MOST.fetch_max(RUNNING.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
    gort::sleep(Duration::from_millis(u64::from(page % 5)));
    RUNNING.fetch_sub(1, Ordering::Relaxed);
    [page * 2, page * 3, page - 1].into_iter().filter(|link| (1..=500).contains(link)).collect()
}

static RUNNING: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

#[gort::main]
fn main() {
    let (ctx, _cancel) = Context::background().with_timeout(Duration::from_secs(60));
    let crawl = Crawl { ctx, fetches: Semaphore::new(8), seen: Mutex::default() };

    // Goroutines of a scope may borrow, and all of them have ended when `scope` returns: no Arc, no
    // WaitGroup.
    gort::scope(|scope| crawl.visit(scope, 1));

    let most = MOST.load(Ordering::Relaxed);
    println!("{} pages found, never more than 8 fetches at once: {}", crawl.seen.lock().len(), most <= 8);
}
