#[gort::main]
fn main() -> ! {
    std::process::exit(0)
}
