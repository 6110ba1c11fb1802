//! The software device without a ring, by hand: how fast it could be.
//!
//! What a good engineer writes for one fixed use, exactly: for a batch, fill
//! requests of 32 bytes that stand in an array (address, word, context, key) in
//! a loop; mark the last one as signaled; then go through them and, for each,
//! look its region up by key in a table, compare the key, test the right to
//! write, check the bounds and the alignment, and store the word (release) in
//! the same kind of memory; where it is signaled, put its context into a
//! completion queue; then take what is in that queue out. No limits, no slots,
//! no numbers to tell stale completions by, nothing kept of unsignaled requests
//! behind the doorbell, no other operations, no states, no partial posts.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::row::{Memory, Row, Seen, WORDS};

const WRITE_DST: u32 = 8;
const RKEY: u32 = 0x152;
const SIGNALED: u32 = 1;

pub(crate) fn add(rows: &mut Vec<Box<dyn Row>>) {
    rows.push(Box::new(Floor::<1>::new("floor_soft_1")));
    rows.push(Box::new(Floor::<32>::new("floor_soft_32")));
}

/// Two to a cache line.
#[derive(Clone, Copy, Default)]
#[repr(align(32))]
struct Request {
    address: u64,
    word: u64,
    context: u64,
    rkey: u32,
    flags: u32,
}

struct Region {
    memory: &'static [AtomicU64],
    base: u64,
    size: u64,
    rkey: u32,
    usage: u32,
}

struct Device {
    regions: Vec<Region>,
    /// Contexts of completed requests; a power of two.
    cq: Box<[u64]>,
    head: usize,
    tail: usize,
}

struct Floor<const BATCH: usize> {
    name: &'static str,
    requests: Box<[Request; BATCH]>,
    device: Device,
    addresses: [u64; WORDS as usize],
    memory: &'static Memory,
    next: u64,
}

impl<const BATCH: usize> Floor<BATCH> {
    fn new(name: &'static str) -> Self {
        let memory = Memory::leak();
        let base = memory.0.as_ptr().addr() as u64;
        let region = Region {
            memory: &memory.0,
            base,
            size: size_of_val(&memory.0) as u64,
            rkey: RKEY,
            usage: WRITE_DST,
        };
        Floor {
            name,
            requests: Box::new([Request { rkey: RKEY, ..Request::default() }; BATCH]),
            device: Device { regions: vec![region], cq: vec![0; 128].into(), head: 0, tail: 0 },
            addresses: core::array::from_fn(|index| base + 8 * index as u64),
            memory,
            next: 0,
        }
    }
}

impl Device {
    /// Carries a batch out, or says that a request was not allowed.
    #[inline]
    fn post(&mut self, requests: &[Request]) -> Result<(), ()> {
        for request in requests {
            let Some(region) = self.regions.get((request.rkey >> 8).wrapping_sub(1) as usize)
            else {
                return Err(());
            };
            if region.rkey != request.rkey || region.usage & WRITE_DST == 0 {
                return Err(());
            }
            let offset = request.address.wrapping_sub(region.base);
            if offset > region.size - 8 || !offset.is_multiple_of(8) {
                return Err(());
            }
            region.memory[(offset / 8) as usize].store(request.word, Ordering::Release);
            if request.flags & SIGNALED != 0 {
                let mask = self.cq.len() - 1;
                self.cq[self.tail & mask] = request.context;
                self.tail += 1;
            }
        }
        Ok(())
    }

    #[inline]
    fn poll(&mut self, seen: &mut Seen) {
        while self.head != self.tail {
            let mask = self.cq.len() - 1;
            seen.see(self.cq[self.head & mask]);
            self.head += 1;
        }
    }
}

impl<const BATCH: usize> Row for Floor<BATCH> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&mut self, operations: u64) -> Option<u64> {
        let mut seen = Seen::default();
        let (mut next, end) = (self.next, self.next + operations);
        while next < end {
            let from = (next % WORDS) as usize;
            let addresses = &self.addresses[from..from + BATCH];
            for (request, address) in self.requests.iter_mut().zip(addresses) {
                request.address = *address;
                request.word = next;
                request.context = next;
                request.flags = 0;
                next += 1;
            }
            self.requests[BATCH - 1].flags = SIGNALED;
            self.device.post(&self.requests[..]).expect("every request is allowed");
            self.device.poll(&mut seen);
        }
        self.next = end;
        seen.verify(self.name, operations / BATCH as u64, end - 1);
        Some(operations / BATCH as u64)
    }

    fn verify(&self) {
        self.memory.verify(self.name, self.next);
    }
}
