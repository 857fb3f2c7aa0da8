#[gort::main]
fn main(arguments: Vec<String>, more: u32) {
    drop((arguments, more));
}
