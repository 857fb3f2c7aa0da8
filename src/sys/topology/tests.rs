use super::super::fake::FakeRoot;
use super::*;

const SYSTEM: &str = "/sys/devices/system";

fn online(list: &str) -> FakeRoot {
    FakeRoot::with(&[("/sys/devices/system/cpu/online", list)])
}

fn add_node(root: &FakeRoot, id: usize, cpus: &str, distance: &str) {
    root.write(&format!("{SYSTEM}/node/node{id}/cpulist"), &format!("{cpus}\n"));
    root.write(&format!("{SYSTEM}/node/node{id}/distance"), &format!("{distance}\n"));
}

fn add_cache(root: &FakeRoot, cpu: usize, index: usize, (level, kind): (u32, &str), shared: &str) {
    let dir = format!("{SYSTEM}/cpu/cpu{cpu}/cache/index{index}");
    root.write(&format!("{dir}/level"), &format!("{level}\n"));
    root.write(&format!("{dir}/type"), &format!("{kind}\n"));
    root.write(&format!("{dir}/shared_cpu_list"), &format!("{shared}\n"));
}

/// Two sockets with four cores of two hardware threads each. Each socket is a node and has two last-level
/// caches. CPUs n and n + 8 are on the same core.
fn two_sockets() -> FakeRoot {
    let root = online("0-15\n");
    add_node(&root, 0, "0-3,8-11", "10 21");
    add_node(&root, 1, "4-7,12-15", "21 10");
    for cpu in 0..16 {
        let core = cpu % 8;
        let dir = format!("{SYSTEM}/cpu/cpu{cpu}");
        root.write(&format!("{dir}/topology/physical_package_id"), &format!("{}\n", core / 4));
        root.write(&format!("{dir}/topology/core_cpus_list"), &format!("{core},{}\n", core + 8));
        let own = format!("{core},{}", core + 8);
        add_cache(&root, cpu, 0, (1, "Data"), &own);
        add_cache(&root, cpu, 1, (1, "Instruction"), &own);
        add_cache(&root, cpu, 2, (2, "Unified"), &own);
        let pair = core / 2 * 2;
        add_cache(&root, cpu, 3, (3, "Unified"), &format!("{pair}-{},{}-{}", pair + 1, pair + 8, pair + 9));
    }
    root
}

#[test]
fn a_two_socket_machine_is_understood() {
    let topology = Topology::read_at(two_sockets().path());
    let nodes: Vec<(usize, &[usize])> =
        topology.nodes().iter().map(|node| (node.id, &node.cpus[..])).collect();
    assert_eq!(nodes, [(0, &[0, 1, 2, 3, 8, 9, 10, 11][..]), (1, &[4, 5, 6, 7, 12, 13, 14, 15][..])]);
    assert_eq!(topology.cpu(11), Some(&Cpu { node: 0, package: 0, core: 3, llc: 2 }));
    assert_eq!(topology.cpu(12), Some(&Cpu { node: 1, package: 1, core: 4, llc: 4 }));
    assert_eq!(topology.cpu(16), None);

    for (a, b, expected) in
        [(0, 0, 0), (0, 8, 0), (0, 1, 0), (0, 9, 0), (0, 2, 1), (9, 3, 1), (0, 4, 2), (15, 8, 2)]
    {
        assert_eq!(topology.distance(a, b), expected, "{a} to {b}");
        assert_eq!(topology.distance(b, a), expected, "{b} to {a}");
    }
}

#[test]
fn farther_nodes_have_larger_distances() {
    let root = online("0-3");
    add_node(&root, 0, "0", "10 12 32 32");
    add_node(&root, 1, "1", "12 10 32 32");
    add_node(&root, 2, "2", "32 32 10 12");
    // The distance from node 3 to node 0 is larger than the distance back.
    add_node(&root, 3, "3", "40 32 12 10");
    let topology = Topology::read_at(root.path());
    let from_0: Vec<u8> = (0..4).map(|cpu| topology.distance(0, cpu)).collect();
    assert_eq!(from_0, [0, 2, 3, 4]);
    assert_eq!(topology.distance(3, 0), 4);
    assert_eq!(topology.distance(2, 3), 2);
}

#[test]
fn nodes_may_have_gaps_and_no_cpus() {
    // Node 1 has only memory; node 2 does not exist.
    let root = online("0-1");
    add_node(&root, 0, "0", "10 17 28");
    add_node(&root, 1, "", "17 10 28");
    add_node(&root, 3, "1", "28 28 10");
    let topology = Topology::read_at(root.path());
    assert_eq!(topology.nodes().iter().map(|node| node.id).collect::<Vec<_>>(), [0, 3]);
    assert_eq!(topology.nodes()[0].distances, [10, 28]);
    assert_eq!(topology.distance(0, 1), 2);
}

#[test]
fn bad_distances_make_all_other_nodes_equally_far() {
    for bad in ["", "10", "10 twenty", "10 20 30"] {
        let root = online("0-1");
        add_node(&root, 0, "0", bad);
        add_node(&root, 1, "1", "20 10");
        assert_eq!(Topology::read_at(root.path()).distance(0, 1), 2, "{bad:?}");
    }
}

#[test]
fn without_any_file_there_is_one_cpu() {
    let topology = Topology::read_at(FakeRoot::new().path());
    assert_eq!(topology.nodes().len(), 1);
    assert_eq!(topology.nodes()[0].cpus, [0]);
    assert_eq!(topology.cpu(0), Some(&Cpu { node: 0, package: 0, core: 0, llc: 0 }));
    assert_eq!(topology.distance(0, 0), 0);
    assert_eq!(topology.distance(7, 7), 0);
    assert_eq!(topology.distance(0, 7), 1);
}

#[test]
fn without_topology_and_nodes_all_cpus_are_alike() {
    let topology = Topology::read_at(online("0-3\n").path());
    assert_eq!(topology.nodes()[0].cpus, [0, 1, 2, 3]);
    assert_eq!(topology.cpu(2), Some(&Cpu { node: 0, package: 0, core: 2, llc: 0 }));
    assert_eq!(topology.distance(0, 3), 0);
}

#[test]
fn without_caches_a_package_shares_one_within_a_node() {
    let root = online("0-3");
    for (cpu, package) in [(0, "0"), (1, "1"), (2, "0"), (3, "1")] {
        root.write(&format!("{SYSTEM}/cpu/cpu{cpu}/topology/physical_package_id"), package);
    }
    let topology = Topology::read_at(root.path());
    assert_eq!(topology.distance(0, 2), 0);
    assert_eq!(topology.distance(1, 3), 0);
    assert_eq!(topology.distance(0, 1), 1);
}

#[test]
fn a_cache_across_nodes_does_not_bring_them_closer() {
    let root = online("0-1");
    add_node(&root, 0, "0", "10 11");
    add_node(&root, 1, "1", "11 10");
    for cpu in 0..2 {
        add_cache(&root, cpu, 0, (3, "Unified"), "0-1");
    }
    assert_eq!(Topology::read_at(root.path()).distance(0, 1), 2);
}

#[test]
fn an_offline_cpu_is_left_out_and_gaps_are_fine() {
    let root = online("0,2\n");
    add_node(&root, 0, "0-2", "10");
    let topology = Topology::read_at(root.path());
    assert_eq!(topology.nodes()[0].cpus, [0, 2]);
    assert_eq!(topology.cpu(1), None);
    assert_eq!(topology.distance(0, 1), 1);
}

#[test]
fn cpus_claimed_twice_or_by_nobody_belong_to_one_node() {
    let root = online("0-3");
    add_node(&root, 4, "1-2", "10 20");
    add_node(&root, 5, "2,3", "20 10");
    let topology = Topology::read_at(root.path());
    let cpus: Vec<&[usize]> = topology.nodes().iter().map(|node| &node.cpus[..]).collect();
    assert_eq!(cpus, [&[0, 1, 2][..], &[3][..]]);
}

#[test]
fn a_list_without_its_own_cpu_is_not_trusted() {
    let root = online("0-3");
    for cpu in 0..4 {
        add_cache(&root, cpu, 0, (2, "Unified"), &cpu.to_string());
        // A virtual machine may show the host's CPU numbers.
        add_cache(&root, cpu, 1, (3, "Unified"), "40-43");
    }
    let topology = Topology::read_at(root.path());
    assert_eq!(topology.cpu(3).unwrap().llc, 3);
    assert_eq!(topology.distance(0, 3), 1);
}

#[test]
fn older_kernels_name_the_siblings_differently() {
    let root = online("0-1");
    for cpu in 0..2 {
        root.write(&format!("{SYSTEM}/cpu/cpu{cpu}/topology/thread_siblings_list"), "0-1\n");
    }
    assert_eq!(Topology::read_at(root.path()).cpu(1).unwrap().core, 0);
}

#[test]
fn cpu_lists() {
    for (text, expected) in [
        ("", Some(vec![])),
        ("\n", Some(vec![])),
        ("0\n", Some(vec![0])),
        ("0-3,8,10-11\n", Some(vec![0, 1, 2, 3, 8, 10, 11])),
        ("5,1-2,2", Some(vec![1, 2, 5])),
        ("3-1", None),
        ("a", None),
        ("1-", None),
        ("-1", None),
        ("0-4294967295", None),
    ] {
        assert_eq!(parse_list(text), expected, "{text:?}");
    }
    assert_eq!(parse_list("0-65535").unwrap().len(), 65536);
}

#[test]
fn this_machine_has_a_topology() {
    let topology = Topology::read();
    let cpus: Vec<usize> = topology.nodes().iter().flat_map(|node| node.cpus.clone()).collect();
    assert_eq!(cpus.len(), online_cpus(Path::new("/")));
    for &cpu in &cpus {
        let place = topology.cpu(cpu).unwrap();
        assert!(topology.nodes()[place.node].cpus.contains(&cpu));
        assert_eq!(topology.distance(cpu, cpu), 0);
    }
}
