//! The table of workloads: what each of them does, its sizes, its peers, and the targets for gort.
//!
//! This is the only place in the driver where a workload is added or changed. A peer that lacks a workload
//! reports that itself.

mod block;
mod chan;
mod core;
mod forks;
mod net;
mod std_code;

/// Groups in the order in which they are run and shown.
pub const GROUPS: [&str; 6] = ["core", "join", "chan", "block", "net", "std"];

/// The peers that run a workload unless it says otherwise.
const PLAIN: &[&str] = &["gort", "go", "tokio", "may", "std"];

/// One line of the comparison.
pub struct Workload {
    /// A unique name: the workload's name, with a suffix if it runs in several configurations.
    pub id: &'static str,
    /// The name that the peers know.
    pub name: &'static str,
    /// One of [`GROUPS`].
    pub group: &'static str,
    /// One sentence for `--list` and the Markdown.
    pub what: &'static str,
    /// The number of Ps.
    pub procs: Procs,
    /// The amount of work; each workload defines what it means.
    pub size: Size,
    /// Peers that get a different size, because they cannot do as much or would take minutes.
    pub sizes: &'static [(&'static str, Size)],
    /// The peers that run the workload.
    pub peers: &'static [&'static str],
    /// The figures that the driver takes from the peer's line.
    pub metrics: &'static [Metric],
}

/// How many Ps a workload gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Procs {
    /// Always this many.
    Just(usize),
    /// The number of the machine's cores, or the value of `--procs`.
    All,
}

/// A size for a full run and one for `--quick`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub full: u64,
    pub quick: u64,
}

/// One figure of a workload.
pub struct Metric {
    /// A label that is appended to the workload's id; empty if there is only one figure.
    pub label: &'static str,
    pub field: Field,
    pub unit: Unit,
    pub targets: &'static [Target],
}

/// Where a figure comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// `ns / ops`.
    PerOp,
    /// The field of that name.
    Named(&'static str),
    /// The average number of the peer's threads that were runnable at once, for each P. The driver counts
    /// them from outside.
    RunningPerP,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Nanoseconds,
    Bytes,
    /// A bare number, such as "times the ideal".
    Times,
    /// A share of which less is not better. Shown in tables, but not plotted.
    Share,
}

/// A value that a peer (gort or one of its variants) must reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    pub peer: &'static str,
    pub at_most: f64,
    pub of: Of,
}

/// What a target compares with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// Another peer's median of the same figure.
    Peer(&'static str),
    /// The same peer's median in the workload of that id.
    Own(&'static str),
    /// Nothing: the target is in the figure's own unit.
    Absolute,
}

/// Short for a target of gort against `peer`.
const fn gort(at_most: f64, peer: &'static str) -> Target {
    Target { peer: "gort", at_most, of: Of::Peer(peer) }
}

/// Short for a target of one of gort's variants against `peer`.
const fn target(who: &'static str, at_most: f64, of: Of) -> Target {
    Target { peer: who, at_most, of }
}

const fn size(full: u64, quick: u64) -> Size {
    Size { full, quick }
}

/// The metric of most workloads: time per operation.
const fn per_op(targets: &'static [Target]) -> Metric {
    Metric { label: "", field: Field::PerOp, unit: Unit::Nanoseconds, targets }
}

const fn named(label: &'static str, field: &'static str, unit: Unit, targets: &'static [Target]) -> Metric {
    Metric { label, field: Field::Named(field), unit, targets }
}

/// All workloads, in the order in which they are run and shown.
pub fn all() -> impl Iterator<Item = &'static Workload> {
    core::CORE
        .iter()
        .chain(forks::JOIN)
        .chain(chan::CHAN)
        .chain(block::BLOCK)
        .chain(net::NET)
        .chain(std_code::STD)
}

impl Workload {
    /// The size for `peer`.
    pub fn size_for(&self, peer: &str, quick: bool) -> u64 {
        let size = self.sizes.iter().find(|(who, _)| *who == peer).map_or(self.size, |(_, size)| *size);
        if quick { size.quick } else { size.full }
    }

    /// Whether `word` (an id, a workload's name or a group) means this workload.
    pub fn answers_to(&self, word: &str) -> bool {
        // The name of a workload that group "std" runs once more means that of the other group.
        let again = self.group == "std" && all().any(|w| w.group != "std" && w.name == self.name);
        [self.id, self.group].contains(&word) || (self.name == word && !again)
    }
}

impl Metric {
    /// Name of the figure in tables.
    pub fn title(&self, workload: &Workload) -> String {
        if self.label.is_empty() { workload.id.into() } else { format!("{}: {}", workload.id, self.label) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::PEERS;
    use std::collections::HashSet;

    #[test]
    fn ids_are_unique_and_groups_are_known() {
        let mut seen = HashSet::new();
        for w in all() {
            assert!(seen.insert(w.id), "{} twice", w.id);
            assert!(GROUPS.contains(&w.group), "{}", w.id);
        }
    }

    #[test]
    fn every_peer_and_reference_named_exists_and_takes_part() {
        let known: Vec<&str> = PEERS.iter().map(|p| p.name).collect();
        for w in all() {
            assert!(w.peers.iter().all(|p| known.contains(p)), "{}", w.id);
            assert!(w.sizes.iter().all(|(p, _)| w.peers.contains(p)), "{}: size for a stranger", w.id);
            for target in w.metrics.iter().flat_map(|m| m.targets) {
                assert!(w.peers.contains(&target.peer), "{}: target of a stranger", w.id);
                match target.of {
                    Of::Peer(peer) => assert!(w.peers.contains(&peer), "{}: target against a stranger", w.id),
                    Of::Own(id) => assert!(all().any(|o| o.id == id), "{}: no workload {id}", w.id),
                    Of::Absolute => {}
                }
            }
        }
    }

    #[test]
    fn quick_sizes_are_not_larger() {
        for w in all() {
            for peer in w.peers {
                assert!(w.size_for(peer, true) <= w.size_for(peer, false), "{} {peer}", w.id);
            }
        }
    }

    #[test]
    fn a_peer_may_have_a_size_of_its_own() {
        let parked = all().find(|w| w.id == "parked").unwrap();
        assert_eq!(parked.size_for("go", false), 1_000_000);
        assert!(parked.size_for("std", false) < 1_000_000);
    }

    #[test]
    fn words_choose_by_id_name_and_group() {
        let count = |word: &str| all().filter(|w| w.answers_to(word)).count();
        assert_eq!(count("yield-1"), 1);
        assert!(count("yield") > 1);
        assert!(count("core") > count("yield"));
        assert_eq!(count("nonsense"), 0);
    }
}
