//! Formats numbers for people.

/// A number with separators, as in `12,345`.
pub(crate) fn thousands(n: u64) -> String {
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

/// A number of microseconds in the unit that fits: `12 µs`, `3.4 ms`, `1.2 s`.
pub(crate) fn micros(us: f64) -> String {
    match us {
        us if us < 1.0 => format!("{:.0} ns", us * 1000.0),
        us if us < 10.0 => format!("{us:.1} µs"),
        us if us < 1000.0 => format!("{us:.0} µs"),
        us if us < 10_000.0 => format!("{:.1} ms", us / 1000.0),
        us if us < 1_000_000.0 => format!("{:.0} ms", us / 1000.0),
        us => format!("{:.1} s", us / 1_000_000.0),
    }
}

/// A number of milliseconds in the unit that fits.
pub(crate) fn millis(ms: f64) -> String {
    micros(ms * 1000.0)
}

/// A share from 0 to 1 as `93%`.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

/// Several shares: each of them if there are few; otherwise the lowest, the highest and the mean.
pub(crate) fn shares(shares: &[f64]) -> String {
    if shares.is_empty() {
        return "unknown".to_string();
    }
    if shares.len() <= 8 {
        return shares.iter().map(|share| percent(*share)).collect::<Vec<_>>().join(", ");
    }
    let (low, high) = shares.iter().fold((1.0f64, 0.0f64), |(low, high), s| (low.min(*s), high.max(*s)));
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    format!("{} to {}, {} on the average", percent(low), percent(high), percent(mean))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_three() {
        assert_eq!([0, 999, 1000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn times_have_the_unit_that_fits() {
        assert_eq!(
            [0.5, 7.25, 250.0, 1500.0, 25_000.0, 2.5e6].map(micros),
            ["500 ns", "7.2 µs", "250 µs", "1.5 ms", "25 ms", "2.5 s"]
        );
    }

    #[test]
    fn many_shares_are_summed_up() {
        assert_eq!(shares(&[0.5, 1.0]), "50%, 100%");
        assert_eq!(shares(&[0.5; 16]), "50% to 50%, 50% on the average");
    }
}
