//! What every row does, and the memory that it does it to.

use core::sync::atomic::{AtomicU64, Ordering};

use farword::{AlignedOffset, RemoteRegion, Target};

/// How many words the writes go round.
pub(crate) const WORDS: u64 = 64;

/// One way to do the work: write the numbers 0, 1, 2 ... to the words 0, 1 .. 63,
/// 0, 1 ... of a region, and see that each write was done.
pub(crate) trait Row {
    /// Its key in the JSON.
    fn name(&self) -> &'static str;

    /// Does `operations` more, a multiple of [`WORDS`], waits until they are all
    /// done, and says how many doorbells that took, if it rings any. It panics
    /// where the completions are not as they should be.
    fn run(&mut self, operations: u64) -> Option<u64>;

    /// Panics where the memory is not as it should be after the last run.
    fn verify(&self);

    /// Whether an instruction count of it means anything.
    fn is_countable(&self) -> bool {
        true
    }
}

/// The memory written to, on cache lines of its own.
#[repr(align(128))]
pub(crate) struct Memory(pub(crate) [AtomicU64; WORDS as usize]);

impl Memory {
    /// Never freed: a bench has few of them.
    pub(crate) fn leak() -> &'static Memory {
        Box::leak(Box::new(Memory([const { AtomicU64::new(u64::MAX) }; WORDS as usize])))
    }

    /// Panics unless the numbers below `next` were written, and no others.
    pub(crate) fn verify(&self, row: &str, next: u64) {
        assert!(next.is_multiple_of(WORDS) && next > 0, "{row}: nothing was run");
        for (number, word) in (next - WORDS..).zip(&self.0) {
            assert_eq!(word.load(Ordering::Acquire), number, "{row}: the word was not written");
        }
    }
}

/// A target for every word of a region, checked once.
pub(crate) fn targets(region: &RemoteRegion) -> [Target; WORDS as usize] {
    core::array::from_fn(|index| {
        let offset = AlignedOffset::new(index as u64 * 8).expect("a multiple of 8");
        region.target(offset).expect("within the region")
    })
}

/// The completions that a row has seen.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) count: u64,
    pub(crate) last: u64,
}

impl Seen {
    #[inline(always)]
    pub(crate) fn see(&mut self, context: u64) {
        self.count += 1;
        self.last = context;
    }

    pub(crate) fn verify(&self, row: &str, count: u64, last: u64) {
        assert_eq!((self.count, self.last), (count, last), "{row}: completions and last context");
    }
}
