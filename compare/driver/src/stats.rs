//! Computes medians and quartiles, and formats figures.

use crate::workloads::Unit;

/// The five-number summary of a set of values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    pub min: f64,
    pub q1: f64,
    pub median: f64,
    pub q3: f64,
    pub max: f64,
}

impl Summary {
    /// The summary of `values`, or `None` if there are none.
    pub fn of(values: &[f64]) -> Option<Summary> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let at = |q| quantile(&sorted, q);
        Some(Summary { min, q1: at(0.25), median: at(0.5), q3: at(0.75), max })
    }
}

/// A quantile, by linear interpolation between the two nearest ranks.
fn quantile(sorted: &[f64], q: f64) -> f64 {
    let rank = q * (sorted.len() - 1) as f64;
    let (below, above) = (rank.floor() as usize, rank.ceil() as usize);
    sorted[below] + (sorted[above] - sorted[below]) * rank.fract()
}

/// A value with its unit and three significant digits.
pub fn show(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Nanoseconds => {
            let (scaled, name) = match value {
                v if v < 1e3 => (v, "ns"),
                v if v < 1e6 => (v / 1e3, "µs"),
                v if v < 1e9 => (v / 1e6, "ms"),
                v => (v / 1e9, "s"),
            };
            format!("{} {name}", three_digits(scaled))
        }
        Unit::Bytes => format!("{} B", thousands(value.round() as u64)),
        Unit::Times => three_digits(value),
        Unit::Share => format!("{:.1} %", value * 100.0),
    }
}

/// Formats a number like 0.012, 0.12, 1.23, 12.3, 123 or 1234.
pub fn three_digits(value: f64) -> String {
    match value.abs() {
        v if v < 0.0995 => format!("{value:.3}"),
        v if v < 9.995 => format!("{value:.2}"),
        v if v < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Formats a number like 1,234,567.
pub fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_has_no_summary() {
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn one_value_is_its_own_summary() {
        let s = Summary::of(&[4.0]).unwrap();
        assert_eq!((s.min, s.q1, s.median, s.q3, s.max), (4.0, 4.0, 4.0, 4.0, 4.0));
    }

    #[test]
    fn order_does_not_matter_and_even_counts_interpolate() {
        let s = Summary::of(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!((s.min, s.q1, s.median, s.q3, s.max), (1.0, 1.75, 2.5, 3.25, 4.0));
    }

    #[test]
    fn an_outlier_moves_neither_median_nor_quartiles() {
        let calm = Summary::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        let wild = Summary::of(&[1.0, 2.0, 3.0, 4.0, 500.0]).unwrap();
        assert_eq!((calm.q1, calm.median, calm.q3), (wild.q1, wild.median, wild.q3));
        assert_eq!(wild.max, 500.0);
    }

    #[test]
    fn figures_have_three_digits_and_a_unit() {
        assert_eq!(show(31.239, Unit::Nanoseconds), "31.2 ns");
        assert_eq!(show(999.0, Unit::Nanoseconds), "999 ns");
        assert_eq!(show(1234.0, Unit::Nanoseconds), "1.23 µs");
        assert_eq!(show(19.2e6, Unit::Nanoseconds), "19.2 ms");
        assert_eq!(show(2.5e9, Unit::Nanoseconds), "2.50 s");
        assert_eq!(show(2746.9, Unit::Bytes), "2,747 B");
        assert_eq!(show(1.04, Unit::Times), "1.04");
        assert_eq!(show(0.972, Unit::Share), "97.2 %");
    }

    #[test]
    fn small_ratios_do_not_vanish() {
        assert_eq!(
            [0.0034, 0.0994, 0.31, 0.999, 12.34, 250.6].map(three_digits),
            ["0.003", "0.099", "0.31", "1.00", "12.3", "251"]
        );
    }

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!([0, 999, 1000, 1_000_000].map(thousands), ["0", "999", "1,000", "1,000,000"]);
    }
}
