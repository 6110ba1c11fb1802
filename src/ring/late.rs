//! A provider for tests: it takes every chain whole, and each completion lets the
//! polls before it go empty that it was told to.

use std::collections::VecDeque;

use super::*;
use crate::batch::Chain;
use crate::error::DeviceFault;
use crate::wr::SEND_SIGNALED;

#[derive(Debug)]
pub(super) struct Late {
    empty_polls: u32,
    /// For each completion that is due: the request, and the empty polls left.
    due: VecDeque<(u64, u32)>,
}

impl Late {
    /// A ring over it, whose completions come after so many empty polls each.
    pub(super) fn ring(empty_polls: u32, config: RingConfig) -> Ring<'static, Late> {
        let due = VecDeque::new();
        Ring::boxed(Late { empty_polls, due }, config).expect("a ring")
    }
}

impl Provider for Late {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new(64, 64)
    }

    fn post(&mut self, chain: Chain<'_>) -> Result<(), PostError> {
        for request in chain.requests() {
            if request.wr().send_flags & SEND_SIGNALED != 0 {
                self.due.push_back((request.wr().wr_id, self.empty_polls));
            }
        }
        Ok(())
    }

    fn poll(&mut self, into: &mut [Wc]) -> Result<usize, DeviceFault> {
        match (self.due.front_mut(), into.first_mut()) {
            (Some((_, left @ 1..)), _) => {
                *left -= 1;
                Ok(0)
            }
            (Some(&mut (wr_id, 0)), Some(slot)) => {
                slot.wr_id = wr_id;
                slot.status = WcStatus::SUCCESS;
                self.due.pop_front();
                Ok(1)
            }
            _ => Ok(0),
        }
    }
}
