#[gort::main]
fn main<T: Default>() {
    T::default();
}
