//! The driver of the comparison: builds the peers, runs the workloads in interleaved rounds, and checks the
//! targets.
//!
//! ```text
//! cli → peers (build; golang finds Go; wrk finds wrk) → rounds (invoke, load, progress)
//!     → results → report (table, svg)
//! workloads: the table that all of them read
//! ```
//!
//! Exit status: 0 after a run, whatever the figures are; 1 if a peer crashed or hung, or a file could not be
//! written; 2 for invalid arguments.

mod before;
mod cli;
mod facts;
mod golang;
mod invoke;
mod load;
mod peers;
mod probe;
mod progress;
mod report;
mod results;
mod rounds;
mod stats;
mod svg;
mod table;
mod workloads;
mod wrk;

use clap::Parser;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let choice = cli.choose().unwrap_or_else(|error| error.exit());
    if cli.list {
        list(&choice);
        return ExitCode::SUCCESS;
    }
    // This program is only run by cargo, from the source tree.
    let home = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in compare/");
    let built = peers::build(home, &choice.peers, cli.before.as_deref());
    let lacks =
        built.iter().filter_map(|(name, p)| Some(format!("{name} {}", p.as_ref().ok()?.lacks.as_ref()?)));
    let notes: Vec<String> = lacks.collect();
    let uses_wrk = choice.workloads.iter().any(|w| w.name.contains("http") && w.name != "http_idle");
    let wrk = uses_wrk
        .then(wrk::find)
        .and_then(|found| found.inspect_err(|why| eprintln!("no HTTP load, which needs wrk: {why}")).ok());
    let facts = facts::Facts::collect(home, &choice, &built, wrk);
    if load::average() > 0.5 {
        eprintln!("the load of this machine is {:.1}: disturbed runs will be repeated", load::average());
    }
    let measured = rounds::run(&choice, &built);
    let findings = report::Findings::new(facts, &measured, notes);
    print!("{}", findings.text());

    if cli.before.is_some() {
        print!("{}", before::text(&results::figures(&measured)));
    }

    let out = home.join("out");
    let mut written = findings.write(&out).map_err(|e| format!("{}: {e}", out.display()));
    if let Some(file) = &cli.json {
        let json = std::fs::write(file, format!("{:#}\n", findings.json()));
        written = written.and(json.map_err(|e| format!("{}: {e}", file.display())));
    }
    match written {
        Ok(()) => println!("written: {}", out.join("compare.md").display()),
        Err(why) => {
            eprintln!("cannot write {why}");
            return ExitCode::FAILURE;
        }
    }
    if results::any_broke(&measured) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn list(choice: &cli::Choice) {
    let peers: Vec<&str> = choice.peers.iter().map(|p| p.name).collect();
    println!("peers: {}", peers.join(", "));
    let mut group = "";
    for workload in &choice.workloads {
        if workload.group != group {
            group = workload.group;
            println!("\n{group}:");
        }
        println!("  {:<17} {}", workload.id, workload.what);
    }
}
