#[gort::test]
#[test]
fn twice() {}

fn main() {}
