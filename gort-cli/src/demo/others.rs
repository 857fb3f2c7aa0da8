//! Measures how much of the machine other programs used during the run: figures from a busy machine mean
//! less.

use std::fs;

/// Clock ticks since the machine started.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ticks {
    /// All ticks of all CPUs, idle or not.
    total: u64,
    /// The ticks in which a CPU was busy, or in which the hypervisor had taken it away.
    busy: u64,
    /// The ticks that this process used.
    own: u64,
}

impl Ticks {
    pub(crate) fn now() -> Ticks {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        Ticks::parse(&read("/proc/stat"), &read("/proc/self/stat")).unwrap_or_default()
    }

    fn parse(machine: &str, own: &str) -> Option<Ticks> {
        // cpu user nice system idle iowait irq softirq steal
        let line = machine.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line.split_whitespace().take(8).filter_map(|n| n.parse().ok()).collect();
        let [user, nice, system, idle, iowait, irq, softirq, steal] = ticks[..] else { return None };
        let busy = user + nice + system + irq + softirq + steal;
        // The third field follows the name in parentheses; utime and stime are the 14th and 15th.
        let mut fields = own.rsplit_once(')')?.1.split_whitespace().skip(14 - 3);
        let own = fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
        Some(Ticks { total: busy + idle + iowait, busy, own })
    }

    /// The share of all CPUs that other programs have used since `before`; `None` if it is unknown.
    pub(crate) fn others_since(&self, before: &Ticks) -> Option<f64> {
        let total = self.total.checked_sub(before.total).filter(|total| *total > 0)?;
        let own = self.own.saturating_sub(before.own);
        let others = self.busy.saturating_sub(before.busy).saturating_sub(own);
        Some(others as f64 / total as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_ours_belongs_to_others() {
        let own = "7 (a (odd) name) S 1 7 7 0 -1 4194560 100 0 0 0 30 4 50 6 20 0 1 0 100 1 1";
        let now = Ticks::parse("cpu  40 20 30 100 0 0 0 10 0 0\ncpu0 1 1 1\n", own).unwrap();
        assert_eq!((now.total, now.busy, now.own), (200, 100, 34));
        assert_eq!(now.others_since(&Ticks::default()), Some(0.33));
        assert_eq!(now.others_since(&now), None);
    }
}
