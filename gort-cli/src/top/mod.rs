//! `gort top`: the goroutines of a running program, as `top` shows processes. The program has a debug server
//! (`gort::debug::serve`), which counts, sorts and groups; this asks it and prints.
//!
//! ```text
//! find    PID → the address that its server announces
//! client  GET /debug/live, /debug/goroutines → JSON
//! view    JSON → lines
//! keys    the terminal without line mode: one key at a time
//! ```

mod client;
mod find;
mod keys;
mod view;

use std::io::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::args::{TopArgs, TopSort};
use crate::term::{self, Style};
use client::Client;
use keys::Keys;

/// The server compares counters over about a second; the first answer has nothing to compare with.
const FIRST: Duration = Duration::from_millis(1200);

pub(crate) fn main(args: &TopArgs) -> ExitCode {
    match run(args) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("gort: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &TopArgs) -> Result<ExitCode, String> {
    let client = match args.target.parse::<u32>() {
        Ok(pid) => Client::new(&find::address(pid)?, args.token.as_deref())?,
        Err(_) => Client::new(&args.target, args.token.as_deref())?,
    };
    let mut choice =
        Choice { sort: args.sort, group: args.group.map(|group| group.name()), search: args.search.clone() };
    let look = |choice: &Choice, rows: usize| Look::take(&client, choice, rows);
    look(&choice, 1)?;
    std::thread::sleep(FIRST);
    let stdout = std::io::stdout();
    if args.json {
        let look = look(&choice, args.rows.unwrap_or(100) as usize)?;
        let facts = look.live["facts"].as_array().and_then(|facts| facts.last()).cloned();
        let (program, pid) = (&look.live["program"], &look.live["pid"]);
        let all = json!({ "program": program, "pid": pid, "facts": facts, "goroutines": look.goroutines });
        return Ok(term::print(&format!("{all}\n")));
    }
    if args.once || !term::is_live(&stdout) {
        let rows = args.rows.unwrap_or(20) as usize;
        let (width, _) = term::size(&stdout).unwrap_or((160, 0));
        let lines = view::lines(&look(&choice, rows)?, &choice, rows, width, Style::of(&stdout));
        return Ok(term::print(&(lines.join("\n") + "\n")));
    }
    let mut keys = Keys::new().map_err(|error| format!("cannot read keys from the terminal: {error}"))?;
    loop {
        let (width, height) = term::size(&stdout).unwrap_or((100, 30));
        let rows = args.rows.map_or(height.saturating_sub(6), |rows| rows as usize).clamp(1, 1000);
        let mut lines = view::lines(&look(&choice, rows)?, &choice, rows, width, Style::of(&stdout));
        lines.truncate(height.max(2) - 1);
        let text: String = lines.iter().map(|line| format!("{line}\x1b[K\r\n")).collect();
        let mut out = stdout.lock();
        let written = write!(out, "\x1b[H{text}\x1b[J").and_then(|()| out.flush());
        drop(out);
        written.map_err(|error| format!("cannot write to the terminal: {error}"))?;
        let until = Instant::now() + Duration::from_secs_f64(args.every);
        match keys.wait(until).map_err(|error| format!("cannot read keys from the terminal: {error}"))? {
            Some(b'q' | 3) => return Ok(ExitCode::SUCCESS),
            Some(key) => choice.key(key),
            None => {}
        }
    }
}

/// What is shown: keys change it.
pub(crate) struct Choice {
    sort: TopSort,
    group: Option<&'static str>,
    search: Option<String>,
}

impl Choice {
    fn key(&mut self, key: u8) {
        if let Some(sort) = TopSort::of_key(key) {
            (self.sort, self.group) = (sort, None);
        }
        if key == b'g' {
            self.group = match self.group {
                None => Some("site"),
                Some("site") => Some("labels"),
                Some("labels") => Some("name"),
                Some(_) => None,
            };
        }
    }
}

/// What the server says.
pub(crate) struct Look {
    live: Value,
    goroutines: Value,
}

impl Look {
    fn take(client: &Client, choice: &Choice, rows: usize) -> Result<Look, String> {
        let mut query = format!("/debug/goroutines?limit={rows}&sort={}", choice.sort.name());
        if let Some(group) = choice.group {
            query += &format!("&group={group}");
        }
        if let Some(search) = &choice.search {
            query += &format!("&q={}", client::encode(search));
        }
        Ok(Look { live: client.get("/debug/live")?, goroutines: client.get(&query)? })
    }
}
