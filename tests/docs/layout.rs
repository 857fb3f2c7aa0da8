//! Every file under `tests/` belongs to a test binary. Cargo runs only the binaries that Cargo.toml names, so
//! without this check nobody would notice a new test file that never runs.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders whose files are not tests by themselves: the helpers, and the programs that `macros.rs` compiles.
const NOT_TESTS: [&str; 2] = ["tests/common", "tests/docs/ui"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All Rust files below `folder`, as paths from the root of the package.
fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(root().join(folder)).unwrap() {
        let path = folder.join(entry.unwrap().file_name());
        if root().join(&path).is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The values of `path = "tests/..."` in Cargo.toml, in their order.
fn binaries(manifest: &str) -> Vec<PathBuf> {
    let paths = manifest.lines().filter_map(|line| line.strip_prefix("path = \"")?.strip_suffix('"'));
    paths.filter(|path| path.starts_with("tests/")).map(PathBuf::from).collect()
}

/// The names of the modules that `text` takes from other files.
fn modules(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.trim().strip_prefix("mod ")?.strip_suffix(';')).collect()
}

/// Whether `file` is a module of a binary whose `main.rs` lies in the same folder or above it.
fn is_module(file: &Path, binaries: &[PathBuf]) -> bool {
    let name = match file.file_stem().unwrap().to_str().unwrap() {
        "mod" => file.parent().unwrap().file_name().unwrap().to_str().unwrap(),
        name => name,
    };
    let mains = binaries.iter().filter(|binary| binary.file_name().unwrap() == "main.rs");
    mains.map(|main| main.parent().unwrap()).filter(|folder| file.starts_with(folder)).any(|folder| {
        let mut neighbours = Vec::new();
        rust_files(folder, &mut neighbours);
        let names = |path: &PathBuf| modules(&fs::read_to_string(root().join(path)).unwrap()).contains(&name);
        neighbours.iter().any(names)
    })
}

#[test]
fn every_test_file_belongs_to_a_binary() {
    let binaries = binaries(&fs::read_to_string(root().join("Cargo.toml")).unwrap());
    assert!(binaries.len() > 20, "only {} binaries were found in Cargo.toml", binaries.len());
    let mut files = Vec::new();
    rust_files(Path::new("tests"), &mut files);
    let is_test = |file: &&PathBuf| !NOT_TESTS.iter().any(|folder| file.starts_with(folder));
    let forgotten: Vec<_> = files
        .iter()
        .filter(is_test)
        .filter(|file| !binaries.contains(file) && !is_module(file, &binaries))
        .collect();
    assert!(forgotten.is_empty(), "neither in Cargo.toml nor a module of a binary: {forgotten:?}");
}

/// The words of `text` that look like names of tests: more than three parts, joined by underscores.
fn names_of_tests(text: &str) -> Vec<&str> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.filter(|word| word.matches('_').count() > 3 && !word.ends_with('_')).collect()
}

#[test]
fn the_readme_names_every_binary_and_only_tests_that_exist() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let readme = fs::read_to_string(root().join("tests/README.md")).unwrap();
    let tests = manifest.split("[[test]]\nname = \"").skip(1).filter_map(|rest| rest.split('"').next());
    let missing: Vec<_> = tests.filter(|name| !readme.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "tests/README.md does not name {missing:?}");

    let mut files = Vec::new();
    rust_files(Path::new("tests"), &mut files);
    let sources: String = files.iter().map(|file| fs::read_to_string(root().join(file)).unwrap()).collect();
    let named = names_of_tests(&readme);
    assert!(named.len() > 20, "only {} names were found: does this test still see them?", named.len());
    let unknown: Vec<_> =
        named.into_iter().filter(|name| !sources.contains(&format!("fn {name}("))).collect();
    assert!(unknown.is_empty(), "tests/README.md names tests that do not exist: {unknown:?}");
}

#[test]
fn binaries_are_sorted_by_folder() {
    let binaries = binaries(&fs::read_to_string(root().join("Cargo.toml")).unwrap());
    assert!(binaries.is_sorted(), "{binaries:#?}");
}
