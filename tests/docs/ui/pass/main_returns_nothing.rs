#[gort::main]
fn main() {
    let sum: u32 = (1..=4).sum();
    if sum == 10 {
        return;
    }
    panic!("{sum}");
}
