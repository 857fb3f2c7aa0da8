#[gort::test]
async fn everything_is_wrong<T>(value: T) {
    drop(value);
}

#[gort::test(threads = 2)]
fn arguments() {}

fn main() {}
