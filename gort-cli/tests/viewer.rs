//! The page that `gort trace --html` writes, in a headless Chromium: it loads, draws as much as was used,
//! shows what is clicked, searches, zooms, and is dark. Skipped where Chromium is missing.

mod browser;

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use browser::{Browser, chromium};
use gort::runtime::Config;
use serde_json::json;

#[inline(never)]
fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Traces two goroutines that use two Ps, and writes the page with the trace.
///
/// One of them always runs, as long as there is the other: for 2 ms after each goroutine that takes next to
/// no time, so that nearly all of its slices begin in the pixel of a short one. The other one runs half of
/// the time.
fn write_page(page: &Path) {
    Config::new().max_procs(2).start().unwrap();
    let file = page.with_extension("trace");
    gort::trace::start(std::fs::File::create(&file).unwrap()).unwrap();
    gort::run(|| {
        let always = gort::Builder::new().name("always".into());
        let done = Arc::new(AtomicBool::new(false));
        let all_done = Arc::clone(&done);
        let always = always.spawn(move || {
            while !all_done.load(Ordering::Relaxed) {
                gort::spawn(|| ()).join().unwrap();
                spin(Duration::from_millis(2));
            }
        });
        let half = gort::Builder::new().name("half of the time".into());
        let half = half.spawn(|| {
            for _ in 0..100 {
                spin(Duration::from_millis(2));
                gort::sleep(Duration::from_millis(2));
            }
        });
        half.unwrap().join().unwrap();
        done.store(true, Ordering::Relaxed);
        always.unwrap().join().unwrap();
    });
    gort::trace::stop().unwrap();
    let mut tool = Command::new(env!("CARGO_BIN_EXE_gort"));
    assert!(tool.arg("trace").arg(&file).arg("--html").arg(page).status().unwrap().success());
    std::fs::remove_file(file).unwrap();
}

/// For each P, how much of its row is painted, and how much of the time it was used (0 to 1). All slices have
/// the same colour while a search has found nothing, so a pixel's colour says how much of it is painted.
const PAINTED: &str = "(() => {
  const ctx = V.canvas.getContext('2d'), {S} = T, width = V.canvas.width - LABELS;
  const colour = name => { ctx.fillStyle = C[name]; return parseInt(ctx.fillStyle.slice(1, 3), 16); };
  const back = colour('back'), full = colour('waiting');
  return T.rowsOfProcs.map(({ ids, p }) => {
    const pixels = ctx.getImageData(LABELS, RULER + V.rows.ofProc(p).top + 4, width, 1).data;
    let painted = 0, used = 0;
    for (let x = 0; x < width; x++) painted += (back - pixels[4 * x]) / (back - full);
    for (const s of ids) used += S.end[s] - S.start[s];
    return [painted / width, used / T.end];
  });
})()";

/// The middle of the longest slice on a P, in the page.
const LONGEST: &str = "(() => {
  const {S} = T, box = V.canvas.getBoundingClientRect();
  const length = s => (S.state[s] === RUNNING && S.p[s] >= 0 ? S.end[s] - S.start[s] : 0);
  let s = 0;
  for (let i = 1; i < S.count; i++) if (length(i) > length(s)) s = i;
  const time = (S.start[s] + S.end[s]) / 2, row = V.rows.ofProc(S.p[s]);
  const x = LABELS + (time - V.t0) / (V.t1 - V.t0) * (V.canvas.clientWidth - LABELS);
  const y = box.top + RULER + row.top + row.height / 2;
  return { s, x: box.left + x, y, name: goroutineName(T, S.g[s]) };
})()";

/// How much lighter the lightest pixel of a row's slices is than the slices themselves, from 0 to 255.
const INK: &str = "(() => {
  const row = V.rows.ofProc(T.S.p[V.longest]), ctx = V.canvas.getContext('2d');
  const x = LABELS + 20, pixels = ctx.getImageData(x, RULER + row.top + 4, 200, row.height - 10).data;
  let most = 0;
  for (let i = 0; i < pixels.length; i += 4) most = Math.max(most, pixels[i]);
  return most - pixels[0];
})()";

const DRAWN: &str =
    "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))";

#[test]
fn the_page_shows_a_trace() {
    let Some(program) = chromium() else { return };
    let page = std::env::temp_dir().join(format!("gort-viewer-{}.html", std::process::id()));
    write_page(&page);
    let mut browser = Browser::start(&program);
    browser.theme("light");
    browser.call("Page.navigate", json!({ "url": format!("file://{}", page.display()) }));
    browser.until("the page loads", "document.body?.dataset.ready === 'yes'");
    assert_eq!(browser.run("T.procs.length"), json!(2));
    let wide = "document.documentElement.scrollWidth <= document.documentElement.clientWidth";
    assert_eq!(browser.run(wide), json!(true), "nothing is wider than the window");

    // A search that finds nothing. What is painted is what was used.
    browser.press("/");
    assert_eq!(browser.run("document.activeElement.id"), json!("search"));
    let search = |text: &str| {
        format!("$('search').value = '{text}'; $('search').dispatchEvent(new Event('input')); {DRAWN}")
    };
    browser.run(&search("no such name"));
    assert_eq!(browser.run("$('found').textContent"), json!("0 found"));
    let rows = browser.run(PAINTED);
    for row in rows.as_array().unwrap() {
        let [painted, used] = [0, 1].map(|i| row[i].as_f64().unwrap());
        assert!((painted - used).abs() < 0.12, "painted {painted}, used {used}: {rows}");
    }
    let used = |row: usize| rows[row][1].as_f64().unwrap();
    assert!(used(0).max(used(1)) > 0.5, "{rows}");

    // A search that finds one; Enter selects it, and goes to what it did.
    browser.run(&search("half of"));
    assert_eq!(browser.run("$('found').textContent"), json!("1 found"));
    browser.press("Enter");
    let found = browser.run("$('details').textContent");
    assert!(found.as_str().unwrap().contains(": half of the time"), "{found}");
    browser.press("Escape");
    assert_eq!(browser.run("[V.goroutine, $('found').textContent]"), json!([-1, ""]));

    // A click shows what ran there.
    browser.press("0");
    browser.run(DRAWN);
    let longest = browser.run(LONGEST);
    let mut click = json!({ "type": "mousePressed", "button": "left", "clickCount": 1 });
    (click["x"], click["y"]) = (longest["x"].clone(), longest["y"].clone());
    browser.call("Input.dispatchMouseEvent", click.clone());
    click["type"] = json!("mouseReleased");
    browser.call("Input.dispatchMouseEvent", click);
    assert_eq!(browser.run("V.span"), longest["s"], "{longest}");
    let details = browser.run("$('details').textContent");
    let details = details.as_str().unwrap();
    let name = longest["name"].as_str().unwrap();
    assert!(details.contains(name) && details.contains("running for"), "{name}: {details}");
    assert!(details.contains("tests/viewer.rs:"), "{details}");

    // Zoom by the wheel, at the pointer, and by keys.
    let length = "V.t1 - V.t0";
    let whole = browser.run(length).as_f64().unwrap();
    let mut wheel = json!({ "type": "mouseWheel", "deltaX": 0, "deltaY": -600 });
    (wheel["x"], wheel["y"]) = (longest["x"].clone(), longest["y"].clone());
    browser.call("Input.dispatchMouseEvent", wheel);
    browser.until("the wheel zooms", &format!("{length} < {whole} * 0.6"));
    let inside = "T.S.start[V.span] < V.t1 && T.S.end[V.span] > V.t0";
    assert_eq!(browser.run(inside), json!(true));
    let part = browser.run(length).as_f64().unwrap();
    browser.press("+");
    browser.until("a key zooms", &format!("{length} < {part} * 0.9"));
    browser.press("f");
    let wanted = "Math.min(3 * (T.S.end[V.span] - T.S.start[V.span]), T.end)";
    let fits = format!("Math.abs(({length}) / {wanted} - 1) < 0.05");
    browser.until("it zooms to the slice", &fits);

    // Dark: also the name of a slice that the search has not found can be read.
    browser.theme("dark");
    browser.until("it is dark", "C.dark");
    browser
        .run(&format!("V.longest = V.span; show(T.S.start[V.span], T.S.end[V.span]); select(-1); {DRAWN}"));
    browser.run(&search("no such name"));
    let ink = browser.run(INK).as_f64().unwrap();
    assert!(ink > 90.0, "the ink is only {ink} lighter than the slice");

    // The rows of goroutines.
    browser.run(&format!("{}; $('search').blur()", search("")));
    browser.press("g");
    browser.until("there are rows of goroutines", "$('mode-g').getAttribute('aria-pressed') === 'true'");
    browser.run(DRAWN);
    let rows = browser.run("$('rows').textContent");
    let rows = rows.as_str().unwrap();
    assert!(rows.contains("always: running") && rows.contains("half of the time: running"), "{rows}");
    assert!(browser.errors.is_empty(), "{:?}", browser.errors);
    std::fs::remove_file(page).unwrap();
}
