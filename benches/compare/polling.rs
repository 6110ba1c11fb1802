//! What polling costs where there is nothing: on a fresh ring, after a long
//! history, and on one of thousands of rings.

use farword::soft::{InlineQp, QpConfig, SoftDevice};
use farword::{Error, Notify, OpContext, Ring, RingConfig, Target, Usage, Word};

use crate::row::{Memory, Row, targets};

pub(crate) fn add(rows: &mut Vec<Box<dyn Row>>) {
    rows.push(Box::new(Polls::new("poll_empty", 1, 0)));
    rows.push(Box::new(Polls::new("poll_empty_after_1e6", 1, 1_000_000)));
    rows.push(Box::new(Polls::new("rings_4096", 4096, 0)));
    rows.push(Box::new(Full::new("ring_full")));
}

type SoftRing = Ring<'static, InlineQp<'static>>;

fn small_ring(device: &'static SoftDevice<'static>) -> SoftRing {
    let qp =
        InlineQp::boxed(device, QpConfig::default().with_depths(32, 32)).expect("a queue pair");
    Ring::boxed(qp, RingConfig::new(32, 32)).expect("a ring")
}

fn device(memory: &'static Memory) -> (&'static SoftDevice<'static>, Target) {
    let mut device = SoftDevice::new();
    let region = device.register(&memory.0, Usage::WRITE_DST).expect("one region").remote();
    (Box::leak(Box::new(device)), targets(&region)[0])
}

/// Empty polls of the first ring; the others stand idle beside it.
struct Polls {
    name: &'static str,
    rings: Vec<SoftRing>,
    polls: u64,
}

impl Polls {
    fn new(name: &'static str, rings: usize, history: u64) -> Self {
        let (device, target) = device(Memory::leak());
        let mut rings: Vec<SoftRing> = (0..rings).map(|_| small_ring(device)).collect();
        let mut seen = 0;
        for number in 0..history {
            let ring = &mut rings[0];
            ring.atomic_write(target, Word::ne(number), Notify::Always, OpContext::new(number))
                .expect("room");
            ring.doorbell().expect("posted");
            seen += ring.poll_with(|_| {}).expect("alive") as u64;
        }
        assert_eq!(seen, history, "{name}: the history was completed");
        Polls { name, rings, polls: 0 }
    }
}

impl Row for Polls {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&mut self, operations: u64) -> Option<u64> {
        let ring = &mut self.rings[0];
        for _ in 0..operations {
            let found = ring.poll_with(|_| {}).expect("alive");
            assert_eq!(found, 0);
        }
        self.polls += operations;
        None
    }

    fn verify(&self) {
        assert!(self.polls > 0, "{}: nothing was polled", self.name);
    }
}

/// Pushes that a full ring refuses.
struct Full {
    name: &'static str,
    ring: SoftRing,
    target: Target,
}

impl Full {
    fn new(name: &'static str) -> Self {
        let (device, target) = device(Memory::leak());
        let mut ring = small_ring(device);
        for number in 0..32 {
            ring.atomic_write(target, Word::ne(number), Notify::OnError, OpContext::new(number))
                .expect("room");
        }
        Full { name, ring, target }
    }
}

impl Row for Full {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&mut self, operations: u64) -> Option<u64> {
        let before = self.ring.counters().full;
        for number in 0..operations {
            let pushed = self.ring.atomic_write(
                self.target,
                Word::ne(number),
                Notify::OnError,
                OpContext::new(number),
            );
            assert!(matches!(pushed, Err(Error::Full { .. })));
        }
        assert_eq!(self.ring.counters().full - before, operations, "{}", self.name);
        None
    }

    fn verify(&self) {
        assert_eq!(self.ring.staged(), 32, "{}: the ring is full", self.name);
    }
}
