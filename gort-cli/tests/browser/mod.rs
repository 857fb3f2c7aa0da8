//! A headless Chromium with one page, which a test drives through a pipe.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long a condition may take: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(100);

/// Chromium; `None`, and a line on standard output, where it is not installed.
pub(crate) fn chromium() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let places = std::env::split_paths(&path).flat_map(|dir| names.map(|name| dir.join(name)));
    let found = places.into_iter().find(|file| file.is_file());
    if found.is_none() {
        println!("skipped: Chromium is not installed (Debian's package chromium)");
    }
    found
}

/// A browser with one page.
pub(crate) struct Browser {
    process: Child,
    directory: PathBuf,
    commands: File,
    answers: File,
    rest: Vec<u8>,
    count: u64,
    session: Option<String>,
    /// What scripts of the page have thrown, and what the console says of errors.
    pub(crate) errors: Vec<String>,
}

impl Browser {
    pub(crate) fn start(program: &PathBuf) -> Browser {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("gort-page-{}-{count}", std::process::id()));
        let (their_commands, commands) = pipe();
        let (answers, their_answers) = pipe();
        let mut command = Command::new(program);
        let quiet = [
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-quic",
            "--disable-sync",
        ];
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
    pub(crate) fn call(&mut self, method: &str, parameters: Value) -> Value {
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
    pub(crate) fn run(&mut self, script: &str) -> Value {
        let parameters = json!({ "expression": script, "awaitPromise": true, "returnByValue": true });
        let mut answer = self.call("Runtime.evaluate", parameters);
        assert!(answer["exceptionDetails"].is_null(), "{script}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].take()
    }

    #[track_caller]
    pub(crate) fn until(&mut self, what: &str, script: &str) {
        let start = Instant::now();
        while self.run(script) != json!(true) {
            assert!(start.elapsed() < PATIENCE, "gave up waiting until {what}; {:?}", self.errors);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn press(&mut self, key: &str) {
        let text = if key.chars().count() == 1 { key } else { "" };
        self.call("Input.dispatchKeyEvent", json!({ "type": "keyDown", "key": key, "text": text }));
        self.call("Input.dispatchKeyEvent", json!({ "type": "keyUp", "key": key }));
    }

    pub(crate) fn theme(&mut self, name: &str) {
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
