//! The text of the project: lines have at most 110 columns, and each file that numbers its invariants is in a
//! table of ARCHITECTURE.md or docs/invariants.md.

use std::fs;
use std::path::{Path, PathBuf};

const COLUMNS: usize = 110;

/// Written by `compare/publish`, like the part of README.md between two comments.
const GENERATED: [&str; 2] = ["docs/compare.md", "docs/compare-xeon.md"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files below `directory` whose names end with one of these.
fn files(directory: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // Build output and git's files are not part of the tree.
        if path.is_dir() && !name.starts_with('.') && !["target", "out"].contains(&name.as_str()) {
            files(&path, endings, found);
        } else if endings.iter().any(|ending| name.ends_with(ending)) {
            found.push(path);
        }
    }
}

/// The numbers of the lines that are too long. Rows of tables, links, and what programs print cannot be
/// broken.
fn long_lines(text: &str, is_rust: bool) -> Vec<usize> {
    let (mut in_block, mut generated) = (false, false);
    let is_long = |line: &str| {
        let words = line.trim_start().trim_start_matches(['/', '!']).trim_start();
        in_block ^= !is_rust && words.starts_with("```");
        generated = line.starts_with("<!-- figures") || generated && !line.starts_with("<!-- end of figures");
        let may_be = in_block || generated || words.starts_with('|') || line.contains("://");
        let is_link = !is_rust && (words.starts_with('[') || words.starts_with('!'));
        !may_be && !is_link && line.chars().count() > COLUMNS
    };
    let long: Vec<bool> = text.lines().map(is_long).collect();
    long.iter().enumerate().filter(|(_, long)| **long).map(|(at, _)| at + 1).collect()
}

#[test]
fn no_line_is_too_long() {
    let mut found = Vec::new();
    files(root(), &[".rs", ".md"], &mut found);
    assert!(found.len() > 500, "only {} files were found", found.len());
    let mut wrong = Vec::new();
    for path in found {
        let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
        if GENERATED.contains(&name.as_str()) {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        wrong.extend(long_lines(&text, name.ends_with(".rs")).iter().map(|line| format!("{name}:{line}")));
    }
    assert!(wrong.is_empty(), "more than {COLUMNS} columns:\n{}", wrong.join("\n"));
}

#[test]
fn long_lines_are_found() {
    let long = "word ".repeat(23);
    assert_eq!(long_lines(&format!("short\n// {long}\n"), true), [2]);
    assert_eq!(long_lines(&format!("{long}\n```\n{long}\n```\n{long}\n| {long} |\n"), false), [1, 5]);
    assert_eq!(
        long_lines(&format!("<!-- figures -->\n{long}\n<!-- end of figures -->\n{long}\n"), false),
        [4]
    );
    assert!(long_lines(&format!("//! | {long} |\n"), true).is_empty());
}

/// Whether the head of a file numbers invariants: "//! - G1. ...".
fn has_invariants(text: &str) -> bool {
    let head = text.lines().map_while(|line| line.strip_prefix("//!"));
    head.map(|line| line.trim_start().trim_start_matches("- ").as_bytes())
        .any(|line| matches!(line, [b'A'..=b'Z', b'1'..=b'9', b'.', b' ', ..]))
}

/// Whether a page names the file, perhaps as `sched/monitor/{interrupted,preempt}.rs` or
/// `chan/flavors/*/mod.rs`.
fn names(page: &str, file: &str) -> bool {
    let (folder, name) = file.rsplit_once('/').unwrap_or(("", file));
    let stem = name.trim_end_matches(".rs");
    let in_braces = page.split(&format!("`{folder}/{{")).skip(1).any(|rest| {
        let names = rest.split('}').next().unwrap_or_default();
        names.split(',').any(|name| name == stem)
    });
    let any_folder = folder.rsplit_once('/').map(|(above, _)| format!("`{above}/*/{name}`"));
    page.contains(&format!("`{file}`")) || in_braces || any_folder.is_some_and(|file| page.contains(&file))
}

#[test]
fn the_tables_have_all_invariants() {
    let page = |name| fs::read_to_string(root().join(name)).unwrap();
    let pages =
        page("ARCHITECTURE.md").split("\n# Walks\n").next().unwrap().to_owned() + &page("docs/invariants.md");
    let mut sources = Vec::new();
    files(&root().join("src"), &[".rs"], &mut sources);
    let own: Vec<String> = sources
        .iter()
        .filter(|path| has_invariants(&fs::read_to_string(path).unwrap()))
        .map(|path| path.strip_prefix(root().join("src")).unwrap().to_str().unwrap().to_owned())
        .collect();
    assert!(own.len() > 30, "only {} files with invariants were found", own.len());
    let missing: Vec<_> = own.iter().filter(|file| !names(&pages, file)).collect();
    assert!(missing.is_empty(), "no table has the invariants of {missing:#?}");
    assert!(!names(&pages, "sched/no_such_file.rs"));
}
