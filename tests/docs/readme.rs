//! The README's figures are those of docs/compare.md, which is the report of one run of `compare/run`.
//!
//! `compare/publish` publishes the last run: it runs this test with `UPDATE_README` set to the run's file,
//! which writes the figures instead of comparing them, and copies the file to docs/compare.md.

use std::fs;
use std::path::Path;

const BEGIN: &str = "<!-- figures: written by compare/publish -->\n";
const END: &str = "<!-- end of figures -->\n";

/// The figures that the README shows, and what each means to a reader who has not read compare/README.md.
const FIGURES: [(&str, &str); 16] = [
    ("spawn_join", "start one and join it"),
    ("yield-all", "switch to the next one"),
    ("pingpong-all", "message there and back, no buffer"),
    ("mpmc", "message through a buffered channel, many senders and receivers"),
    ("select_blocked-2", "select of two that has to wait"),
    ("skynet", "a tree of a million, each"),
    ("mutex_free", "lock and unlock"),
    ("mutex", "lock and unlock, contended"),
    ("timers: CPU time", "CPU time of a sleep, of very many"),
    ("parked: memory each", "memory of each of a million that wait"),
    ("parked: wake all", "wake a million, each"),
    ("hog: oversleep p99", "a 1 ms sleeper among endless loops oversleeps by (p99)"),
    ("blocking", "64 sleeps in the kernel at once, marked where one can: times the ideal"),
    ("syscall_short", "a short system call, marked where one can"),
    ("tcp_echo-1000: server CPU per request", "CPU time of the server for a 64-byte echo, 1,000 connections"),
    ("http_idle", "memory of an idle HTTP connection"),
];

const PEERS: [(&str, &str); 5] =
    [("gort", "gort"), ("go", "Go"), ("tokio", "Tokio"), ("may", "may"), ("std", "threads")];

/// One row of a table in docs/compare.md.
struct Row<'a> {
    figure: &'a str,
    peer: &'a str,
    size: &'a str,
    median: &'a str,
}

/// The rows of all tables. Only the first row of a figure names it.
fn rows(document: &str) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    let mut current = "";
    for line in document.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, figure, _, peer, size, median, ..] = cells[..] else { continue };
        if figure == "workload" || figure.starts_with("---") {
            continue;
        }
        if !figure.is_empty() {
            current = figure;
        }
        rows.push(Row { figure: current, peer, size, median });
    }
    rows
}

/// What the head of the document says about `name`.
fn fact<'a>(document: &'a str, name: &str) -> &'a str {
    let line = document.lines().find_map(|line| line.strip_prefix(&format!("- {name}: ")));
    line.unwrap_or_else(|| panic!("docs/compare.md does not tell its {name}"))
}

/// The text between the marks in the README.
fn render(document: Option<&str>) -> String {
    let Some(document) = document else {
        return "`compare/run` measures gort beside Go, Tokio, may and threads on your machine, \
                in one interleaved run: see\n\
                [compare/README.md](compare/README.md).\n"
            .into();
    };
    let rows = rows(document);
    let cell = |figure: &str, peer: &str| {
        let find = |peer: &str| rows.iter().find(|row| row.figure == figure && row.peer == peer);
        let own = find("gort").unwrap_or_else(|| panic!("docs/compare.md has no {figure:?} of gort's"));
        find(peer).map_or(String::from("–"), |row| {
            let smaller = if row.size == own.size { "" } else { "\\*" };
            format!("{}{smaller}", row.median)
        })
    };
    let heads: Vec<&str> = PEERS.iter().map(|(_, head)| *head).collect();
    let mut out = format!("| | {} |\n| --- |{}\n", heads.join(" | "), " ---: |".repeat(PEERS.len()));
    for (figure, meaning) in FIGURES {
        let cells: Vec<String> = PEERS.iter().map(|(peer, _)| cell(figure, peer)).collect();
        out.push_str(&format!("| {meaning} | {} |\n", cells.join(" | ")));
    }
    out.push_str(&format!(
        "\nLess is better everywhere. \\* with a smaller number of them, because it cannot do as many or \
         would take minutes.\n\
         Medians of one run of `compare/run` on {}, {} cores, Linux {}, {}, at commit {} ({}).\n\
         All figures, with quartiles, ratios and what each workload does: \
         [docs/compare.md](docs/compare.md).\n",
        fact(document, "CPU"),
        fact(document, "cores"),
        fact(document, "kernel"),
        fact(document, "date"),
        fact(document, "commit"),
        fact(document, "versions"),
    ));
    out
}

/// The README before the figures, the figures, and what follows.
fn parts(readme: &str) -> (&str, &str, &str) {
    let (before, rest) = readme.split_once(BEGIN).expect("the README has the mark of its figures");
    let (figures, after) = rest.split_once(END).expect("the README has the mark of their end");
    (before, figures, after)
}

#[test]
fn figures_are_those_of_the_published_run() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let (before, shown, after) = parts(&readme);
    if let Some(file) = std::env::var_os("UPDATE_README") {
        let figures = render(Some(&fs::read_to_string(root.join(file)).unwrap()));
        fs::write(root.join("README.md"), format!("{before}{BEGIN}{figures}{END}{after}")).unwrap();
        return;
    }
    let figures = render(fs::read_to_string(root.join("docs/compare.md")).ok().as_deref());
    assert_eq!(shown, figures, "the README's figures are not those of docs/compare.md: run compare/publish");
}

/// A document as the driver writes it. Each median says of which figure and peer it is.
fn made_up(peers: &[&str]) -> String {
    let mut document = String::from(
        "# gort compared\n\n- date: today\n- commit: abc\n- CPU: fast\n- cores: 2\n- kernel: 6.18\n\
         - versions: all\n\n\
         | workload | P | peer | n | median | quartiles | × Go | targets |\n\
         | --- | ---: | --- | ---: | ---: | ---: | ---: | --- |\n",
    );
    for (figure, _) in FIGURES {
        for (i, peer) in peers.iter().enumerate() {
            let (name, procs) = if i == 0 { (figure, "2") } else { ("", "") };
            let size = if *peer == "std" { "5" } else { "100" };
            document.push_str(&format!(
                "| {name} | {procs} | {peer} | {size} | {peer} {figure} | 1 ns – 2 ns | 1.00 |  |\n"
            ));
        }
    }
    document
}

#[test]
fn the_table_has_each_peers_median_of_each_figure() {
    let table = render(Some(&made_up(&["gort", "gort-shared", "go", "std"])));
    assert!(table.contains(
        "| start one and join it | gort spawn_join | go spawn_join | – | – | std spawn_join\\* |\n"
    ));
    assert!(table.contains("on fast, 2 cores, Linux 6.18, today, at commit abc (all)"), "{table}");
    assert_eq!(table.lines().filter(|line| line.starts_with("| ")).count(), FIGURES.len() + 2);
}

#[test]
#[should_panic(expected = "docs/compare.md has no \"spawn_join\" of gort's")]
fn a_run_without_gort_cannot_be_shown() {
    render(Some(&made_up(&["go"])));
}

#[test]
fn every_figure_is_one_that_the_comparison_measures() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("compare/driver/src/workloads");
    let files = fs::read_dir(root).unwrap().map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
    let tables: String = files.collect();
    for (figure, _) in FIGURES {
        let (id, label) = figure.split_once(": ").unwrap_or((figure, ""));
        for name in [id, label].into_iter().filter(|name| !name.is_empty()) {
            assert!(
                tables.contains(&format!("\"{name}\"")),
                "compare/ has no {figure:?}: {name:?} is unknown"
            );
        }
    }
}
