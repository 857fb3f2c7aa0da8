#[gort::test(leaks = "forbid")]
fn another_value() {}

#[gort::test(leaks)]
fn no_value() {}

#[gort::test(leaks = "deny", leaks = "deny")]
fn twice() {}

fn main() {}
