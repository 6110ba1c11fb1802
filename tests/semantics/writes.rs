//! What arrives, and how it is seen.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use farword::wr::{WC_ATOMIC_WRITE, WC_RDMA_READ, WC_RDMA_WRITE};
use farword::{FlushKind, Notify, Outcome, Word};

use crate::support::wrap::Tap;
use crate::support::{Fabric, Told, ctx, drained, patience, polled, retired, ring, told};

pub fn every_byte_order_arrives_as_named(fabric: &impl Fabric) {
    let mut ring = fabric.ring(16, 16);
    let value = 0x0102_0304_0506_0708u64;
    let words = [
        Word::le(value),
        Word::be(value),
        Word::ne(value),
        Word::new([9, 8, 7, 6, 5, 4, 3, 2]),
        Word::from([0xff; 8]),
    ];
    for (index, word) in words.into_iter().enumerate() {
        let (index, context) = (index as u32, ctx(index as u64));
        ring.atomic_write(fabric.word(index), word, Notify::Always, context).unwrap();
    }
    assert_eq!(ring.doorbell(), Ok(5));
    polled(&mut ring, 5);
    let seen: Vec<_> = (0..5).map(|index| fabric.seen(index).to_ne_bytes()).collect();
    assert_eq!(
        seen,
        [
            value.to_le_bytes(),
            value.to_be_bytes(),
            value.to_ne_bytes(),
            [9, 8, 7, 6, 5, 4, 3, 2],
            [0xff; 8]
        ]
    );
    assert_eq!(fabric.seen(5), 0, "the neighbour is untouched");
}

/// CASES 15.
pub fn the_source_may_change_before_the_doorbell(fabric: &impl Fabric) {
    let mut ring = fabric.ring(8, 8);
    let mut source = vec![1u8; 8];
    let word = Word::new(source[..].try_into().unwrap());
    ring.atomic_write(fabric.word(0), word, Notify::Always, ctx(0)).unwrap();
    source.fill(2);
    drop(source);
    assert_eq!(fabric.seen(0), 0, "nothing is written before the doorbell");
    ring.doorbell().unwrap();
    polled(&mut ring, 1);
    assert_eq!(fabric.seen(0), u64::from_ne_bytes([1; 8]));
}

pub fn a_chain_of_a_whole_commit_takes_one_doorbell(fabric: &impl Fabric) {
    let mut ring = ring(Tap::new(fabric.qp(16, 16)), 16, 16);
    for (index, word) in fabric.local_memory()[..8].iter().enumerate() {
        word.store(index as u64 + 1, Ordering::Release);
    }
    let record = fabric.remote().span(64, 64).unwrap();
    let tail = fabric.remote().span(0, 8).unwrap();
    let source = fabric.local().slice(0, 64).unwrap();
    ring.write(source, record, Notify::OnError, ctx(0)).unwrap();
    ring.flush(record, FlushKind::Visibility, Notify::OnError, ctx(1)).unwrap();
    ring.atomic_write(fabric.word(0), Word::ne(128), Notify::OnError, ctx(2)).unwrap();
    ring.flush(tail, FlushKind::Visibility, Notify::Always, ctx(3)).unwrap();
    assert_eq!(ring.doorbell(), Ok(4));
    let last = polled(&mut ring, 1)[0];
    assert_eq!((Told::from(last), last.confirms), (Told(3, Outcome::Confirmed), 4));
    assert_eq!((ring.counters().doorbells, ring.provider().chains), (1, 1));
    assert_eq!(fabric.seen(0), 128);
    for index in 0..8 {
        assert_eq!(fabric.seen(8 + index), index as u64 + 1);
    }
}

pub fn unaligned_bytes_are_written_and_read_back(fabric: &impl Fabric) {
    let mut ring = fabric.ring(8, 8);
    let pattern = |index: u64| 0x0101_0101_0101_0101u64.wrapping_mul(index + 1);
    for (index, word) in fabric.local_memory()[..8].iter().enumerate() {
        word.store(pattern(index as u64), Ordering::Release);
    }
    // 21 bytes from local byte 3 to remote byte 13, and back to local byte 259.
    let remote = fabric.remote().span(13, 21).unwrap();
    let (from, back) = (fabric.local().slice(3, 21), fabric.local().slice(259, 21));
    ring.write(from.unwrap(), remote, Notify::Always, ctx(0)).unwrap();
    ring.doorbell().unwrap();
    polled(&mut ring, 1);
    ring.read(back.unwrap(), remote, Notify::Always, ctx(1)).unwrap();
    ring.doorbell().unwrap();
    polled(&mut ring, 1);
    let (local, there) = (bytes(fabric.local_memory()), bytes(fabric.remote_memory()));
    assert_eq!(there[13..34], local[3..24]);
    assert_eq!(local[259..280], local[3..24]);
    assert!(there[..13].iter().chain(&there[34..48]).all(|byte| *byte == 0), "neighbours");
    assert!(local[252..259].iter().chain(&local[280..290]).all(|byte| *byte == 0), "neighbours");
}

fn bytes(words: &[AtomicU64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.load(Ordering::Acquire).to_ne_bytes()).collect()
}

/// A slot that a write, a read or a flush took is filled in advance again.
pub fn a_buffer_request_leaves_no_trace_in_its_slot(fabric: &impl Fabric) {
    let mut ring = fabric.ring(4, 4);
    fabric.local_memory()[0].store(77, Ordering::Release);
    let span = fabric.remote().span(8 * 100, 8).unwrap();
    let local = fabric.local().slice(0, 8).unwrap();
    let scrap = fabric.local().slice(8, 8).unwrap();
    for round in 0..6u64 {
        ring.write(local, span, Notify::OnError, ctx(0)).unwrap();
        ring.flush(span, FlushKind::Visibility, Notify::OnError, ctx(1)).unwrap();
        ring.read(scrap, span, Notify::Always, ctx(2)).unwrap();
        ring.doorbell().unwrap();
        polled(&mut ring, 1);
        for index in 0..4 {
            let word = Word::ne(10 * round + u64::from(index) + 1);
            ring.atomic_write(fabric.word(index), word, Notify::Always, ctx(3)).unwrap();
        }
        assert_eq!(ring.doorbell(), Ok(4));
        polled(&mut ring, 4);
        for index in 0..4 {
            assert_eq!(fabric.seen(index), 10 * round + index as u64 + 1, "round {round}");
        }
    }
    assert_eq!((fabric.seen(100), fabric.local_memory()[1].load(Ordering::Acquire)), (77, 77));
}

pub fn empty_writes_and_reads_complete(fabric: &impl Fabric) {
    let mut ring = fabric.ring(8, 8);
    let (local, remote) = (fabric.local().slice(0, 0), fabric.remote().span(0, 0));
    ring.write(local.unwrap(), remote.unwrap(), Notify::Always, ctx(0)).unwrap();
    ring.read(local.unwrap(), remote.unwrap(), Notify::Always, ctx(1)).unwrap();
    assert_eq!(drained(&mut ring), (told(0..2, Outcome::Confirmed), Ok(())));
}

/// The requests point into the ring's memory, which must not move with it.
pub fn a_ring_may_move_between_staging_and_doorbell(fabric: &impl Fabric) {
    let mut homes = Vec::new();
    for index in 0..4u32 {
        let mut ring = fabric.ring(8, 4);
        let word = Word::ne(u64::from(index) + 1);
        ring.atomic_write(fabric.word(index), word, Notify::OnError, ctx(0)).unwrap();
        ring.atomic_write(fabric.word(index + 8), word, Notify::Always, ctx(1)).unwrap();
        homes.push(Box::new(ring));
    }
    let mut moved: Vec<_> = homes.into_iter().map(|ring| *ring).rev().collect();
    for ring in &mut moved {
        assert_eq!(ring.doorbell(), Ok(2));
        assert_eq!(retired(ring, 2), told(0..2, Outcome::Confirmed));
    }
    for index in 0..4 {
        assert_eq!(
            (fabric.seen(index), fabric.seen(index + 8)),
            (index as u64 + 1, index as u64 + 1)
        );
    }
}

/// Guarantee 1. Every word that is written has eight equal bytes.
pub fn a_reader_never_sees_a_torn_word(fabric: &impl Fabric) {
    const ROUNDS: u64 = 4_000;
    let mut ring = fabric.ring(64, 16);
    let target = fabric.word(3);
    let word = &fabric.remote_memory()[3];
    let watch = Watch::default();
    std::thread::scope(|scope| {
        let _stop = watch.stop_at_end();
        scope.spawn(|| {
            let mut last = 0;
            while watch.goes_on() {
                let seen = word.load(Ordering::Acquire);
                assert_eq!(seen % 0x0101_0101_0101_0101, 0, "a torn word: {seen:#018x}");
                watch.saw(seen != last);
                last = seen;
            }
        });
        for round in 0..ROUNDS {
            let value = 0x0101_0101_0101_0101 * (round % 255 + 1);
            let ticket =
                ring.atomic_write(target, Word::ne(value), Notify::OnError, ctx(round)).unwrap();
            if round % 8 == 7 {
                ring.wait(ticket, patience(), |_| {}).unwrap();
            }
            // The end waits for a reader that was late to start.
            if round + 1 == ROUNDS {
                watch.until_changes(1);
            }
        }
    });
    assert!(watch.changes() >= 1, "the reader saw the word change");
}

/// Guarantee 2.
pub fn whoever_sees_the_tail_sees_the_flushed_record(fabric: &impl Fabric) {
    const RECORDS: usize = 48;
    const RECORD_WORDS: usize = 8;
    let mut ring = fabric.ring(64, 16);
    let content = |record: usize, at: usize| (record as u64 + 1) << 32 | at as u64;
    for record in 0..RECORDS {
        for at in 0..RECORD_WORDS {
            let word = &fabric.local_memory()[record * RECORD_WORDS + at];
            word.store(content(record, at), Ordering::Release);
        }
    }
    let memory = fabric.remote_memory();
    let watch = Watch::default();
    std::thread::scope(|scope| {
        let _stop = watch.stop_at_end();
        scope.spawn(|| {
            let mut known = 0;
            while watch.goes_on() {
                let tail = memory[0].load(Ordering::Acquire) as usize;
                assert!(tail >= known && tail <= RECORDS, "the tail only grows: {known} {tail}");
                for record in 0..tail {
                    for at in 0..RECORD_WORDS {
                        let place = &memory[8 + record * RECORD_WORDS + at];
                        let seen = place.load(Ordering::Acquire);
                        assert_eq!(seen, content(record, at), "record {record} below tail {tail}");
                    }
                }
                watch.saw(tail != known);
                known = tail;
            }
        });
        for record in 0..RECORDS {
            let bytes = (record * RECORD_WORDS * 8) as u64;
            let remote = fabric.remote().span(64 + bytes, 64).unwrap();
            let local = fabric.local().slice(bytes, 64).unwrap();
            ring.write(local, remote, Notify::OnError, ctx(0)).unwrap();
            ring.flush(remote, FlushKind::Visibility, Notify::OnError, ctx(1)).unwrap();
            let tail = Word::ne(record as u64 + 1);
            let ticket = ring.atomic_write(fabric.word(0), tail, Notify::Always, ctx(2)).unwrap();
            ring.wait(ticket, patience(), |_| {}).unwrap();
        }
        watch.until_changes(1);
    });
    assert_eq!(fabric.seen(0), RECORDS as u64);
}

/// CASES 11: the paths differ in the opcode of their completion alone.
pub fn completions_name_the_operation_that_the_device_has(fabric: &impl Fabric) {
    let mut ring = ring(Tap::new(fabric.qp(8, 8)), 8, 8);
    let (local, remote) = (fabric.local().slice(0, 8), fabric.remote().span(0, 8));
    ring.atomic_write(fabric.word(0), Word::ne(1), Notify::Always, ctx(0)).unwrap();
    ring.write(local.unwrap(), remote.unwrap(), Notify::Always, ctx(1)).unwrap();
    ring.read(local.unwrap(), remote.unwrap(), Notify::Always, ctx(2)).unwrap();
    assert_eq!(drained(&mut ring), (told(0..3, Outcome::Confirmed), Ok(())));
    let native = ring.capabilities().native_atomic_write;
    let atomic = if native { WC_ATOMIC_WRITE } else { WC_RDMA_WRITE };
    let opcodes: Vec<_> = ring.provider().completions.iter().map(|wc| wc.opcode).collect();
    assert_eq!(opcodes, [atomic, WC_RDMA_WRITE, WC_RDMA_READ]);
}

/// A reader beside a writer: when it ends, and that it really saw something.
#[derive(Default)]
struct Watch {
    stop: AtomicBool,
    changes: AtomicU64,
}

impl Watch {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Acquire)
    }

    fn saw(&self, change: bool) {
        self.changes.fetch_add(u64::from(change), Ordering::AcqRel);
    }

    fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Lets the reader run until it has seen that many changes.
    fn until_changes(&self, count: u64) {
        let mut patience = patience();
        while self.changes() < count && farword::Patience::more(&mut patience) {}
    }

    /// Stops the reader when it is dropped, in a panic too.
    fn stop_at_end(&self) -> impl Drop + '_ {
        struct Stop<'a>(&'a AtomicBool);
        impl Drop for Stop<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Release);
            }
        }
        Stop(&self.stop)
    }
}
