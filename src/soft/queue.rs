//! The queues between a queue pair and the engine's thread: one producer, one
//! consumer, a cache line to an entry.
//!
//! An entry carries the number of the lap in which it was written, so that one
//! line moves both the entry and the news of it; there is no shared index on
//! the way. Everything in an entry is an atomic word, so the queue needs no
//! unsafe code.

use core::sync::atomic::{AtomicU64, Ordering};
use std::boxed::Box;

use crossbeam_utils::CachePadded;

/// How many words an entry carries.
pub(super) const WORDS: usize = 6;

/// One cache line: the lap, and the words.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Entry {
    /// The number of the entry plus one, once its words are written.
    stamp: AtomicU64,
    words: [AtomicU64; WORDS],
}

/// The part of a queue that both sides see.
#[derive(Debug)]
pub(super) struct Queue {
    entries: Box<[Entry]>,
    /// How many entries the consumer has taken out. Read by the producer only
    /// when the queue may be full.
    taken: CachePadded<AtomicU64>,
}

impl Queue {
    /// At least `depth` entries.
    pub(super) fn new(depth: u32) -> Self {
        let len = depth.next_power_of_two();
        Queue {
            entries: (0..len).map(|_| Entry::default()).collect(),
            taken: CachePadded::new(AtomicU64::new(0)),
        }
    }

    #[inline]
    fn entry(&self, number: u64) -> &Entry {
        &self.entries[(number & (self.entries.len() as u64 - 1)) as usize]
    }
}

/// The producer's place in a queue.
#[derive(Debug)]
pub(super) struct Producer {
    next: u64,
    /// The last that it knows of the consumer's place.
    taken: u64,
}

impl Producer {
    pub(super) const fn new() -> Self {
        Producer { next: 0, taken: 0 }
    }

    /// How many entries it has put in.
    pub(super) fn count(&self) -> u64 {
        self.next
    }

    /// Puts an entry in, or says `false` where `depth` entries wait.
    #[inline]
    pub(super) fn push(&mut self, queue: &Queue, depth: u32, words: [u64; WORDS]) -> bool {
        if self.next - self.taken >= u64::from(depth) {
            self.taken = queue.taken.load(Ordering::Acquire);
            if self.next - self.taken >= u64::from(depth) {
                return false;
            }
        }
        let entry = queue.entry(self.next);
        for (place, word) in entry.words.iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
        self.next += 1;
        entry.stamp.store(self.next, Ordering::Release);
        true
    }
}

/// The consumer's place in a queue.
#[derive(Debug)]
pub(super) struct Consumer {
    next: u64,
}

impl Consumer {
    pub(super) const fn new() -> Self {
        Consumer { next: 0 }
    }

    /// How many entries it has taken out.
    pub(super) fn count(&self) -> u64 {
        self.next
    }

    /// Takes the oldest entry, if there is one. Its place is free for the
    /// producer only after [`release`](Self::release).
    #[inline]
    pub(super) fn pop(&mut self, queue: &Queue) -> Option<[u64; WORDS]> {
        let entry = queue.entry(self.next);
        if entry.stamp.load(Ordering::Acquire) != self.next + 1 {
            return None;
        }
        self.next += 1;
        Some(core::array::from_fn(|index| entry.words[index].load(Ordering::Relaxed)))
    }

    /// Frees the places of everything that was popped.
    #[inline]
    pub(super) fn release(&self, queue: &Queue) {
        queue.taken.store(self.next, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_takes_no_more_until_places_are_released() {
        let queue = Queue::new(4);
        let (mut producer, mut consumer) = (Producer::new(), Consumer::new());
        for n in 0..4 {
            assert!(producer.push(&queue, 4, [n; WORDS]));
        }
        assert!(!producer.push(&queue, 4, [9; WORDS]));
        assert_eq!(consumer.pop(&queue), Some([0; WORDS]));
        assert!(!producer.push(&queue, 4, [9; WORDS]), "popped but not released");
        consumer.release(&queue);
        assert!(producer.push(&queue, 4, [4; WORDS]));
        for n in 1..5 {
            assert_eq!(consumer.pop(&queue), Some([n; WORDS]));
        }
        assert_eq!(consumer.pop(&queue), None);
    }

    #[test]
    fn entries_cross_threads_whole_and_in_order() {
        const COUNT: u64 = 20_000;
        let queue = Queue::new(8);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut producer = Producer::new();
                for n in 0..COUNT {
                    while !producer.push(&queue, 8, [n; WORDS]) {
                        std::thread::yield_now();
                    }
                }
            });
            let mut consumer = Consumer::new();
            for n in 0..COUNT {
                let words = loop {
                    match consumer.pop(&queue) {
                        Some(words) => break words,
                        None => std::thread::yield_now(),
                    }
                };
                consumer.release(&queue);
                assert_eq!(words, [n; WORDS]);
            }
        });
    }
}
