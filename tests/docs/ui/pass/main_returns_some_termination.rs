use std::process::{ExitCode, Termination};

#[gort::main]
fn main() -> impl Termination {
    ExitCode::SUCCESS
}
