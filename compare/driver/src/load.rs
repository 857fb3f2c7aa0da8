//! Detects whether other processes used the CPUs while a peer ran.
//!
//! `/proc/stat` counts the CPU time of all processes (and of the hypervisor); `/proc/self/stat` counts the
//! CPU time of the driver's finished children. The difference belongs to other processes. Both files count in
//! clock ticks, so no conversion is needed.

use std::fs;

/// A run is disturbed if other processes took more than this share of all cores, and more than
/// [`NOISE_TICKS`].
const TOLERATED: f64 = 0.08;

/// Up to this many ticks, rounding dominates, and the load of other processes counts as zero.
const NOISE_TICKS: u64 = 4;

/// Ticks since the machine started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// All ticks of all cores, idle ones included.
    total: u64,
    /// Ticks in which a core was busy, or in which the hypervisor had taken it away.
    busy: u64,
    /// Ticks of the driver's children that have been waited for.
    children: u64,
}

impl Reading {
    /// The counts as they are now.
    pub fn now() -> Reading {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        Reading::parse(&stat, &own).unwrap_or_default()
    }

    fn parse(stat: &str, own: &str) -> Option<Reading> {
        // cpu user nice system idle iowait irq softirq steal guest guest_nice; guests are already in user.
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line.split_whitespace().take(8).filter_map(|n| n.parse().ok()).collect();
        let [user, nice, system, idle, iowait, irq, softirq, steal] = ticks[..] else { return None };
        let busy = user + nice + system + irq + softirq + steal;
        // After the name in parentheses comes field 3; cutime and cstime are 16 and 17.
        let mut fields = own.rsplit_once(')')?.1.split_whitespace().skip(16 - 3);
        let children = fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
        Some(Reading { total: busy + idle + iowait, busy, children })
    }

    /// The share of all cores that other processes took since `before`; zero if it is too small to measure.
    pub fn others_since(&self, before: &Reading) -> f64 {
        let children = self.children.saturating_sub(before.children);
        let others = self.busy.saturating_sub(before.busy).saturating_sub(children);
        let total = self.total.saturating_sub(before.total);
        if others <= NOISE_TICKS || total == 0 { 0.0 } else { others as f64 / total as f64 }
    }
}

/// Whether that share disturbs a measurement.
pub fn disturbs(others: f64) -> bool {
    others > TOLERATED
}

/// The one-minute load average.
pub fn average() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "7 (a (odd) name) S 1 7 7 0 -1 4194560 100 0 0 0 3 4 50 6 20 0 1 0 100 1 1";

    #[test]
    fn both_files_are_read_by_position() {
        let read = Reading::parse("cpu  10 20 30 400 5 6 7 8 0 0\ncpu0 1 1 1\n", OWN).unwrap();
        assert_eq!(read, Reading { total: 486, busy: 81, children: 56 });
        assert_eq!(Reading::parse("intr 1 2 3", OWN), None);
    }

    #[test]
    fn what_the_children_did_not_take_belongs_to_others() {
        let before = Reading { total: 0, busy: 0, children: 0 };
        let calm = Reading { total: 200, busy: 101, children: 100 };
        let noisy = Reading { total: 200, busy: 150, children: 100 };
        assert_eq!(calm.others_since(&before), 0.0);
        assert_eq!(noisy.others_since(&before), 0.25);
        assert!(disturbs(noisy.others_since(&before)));
    }

    #[test]
    fn counters_that_seem_to_run_backwards_are_no_disturbance() {
        let later = Reading { total: 100, busy: 10, children: 90 };
        assert_eq!(later.others_since(&Reading::default()), 0.0);
        assert_eq!(Reading::default().others_since(&later), 0.0);
    }

    #[test]
    fn this_machine_can_be_read() {
        assert!(Reading::now().total > 0);
    }
}
