//! Tests of `word.rs` on one thread; the loom models test it under concurrency.

use super::word::PollWord;

const SOMEBODY: usize = 0x1000;

#[test]
fn an_edge_after_the_observation_forbids_the_wait() {
    let word = PollWord::new();
    let before = word.observe();
    assert_eq!(word.notify(1, false), None);
    assert!(!word.begin_wait(before, SOMEBODY));
    let before = word.observe();
    assert!(word.begin_wait(before, SOMEBODY));
    assert_eq!(word.notify(2, false), Some(SOMEBODY));
    assert!(!word.cancel(SOMEBODY));
}

#[test]
fn a_newer_edge_is_not_the_one_that_was_observed() {
    let word = PollWord::new();
    assert_eq!(word.notify(1, false), None);
    let before = word.observe();
    assert_eq!(word.notify(2, false), None);
    assert!(!word.begin_wait(before, SOMEBODY));
}

#[test]
fn closed_stays_closed() {
    let word = PollWord::new();
    assert!(word.begin_wait(word.observe(), SOMEBODY));
    assert_eq!(word.close(), Some(SOMEBODY));
    assert_eq!(word.notify(1, false), None);
    assert!(word.observe().is_closed());
    assert!(!word.begin_wait(word.observe(), SOMEBODY));
}

#[test]
fn a_kick_ends_a_wait_and_is_not_remembered() {
    let word = PollWord::new();
    assert_eq!(word.kick(), None);
    assert!(word.begin_wait(word.observe(), SOMEBODY));
    assert_eq!(word.kick(), Some(SOMEBODY));
    assert!(word.begin_wait(word.observe(), SOMEBODY));
    assert!(word.cancel(SOMEBODY));
}

#[test]
fn an_end_that_nobody_has_seen_is_not_forgotten_for_an_edge_that_is_told_late() {
    let word = PollWord::new();
    assert_eq!(word.notify(2, true), None);
    assert_eq!(word.notify(3, false), None);
    assert!(!word.observe().is_plain_edge());
    // The next wait consumes the special edge.
    assert!(word.begin_wait(word.observe(), SOMEBODY | 4));
    assert_eq!(word.notify(4, false), Some(SOMEBODY | 4));
    assert!(word.observe().is_plain_edge());
}
