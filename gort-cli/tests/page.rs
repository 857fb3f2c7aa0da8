//! The live page of `gort::debug` in a headless Chromium: it loads, goes on, shows the stack of a goroutine,
//! stands still, and bears 100,000 goroutines. Skipped where Chromium is missing.

mod browser;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use browser::{Browser, chromium};
use serde_json::json;

#[inline(never)]
fn waits_in_the_test(receiver: &gort::chan::Receiver<()>) -> bool {
    std::hint::black_box(receiver.recv().is_ok())
}

#[test]
fn the_page_shows_the_program() {
    let Some(program) = chromium() else { return };
    let server = gort::debug::serve("127.0.0.1:0").unwrap();
    let (release, receiver) = gort::chan::bounded::<()>(0);
    let own = receiver.clone();
    let named = gort::Builder::new().name("needle".into()).label("kind", "thin");
    let named = named.spawn(move || waits_in_the_test(&own)).unwrap();
    let pinger = release.clone();
    let (stop, stopped) = gort::chan::bounded::<()>(0);
    let busy = gort::spawn(move || {
        while stopped.try_recv() == Err(gort::chan::TryRecvError::Empty) {
            gort::spawn(|| std::hint::black_box((0..2000).sum::<u64>())).join().unwrap();
        }
        drop(pinger);
    });

    let mut browser = Browser::start(&program);
    browser.theme("light");
    browser.call("Page.navigate", json!({ "url": server.url() }));
    browser.until("the page loads", "typeof D === 'object' && D.samples.length > 0 && rows.length > 0");
    let procs = browser.run("document.querySelectorAll('#procs .square').length");
    assert_eq!(procs, json!(gort::runtime::max_procs()));
    browser.until("it is live", "document.getElementById('live').textContent === 'live'");
    let before = browser.run("shown().n").as_u64().unwrap();
    browser.until("it goes on", &format!("shown().n > {before} + 10"));
    browser.until("the table has rows", "document.querySelectorAll('#rows tr').length > 0");
    browser.until("a P runs", "shown().ps.some(p => p.state === 'running')");
    browser.until("there are latencies", "D.facts.length > 2 && numbers !== null");

    // Search with the keyboard, and open a goroutine.
    browser.press("/");
    assert_eq!(browser.run("document.activeElement.id"), json!("search"));
    browser.run("$('search').value = 'needle'; $('search').dispatchEvent(new Event('input'))");
    browser.until("the search has found it", "answer.matching === 1");
    browser.run("$('search').blur()");
    browser.press("g");
    browser.until(
        "it has a row",
        "document.querySelector('#rows tr td:nth-child(2)')?.textContent === 'needle'",
    );
    assert_eq!(browser.run("document.querySelector('#rows').textContent.includes('kind=thin')"), json!(true));
    browser.run("document.querySelector('#rows tr').click()");
    let shows_stack = "document.getElementById('details').textContent.includes('page::waits_in_the_test')";
    browser.until("its stack is shown", shows_stack);
    let details = browser.run("document.getElementById('details').textContent");
    let details = details.as_str().unwrap();
    assert!(details.contains("chan receive") && details.contains("tests/page.rs:"), "{details}");
    browser.press("Escape");
    assert_eq!(browser.run("document.getElementById('details').hidden"), json!(true));

    // Time stands still, and goes back and forth.
    browser.press(" ");
    browser.until("it is paused", "D.at !== null");
    let at = browser.run("shown().n").as_u64().unwrap();
    browser.press("ArrowLeft");
    browser.until("one step back", &format!("shown().n < {at}"));
    browser.press("ArrowRight");
    browser.until("one step forward", &format!("shown().n === {at}"));
    browser.until("new samples come meanwhile", &format!("D.last > {at} + 5"));
    assert_eq!(browser.run("shown().n").as_u64(), Some(at));
    browser.press(" ");
    browser.until("it is live again", &format!("D.at === null && shown().n > {at}"));

    // Dark, and back by a key.
    let brightness = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3)\
                      .reduce((a, b) => a + +b, 0)";
    assert!(browser.run(brightness).as_u64().unwrap() > 600);
    browser.theme("dark");
    browser.until("it is dark", &format!("{brightness} < 100"));
    browser.press("t");
    browser.until("it is light", &format!("{brightness} > 600"));
    let wide = "document.documentElement.scrollWidth <= document.documentElement.clientWidth";
    assert_eq!(browser.run(wide), json!(true), "nothing is wider than the window");

    // Very many goroutines.
    let crowd: Vec<_> = (0..100_000)
        .map(|_| {
            let own = receiver.clone();
            gort::spawn(move || waits_in_the_test(&own))
        })
        .collect();
    browser.press("Escape");
    browser.press("g");
    browser.until(
        "the groups have them",
        "answer.groups !== undefined && answer.groups.some(group => group.count === 100000)",
    );
    browser.press("g");
    browser.until("the table has a page of them", "answer.rows?.length === 50 && answer.total > 100000");
    let rows = browser.run("document.querySelectorAll('#rows tr').length");
    assert_eq!(rows, json!(50));
    let last = browser.run("D.last").as_u64().unwrap();
    browser.until("it goes on", &format!("D.last > {last} + 5"));
    assert!(browser.errors.is_empty(), "{:?}", browser.errors);

    drop((stop, release));
    busy.join().unwrap();
    for goroutine in crowd.into_iter().chain([named]) {
        assert!(!goroutine.join().unwrap());
    }
    drop(server);
    browser.until("the page says that the program is gone", "!document.getElementById('lost').hidden");
}

/// A program that ends with this.
struct Demo(Child);

impl Drop for Demo {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// Every P has a square with a size, in the window's width, and no two lie upon each other.
const SQUARES: &str = "(() => {
  const all = [...document.querySelectorAll('#procs .square')].map(square => square.getBoundingClientRect());
  const wide = document.documentElement.clientWidth;
  const apart = (a, b) => a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top;
  const fits = box => box.width > 0 && box.height > 0 && box.left >= 0 && box.right <= wide;
  return [all.length, all.every(fits), all.every((a, i) => all.every((b, j) => i === j || apart(a, b)))];
})()";

#[test]
fn the_page_shows_64_processors() {
    let Some(program) = chromium() else { return };
    let mut command = Command::new(env!("CARGO_BIN_EXE_gort"));
    command.args(["demo", "--serve", "127.0.0.1:0", "--seconds", "600", "--crowd", "1000"]);
    command.env("GOMAXPROCS", "64").stdout(Stdio::null()).stderr(Stdio::piped());
    let mut demo = Demo(command.spawn().unwrap());
    let mut lines = BufReader::new(demo.0.stderr.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    let url = first.split_whitespace().last().unwrap();
    // What it prints later must not fill the pipe.
    let _drains = std::thread::spawn(move || lines.count());

    let mut browser = Browser::start(&program);
    browser.call("Page.navigate", json!({ "url": url }));
    browser.until("the page loads", "typeof D === 'object' && D.samples.length > 0 && rows.length > 0");
    browser.until("all Ps are there", "document.querySelectorAll('#procs .square').length === 64");
    browser.until("some run", "shown().ps.filter(p => p.state === 'running').length > 1");
    assert_eq!(browser.run(SQUARES), json!([64, true, true]));
    let wide = "document.documentElement.scrollWidth <= document.documentElement.clientWidth";
    assert_eq!(browser.run(wide), json!(true), "nothing is wider than the window");
    let before = browser.run("shown().n").as_u64().unwrap();
    browser.until("it goes on", &format!("shown().n > {before} + 10"));
    assert!(browser.errors.is_empty(), "{:?}", browser.errors);
}
