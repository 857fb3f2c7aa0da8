//! Removes tests from the copy of a foreign test file.

/// The text without these test functions: from the attributes before each of them to the closing brace at the
/// beginning of a line. Each of them must be there, unless `may_lack` says that some versions lack it.
pub fn without<'a>(text: &str, tests: impl Iterator<Item = &'a str>, may_lack: bool) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    for test in tests {
        let head = format!("fn {test}() {{");
        let Some(at) = lines.iter().position(|line| *line == head) else {
            assert!(may_lack, "there is no test {test} to leave out");
            continue;
        };
        let start = (0..at).rev().find(|&i| !lines[i].starts_with("#[")).map_or(0, |i| i + 1);
        let length = lines[at..].iter().position(|line| *line == "}").expect("a function ends") + 1;
        lines.drain(start..at + length);
    }
    lines.join("\n") + "\n"
}
