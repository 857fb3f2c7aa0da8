//! Finds out which CPUs are close to each other: NUMA nodes, packages, cores and last-level caches, read from
//! `/sys/devices/system`.
//!
//! The result is only advice: it orders the victims of stealing, and nothing breaks if it is wrong. Files may
//! be missing (containers hide parts of sysfs) or wrong (virtual machines invent some). What is not known is
//! assumed such that CPUs are more alike:
//!
//! - no node directories: one node has all CPUs;
//! - no cache files: a package shares one cache (within a node);
//! - no topology files: all CPUs are in package 0, each is a core of its own;
//! - no node distances: every other node is equally far.

use std::path::Path;

/// The largest number of CPUs that is believed: no machine has more, so a list with a higher number is
/// garbage.
const MAX_CPUS: usize = 1 << 16;

/// The CPUs and NUMA nodes of a machine, and how far apart they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Topology {
    /// Indexed by CPU number; `None` if no online CPU has that number.
    cpus: Vec<Option<Cpu>>,
    nodes: Vec<Node>,
    /// All distances that occur between different nodes, ascending. [`Topology::distance`] returns a position
    /// in this list, plus 2.
    steps: Vec<u32>,
}

/// The place of one CPU in the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cpu {
    /// Index into [`Topology::nodes`].
    pub(crate) node: usize,
    /// The kernel's number of the package (socket).
    pub(crate) package: u32,
    /// The lowest-numbered CPU of the same core.
    pub(crate) core: usize,
    /// The lowest-numbered CPU that shares the last-level cache.
    pub(crate) llc: usize,
}

/// A NUMA node with CPUs. Nodes that have only memory are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// The kernel's number of the node. The numbers may have gaps.
    pub(crate) id: usize,
    /// CPU numbers, ascending.
    pub(crate) cpus: Vec<usize>,
    /// The kernel's distance to each node of [`Topology::nodes`]; 10 is the distance to itself. Empty if not
    /// known.
    distances: Vec<u32>,
}

impl Topology {
    /// Reads the topology of this machine.
    pub(crate) fn read() -> Topology {
        Topology::read_at(Path::new("/"))
    }

    fn read_at(root: &Path) -> Topology {
        let system = root.join("sys/devices/system");
        let online = online_list(root);
        let nodes = read_nodes(&system, &online);
        let len = online.last().map_or(0, |last| last + 1);
        let mut cpus = vec![None; len];
        for (node, members) in nodes.iter().map(|node| &node.cpus).enumerate() {
            for &cpu in members {
                cpus[cpu] = Some(read_cpu(&system, cpu, node, members));
            }
        }
        let mut topology = Topology { cpus, nodes, steps: Vec::new() };
        topology.steps = topology.remote_distances();
        topology
    }

    /// How far apart two CPUs are. The result is symmetric:
    ///
    /// - 0: they share the last-level cache;
    /// - 1: they share only the NUMA node;
    /// - 2 and more: they are in different nodes. The larger the kernel's distance, the higher the number.
    ///
    /// A cache that spans nodes (sub-NUMA clustering) does not make them closer, because the cache's slices
    /// and the memory are still apart.
    pub(crate) fn distance(&self, a: usize, b: usize) -> u8 {
        if a == b {
            return 0;
        }
        match (self.cpu(a), self.cpu(b)) {
            (Some(a), Some(b)) if a.node == b.node => u8::from(a.llc != b.llc),
            (Some(a), Some(b)) => {
                let step = self.node_distance(a.node, b.node).and_then(|d| self.steps.binary_search(&d).ok());
                u8::try_from(step.unwrap_or(0) + 2).unwrap_or(u8::MAX)
            }
            // One of them is not known: assume that they do not share a cache, or a node if there are
            // several.
            _ => 1 + u8::from(self.nodes.len() > 1),
        }
    }

    /// Whether some CPUs are closer to each other than others.
    pub(crate) fn is_uneven(&self) -> bool {
        let online =
            || self.cpus.iter().enumerate().filter(|(_, cpu)| cpu.is_some()).map(|(number, _)| number);
        online().next().is_some_and(|first| online().any(|other| self.distance(first, other) != 0))
    }

    /// The nodes that have CPUs, ordered by number.
    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The place of a CPU, if it was online when the topology was read.
    pub(crate) fn cpu(&self, number: usize) -> Option<&Cpu> {
        self.cpus.get(number)?.as_ref()
    }

    /// The kernel's distance between two nodes; the larger value if it differs by direction.
    fn node_distance(&self, a: usize, b: usize) -> Option<u32> {
        let there = self.nodes[a].distances.get(b)?;
        let back = self.nodes[b].distances.get(a)?;
        Some(*there.max(back))
    }

    fn remote_distances(&self) -> Vec<u32> {
        let nodes = 0..self.nodes.len();
        let pairs = nodes.clone().flat_map(|a| nodes.clone().map(move |b| (a, b))).filter(|(a, b)| a < b);
        let mut distances: Vec<u32> = pairs.filter_map(|(a, b)| self.node_distance(a, b)).collect();
        distances.sort_unstable();
        distances.dedup();
        distances
    }
}

/// The number of CPUs that are online, at least 1. `root` stands for `/`.
pub(crate) fn online_cpus(root: &Path) -> usize {
    online_list(root).len()
}

/// The CPUs that are online; only CPU 0 if the kernel's list cannot be read.
fn online_list(root: &Path) -> Vec<usize> {
    let online = read_list(&root.join("sys/devices/system/cpu/online"));
    if online.is_empty() { vec![0] } else { online }
}

/// The nodes that have CPUs. Every online CPU is in exactly one of them.
fn read_nodes(system: &Path, online: &[usize]) -> Vec<Node> {
    let dir = system.join("node");
    let names = std::fs::read_dir(&dir)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut ids: Vec<usize> = names.filter_map(|name| name.strip_prefix("node")?.parse().ok()).collect();
    ids.sort_unstable();

    // If several nodes claim a CPU, it belongs to the first of them. If no node claims it, it belongs to the
    // first node of all.
    let mut unclaimed: Vec<bool> = vec![false; online.last().map_or(0, |last| last + 1)];
    online.iter().for_each(|&cpu| unclaimed[cpu] = true);
    let mut nodes = Vec::new();
    for &id in &ids {
        let mut cpus = read_list(&dir.join(format!("node{id}/cpulist")));
        cpus.retain(|&cpu| unclaimed.get_mut(cpu).is_some_and(std::mem::take));
        if !cpus.is_empty() {
            nodes.push(Node { id, cpus, distances: Vec::new() });
        }
    }
    if nodes.is_empty() {
        nodes.push(Node { id: 0, cpus: Vec::new(), distances: Vec::new() });
    }
    nodes[0].cpus.extend((0..unclaimed.len()).filter(|&cpu| unclaimed[cpu]));
    nodes[0].cpus.sort_unstable();

    // The file has one column for each online node, including those without CPUs.
    let columns: Vec<Option<usize>> = nodes.iter().map(|node| ids.binary_search(&node.id).ok()).collect();
    for node in &mut nodes {
        let row = read_text(&dir.join(format!("node{}/distance", node.id)));
        let row: Option<Vec<u32>> = row.split_ascii_whitespace().map(|word| word.parse().ok()).collect();
        if let Some(row) = row.filter(|row| row.len() == ids.len()) {
            node.distances = columns.iter().filter_map(|&column| Some(row[column?])).collect();
        }
    }
    nodes
}

/// The place of one CPU; `peers` are the CPUs of its node.
fn read_cpu(system: &Path, cpu: usize, node: usize, peers: &[usize]) -> Cpu {
    let dir = system.join(format!("cpu/cpu{cpu}"));
    let package = read_package(&dir);
    // Kernels before 5.2 have only the second name.
    let core = ["topology/core_cpus_list", "topology/thread_siblings_list"]
        .iter()
        .find_map(|file| lowest_of_group(&dir.join(file), cpu))
        .unwrap_or(cpu);
    let llc = read_llc(&dir, cpu).unwrap_or_else(|| {
        let same_package = |&&peer: &&usize| read_package(&system.join(format!("cpu/cpu{peer}"))) == package;
        peers.iter().find(same_package).copied().unwrap_or(cpu)
    });
    Cpu { node, package, core, llc }
}

/// The number of the package; 0 if the kernel does not know it (the file then says -1).
fn read_package(cpu_dir: &Path) -> u32 {
    read_text(&cpu_dir.join("topology/physical_package_id")).trim().parse().unwrap_or(0)
}

/// The lowest-numbered CPU that shares the highest level of cache with `cpu`.
fn read_llc(cpu_dir: &Path, cpu: usize) -> Option<usize> {
    let mut best: Option<(u32, usize)> = None;
    for entry in std::fs::read_dir(cpu_dir.join("cache")).ok()?.flatten() {
        let dir = entry.path();
        let Ok(level) = read_text(&dir.join("level")).trim().parse() else { continue };
        if read_text(&dir.join("type")).trim() == "Instruction" || best.is_some_and(|(top, _)| top >= level) {
            continue;
        }
        if let Some(lowest) = lowest_of_group(&dir.join("shared_cpu_list"), cpu) {
            best = Some((level, lowest));
        }
    }
    best.map(|(_, lowest)| lowest)
}

/// The first CPU of a list. `None` if the list does not contain `cpu`, because it cannot be trusted then.
fn lowest_of_group(file: &Path, cpu: usize) -> Option<usize> {
    let list = read_list(file);
    list.contains(&cpu).then(|| list[0])
}

fn read_list(file: &Path) -> Vec<usize> {
    parse_list(&read_text(file)).unwrap_or_default()
}

/// Parses a list like `0-3,8,10-11`. The result is ascending, without duplicates. `None` if the list is
/// malformed.
pub(crate) fn parse_list(text: &str) -> Option<Vec<usize>> {
    let mut list = Vec::new();
    for item in text.trim().split(',').filter(|item| !item.is_empty()) {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= MAX_CPUS {
            return None;
        }
        list.extend(first..=last);
    }
    list.sort_unstable();
    list.dedup();
    Some(list)
}

/// The text of a file; empty if it cannot be read.
fn read_text(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_default()
}

#[cfg(test)]
mod tests;
