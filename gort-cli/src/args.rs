//! The definition of the command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

/// Goroutines for Rust: watch a service run on them, compare them with other runtimes, read execution traces,
/// see what this machine offers.
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
    /// Read an execution trace: a summary, a page to look at, or a file for Perfetto
    ///
    /// FILE has Go's execution trace format, as gort and Go 1.26 and 1.27 write it. If the file is cut or
    /// broken, gort says at which byte, shows what comes before that, and exits with status 1.
    Trace(TraceArgs),
    /// Show the goroutines of a running program, as top shows processes
    ///
    /// The program has a debug server (gort::debug::serve). Keys: c, t, w, n, s, i sort by CPU, CPU time,
    /// wait, name, state, id; g groups by function, labels, name; q quits. Without a terminal it prints once.
    Top(TopArgs),
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
    /// How long the demo takes, about, in seconds [default: 10; with --serve 120]
    #[arg(long, value_name = "N", value_parser = seconds)]
    pub(crate) seconds: Option<f64>,
    /// Serve the live page at this address, for example 127.0.0.1:6060
    #[arg(long, value_name = "ADDR")]
    pub(crate) serve: Option<String>,
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
pub(crate) struct TraceArgs {
    /// The trace
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Print the figures as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a page with a viewer: one file that needs nothing else, for any browser
    #[arg(long, value_name = "OUT.html")]
    pub(crate) html: Option<PathBuf>,
    /// Write the trace in Chrome's JSON format, for ui.perfetto.dev
    #[arg(long, value_name = "OUT.json")]
    pub(crate) perfetto: Option<PathBuf>,
    /// How many entries a list has at most
    #[arg(long, value_name = "N", default_value = "10")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) top: u32,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct TopArgs {
    /// A process id, or the address or URL of a debug server
    #[arg(value_name = "PID|ADDR")]
    pub(crate) target: String,
    /// By what the goroutines are sorted
    #[arg(long, value_enum, default_value = "cpu")]
    pub(crate) sort: TopSort,
    /// Show groups instead of each goroutine
    #[arg(long, value_enum)]
    pub(crate) group: Option<TopGroup>,
    /// Only goroutines with this in the name, a label, the state or the spawn site
    #[arg(long, value_name = "TEXT")]
    pub(crate) search: Option<String>,
    /// Print once and end
    #[arg(long)]
    pub(crate) once: bool,
    /// Print once as JSON and end
    #[arg(long)]
    pub(crate) json: bool,
    /// How many rows [default: what fits on the terminal; 20 with --once, 100 with --json]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rows: Option<u32>,
    /// The pause between two looks, in seconds
    #[arg(long, value_name = "N", default_value = "1", value_parser = seconds)]
    pub(crate) every: f64,
    /// The token that the server asks for
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
}

/// By what `gort top` sorts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TopSort {
    /// CPU of the last seconds
    Cpu,
    /// CPU time since the start
    Time,
    /// How long it has waited
    Wait,
    Name,
    State,
    Id,
}

impl TopSort {
    /// The server's name for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            TopSort::Cpu => "-cpu",
            TopSort::Time => "-time",
            TopSort::Wait => "-wait",
            TopSort::Name => "name",
            TopSort::State => "state",
            TopSort::Id => "id",
        }
    }

    pub(crate) fn of_key(key: u8) -> Option<TopSort> {
        let keys = [
            (b'c', TopSort::Cpu),
            (b't', TopSort::Time),
            (b'w', TopSort::Wait),
            (b'n', TopSort::Name),
            (b's', TopSort::State),
            (b'i', TopSort::Id),
        ];
        keys.into_iter().find(|(known, _)| *known == key).map(|(_, sort)| sort)
    }
}

/// What the groups of `gort top` have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum TopGroup {
    /// State, function and spawn site
    Site,
    Labels,
    Name,
}

impl TopGroup {
    /// The server's name for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            TopGroup::Site => "site",
            TopGroup::Labels => "labels",
            TopGroup::Name => "name",
        }
    }
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
        assert_eq!((cli.demo.seconds, cli.demo.procs), (Some(2.5), Some(3)));
    }

    #[test]
    fn seconds_are_from_one_to_an_hour() {
        assert_eq!(seconds("1"), Ok(1.0));
        for bad in ["0", "-1", "NaN", "inf", "3601", "ten", ""] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
