//! The queues between a queue pair and the engine's thread: one producer, one
//! consumer, a cache line to an entry.
//!
//! An entry carries the number of the lap in which it was written, so that one
//! line moves both the entry and the news of it; there is no shared index on
//! the way. Everything in an entry is an atomic word, so the queue needs no
//! unsafe code.

use std::boxed::Box;

use crossbeam_utils::CachePadded;

// The module above says which atomics: loom's test of this file has its own.
use super::sync::{AtomicU64, Ordering, SharedWord};

/// How many words an entry carries.
pub(super) const WORDS: usize = 6;

/// One cache line: the lap, and the words.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Entry {
    /// The number of the entry plus one, once its words are written.
    stamp: AtomicU64,
    words: [SharedWord; WORDS],
}

/// The part of a queue that both sides see.
#[derive(Debug)]
pub(super) struct Queue {
    entries: Box<[Entry]>,
    /// How many entries the consumer has taken out. Read by the producer only
    /// when the queue may be full.
    taken: CachePadded<AtomicU64>,
    /// Why the producer puts in nothing more; 0 while it does.
    closed: AtomicU64,
}

impl Queue {
    /// At least `depth` entries.
    pub(super) fn new(depth: u32) -> Self {
        let len = depth.next_power_of_two();
        Queue {
            entries: (0..len).map(|_| Entry::default()).collect(),
            taken: CachePadded::new(AtomicU64::new(0)),
            closed: AtomicU64::new(0),
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

    /// Says that nothing more comes, and why: any number but 0. The first one
    /// stays.
    pub(super) fn close(&self, queue: &Queue, why: u64) {
        if queue.closed.load(Ordering::Relaxed) == 0 {
            queue.closed.store(why, Ordering::Release);
        }
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

    /// Why nothing more comes, once everything that came has been popped; 0
    /// until then.
    #[inline]
    pub(super) fn end(&self, queue: &Queue) -> u64 {
        let why = queue.closed.load(Ordering::Acquire);
        if why == 0 {
            return 0;
        }
        // Whoever sees the end sees the stamp of everything put in before it.
        let more = queue.entry(self.next).stamp.load(Ordering::Relaxed) == self.next + 1;
        if more { 0 } else { why }
    }

    /// Frees the places of everything that was popped.
    #[inline]
    pub(super) fn release(&self, queue: &Queue) {
        queue.taken.store(self.next, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
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
    fn the_end_is_told_only_after_everything_before_it_was_popped() {
        let queue = Queue::new(2);
        let (mut producer, mut consumer) = (Producer::new(), Consumer::new());
        assert!(producer.push(&queue, 2, [1; WORDS]));
        assert_eq!(consumer.end(&queue), 0);
        producer.close(&queue, 7);
        producer.close(&queue, 8);
        assert_eq!(consumer.end(&queue), 0, "an entry waits");
        assert_eq!(consumer.pop(&queue), Some([1; WORDS]));
        assert_eq!(consumer.end(&queue), 7, "the first reason stays");
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
