//! The ring alone: its share in every other row. The provider takes each chain
//! whole and completes its last request at the next poll; what a device does
//! costs nothing here, and no word is written anywhere.

use core::hint::black_box;

use farword::wr::Wc;
use farword::{
    AlignedOffset, Capabilities, Chain, DeviceFault, Notify, OpContext, PostError, Provider,
    RemoteRegion, Ring, RingConfig, Usage, WcStatus, Word,
};

use crate::ring::RingRow;
use crate::row::{Row, Seen, WORDS, targets};

pub(crate) fn add(rows: &mut Vec<Box<dyn Row>>) {
    rows.push(Box::new(row::<1>("ring_only_1")));
    rows.push(Box::new(row::<32>("ring_only_32")));
    rows.push(Box::new(Anew::new("ring_only_anew_32")));
}

const REGION: RemoteRegion = RemoteRegion::new(4096, 4096, 1, Usage::WRITE_DST);

fn row<const BATCH: u64>(name: &'static str) -> RingRow<Nothing, BATCH> {
    RingRow::new(name, Nothing { completed: None }, targets(&REGION), None)
}

struct Nothing {
    completed: Option<u64>,
}

impl Provider for Nothing {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new(128, 128)
    }

    #[inline]
    fn post(&mut self, chain: Chain<'_>) -> Result<(), PostError> {
        // A ring numbers its requests in a row.
        let ahead = u64::from(chain.len()) - 1;
        self.completed = chain.requests().next().map(|first| first.wr().wr_id.wrapping_add(ahead));
        Ok(())
    }

    #[inline]
    fn poll(&mut self, into: &mut [Wc]) -> Result<usize, DeviceFault> {
        match (self.completed.take(), into.first_mut()) {
            (Some(wr_id), Some(slot)) => {
                slot.wr_id = wr_id;
                slot.status = WcStatus::SUCCESS;
                Ok(1)
            }
            _ => Ok(0),
        }
    }
}

/// As `ring_only_32`, but that each write makes its target anew: usage, bounds and
/// alignment are checked every time, where the other row has them checked before
/// it begins.
struct Anew {
    name: &'static str,
    ring: Ring<'static, Nothing>,
    region: RemoteRegion,
    next: u64,
}

impl Anew {
    fn new(name: &'static str) -> Self {
        let provider = Nothing { completed: None };
        let ring = Ring::boxed(provider, RingConfig::new(128, 32)).expect("a ring");
        // Not a constant to the compiler, as no descriptor from a peer is.
        Anew { name, ring, region: black_box(REGION), next: 0 }
    }
}

impl Row for Anew {
    fn name(&self) -> &'static str {
        self.name
    }

    fn run(&mut self, operations: u64) -> Option<u64> {
        const BATCH: u64 = 32;
        let before = self.ring.counters().doorbells;
        let mut seen = Seen::default();
        let end = self.next + operations;
        for number in self.next..end {
            let offset = AlignedOffset::new(number % WORDS * 8).expect("a multiple of 8");
            let target = self.region.target(offset).expect("within the region");
            let last = number % BATCH == BATCH - 1;
            let notify = if last { Notify::Always } else { Notify::OnError };
            let (word, context) = (Word::ne(number), OpContext::new(number));
            self.ring.atomic_write(target, word, notify, context).expect("room");
            if last {
                self.ring.doorbell().expect("posted");
                self.ring.poll_with(|done| seen.see(done.context.get())).expect("alive");
            }
        }
        self.next = end;
        seen.verify(self.name, operations / BATCH, end - 1);
        Some(self.ring.counters().doorbells - before)
    }

    fn verify(&self) {
        assert_eq!(self.ring.counters().posted, self.next, "{}: posted", self.name);
    }
}
