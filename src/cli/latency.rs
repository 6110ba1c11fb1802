//! Latencies, collected and summed up.

use core::time::Duration;

use hdrhistogram::Histogram;

/// What is longer counts as this long.
const LONGEST: Duration = Duration::from_secs(3600);

/// Latencies in nanoseconds, to three digits.
#[derive(Debug)]
pub(super) struct Latencies {
    histogram: Histogram<u64>,
}

/// All 0 where there was none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Summary {
    pub(super) min: u64,
    pub(super) p50: u64,
    pub(super) mean: f64,
    pub(super) stdev: f64,
    pub(super) p99: u64,
    pub(super) p999: u64,
    pub(super) max: u64,
}

impl Latencies {
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Latencies { histogram: Histogram::new_with_max(LONGEST.as_nanos() as u64, 3)? })
    }

    #[inline]
    pub(super) fn record(&mut self, latency: Duration) {
        self.histogram.saturating_record(latency.as_nanos() as u64);
    }

    /// Takes in what was recorded elsewhere.
    #[cfg(feature = "verbs")]
    pub(super) fn merge(&mut self, other: &Latencies) -> anyhow::Result<()> {
        Ok(self.histogram.add(&other.histogram)?)
    }

    pub(super) fn count(&self) -> u64 {
        self.histogram.len()
    }

    pub(super) fn summary(&self) -> Summary {
        let tenths = |value: f64| (value * 10.0).round() / 10.0;
        let quantile = |quantile| self.histogram.value_at_quantile(quantile);
        Summary {
            min: self.histogram.min(),
            p50: quantile(0.5),
            mean: tenths(self.histogram.mean()),
            stdev: tenths(self.histogram.stdev()),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: self.histogram.max(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_from_nanoseconds_to_minutes_keep_three_digits() {
        for exact in [1, 30, 999, 12_345, 7_654_321, 60_000_000_000] {
            let mut latencies = Latencies::new().expect("its bounds are sound");
            latencies.record(Duration::from_nanos(exact));
            let summary = latencies.summary();
            for found in [summary.min, summary.p50, summary.p999, summary.max] {
                assert!(found.abs_diff(exact) * 1000 <= exact, "{found} for {exact}");
            }
        }
    }

    #[test]
    fn quantiles_are_of_all_that_was_recorded() {
        let mut latencies = Latencies::new().expect("its bounds are sound");
        for us in 1..=1000 {
            latencies.record(Duration::from_micros(us));
        }
        latencies.record(Duration::MAX);
        let summary = latencies.summary();
        let near = |found: u64, us: u64| found.abs_diff(us * 1000) <= us + 1000;
        assert_eq!(latencies.count(), 1001);
        assert!(near(summary.min, 1) && near(summary.p50, 501), "{summary:?}");
        assert!(near(summary.p99, 991) && near(summary.p999, 1000), "{summary:?}");
        assert!(summary.max >= LONGEST.as_nanos() as u64, "{summary:?}");
    }

    #[test]
    fn none_at_all_is_all_zero() {
        let summary = Latencies::new().expect("its bounds are sound").summary();
        assert_eq!((summary.p50, summary.max, summary.mean), (0, 0, 0.0));
    }
}
