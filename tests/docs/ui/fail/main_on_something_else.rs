#[gort::main]
struct Main {
    field: u32,
}
