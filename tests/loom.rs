//! Every interleaving, and every order of memory that loom knows, of the queues
//! between a threaded queue pair and the engine's thread.
//!
//! The file under test is the library's own, with loom's atomics in place of the
//! standard ones. The words of an entry are not atomics here but cells that loom
//! watches: two sides that touch one without an order between them end the test,
//! so each acquire and each release is needed. That they are is shown below, by
//! making one after the other relaxed.
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" cargo test --release --test loom --target-dir target/loom
//! ```

#![cfg(loom)]
#![allow(unsafe_code, reason = "the watched cell is shared between loom's threads")]
#![allow(dead_code, reason = "what the library alone calls of the queue")]

#[path = "../src/soft/queue.rs"]
mod queue;

use loom::model;
use loom::sync::Arc;
use loom::thread;

use queue::{Consumer, Producer, Queue, WORDS};
use sync::{Side, Weak, run_weak};

/// What `queue.rs` takes its atomics from.
mod sync {
    use core::cell::Cell;
    pub(crate) use core::sync::atomic::Ordering;

    /// One ordering of the queue.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Weak {
        Load(Side),
        Store(Side),
    }

    /// Which end of a queue a thread holds.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub(crate) enum Side {
        #[default]
        Consumer,
        Producer,
    }

    std::thread_local! {
        /// What is made relaxed. Loom's threads are of one thread of the system's.
        static WEAK: Cell<Option<Weak>> = const { Cell::new(None) };
    }

    loom::thread_local! {
        static SIDE: Cell<Side> = Cell::new(Side::Consumer);
    }

    /// The thread holds this end from now on.
    pub(crate) fn hold(side: Side) {
        SIDE.with(|mine| mine.set(side));
    }

    /// Runs a test with one ordering made relaxed.
    pub(crate) fn run_weak(weak: Weak, test: impl FnOnce()) {
        WEAK.set(Some(weak));
        test();
    }

    fn ordering(here: fn(Side) -> Weak, wanted: Ordering) -> Ordering {
        let weak = WEAK.get().is_some_and(|weak| weak == SIDE.with(|side| here(side.get())));
        if weak { Ordering::Relaxed } else { wanted }
    }

    #[derive(Debug, Default)]
    pub(crate) struct AtomicU64(loom::sync::atomic::AtomicU64);

    impl AtomicU64 {
        pub(crate) fn new(value: u64) -> Self {
            AtomicU64(loom::sync::atomic::AtomicU64::new(value))
        }

        pub(crate) fn load(&self, order: Ordering) -> u64 {
            self.0.load(ordering(Weak::Load, order))
        }

        pub(crate) fn store(&self, value: u64, order: Ordering) {
            self.0.store(value, ordering(Weak::Store, order));
        }
    }

    /// A word that loom ends the test over, if two threads touch it with no order
    /// between them.
    #[derive(Debug, Default)]
    pub(crate) struct SharedWord(loom::cell::UnsafeCell<u64>);

    // SAFETY: loom's threads take turns on one thread of the system's, so no two
    // touch the cell at once; whether two could is what loom checks.
    unsafe impl Sync for SharedWord {}

    impl SharedWord {
        pub(crate) fn load(&self, _: Ordering) -> u64 {
            // SAFETY: see `Sync` above; the pointer is valid while the cell is.
            self.0.with(|word| unsafe { *word })
        }

        pub(crate) fn store(&self, value: u64, _: Ordering) {
            // SAFETY: as above.
            self.0.with_mut(|word| unsafe { *word = value });
        }
    }
}

/// Puts `count` entries in, waiting for room.
fn produce(queue: &Queue, depth: u32, count: u64) -> Producer {
    sync::hold(Side::Producer);
    let mut producer = Producer::new();
    for n in 0..count {
        while !producer.push(queue, depth, [n; WORDS]) {
            thread::yield_now();
        }
    }
    assert_eq!(producer.count(), count);
    producer
}

/// Takes `count` entries out, and holds that they are whole and in order.
fn consume(queue: &Queue, count: u64) -> Consumer {
    sync::hold(Side::Consumer);
    let mut consumer = Consumer::new();
    for n in 0..count {
        let words = loop {
            match consumer.pop(queue) {
                Some(words) => break words,
                None => thread::yield_now(),
            }
        };
        assert_eq!(words, [n; WORDS]);
        consumer.release(queue);
    }
    consumer
}

/// `count` entries cross a queue of this depth.
fn cross(depth: u32, count: u64) {
    model(move || {
        let queue = Arc::new(Queue::new(depth));
        let shared = Arc::clone(&queue);
        let producer = thread::spawn(move || produce(&shared, depth, count));
        let mut consumer = consume(&queue, count);
        assert_eq!(consumer.pop(&queue), None, "no entry twice");
        producer.join().unwrap();
    });
}

#[test]
fn entries_arrive_whole_in_order_and_once_through_one_place() {
    cross(1, 3);
}

#[test]
fn entries_arrive_whole_in_order_and_once_through_two_places() {
    cross(2, 3);
}

#[test]
fn entries_arrive_whole_in_order_and_once_where_the_depth_is_no_power_of_two() {
    cross(3, 4);
}

#[test]
fn places_are_reused_only_once_several_are_released_together() {
    model(|| {
        let queue = Arc::new(Queue::new(2));
        let shared = Arc::clone(&queue);
        let producer = thread::spawn(move || produce(&shared, 2, 3));
        let mut consumer = Consumer::new();
        let mut taken = 0;
        while taken < 3 {
            let before = taken;
            while let Some(words) = consumer.pop(&queue) {
                assert_eq!(words, [taken; WORDS]);
                taken += 1;
            }
            consumer.release(&queue);
            if taken == before {
                thread::yield_now();
            }
        }
        producer.join().unwrap();
    });
}

/// The engine's thread ends, or finds no place for a completion.
#[test]
fn the_end_of_a_queue_is_told_only_behind_everything_in_it() {
    end_behind_all();
}

fn end_behind_all() {
    model(|| {
        let queue = Arc::new(Queue::new(2));
        let shared = Arc::clone(&queue);
        let producer = thread::spawn(move || {
            let producer = produce(&shared, 2, 2);
            producer.close(&shared, 7);
            producer.close(&shared, 8);
        });
        let mut consumer = Consumer::new();
        let end = loop {
            if consumer.pop(&queue).is_some() {
                continue;
            }
            match consumer.end(&queue) {
                0 => thread::yield_now(),
                why => break why,
            }
        };
        assert_eq!((end, consumer.count()), (7, 2));
        producer.join().unwrap();
    });
}

/// Both queues of a queue pair: a request goes one way, its completion the other.
#[test]
fn requests_come_back_as_completions() {
    model(|| {
        let queues = Arc::new([Queue::new(1), Queue::new(1)]);
        let shared = Arc::clone(&queues);
        let engine = thread::spawn(move || {
            let (mut requests, mut completions) = (Consumer::new(), Producer::new());
            for _ in 0..2 {
                let words = loop {
                    match requests.pop(&shared[0]) {
                        Some(words) => break words,
                        None => thread::yield_now(),
                    }
                };
                requests.release(&shared[0]);
                assert!(completions.push(&shared[1], 1, words.map(|word| word + 10)));
            }
        });
        let (mut requests, mut completions) = (Producer::new(), Consumer::new());
        for n in 0..2 {
            assert!(requests.push(&queues[0], 1, [n; WORDS]), "its slot came back");
            let words = loop {
                match completions.pop(&queues[1]) {
                    Some(words) => break words,
                    None => thread::yield_now(),
                }
            };
            completions.release(&queues[1]);
            assert_eq!(words, [n + 10; WORDS]);
        }
        engine.join().unwrap();
    });
}

// The net works: each ordering of the queue, made relaxed, is found.

#[test]
#[should_panic(expected = "Causality violation")]
fn a_relaxed_store_of_the_stamp_is_found() {
    run_weak(Weak::Store(Side::Producer), || cross(1, 2));
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_relaxed_load_of_the_stamp_is_found() {
    run_weak(Weak::Load(Side::Consumer), || cross(1, 2));
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_relaxed_store_of_the_consumers_place_is_found() {
    run_weak(Weak::Store(Side::Consumer), || cross(1, 2));
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_relaxed_load_of_the_consumers_place_is_found() {
    run_weak(Weak::Load(Side::Producer), || cross(1, 2));
}
