//! The floor of verbs: queue entries written straight into the ring, by hand,
//! with no call and no work request between.
//!
//! Exactly: per write, a 64-byte entry with all that a NIC needs; per 32 of
//! them, the doorbell record, a fence and the doorbell; then what stands in for
//! the NIC looks for the signaled entries, completes them and carries nothing
//! out; then the completion is taken out of its queue. No room is looked for, no
//! flag but the last entry's is set, nothing is kept.

use core::sync::atomic::{AtomicU64, Ordering, fence};

use crate::nic::Fabric;
use crate::row::{Row, Seen, WORDS};

const BATCH: usize = 32;
const INLINE: u32 = 8;
const SIGNALED: u32 = 2;

pub(crate) fn add(rows: &mut Vec<Box<dyn Row>>) {
    rows.push(Box::new(Floor::new("floor_32")));
}

#[derive(Clone, Copy, Default)]
#[repr(C, align(64))]
struct Wqe {
    opcode: u32,
    flags: u32,
    len: u32,
    qp_num: u32,
    remote_addr: u64,
    rkey: u32,
    lkey: u32,
    word: u64,
    wr_id: u64,
}

#[derive(Clone, Copy, Default)]
struct Cqe {
    number: u64,
    status: u32,
}

struct Floor {
    name: &'static str,
    sq: Box<[Wqe; 128]>,
    cq: Box<[Cqe; 128]>,
    posted: u64,
    /// The number of the next completion to be written, and to be polled.
    tail: u64,
    head: u64,
    door_record: AtomicU64,
    door: AtomicU64,
    doorbells: u64,
    base: u64,
    rkey: u32,
    next: u64,
}

impl Floor {
    fn new(name: &'static str) -> Self {
        let words = Fabric::new(false).words;
        Floor {
            name,
            sq: Box::new([Wqe::default(); 128]),
            cq: Box::new([Cqe::default(); 128]),
            posted: 0,
            tail: 0,
            head: 0,
            door_record: AtomicU64::new(0),
            door: AtomicU64::new(0),
            doorbells: 0,
            base: words.base(),
            rkey: words.rkey(),
            next: 0,
        }
    }

    #[inline]
    fn ring(&mut self) {
        let (from, to) = (self.posted, self.posted + BATCH as u64);
        self.posted = to;
        self.doorbells += 1;
        self.door_record.store(to, Ordering::Release);
        fence(Ordering::SeqCst);
        self.door.store(to, Ordering::Relaxed);
        // What stands in for the NIC.
        for number in from..to {
            if self.sq[number as usize % 128].flags & SIGNALED != 0 {
                self.cq[self.tail as usize % 128] = Cqe { number, status: 0 };
                self.tail += 1;
            }
        }
    }
}

impl Row for Floor {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&mut self, operations: u64) -> Option<u64> {
        let doorbells = self.doorbells;
        let mut seen = Seen::default();
        let (mut next, end) = (self.next, self.next + operations);
        while next < end {
            for ahead in 0..BATCH {
                let flags = if ahead + 1 == BATCH { INLINE | SIGNALED } else { INLINE };
                self.sq[(self.posted as usize + ahead) % 128] = Wqe {
                    opcode: 0,
                    flags,
                    len: 8,
                    qp_num: 1,
                    remote_addr: self.base + 8 * (next % WORDS),
                    rkey: self.rkey,
                    lkey: 0,
                    word: next,
                    wr_id: next,
                };
                next += 1;
            }
            self.ring();
            while self.head != self.tail {
                let cqe = self.cq[self.head as usize % 128];
                assert_eq!(cqe.status, 0);
                seen.see(self.sq[cqe.number as usize % 128].wr_id);
                self.head += 1;
            }
        }
        self.next = end;
        seen.verify(self.name, operations / BATCH as u64, end - 1);
        Some(self.doorbells - doorbells)
    }

    fn verify(&self) {
        assert_eq!((self.posted, self.door.load(Ordering::Relaxed)), (self.next, self.next));
        for number in self.next - 128..self.next {
            let wqe = &self.sq[number as usize % 128];
            assert_eq!((wqe.word, wqe.wr_id), (number, number), "{}: an entry", self.name);
        }
    }
}
