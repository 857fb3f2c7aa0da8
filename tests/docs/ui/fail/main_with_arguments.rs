#[gort::main(flavor = "multi_thread")]
fn main() {}
