//! The ring alone: its share in every other row. The provider takes each chain
//! whole and completes its last request at the next poll; what a device does
//! costs nothing here, and no word is written anywhere.

use farword::wr::Wc;
use farword::{
    Capabilities, Chain, DeviceFault, PostError, Provider, RemoteRegion, Usage, WcStatus,
};

use crate::ring::RingRow;
use crate::row::{Row, targets};

pub(crate) fn add(rows: &mut Vec<Box<dyn Row>>) {
    rows.push(Box::new(row::<1>("ring_only_1")));
    rows.push(Box::new(row::<32>("ring_only_32")));
}

fn row<const BATCH: u64>(name: &'static str) -> RingRow<Nothing, BATCH> {
    let region = RemoteRegion::new(4096, 4096, 1, Usage::WRITE_DST);
    RingRow::new(name, Nothing { completed: None }, targets(&region), None)
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
