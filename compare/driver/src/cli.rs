//! The command line: which workloads and peers run, and how often.

use crate::peers::{BEFORE, PEERS, Peer};
use crate::workloads::{self, GROUPS, Workload};
use clap::{CommandFactory, Parser, error::ErrorKind};
use std::path::PathBuf;

/// The same workloads for gort, Go, Tokio, may and OS threads, in one interleaved run.
///
/// Prints a table of medians and ratios; writes out/compare.md and out/*.svg beside it.
#[derive(Debug, Parser)]
#[command(name = "compare")]
pub struct Cli {
    /// Only these workloads: ids, names or groups, separated by commas (see --list)
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Only these peers; a peer's name includes its variants (gort: also gort-shared)
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub peers: Vec<String>,
    /// How often each peer runs each workload [default: 7; with --quick 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// The number of Ps in workloads that use all cores [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    procs: Option<u32>,
    /// The gort peer of another build (its target/release/peer-gort): runs it beside this one, interleaved,
    /// and prints the ratios of the lower quartiles. Without --peers no other peer runs
    #[arg(long, value_name = "FILE")]
    pub before: Option<PathBuf>,
    /// Run fewer rounds with smaller sizes: a check that everything works, not a measurement
    #[arg(long)]
    pub quick: bool,
    /// List the workloads and peers, and run nothing
    #[arg(long)]
    pub list: bool,
    /// Write every sample to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// What the command line chose.
pub struct Choice {
    pub workloads: Vec<&'static Workload>,
    pub peers: Vec<&'static Peer>,
    pub rounds: usize,
    pub procs: usize,
    pub quick: bool,
}

impl Cli {
    /// Looks the names up in the tables; an unknown name is an error with exit status 2.
    pub fn choose(&self) -> Result<Choice, clap::Error> {
        for word in &self.only {
            if !workloads::all().any(|w| w.answers_to(word)) {
                return Err(refuse(format!(
                    "no workload or group {word:?}; groups are {}, and --list names the workloads",
                    GROUPS.join(", ")
                )));
            }
        }
        for word in &self.peers {
            if !PEERS.iter().any(|p| p.name == word) {
                let known: Vec<&str> = PEERS.iter().map(|p| p.name).collect();
                return Err(refuse(format!("no peer {word:?}; there are {}", known.join(", "))));
            }
        }
        let wanted = |w: &&Workload| self.only.is_empty() || self.only.iter().any(|word| w.answers_to(word));
        if let Some(before) = self.before.as_ref().filter(|before| !before.is_file()) {
            return Err(refuse(format!("--before {}: there is no such program", before.display())));
        }
        let alone = self.before.is_some();
        let invited = |p: &&Peer| match &*self.peers {
            [] => !alone || p.program.starts_with("gort"),
            words => words.iter().any(|word| p.name == word || p.program == word),
        };
        let before = if alone { BEFORE } else { &[] };
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        Ok(Choice {
            workloads: workloads::all().filter(wanted).collect(),
            peers: PEERS.iter().filter(invited).chain(before).collect(),
            rounds: self.rounds.map_or(if self.quick { 3 } else { 7 }, |n| n as usize),
            procs: self.procs.map_or(cores, |n| n as usize),
            quick: self.quick,
        })
    }
}

fn refuse(why: String) -> clap::Error {
    Cli::command().error(ErrorKind::InvalidValue, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Choice, clap::Error> {
        Cli::try_parse_from(std::iter::once("compare").chain(line.split_whitespace()))?.choose()
    }

    fn names(choice: &Choice) -> Vec<&str> {
        choice.peers.iter().map(|p| p.name).collect()
    }

    #[test]
    fn without_arguments_everything_runs_seven_times() {
        let choice = parse("").ok().unwrap();
        assert_eq!(choice.workloads.len(), workloads::all().count());
        assert_eq!(choice.peers.len(), PEERS.len());
        assert_eq!((choice.rounds, choice.quick), (7, false));
    }

    #[test]
    fn another_build_runs_beside_gort_alone_unless_told() {
        let own = std::env::current_exe().unwrap();
        let choice = parse(&format!("--before {}", own.display())).ok().unwrap();
        let gort = [
            "gort",
            "gort-shared",
            "gort-unmarked",
            "gort-flight",
            "gort-traced",
            "gort-std",
            "before",
            "before-shared",
            "before-unmarked",
            "before-std",
        ];
        assert_eq!(names(&choice), gort);
        assert!(parse("--before /no/such/program").is_err());
    }

    #[test]
    fn quick_runs_fewer_rounds_unless_told() {
        assert_eq!(parse("--quick").ok().unwrap().rounds, 3);
        assert_eq!(parse("--quick --rounds 5").ok().unwrap().rounds, 5);
    }

    #[test]
    fn only_takes_ids_names_and_groups() {
        let choice = parse("--only yield-1,skynet").ok().unwrap();
        assert_eq!(choice.workloads.iter().map(|w| w.id).collect::<Vec<_>>(), ["yield-1", "skynet"]);
        assert!(parse("--only chan").ok().unwrap().workloads.iter().all(|w| w.group == "chan"));
    }

    #[test]
    fn a_program_brings_its_variants_and_a_variant_comes_alone() {
        assert_eq!(
            names(&parse("--peers gort,go").ok().unwrap()),
            ["gort", "gort-shared", "gort-unmarked", "gort-flight", "gort-traced", "go"]
        );
        assert_eq!(names(&parse("--peers gort-shared").ok().unwrap()), ["gort-shared"]);
    }

    #[test]
    fn bad_arguments_exit_with_two_and_name_the_culprit() {
        for line in [
            "--only nonsense",
            "--peers erlang",
            "--rounds 0",
            "--rounds x",
            "--procs 0",
            "--fast",
            "yield",
            "--json",
        ] {
            let error = parse(line).err().unwrap_or_else(|| panic!("{line:?} was accepted"));
            assert_eq!(error.exit_code(), 2, "{line}");
            let culprit = line.split(' ').next_back().unwrap();
            assert!(error.to_string().contains(culprit), "{line}: {error}");
        }
    }
}
