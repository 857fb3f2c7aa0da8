#[gort::main]
fn start() {}

fn main() {}
