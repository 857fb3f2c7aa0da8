//! The layers of `src`, and the folders of `src/sched`: which may import which. ARCHITECTURE.md has the map.
//!
//! The test reads every path that begins with `crate::` or `super::` in code that is compiled without
//! tests, and fails on an import of a higher layer, on a cycle between top-level modules, on a cycle
//! between the folders of `src/sched`, and on a picture in ARCHITECTURE.md that shows other imports.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// The layers, lowest first. A module may import from its own layer (as long as that makes no cycle) and
/// from lower ones.
const LAYERS: [&[&str]; 13] = [
    &["arch"],
    &["sys"],
    &["base"],
    &["tls"],
    &["stack", "timer", "netpoll"],
    &["sched"],
    &["alloc", "blocking", "chan", "context", "goroutine", "io", "net", "process", "signal", "sync", "time"],
    &["transparent"],
    &["future"],
    &["hyper", "http"],
    &["diag", "profile", "testing", "trace"],
    &["metrics", "runtime", "wiring"],
    &["debug"],
];

/// Documentation, which has no code, and the helpers of unit tests.
const OUTSIDE: [&str; 3] = ["guide", "lib", "test_util"];

/// The one file of the core that may name what lies above it: it registers the hooks.
const COMPOSITION: (&str, &str) = ("sched/boot.rs", "wiring");

/// Folders of `src/sched`, and what imports must not do between them: from left to right is up.
const SCHED_FOLDERS: [&str; 10] =
    ["event", "queue", "word", "account", "types", "idle", "run", "park", "block", "monitor"];

/// A source file: its path below `src`, and its text.
type File = (String, String);

/// An import: the file, and the path of the item that it names, without `crate`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Import {
    file: String,
    path: Vec<String>,
}

fn src() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn files() -> Vec<File> {
    fn collect(folder: &Path, root: &Path, files: &mut Vec<File>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, root, files);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                files.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    let mut files = Vec::new();
    collect(&src(), &src(), &mut files);
    files.retain(|(name, _)| !is_test(name));
    files.sort();
    files
}

fn is_test(name: &str) -> bool {
    name == "test_util.rs"
        || name.ends_with("_tests.rs")
        || name.split('/').any(|part| part == "tests" || part == "tests.rs")
}

/// The code of a file that is compiled without tests: without comments, strings, characters and the items
/// behind `#[cfg(test)]`.
fn code(text: &str) -> String {
    without_tests(&without_text(text))
}

/// Without comments, strings and characters.
fn without_text(text: &str) -> String {
    let text: Vec<char> = text.chars().collect();
    let is = |at: usize, c: char| text.get(at) == Some(&c);
    let next = |from: usize, c: char| (from..text.len()).find(|&at| text[at] == c).unwrap_or(text.len());
    let (mut code, mut at) = (String::with_capacity(text.len()), 0);
    while at < text.len() {
        let hashes = text[at + 1..].iter().take_while(|&&c| c == '#').count();
        at = match text[at] {
            '/' if is(at + 1, '/') => next(at, '\n'),
            // A raw string ends with a quote and as many hashes as it began with.
            'r' if is(at + 1 + hashes, '"') && !code.ends_with(char::is_alphanumeric) => {
                let mut end = next(at + 2 + hashes, '"');
                while !(1..=hashes).all(|hash| is(end + hash, '#')) && end < text.len() {
                    end = next(end + 1, '"');
                }
                end + hashes + 1
            }
            '"' => {
                let mut end = at + 1;
                while !is(end, '"') && end < text.len() {
                    end += if is(end, '\\') { 2 } else { 1 };
                }
                end + 1
            }
            '\'' if is(at + 1, '\\') => next(at + 3, '\'') + 1,
            '\'' if is(at + 2, '\'') => at + 3,
            c => {
                code.push(c);
                at + 1
            }
        };
    }
    code
}

/// Without the items behind `#[cfg(test)]`: up to the semicolon that ends an item, or its closing brace.
fn without_tests(code: &str) -> String {
    const TEST: &str = "#[cfg(test)]";
    let mut parts = code.split(TEST);
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let mut depth = 0;
        let end = part.find(|c| {
            match c {
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth -= 1,
                _ => {}
            }
            depth == 0 && (c == '}' || c == ';')
        });
        kept.push_str(end.map_or("", |end| &part[end + 1..]));
    }
    kept
}

/// The module of a file, as a path below the crate.
fn module_of(file: &str) -> Vec<String> {
    let path = file.trim_end_matches(".rs").trim_end_matches("/mod");
    path.split('/').map(str::to_owned).collect()
}

/// All imports of a file: every path that begins with `crate` or `super`, the parts of braces one by one.
fn imports(file: &str, text: &str) -> BTreeSet<Import> {
    let code: String = code(text);
    let bytes = code.as_bytes();
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let mut found = BTreeSet::new();
    for start in ["crate::", "super::"] {
        for (at, _) in code.match_indices(start) {
            let before = at.checked_sub(1).map(|at| bytes[at]);
            if before.is_some_and(|byte| is_word(byte) || byte == b':' || byte == b'$') {
                continue;
            }
            let mut base = if start == "crate::" { Vec::new() } else { parent(module_of(file)) };
            let mut rest = &code[at + start.len()..];
            while let Some(higher) = rest.strip_prefix("super::") {
                base = parent(base);
                rest = higher;
            }
            for path in paths(rest) {
                let path: Vec<String> = base.iter().cloned().chain(path).collect();
                found.insert(Import { file: file.to_owned(), path });
            }
        }
    }
    found
}

fn parent(mut module: Vec<String>) -> Vec<String> {
    module.pop();
    module
}

/// The paths that a use tree names: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn paths(tree: &str) -> Vec<Vec<String>> {
    let tree = tree.trim_start();
    if let Some(inner) = tree.strip_prefix('{') {
        let (mut depth, mut parts, mut part) = (0, Vec::new(), String::new());
        for c in inner.chars() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    parts.push(std::mem::take(&mut part));
                    continue;
                }
                _ => {}
            }
            part.push(c);
        }
        parts.push(part);
        return parts.iter().filter(|part| !part.trim().is_empty()).flat_map(|part| paths(part)).collect();
    }
    let end = tree.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(tree.len());
    let (name, rest) = tree.split_at(end);
    match rest.strip_prefix("::") {
        Some(rest) if !rest.starts_with('<') => paths(rest)
            .into_iter()
            .map(|path| std::iter::once(name.to_owned()).chain(path).collect())
            .collect(),
        _ => vec![vec![name.to_owned()]],
    }
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// Imports of higher layers, and top-level modules that no layer has.
fn upward(files: &[File]) -> Vec<String> {
    let mut wrong = Vec::new();
    for (file, text) in files {
        let module = module_of(file)[0].clone();
        if OUTSIDE.contains(&module.as_str()) {
            continue;
        }
        let Some(own) = layer(&module) else {
            wrong.push(format!("{file}: no layer has the module {module}"));
            continue;
        };
        for import in imports(file, text) {
            let target = &import.path[0];
            // The crate root re-exports names; those of macros and items begin there.
            let Some(other) = layer(target) else { continue };
            if other > own && (file.as_str(), target.as_str()) != COMPOSITION {
                wrong.push(format!("{file} imports crate::{}, which lies above it", import.path.join("::")));
            }
        }
    }
    wrong
}

/// Edges between nodes, and for each an import that makes it.
type Graph = BTreeMap<String, BTreeMap<String, Import>>;

fn graph(files: &[File], node: impl Fn(&[String]) -> Option<String>) -> Graph {
    let mut graph = Graph::new();
    for (file, text) in files {
        let Some(from) = node(&module_of(file)) else { continue };
        for import in imports(file, text) {
            if (file.as_str(), import.path[0].as_str()) == COMPOSITION {
                continue;
            }
            if let Some(to) = node(&import.path).filter(|to| *to != from) {
                graph.entry(from.clone()).or_default().entry(to).or_insert(import);
            }
        }
    }
    graph
}

/// A cycle, as the imports that make it.
fn cycle(graph: &Graph) -> Option<String> {
    fn visit(
        graph: &Graph,
        node: &str,
        path: &mut Vec<String>,
        done: &mut BTreeSet<String>,
    ) -> Option<Vec<String>> {
        if let Some(at) = path.iter().position(|other| other == node) {
            return Some(path[at..].to_vec());
        }
        if !done.insert(node.to_owned()) {
            return None;
        }
        path.push(node.to_owned());
        let found =
            graph.get(node).into_iter().flatten().find_map(|(next, _)| visit(graph, next, path, done));
        path.pop();
        found
    }
    let mut done = BTreeSet::new();
    let nodes = graph.keys().find_map(|node| visit(graph, node, &mut Vec::new(), &mut done))?;
    let mut text = String::from("a cycle:");
    for (from, to) in nodes.iter().zip(nodes.iter().cycle().skip(1)) {
        let import = &graph[from][to];
        write!(text, "\n  {from} -> {to}: {} imports crate::{}", import.file, import.path.join("::"))
            .unwrap();
    }
    Some(text)
}

fn top_level(path: &[String]) -> Option<String> {
    path.first().filter(|module| layer(module).is_some()).cloned()
}

/// The folder of `src/sched` that a path leads to.
fn sched_folder(path: &[String]) -> Option<String> {
    let [sched, folder, ..] = path else { return None };
    (sched == "sched" && SCHED_FOLDERS.contains(&folder.as_str())).then(|| folder.clone())
}

/// Imports between folders of `src/sched` that go up.
fn upward_in_sched(files: &[File]) -> Vec<String> {
    let place = |folder: &str| SCHED_FOLDERS.iter().position(|other| *other == folder);
    let mut wrong = Vec::new();
    for (from, edges) in graph(files, sched_folder) {
        for (to, import) in edges {
            if place(&to) > place(&from) {
                wrong.push(format!("{} imports crate::{}", import.file, import.path.join("::")));
            }
        }
    }
    wrong
}

/// Without the edges that follow from others: a imports b, and b imports c. The graph has no cycle.
fn reduced(graph: &Graph) -> BTreeMap<&str, BTreeSet<&str>> {
    fn below<'a>(graph: &'a Graph, node: &str, found: &mut BTreeSet<&'a str>) {
        for next in graph.get(node).into_iter().flat_map(BTreeMap::keys) {
            if found.insert(next) {
                below(graph, next, found);
            }
        }
    }
    let reduce = |edges: &'_ BTreeMap<String, Import>| {
        let mut implied = BTreeSet::new();
        edges.keys().for_each(|next| below(graph, next, &mut implied));
        implied
    };
    let edges = graph.iter().map(|(from, edges)| {
        let implied = reduce(edges);
        let direct = edges.keys().map(String::as_str).filter(|to| !implied.contains(to));
        (from.as_str(), direct.collect())
    });
    edges.collect()
}

/// The picture in ARCHITECTURE.md: layers, highest first, with the imports that the files make.
fn picture(files: &[File]) -> String {
    fn show(text: &mut String, layers: &mut dyn Iterator<Item = &[&str]>, graph: &Graph) {
        let edges = reduced(graph);
        for layer in layers {
            for (at, name) in layer.iter().enumerate() {
                let mark = if at == 0 { '├' } else { '│' };
                match edges.get(name) {
                    Some(to) => {
                        let to = Vec::from_iter(to.iter().copied()).join(", ");
                        writeln!(text, "{mark} {name:<10} → {to}").unwrap();
                    }
                    None => writeln!(text, "{mark} {name}").unwrap(),
                }
            }
        }
    }
    let mut text = String::new();
    show(&mut text, &mut LAYERS.iter().rev().copied(), &graph(files, top_level));
    text.push_str("\nthe folders of sched/:\n");
    show(&mut text, &mut SCHED_FOLDERS.chunks(1).rev(), &graph(files, sched_folder));
    text
}

#[test]
fn the_picture_in_architecture_is_true() {
    let page = fs::read_to_string(src().with_file_name("ARCHITECTURE.md")).unwrap();
    let picture = picture(&files());
    assert!(page.contains(&format!("```text\n{picture}```\n")), "the picture of the imports is:\n{picture}");
}

#[test]
fn nothing_imports_upward() {
    let wrong = upward(&files());
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn top_level_modules_have_no_cycle() {
    let found = cycle(&graph(&files(), top_level));
    assert!(found.is_none(), "\n{}", found.unwrap_or_default());
}

#[test]
fn folders_of_the_scheduler_have_no_cycle() {
    let files = files();
    let found = cycle(&graph(&files, sched_folder));
    assert!(found.is_none(), "\n{}", found.unwrap_or_default());
    let wrong = upward_in_sched(&files);
    assert!(wrong.is_empty(), "these imports go up:\n{}", wrong.join("\n"));
}

#[test]
fn every_folder_of_the_scheduler_is_known() {
    let mut folders: Vec<String> = files()
        .iter()
        .filter_map(|(file, _)| {
            let parts: Vec<&str> = file.split('/').collect();
            (parts[0] == "sched" && parts.len() > 2).then(|| parts[1].to_owned())
        })
        .collect();
    folders.dedup();
    let mut known: Vec<&str> = SCHED_FOLDERS.to_vec();
    known.sort_unstable();
    assert_eq!(folders, known);
}

/// Calls of libc's functions and raw system calls are for `sys`, for `arch` (which makes them), for `tls`,
/// which looks into libc's own structures, and for `transparent`, which stands in for libc's functions.
#[test]
fn only_sys_talks_to_the_operating_system() {
    let mut wrong = Vec::new();
    for (file, text) in files() {
        if ["sys/", "arch/", "tls/", "transparent/"].iter().any(|folder| file.starts_with(folder)) {
            continue;
        }
        for (number, line) in code(&text).lines().enumerate() {
            let calls_libc = line.match_indices("libc::").any(|(at, start)| {
                let rest = &line[at + start.len()..];
                let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
                rest.starts_with(|c: char| c.is_lowercase()) && rest[end..].starts_with('(')
            });
            if calls_libc || line.contains("syscall6") || line.contains("env::var") {
                wrong.push(format!("{file}:{}: {}", number + 1, line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn a_planted_upward_import_is_found() {
    let planted = |file: &str, line: &str| {
        let mut files = files();
        files.iter_mut().find(|(name, _)| name == file).unwrap().1.insert_str(0, line);
        files
    };
    let found = upward(&planted("timer/mod.rs", "use crate::sched::types::g::G;\n"));
    assert_eq!(found, ["timer/mod.rs imports crate::sched::types::g::G, which lies above it"]);
    let found = upward(&planted("sched/run/spawn.rs", "fn f() { crate::diag::dump::dump(); }\n"));
    assert_eq!(found, ["sched/run/spawn.rs imports crate::diag::dump::dump, which lies above it"]);
    let found = upward(&planted("sched/run/steal.rs", "use crate::{sys::mem, http::{Body, Server}};\n"));
    assert_eq!(found.len(), 2, "{found:?}");
    // Behind a module of tests that comes early.
    let mut behind = files();
    let (_, text) = behind.iter_mut().find(|(name, _)| name == "netpoll/mod.rs").unwrap();
    assert!(text.find("#[cfg(test)]").unwrap() < text.len() / 2);
    text.push_str("use crate::sched::types::g::G;\n");
    assert_eq!(upward(&behind), ["netpoll/mod.rs imports crate::sched::types::g::G, which lies above it"]);
    // Only the composition root is asked for, and only by `boot.rs`.
    assert_eq!(upward(&planted("sched/boot.rs", "use crate::diag;\n")).len(), 1);
    assert_eq!(upward(&planted("sched/machine.rs", "use crate::wiring;\n")).len(), 1);

    let found =
        cycle(&graph(&planted("chan/flavors/array/mod.rs", "use crate::context::Context;\n"), top_level))
            .unwrap();
    assert!(found.contains("chan/flavors/array/mod.rs imports crate::context::Context"), "{found}");
    let found =
        cycle(&graph(&planted("sched/idle/ready.rs", "use super::super::run::spawn;\n"), sched_folder))
            .unwrap();
    assert!(found.contains("sched/idle/ready.rs imports crate::sched::run::spawn"), "{found}");
    assert_eq!(
        upward_in_sched(&planted("sched/word/park_word.rs", "use crate::sched::types::g::G;\n")).len(),
        1
    );
}

#[test]
fn comments_strings_and_tests_import_nothing() {
    let text = "//! crate::a\n/// [`b`](crate::b)\nfn f() { \"crate::c \\\" \n crate::d\"; } // crate::d\n\
                #[cfg(test)]\nmod tests { const C: char = '}'; use crate::e; fn f<'a>(_: &'a str) {} }\n\
                #[cfg(test)]\n#[path = \"t.rs\"]\nmod more;\n\
                impl X { #[cfg(test)] fn f(x: [u8; 4]) { crate::f(); } }\n\
                const R: &str = r#\"a \" crate::g\"#; const Q: char = '\"';\n";
    assert!(imports("sched/x.rs", text).is_empty(), "{}", code(text));
    let behind = format!("{text}use crate::h;\n");
    assert_eq!(imports("sched/x.rs", &behind).len(), 1, "{}", code(&behind));
    let found =
        imports("sched/idle/x.rs", "use super::{y, z::{self, w}};\nlet _ = super::super::types::g();\n");
    let found: Vec<String> = found.iter().map(|import| import.path.join("::")).collect();
    assert_eq!(found, ["sched::idle::y", "sched::idle::z::self", "sched::idle::z::w", "sched::types::g"]);
}
