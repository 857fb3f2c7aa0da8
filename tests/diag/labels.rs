//! Labels: who has them, for how long, and where they are shown.

#[path = "../common/mod.rs"]
mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use common::{Procs, amount, join_all, named, panic_message, until};
use gort::runtime::{GoroutineTrace, dump};
use gort::{Labels, with_labels};

fn text() -> String {
    Labels::current().to_string()
}

fn seen(name: &str) -> Option<GoroutineTrace> {
    dump().goroutines().iter().find(|g| g.name() == Some(name)).cloned()
}

#[test]
fn a_goroutine_has_labels_for_the_time_of_a_call() {
    gort::run(|| {
        assert_eq!(text(), "{}");
        with_labels([("a", "1"), ("b", "2")], || {
            assert_eq!(text(), "{a: 1, b: 2}");
            with_labels([("b", "3"), ("c", "4")], || assert_eq!(text(), "{a: 1, b: 3, c: 4}"));
            assert_eq!(text(), "{a: 1, b: 2}");
            with_labels([("b", "5"), ("b", "6")], || assert_eq!(text(), "{a: 1, b: 6}"));
            with_labels::<&str, &str, _>([], || assert_eq!(text(), "{a: 1, b: 2}"));
        });
        assert_eq!(text(), "{}");
    });
}

#[test]
fn a_panic_ends_labels_too() {
    gort::run(|| {
        with_labels([("outer", "1")], || {
            let inner = || with_labels([("inner", "2")], || panic!("as expected"));
            assert_eq!(panic_message(inner), "as expected");
            assert_eq!(text(), "{outer: 1}");
        });
    });
}

#[test]
fn every_kind_of_child_inherits_the_labels_of_its_parent() {
    gort::run(|| {
        with_labels([("job", "7")], || {
            let has = "{job: 7}";
            assert_eq!(gort::spawn(text).join().unwrap(), has);
            assert_eq!(gort::spawn(|| gort::spawn(text).join().unwrap()).join().unwrap(), has);
            assert_eq!(gort::run(text), has);
            assert_eq!(gort::scope(|s| s.spawn(text).join().unwrap()), has);
            assert_eq!(gort::future::spawn(async { text() }).join().unwrap(), has);
            assert_eq!(named("with a name", text).join().unwrap(), has);
            // SAFETY: the closure uses no thread-local across a scheduling point.
            let shared = unsafe { gort::Builder::new().spawn_shared_tls(text) }.unwrap();
            assert_eq!(shared.join().unwrap(), has);

            let (sender, receiver) = gort::chan::unbounded();
            let other = sender.clone();
            gort::go!(other.send(text()).unwrap());
            let group = gort::sync::WaitGroup::new();
            let other = sender.clone();
            group.go(move || other.send(text()).unwrap());
            group.wait();
            let group = gort::sync::Group::new();
            group.go(move || sender.send(text()).map_err(|_| "nobody receives"));
            group.wait().unwrap();
            assert_eq!(receiver.iter().collect::<Vec<_>>(), [has; 3]);
        });
        assert_eq!(gort::spawn(text).join().unwrap(), "{}");
    });
}

#[test]
fn a_builder_adds_labels_to_those_of_the_parent() {
    gort::run(|| {
        with_labels([("a", "1"), ("b", "2")], || {
            let builder = gort::Builder::new().label("b", "3").label("c", String::from("4"));
            assert_eq!(builder.spawn(text).unwrap().join().unwrap(), "{a: 1, b: 3, c: 4}");
            gort::scope(|s| {
                let child = gort::Builder::new().label("d", "5").spawn_scoped(s, text).unwrap();
                assert_eq!(child.join().unwrap(), "{a: 1, b: 2, d: 5}");
            });
            assert_eq!(text(), "{a: 1, b: 2}");
        });
    });
    // A thread outside of gort has none, and can give some to its children.
    assert_eq!(with_labels([("a", "1")], text), "{}");
    assert_eq!(gort::Builder::new().label("a", "1").spawn(text).unwrap().join().unwrap(), "{a: 1}");
}

#[test]
fn a_child_keeps_its_labels_when_the_call_is_over() {
    gort::run(|| {
        let (go_on, wait) = gort::chan::bounded::<()>(0);
        let child = with_labels([("job", "7")], || {
            gort::spawn(move || {
                wait.recv().unwrap();
                text()
            })
        });
        go_on.send(()).unwrap();
        assert_eq!(child.join().unwrap(), "{job: 7}");
    });
}

/// Whether it waits, is queued, runs, or is in a blocking call.
#[test]
fn dumps_show_labels_in_every_state() {
    let _two = Procs::set(2);
    let stop = Arc::new(AtomicBool::new(false));
    let start = |name: &str, f: fn(&AtomicBool)| {
        let stop = stop.clone();
        let builder = gort::Builder::new().name(name.into()).label("kind", name).label("odd", "a \"b\"\n");
        builder.spawn(move || f(&stop)).unwrap()
    };
    let all = [
        start("sleeps", |stop| until("the test is over", || stop.load(Ordering::Relaxed))),
        start("computes", |stop| while !stop.load(Ordering::Relaxed) {}),
        start("blocks", |stop| {
            gort::blocking(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
            });
        }),
        start("yields", |stop| {
            while !stop.load(Ordering::Relaxed) {
                gort::yield_now();
            }
        }),
    ];
    for name in ["sleeps", "computes", "blocks", "yields"] {
        let labels = |g: &GoroutineTrace| g.labels().get("kind") == Some(name);
        until(&format!("the labels of the one that {name} are seen"), || {
            seen(name).is_some_and(|g| labels(&g))
        });
        let text = seen(name).unwrap().to_string();
        let header = format!("{{name: {name}, labels: {{kind: {name}, odd: \"a \\\"b\\\"\\n\"}}}}:\n");
        assert!(text.contains(&header), "{text}");
    }
    stop.store(true, Ordering::Relaxed);
    join_all(all);
    let own = || dump().goroutines()[0].to_string();
    let text = gort::run(|| with_labels([("k", "v")], own));
    assert!(text.contains("[running] {labels: {k: v}}:\n"), "{text}");
}

/// Reports read sets that goroutines replace and free meanwhile.
#[test]
fn labels_may_change_while_reports_read_them() {
    let changers = 4;
    let stop = Arc::new(AtomicBool::new(false));
    let all: Vec<_> = (0..changers)
        .map(|number| {
            let stop = stop.clone();
            named("changes", move || {
                while !stop.load(Ordering::Relaxed) {
                    for turn in 0..20_u32 {
                        let value = format!("{number} {turn}");
                        with_labels([("first", &value), ("second", &value)], || {
                            if turn.is_multiple_of(4) {
                                gort::yield_now();
                            }
                            gort::spawn(gort::yield_now).join().unwrap();
                        });
                    }
                }
            })
        })
        .collect();
    let with = AtomicUsize::new(0);
    for _ in 0..amount(50, 1000) {
        for g in dump().goroutines() {
            // (Goroutines of other tests have other labels.)
            let Some(first) = g.labels().get("first") else { continue };
            with.fetch_add(1, Ordering::Relaxed);
            let second = g.labels().get("second").unwrap_or_default();
            assert!(first == second && first.contains(' '), "torn labels: {:?}", g.labels());
        }
    }
    stop.store(true, Ordering::Relaxed);
    join_all(all);
    assert_ne!(with.into_inner(), 0, "no dump saw labels");
}
