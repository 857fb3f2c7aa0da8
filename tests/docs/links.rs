//! Every relative link in the Markdown files leads to a file that exists, and to a heading that it has. Every
//! hop of the walks in ARCHITECTURE.md names a function that its file has, and every other name in a walk is
//! one that the sources have.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

/// All Markdown files of the source tree.
fn documents(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // Build output and git's files are not part of the tree.
        if path.is_dir() && !name.starts_with('.') && !["target", "out"].contains(&name.as_str()) {
            documents(&path, found);
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

/// The text without code blocks and code spans.
fn prose(text: &str) -> String {
    let mut prose = String::new();
    let mut in_block = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            line.split('`').step_by(2).for_each(|part| prose.push_str(part));
            prose.push('\n');
        }
    }
    prose
}

/// The targets of `[text](target)` and `[name]: target`.
fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    let inline = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let defined =
        prose.lines().filter(|line| line.starts_with('[')).filter_map(|line| line.split_once("]: "));
    inline.chain(defined.map(|(_, target)| target.trim())).map(String::from).collect()
}

/// The anchors that renderers of Markdown make of the headings.
fn anchors(text: &str) -> HashSet<String> {
    let mut in_block = false;
    let headings = text.lines().filter(|line| {
        in_block ^= line.starts_with("```");
        !in_block && line.starts_with('#')
    });
    let kept = |c: char| c.is_alphanumeric() || c == '-' || c == '_' || c == ' ';
    headings
        .map(|line| line.trim_start_matches('#').trim().to_lowercase())
        .map(|heading| heading.chars().filter(|&c| kept(c)).collect::<String>().replace(' ', "-"))
        .collect()
}

/// What is wrong with a link in `document`, if anything.
fn broken(document: &Path, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = if file.is_empty() { document.to_path_buf() } else { document.parent()?.join(file) };
    if !target.exists() {
        return Some(format!("{}: {link}: there is no such file", document.display()));
    }
    if !anchor.is_empty() && !anchors(&fs::read_to_string(&target).unwrap()).contains(anchor) {
        return Some(format!("{}: {link}: there is no such heading", document.display()));
    }
    None
}

#[test]
fn relative_links_lead_somewhere() {
    let mut found = Vec::new();
    documents(Path::new(env!("CARGO_MANIFEST_DIR")), &mut found);
    assert!(found.iter().any(|path| path.ends_with("README.md")), "the README was not found");
    let mut count = 0;
    let problems: Vec<String> = found
        .iter()
        .flat_map(|document| {
            let links = links(&fs::read_to_string(document).unwrap());
            count += links.len();
            links.into_iter().filter_map(|link| broken(document, &link)).collect::<Vec<_>>()
        })
        .collect();
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
    assert!(count > 5, "only {count} links were found: does this test still see them?");
}

#[test]
fn links_are_found_outside_of_code_only() {
    let text = "[a](b.md) `[c](d.md)` ![e](f.svg)\n```\n[g](h.md)\n```\n[i]: j.md\n";
    assert_eq!(links(text), ["b.md", "f.svg", "j.md"]);
}

#[test]
fn missing_files_and_headings_are_found() {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    assert!(broken(&readme, "no-such-file.md").is_some());
    assert!(broken(&readme, "CHANGELOG.md#no-such-heading").is_some());
    assert!(broken(&readme, "CHANGELOG.md#unreleased").is_none());
    assert!(broken(&readme, "https://example.org/nowhere").is_none());
}

/// The pairs of a Rust file and the function named after it: "`sched/run/spawn.rs` `launch`".
fn hops(text: &str) -> Vec<(&str, &str)> {
    let parts: Vec<&str> = text.split('`').collect();
    // Code spans have odd numbers; between the two of a hop there is only white space.
    (1..parts.len().saturating_sub(2))
        .step_by(2)
        .filter(|&at| parts[at].ends_with(".rs") && parts[at + 1].trim().is_empty())
        .map(|at| (parts[at], parts[at + 2]))
        .collect()
}

/// All Rust files below `directory`.
fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// Whether one of the files called `file` (a path, or the end of one) has the function.
fn has_function(sources: &[PathBuf], file: &str, function: &str) -> bool {
    let name = function.rsplit("::").next().unwrap();
    sources.iter().filter(|path| path.ends_with(file)).any(|path| {
        let text = fs::read_to_string(path).unwrap();
        text.contains(&format!("fn {name}(")) || text.contains(&format!("fn {name}<"))
    })
}

/// The names in the walks that no source defines: functions, fields, modules, and the last parts of paths.
fn unknown_names(walks: &str, sources: &[PathBuf]) -> Vec<String> {
    let code: String = sources.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let has =
        |text: &str| code.match_indices(text).any(|(at, _)| !code[at + text.len()..].starts_with(is_word));
    let is_known = |span: &str| {
        let name = span.split('(').next().unwrap().rsplit(['.', ':']).next().unwrap();
        match name.starts_with(|c: char| c.is_lowercase()) {
            // In assembly, a function is a label.
            true => {
                ["fn ", "mod ", "libc::", ".globl "].iter().any(|begin| has(&format!("{begin}{name}")))
                    || code.contains(&format!(" {name}: "))
            }
            false => [" ", "::"].iter().any(|begin| has(&format!("{begin}{name}"))),
        }
    };
    let spans = walks.split('`').skip(1).step_by(2);
    let names = spans.filter(|span| !span.ends_with(".rs") && !span.contains('/') && span.is_ascii());
    names.filter(|span| !is_known(span)).map(String::from).collect()
}

#[test]
fn walks_name_nothing_else() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let (_, walks) = text.split_once("\n# Walks\n").expect("ARCHITECTURE.md has a part called Walks");
    let mut files = Vec::new();
    sources(&root.join("src"), &mut files);
    files.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let wrong = unknown_names(walks, &files);
    assert!(wrong.is_empty(), "ARCHITECTURE.md has names that no source has: {wrong:#?}");
    let planted = "`sched/run/spawn.rs` `launch` → `fill` → `no_such_function`; `Section::no_such`";
    assert_eq!(unknown_names(planted, &files), ["no_such_function", "Section::no_such"]);
}

#[test]
fn walks_name_functions_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let (_, walks) = text.split_once("\n# Walks\n").expect("ARCHITECTURE.md has a part called Walks");
    let mut files = Vec::new();
    sources(&root.join("src"), &mut files);
    let hops = hops(walks);
    assert!(hops.len() > 50, "only {} hops were found: does this test still see them?", hops.len());
    let wrong: Vec<_> =
        hops.into_iter().filter(|(file, function)| !has_function(&files, file, function)).collect();
    assert!(wrong.is_empty(), "ARCHITECTURE.md names functions that do not exist: {wrong:#?}");
    assert!(!has_function(&files, "sched/run/spawn.rs", "no_such_function"));
    assert!(!has_function(&files, "sched/run/no_such_file.rs", "launch"));
}
