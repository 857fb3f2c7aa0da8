//! The report of a run: checks its claims, and formats its figures in words or as JSON.

use std::fmt::Write;

use super::figures::{Balance, Blocking, Crowd, Figures, Hogs, Scheduler, Service};
use super::sleeper::OFTEN;
use super::spread::Spread;
use super::text::{micros, millis, percent, shares, thousands};
use super::view::Stream;
use crate::term::{Style, wrap};

/// The share of the machine's CPUs that other programs may use before the report warns about them.
const TOLERATED: f64 = 0.1;

/// Checks the claims. They are only facts that do not depend on how busy the machine is. Lateness is reported
/// and not judged; only a sleeper that hardly wakes at all violates a claim.
pub(crate) fn judge(figures: &mut Figures) {
    if let Some(s) = figures.service.clone() {
        figures.claim("service", "every answer was right", s.wrong == 0 && s.done > 0);
        figures.claim(
            "service",
            "no job was lost or done twice",
            s.offered == s.accepted + s.given_up && s.accepted == s.done + s.wrong + s.cancelled,
        );
        figures.claim("service", "CPU-bound jobs kept to their limit", s.cpu_at_once <= s.cpu_slots);
    }
    if let Some(b) = figures.balance.clone() {
        let shared = figures.procs == 1 || b.stolen > 0;
        figures.claim("uneven load", "processors without work took it from the one that had it", shared);
    }
    let interrupted = figures.interrupted;
    let woke = move |spread: Option<Spread>| interrupted || spread.is_some_and(|s| s.count >= OFTEN);
    if let Some(h) = figures.hogs.clone() {
        figures.claim("endless loops", "a sleeper beside them kept waking", woke(h.sleeper));
    }
    if let Some(b) = figures.blocking.clone() {
        figures.claim(
            "blocking calls",
            "all were made, and a sleeper kept waking",
            b.calls_in_all >= b.callers as u64 && woke(b.sleeper),
        );
    }
    if let Some(c) = figures.crowd.clone() {
        figures.claim(
            "parked crowd",
            "every goroutine woke",
            c.woken == c.goroutines && c.goroutines > 0 || interrupted,
        );
    }
}

pub(crate) fn json(figures: &Figures) -> String {
    match serde_json::to_string_pretty(figures) {
        Ok(text) => text + "\n",
        Err(error) => unreachable!("plain numbers and strings can be written: {error}"),
    }
}

pub(crate) fn words(figures: &Figures) -> String {
    let style = Stream::Out.style();
    let mut out = Report { text: String::new(), style, width: Stream::Out.columns() };
    if !Stream::Out.is_terminal() {
        out.line("");
    }
    out.line(&style.bold("What this run showed"));
    if figures.interrupted {
        out.line(&style.yellow("It was interrupted: these are the results until then."));
    }
    if let Some(service) = &figures.service {
        out.part(figures, "service", "Jobs that compute, block and wait share a few threads; none is lost.");
        out.service(service, figures.workers);
    }
    if let Some(balance) = &figures.balance {
        out.part(figures, "uneven load", "Work finds the processors that are free.");
        out.balance(balance);
    }
    if figures.hogs.is_some() || figures.blocking.is_some() || figures.crowd.is_some() {
        let idle = figures.idle_sleeper.as_ref();
        if let Some(hogs) = &figures.hogs {
            out.part(figures, "endless loops", "gort preempts them: they need not call anything.");
            out.hogs(hogs, idle);
        }
        if let Some(blocking) = &figures.blocking {
            out.part(figures, "blocking calls", "gort notices them: nobody has to mark them.");
            out.blocking(blocking);
        }
        if let Some(crowd) = &figures.crowd {
            out.part(figures, "parked crowd", "Waiting costs memory and nothing else.");
            out.crowd(crowd);
        }
    }
    out.scheduler(&figures.scheduler, figures);
    out.other_load(figures.other_load);
    out.next();
    out.text
}

struct Report {
    text: String,
    style: Style,
    /// The maximum number of columns of a line.
    width: usize,
}

impl Report {
    fn line(&mut self, text: &str) {
        // Writing to a String does not fail.
        let _ = writeln!(self.text, "{text}");
    }

    fn fact(&mut self, text: &str) {
        self.painted(text, |_, line| line.to_string());
    }

    /// A fact in a colour. The colour is added after the text is wrapped, so that it does not count as width.
    fn painted(&mut self, text: &str, paint: impl Fn(Style, &str) -> String) {
        for (n, line) in wrap(text, self.width - 7).iter().enumerate() {
            let indent = if n == 0 { 4 } else { 6 };
            self.line(&format!("{:indent$}{}", "", paint(self.style, line)));
        }
    }

    fn part(&mut self, figures: &Figures, part: &str, lesson: &str) {
        let failed: Vec<_> = figures.claims.iter().filter(|c| c.part == part && !c.holds).collect();
        let mark = if failed.is_empty() { self.style.green("✓") } else { self.style.red("✗") };
        self.line("");
        self.line(&format!("{mark} {}", self.style.bold(part)));
        self.painted(lesson, Style::dim);
        for claim in failed {
            self.painted(&format!("does NOT hold: {}", claim.claim), Style::red);
        }
    }

    fn service(&mut self, s: &Service, workers: usize) {
        let rate = s.done as f64 / s.seconds.max(0.001);
        self.fact(&format!(
            "{} jobs by {workers} workers in {:.1} s, {} a second; Ps busy {}",
            thousands(s.done),
            s.seconds,
            thousands(rate as u64),
            shares(&s.busy)
        ));
        for (name, spread) in [("compute", &s.compute), ("file", &s.file), ("network", &s.network)] {
            if let Some(spread) = spread {
                self.fact(&format!(
                    "{name:<8} {:>7} answers, all checked; median {}, 99% within {}",
                    thousands(spread.count),
                    micros(spread.p50_us),
                    micros(spread.p99_us)
                ));
            }
        }
        if let Some(error) = &s.first_error {
            self.painted(&format!("{} wrong; the first: {error}", thousands(s.wrong)), Style::red);
        }
        self.fact(&format!("at most {} of {} CPU-bound jobs at once", s.cpu_at_once, s.cpu_slots));
        self.fact(&format!(
            "\"job queue full\" {} times (the queue holds {}): each job came back, {} got in when submitted \
             again, {} were given up",
            thousands(s.queue_full),
            thousands(s.queue_capacity as u64),
            thousands(s.accepted_later),
            thousands(s.given_up)
        ));
        let stop = &s.shutdown;
        self.fact(&format!(
            "shutdown: drained in {}; {} stuck job ended by the deadline of {}",
            millis(stop.drained_ms),
            s.cancelled,
            millis(stop.grace_ms)
        ));
    }

    fn balance(&mut self, b: &Balance) {
        self.fact(&format!(
            "{} jobs, 1 to 16 times as long, in waves that one processor spawns",
            thousands(b.jobs)
        ));
        let taken = if b.stolen_by.len() == 1 {
            "one processor: there is no other to steal from".to_string()
        } else {
            format!("{} steals took {} of them", thousands(b.steals), thousands(b.stolen))
        };
        self.fact(&format!("{taken}; Ps busy {}", shares(&b.busy)));
        self.fact(&format!(
            "{} of CPU time in {}: {:.2} processors' worth",
            millis(b.cpu_ms),
            millis(b.wall_ms),
            b.parallel
        ));
    }

    fn sleeper(&mut self, spread: Option<&Spread>, beside: &str) {
        if let Some(s) = spread {
            self.fact(&format!(
                "1 ms sleeper {beside}: median {} late, 99% within {}, worst {}",
                micros(s.p50_us),
                micros(s.p99_us),
                micros(s.max_us)
            ));
        }
    }

    fn hogs(&mut self, h: &Hogs, idle: Option<&Spread>) {
        self.fact(&format!(
            "{} loops that call nothing, for {:.1} s; {} preemptions by signal",
            h.hogs,
            h.seconds,
            thousands(h.preempted_by_signal)
        ));
        self.fact(&format!("the slowest loop got {} of an equal share", percent(h.least_share)));
        self.sleeper(idle, "alone");
        self.sleeper(h.sleeper.as_ref(), "beside them");
    }

    fn blocking(&mut self, b: &Blocking) {
        self.fact(&format!(
            "{} goroutines in plain std::thread::sleep({} ms): {} calls, {:.0} at once",
            b.callers,
            b.call_ms,
            thousands(b.calls),
            b.at_once
        ));
        self.fact(&format!("{} threads, {} hand-offs of a processor", b.threads, thousands(b.hand_offs)));
        self.sleeper(b.sleeper.as_ref(), "beside them");
    }

    fn crowd(&mut self, c: &Crowd) {
        self.fact(&format!(
            "{} goroutines on {} threads, {} bytes each",
            thousands(c.goroutines as u64),
            c.threads,
            thousands(c.bytes_each as u64)
        ));
        if let Some(why) = &c.fewer_because {
            let asked = thousands(c.asked as u64);
            self.painted(&format!("fewer than the {asked} asked for: {why}"), Style::yellow);
        }
        self.fact(&format!(
            "started in {}; all {} woken and ended in {}",
            millis(c.spawn_ms),
            thousands(c.woken as u64),
            millis(c.wake_ms)
        ));
        self.sleeper(c.sleeper.as_ref(), "beside them");
    }

    fn scheduler(&mut self, s: &Scheduler, figures: &Figures) {
        self.line("");
        self.line(&format!(
            "{}: {:.1} s on {} processors",
            self.style.bold("In all"),
            figures.seconds,
            figures.procs
        ));
        self.fact(&format!(
            "{} goroutines, {} parks, {} steals, {} preemptions, {} hand-offs",
            thousands(s.goroutines),
            thousands(s.parks),
            thousands(s.steals),
            thousands(s.preempted + s.preempted_by_signal),
            thousands(s.hand_offs)
        ));
        if let (Some(median), Some(p99)) = (s.latency_p50_us, s.latency_p99_us) {
            self.fact(&format!(
                "a goroutine that could run waited for a processor: median {}, 99% within {}",
                micros(median),
                micros(p99)
            ));
        }
    }

    /// Warns if other programs used so much of the machine that the figures would be better on an idle one.
    fn other_load(&mut self, share: Option<f64>) {
        if let Some(share) = share.filter(|share| *share > TOLERATED) {
            let text = format!(
                "other programs used {} of this machine's CPUs: on an idle one the figures are better",
                percent(share)
            );
            self.painted(&text, Style::yellow);
        }
    }

    fn next(&mut self) {
        self.line("");
        self.line(&format!("{}:", self.style.bold("Where to look next")));
        for (what, why) in [
            (command("doctor"), "what this machine offers, and which of it gort uses"),
            (command("compare"), "the same workloads on Go, Tokio, may and OS threads"),
            (command("demo --json"), "these figures for a program"),
            ("examples/".into(), "short programs to copy; README.md, ARCHITECTURE.md"),
        ] {
            let width = command("demo --json").len() + 1;
            self.line(&format!("    {} {why}", self.style.cyan(&format!("{what:<width$}"))));
        }
    }
}

/// The command that calls this program again: through cargo, if it was called that way.
fn command(arguments: &str) -> String {
    let program = if std::env::var_os("CARGO").is_some() { "cargo run --release --" } else { "gort" };
    format!("{program} {arguments}")
}
