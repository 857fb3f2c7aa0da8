#[gort::main]
unsafe extern "C" fn main() {}
