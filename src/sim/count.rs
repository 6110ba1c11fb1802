//! What runs have covered: counters, and how many distinct states they saw.

use core::ops::AddAssign;
use std::boxed::Box;

/// What happened in some runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Coverage {
    /// Runs.
    pub runs: u64,
    /// Steps of simulated time.
    pub steps: u64,
    /// Losses of power at the remote node.
    pub crashes: u64,
    /// Queue pairs that failed, devices and connections with them.
    pub failures: u64,
    /// Posts that were refused, in part or as a whole.
    pub refusals: u64,
    /// Requests that the responder rejected.
    pub rejections: u64,
    /// Times that a write overtook a read or a flush.
    pub overtaken: u64,
    /// Times that bytes landed before bytes that stand before them.
    pub reordered: u64,
    /// Times that a part of 8 aligned bytes landed by itself.
    pub torn: u64,
    /// Completions that came before the bytes were visible.
    pub acked_unseen: u64,
    /// Units of 8 bytes that became durable by themselves.
    pub evictions: u64,
    /// Requests for which there was no slot: never, under a ring that counts
    /// right.
    pub overfull: u64,
    /// Operations that a workload staged.
    pub operations: u64,
    /// Commits that were confirmed.
    pub commits: u64,
    /// Connections made after a failure.
    pub recoveries: u64,
}

impl Coverage {
    /// How often an order was seen that a naive fabric would not show: reads
    /// overtaken, bytes out of order, completions ahead of their bytes.
    #[must_use]
    pub const fn reorderings(&self) -> u64 {
        self.overtaken + self.reordered + self.acked_unseen
    }
}

impl AddAssign for Coverage {
    fn add_assign(&mut self, other: Coverage) {
        self.runs += other.runs;
        self.steps += other.steps;
        self.crashes += other.crashes;
        self.failures += other.failures;
        self.refusals += other.refusals;
        self.rejections += other.rejections;
        self.overtaken += other.overtaken;
        self.reordered += other.reordered;
        self.torn += other.torn;
        self.acked_unseen += other.acked_unseen;
        self.evictions += other.evictions;
        self.overfull += other.overfull;
        self.operations += other.operations;
        self.commits += other.commits;
        self.recoveries += other.recoveries;
    }
}

/// The logarithm of how many registers a sketch has.
const BITS: u32 = 14;

/// Counts distinct numbers in fixed memory (HyperLogLog, 16384 registers): two
/// thirds of all estimates are within 0.8 % of the truth, nearly all within
/// 2.5 %.
#[derive(Clone)]
pub(super) struct Sketch {
    registers: Box<[u8]>,
}

impl Sketch {
    pub(super) fn new() -> Self {
        Sketch { registers: std::vec![0; 1 << BITS].into_boxed_slice() }
    }

    #[inline]
    pub(super) fn add(&mut self, number: u64) {
        // Spread once more: the estimate needs all bits to be even.
        let mut hash = number ^ (number >> 32);
        hash = hash.wrapping_mul(0xd6e8_feb8_6659_fd93);
        hash = (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        hash ^= hash >> 32;
        let register = &mut self.registers[(hash >> (64 - BITS)) as usize];
        let rank = ((hash << BITS) | 1 << (BITS - 1)).leading_zeros() as u8 + 1;
        *register = rank.max(*register);
    }

    pub(super) fn merge(&mut self, other: &Sketch) {
        for (mine, theirs) in self.registers.iter_mut().zip(&other.registers) {
            *mine = (*mine).max(*theirs);
        }
    }

    pub(super) fn estimate(&self) -> u64 {
        let count = self.registers.len() as f64;
        let sum: f64 = self.registers.iter().map(|rank| 2f64.powi(-i32::from(*rank))).sum();
        let raw = 0.7213 / (1.0 + 1.079 / count) * count * count / sum;
        let empty = self.registers.iter().filter(|rank| **rank == 0).count();
        // Few numbers: how many registers were never hit says more.
        let estimate =
            if raw <= 2.5 * count && empty > 0 { count * (count / empty as f64).ln() } else { raw };
        estimate.round() as u64
    }
}

impl core::fmt::Debug for Sketch {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Sketch(about {})", self.estimate())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_stay_within_the_documented_bound() {
        for count in [100u64, 10_000, 300_000] {
            let mut sketch = Sketch::new();
            for _ in 0..3 {
                (0..count).for_each(|number| sketch.add(number));
            }
            let error = (sketch.estimate() as f64 - count as f64).abs() / count as f64;
            assert!(error < 0.025, "{count}: {}", sketch.estimate());
        }
    }
}
