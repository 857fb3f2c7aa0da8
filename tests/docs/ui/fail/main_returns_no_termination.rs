#[gort::main]
fn main() -> u32 {
    7
}
