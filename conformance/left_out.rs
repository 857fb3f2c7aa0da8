//! Removes items from the copy of a foreign file. (Compiled with edition 2018, too.)

/// The text without these items: from the attributes before each of them to its closing brace. `heads` are
/// the beginnings of their first lines, without indentation. Each of them must be there, unless `may_lack`
/// says that some versions lack it.
pub fn without(text: &str, heads: impl Iterator<Item = String>, may_lack: bool) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    for head in heads {
        let begins = |line: &&str| line.trim_start().starts_with(&head) && line.ends_with('{');
        let Some(at) = lines.iter().position(begins) else {
            assert!(may_lack, "there is no `{}` to leave out", head);
            continue;
        };
        let indentation = &lines[at][..lines[at].len() - lines[at].trim_start().len()];
        let end = format!("{indentation}}}");
        let is_attribute = |line: &str| line.trim_start().starts_with("#[");
        let start = (0..at).rev().find(|&i| !is_attribute(lines[i])).map_or(0, |i| i + 1);
        let length = lines[at..].iter().position(|line| *line == end).expect("an item ends") + 1;
        lines.drain(start..at + length);
    }
    lines.join("\n") + "\n"
}
