//! The software NIC beneath librpma, plain verbs and the ring, one and the same
//! for all of them.
//!
//! What is timed and counted is a NIC that takes requests and completes them
//! without carrying them out, since a real NIC does that part with its own
//! hardware: the processor pays for the 64-byte queue entry, the fenced
//! doorbell, the completion and the poll. Each row is first run on a NIC that
//! does carry out, and has to find its words in memory there.

use farword::soft::{SoftDevice, SoftRegion};
use farword::verbs::Path;
use farword::verbs::nic::{NicConfig, NicQp};
use farword::{RemoteRegion, Usage};

use crate::row::{Memory, Row, WORDS};

/// Deep enough for two batches.
pub(crate) const DEPTH: u32 = 128;

/// A device with the words that are written to and a record that is sent.
pub(crate) struct Fabric {
    memory: &'static Memory,
    pub(crate) words: RemoteRegion,
    /// Where records go.
    pub(crate) log: RemoteRegion,
    pub(crate) local: SoftRegion,
    device: &'static SoftDevice<'static>,
    carries_out: bool,
}

impl Fabric {
    pub(crate) fn new(carries_out: bool) -> Self {
        let (memory, log, record) = (Memory::leak(), Memory::leak(), Memory::leak());
        let usage = Usage::WRITE_DST | Usage::READ_SRC | Usage::FLUSH_VISIBILITY;
        let mut device = SoftDevice::new();
        let words = device.register(&memory.0, usage).expect("a region").remote();
        let log = device.register(&log.0, usage).expect("a region").remote();
        let local = Usage::WRITE_SRC | Usage::READ_DST;
        let local = device.register(&record.0, local).expect("a region");
        let device = Box::leak(Box::new(device));
        Fabric { memory, words, log, local, device, carries_out }
    }

    /// A queue pair that offers no better path than this one.
    pub(crate) fn qp(&self, best: Path) -> NicQp<'static> {
        let config = NicConfig::default()
            .with_depths(DEPTH, DEPTH)
            .with_best(best)
            .with_carries_out(self.carries_out);
        NicQp::new(self.device, config).expect("a queue pair")
    }

    /// Panics unless the NIC took `next` requests and, if it carries out, the
    /// last words are in memory.
    pub(crate) fn verify(&self, row: &str, nic: &NicQp<'_>, next: u64) {
        assert_eq!(nic.posted(), next, "{row}: requests that the NIC took");
        self.verify_words(row, next);
    }

    /// The words, if anything arrives there.
    pub(crate) fn carried_out(&self) -> Option<&'static Memory> {
        self.carries_out.then_some(self.memory)
    }

    pub(crate) fn verify_words(&self, row: &str, next: u64) {
        if self.carries_out {
            self.memory.verify(row, next);
        }
    }
}

/// Adds a row that has shown that its words arrive.
pub(crate) fn add<R: Row + 'static>(
    rows: &mut Vec<Box<dyn Row>>,
    make: impl Fn(Fabric) -> Result<R, String>,
) {
    match make(Fabric::new(true)) {
        Ok(mut proof) => {
            proof.run(4 * WORDS);
            proof.verify();
        }
        Err(why) => {
            eprintln!("compare: a row is left out: {why}");
            return;
        }
    }
    rows.extend(make(Fabric::new(false)).map(|row| Box::new(row) as Box<dyn Row>));
}
