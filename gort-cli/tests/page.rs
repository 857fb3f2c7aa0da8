//! The live page of `gort::debug` in a headless Chromium, which the test drives through a pipe: it loads,
//! goes on, shows the stack of a goroutine, stands still, and bears 100,000 goroutines. Skipped where
//! Chromium is missing.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long a condition may take: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(100);

fn chromium() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let places = std::env::split_paths(&path).flat_map(|dir| names.map(|name| dir.join(name)));
    places.into_iter().find(|file| file.is_file())
}

/// A browser with one page.
struct Browser {
    process: Child,
    directory: PathBuf,
    commands: File,
    answers: File,
    rest: Vec<u8>,
    count: u64,
    session: Option<String>,
    /// What scripts of the page have thrown, and what the console says of errors.
    errors: Vec<String>,
}

impl Browser {
    fn start(program: &PathBuf) -> Browser {
        let directory = std::env::temp_dir().join(format!("gort-page-{}", std::process::id()));
        let (their_commands, commands) = pipe();
        let (answers, their_answers) = pipe();
        let mut command = Command::new(program);
        let quiet = ["--disable-background-networking", "--disable-component-update", "--disable-sync"];
        command.args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--remote-debugging-pipe",
        ]);
        command.args(quiet).arg(format!("--user-data-dir={}", directory.display())).arg("about:blank");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let [from, to] = [their_commands.as_raw_fd(), their_answers.as_raw_fd()];
        // SAFETY: between fork and exec, only dup2 is called. Chromium reads descriptor 3 and writes 4; both
        // are made of descriptors above these, so none is closed before it is copied.
        unsafe {
            command.pre_exec(move || {
                for (source, target) in [(from, 3), (to, 4)] {
                    if libc::dup2(source, target) < 0 {
                        return Err(std::io::Error::last_os_error());
                    }
                }
                Ok(())
            });
        }
        let process = command.spawn().unwrap();
        let (rest, errors) = (Vec::new(), Vec::new());
        let mut browser =
            Browser { process, directory, commands, answers, rest, count: 0, session: None, errors };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }))["targetId"].clone();
        let attached = browser.call("Target.attachToTarget", json!({ "targetId": target, "flatten": true }));
        browser.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            browser.call(domain, json!({}));
        }
        let size = json!({ "width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": false });
        browser.call("Emulation.setDeviceMetricsOverride", size);
        browser
    }

    fn message(&mut self) -> Value {
        loop {
            if let Some(end) = self.rest.iter().position(|&byte| byte == 0) {
                let message: Vec<u8> = self.rest.drain(..=end).collect();
                return serde_json::from_slice(&message[..end]).unwrap();
            }
            let mut bytes = [0; 1 << 16];
            let count = self.answers.read(&mut bytes).unwrap();
            assert_ne!(count, 0, "Chromium has ended");
            self.rest.extend_from_slice(&bytes[..count]);
        }
    }

    #[track_caller]
    fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.count += 1;
        let mut command = json!({ "id": self.count, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            command["sessionId"] = json!(session);
        }
        self.commands.write_all(format!("{command}\0").as_bytes()).unwrap();
        loop {
            let mut message = self.message();
            if message["id"] == self.count {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].take();
            }
            let is_error = match message["method"].as_str() {
                Some("Runtime.exceptionThrown") => true,
                Some("Log.entryAdded") => message["params"]["entry"]["level"] == "error",
                _ => false,
            };
            if is_error {
                self.errors.push(message["params"].to_string());
            }
        }
    }

    /// The value of an expression in the page.
    #[track_caller]
    fn run(&mut self, script: &str) -> Value {
        let parameters = json!({ "expression": script, "awaitPromise": true, "returnByValue": true });
        let mut answer = self.call("Runtime.evaluate", parameters);
        assert!(answer["exceptionDetails"].is_null(), "{script}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].take()
    }

    #[track_caller]
    fn until(&mut self, what: &str, script: &str) {
        let start = Instant::now();
        while self.run(script) != json!(true) {
            assert!(start.elapsed() < PATIENCE, "gave up waiting until {what}; {:?}", self.errors);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn press(&mut self, key: &str) {
        let text = if key.chars().count() == 1 { key } else { "" };
        self.call("Input.dispatchKeyEvent", json!({ "type": "keyDown", "key": key, "text": text }));
        self.call("Input.dispatchKeyEvent", json!({ "type": "keyUp", "key": key }));
    }

    fn theme(&mut self, name: &str) {
        let feature = json!({ "name": "prefers-color-scheme", "value": name });
        self.call("Emulation.setEmulatedMedia", json!({ "features": [feature] }));
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ended_already = self.process.kill();
        let _ended_already = self.process.wait();
        let _nothing_to_be_done = std::fs::remove_dir_all(&self.directory);
    }
}

/// Both ends of a pipe, with numbers above those that Chromium uses.
fn pipe() -> (File, File) {
    let (reader, writer) = std::io::pipe().unwrap();
    let above = |fd: i32| {
        // SAFETY: the descriptor is open; the copy is ours alone.
        unsafe { File::from_raw_fd(libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 100)) }
    };
    (above(reader.as_raw_fd()), above(writer.as_raw_fd()))
}

#[inline(never)]
fn waits_in_the_test(receiver: &gort::chan::Receiver<()>) -> bool {
    std::hint::black_box(receiver.recv().is_ok())
}

#[test]
fn the_page_shows_the_program() {
    let Some(program) = chromium() else {
        println!("skipped: Chromium is not installed (Debian's package chromium)");
        return;
    };
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
