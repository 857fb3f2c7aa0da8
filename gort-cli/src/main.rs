//! The `gort` program.

fn main() {}
