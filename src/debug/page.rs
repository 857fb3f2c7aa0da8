//! The live page: one file, without references to anything but this server. The browser asks `/debug/live`
//! and `/debug/goroutines`; everything that the program says is put into the page as text, never as HTML.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use super::http::Answer;

const PAGE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/style.css");
const SCRIPTS: [&str; 5] = [
    include_str!("page/data.js"),
    include_str!("page/machine.js"),
    include_str!("page/charts.js"),
    include_str!("page/table.js"),
    include_str!("page/ui.js"),
];

static WHOLE: LazyLock<String> =
    LazyLock::new(|| PAGE.replace("/*style*/", STYLE).replace("/*script*/", &SCRIPTS.concat()));

pub(super) fn page() -> Answer {
    // Only the script of this answer runs: a new random number, which the header names.
    let nonce = format!("{:016x}", RandomState::new().hash_one(0));
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'unsafe-inline'; img-src data:; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    let html = WHOLE.replace("/*nonce*/", &nonce);
    Answer::new("text/html; charset=utf-8", html.into_bytes()).with("Content-Security-Policy", policy)
}

#[cfg(test)]
mod tests {
    use super::WHOLE;

    #[test]
    fn the_page_refers_to_nothing_outside() {
        assert!(!WHOLE.contains("/*style*/") && !WHOLE.contains("/*script*/"));
        let plain = WHOLE.replace("http://www.w3.org/2000/svg", "");
        for outside in ["http://", "https://", "src=", "@import", "innerHTML", "insertAdjacentHTML", "eval("]
        {
            assert!(!plain.contains(outside), "{outside}");
        }
    }
}
