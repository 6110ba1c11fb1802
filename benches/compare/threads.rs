//! Rows of more than one thread.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use crossbeam_utils::CachePadded;
use farword::soft::{Engine, Mode, QpConfig, SoftDevice};
use farword::{Forever, Notify, OpContext, Ring, RingConfig, Usage, Word};

use crate::args::Args;
use crate::measure::Found;
use crate::ring::soft;
use crate::row::{Memory, Row, targets};

/// How many operations one round of a row does.
const OPERATIONS: u64 = 16 * 1024;
/// Round trips are slow where two threads share a processor.
const ROUND_TRIPS: u64 = 1024;

type Round = fn() -> f64;

/// The rows, and what one round of each finds: nanoseconds an operation.
const ROWS: [(&str, Round); 4] = [
    ("threads_1", || each_its_own_ring(1)),
    ("threads_2", || each_its_own_ring(2)),
    ("cache_line_round_trip", cache_line_round_trip),
    ("ring_threaded_1", threaded_writes),
];

/// Times every row in every round, so that what disturbs one disturbs its
/// neighbours.
pub(crate) fn all(args: &Args) -> Vec<Found> {
    let rows: Vec<_> = ROWS.into_iter().filter(|(name, _)| args.wants(name)).collect();
    let empty = |(name, _): &(&str, Round)| Found {
        name: (*name).to_owned(),
        ns: Vec::new(),
        instructions: None,
        doorbells: None,
    };
    let mut found: Vec<Found> = rows.iter().map(empty).collect();
    // Each round starts threads, so there are fewer of them.
    for _ in 0..args.rounds.div_ceil(4) {
        for ((_, round), found) in rows.iter().zip(&mut found) {
            found.ns.push(round());
        }
    }
    found
}

/// `threads` threads with a ring, a queue pair and a device each, 32 writes to a
/// doorbell: how long a write took when all of them are counted, from when the
/// last of them began until the last one's end.
fn each_its_own_ring(threads: usize) -> f64 {
    let mut rows: Vec<_> = (0..threads).map(|_| soft::<32>("threads", Mode::Emulated)).collect();
    let start = Barrier::new(threads);
    let slowest = thread::scope(|scope| {
        let work = |row: &mut crate::ring::SoftRow<32>| {
            row.run(OPERATIONS / 8);
            start.wait();
            let begin = Instant::now();
            row.run(OPERATIONS);
            let spent = begin.elapsed();
            row.verify();
            spent
        };
        let threads: Vec<_> = rows.iter_mut().map(|row| scope.spawn(move || work(row))).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| thread.join().expect("no panic");
        threads.into_iter().map(join).max().unwrap_or_default()
    });
    slowest.as_nanos() as f64 / (threads as u64 * OPERATIONS) as f64
}

/// What nothing between two threads can beat: a number that one writes and the
/// other answers, each in a cache line of its own.
fn cache_line_round_trip() -> f64 {
    let (asked, answered) = (padded(), padded());
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 1..=ROUND_TRIPS {
                await_number(&asked, number);
                answered.store(number, Ordering::Release);
            }
        });
        let begin = Instant::now();
        for number in 1..=ROUND_TRIPS {
            asked.store(number, Ordering::Release);
            await_number(&answered, number);
        }
        begin.elapsed().as_nanos() as f64 / ROUND_TRIPS as f64
    })
}

fn padded() -> CachePadded<AtomicU64> {
    CachePadded::new(AtomicU64::new(0))
}

/// Spins, and yields now and then, as the device's engine does.
fn await_number(place: &AtomicU64, number: u64) {
    let mut spins: u32 = 0;
    while place.load(Ordering::Acquire) != number {
        spins = spins.wrapping_add(1);
        if spins.is_multiple_of(128) {
            thread::yield_now();
        } else {
            core::hint::spin_loop();
        }
    }
}

/// One write at a time over the threaded software device, from staging to its
/// completion.
fn threaded_writes() -> f64 {
    let memory = Memory::leak();
    let mut device = SoftDevice::new();
    let region = device.register(&memory.0, Usage::WRITE_DST).expect("one region").remote();
    let targets = targets(&region);
    let spent = thread::scope(|scope| {
        let engine = Engine::spawn(scope, &device);
        let qp = engine.qp(QpConfig::default()).expect("a queue pair");
        let mut ring = Ring::boxed(qp, RingConfig::default()).expect("a ring");
        let begin = Instant::now();
        for number in 0..ROUND_TRIPS {
            let target = targets[number as usize % targets.len()];
            let (word, context) = (Word::ne(number), OpContext::new(number));
            let ticket = ring.atomic_write(target, word, Notify::Always, context).expect("room");
            ring.wait(ticket, Forever, |_| {}).expect("confirmed");
        }
        let spent = begin.elapsed();
        assert!(ring.is_idle());
        spent
    });
    memory.verify("ring_threaded_1", ROUND_TRIPS);
    spent.as_nanos() as f64 / ROUND_TRIPS as f64
}
