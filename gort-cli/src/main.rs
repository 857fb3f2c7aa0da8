//! The `gort` program. It demonstrates a service on goroutines (`demo`), compares gort with other runtimes
//! (`compare`), reads execution traces (`trace`), shows the goroutines of a running program (`top`), and
//! reports what this machine offers (`doctor`).
//!
//! Exit status: 0 on success, 1 if something failed, 2 for invalid arguments.

mod args;
mod compare;
mod demo;
mod doctor;
mod interrupt;
mod term;
mod top;
mod trace;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::parse(); // exits with 2 if the arguments are invalid
    match cli.command.unwrap_or(Command::Demo(cli.demo)) {
        Command::Demo(args) => demo::main(&args),
        Command::Compare(args) => compare::main(&args),
        Command::Trace(args) => trace::main(&args),
        Command::Top(args) => top::main(&args),
        Command::Doctor(args) => doctor::main(&args),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "gort", &mut script);
            term::print(&String::from_utf8_lossy(&script))
        }
    }
}
