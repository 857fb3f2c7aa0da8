//! The shape of a crawler: a goroutine for each page, each page once, so many fetches at a time, and a deadline.
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
    /// A permit is the right to fetch a page.
    fetches: Semaphore,
    seen: Mutex<BTreeSet<u32>>,
}

impl Crawl {
    /// Visits a page that was not seen yet, and all that can be reached from it, in goroutines of the scope.
    fn visit<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, page: u32) {
        if !self.seen.lock().insert(page) {
            return;
        }
        scope.spawn(move || {
            // No permit, or one that came too late: the time is over, and so is this branch.
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

/// The web: page n links to 2n, 3n and n - 1, up to 500. A fetch takes a while.
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

    // Goroutines of a scope may borrow, and have all ended when it returns: no Arc, no counting.
    gort::scope(|scope| crawl.visit(scope, 1));

    let most = MOST.load(Ordering::Relaxed);
    println!("{} pages found, never more than 8 fetches at once: {}", crawl.seen.lock().len(), most <= 8);
}
