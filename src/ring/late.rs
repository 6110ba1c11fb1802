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
    /// For each completion that is due: the request, its status, and the empty
    /// polls left.
    due: VecDeque<(u64, WcStatus, u32)>,
    /// What was posted, by number.
    pub(super) posted: std::vec::Vec<u64>,
    /// Whether posts fail without saying how much they took.
    pub(super) is_lost: bool,
    /// What posts are refused with, if they are.
    pub(super) refuses: Option<Errno>,
}

impl Late {
    /// A ring over it, whose completions come after so many empty polls each.
    pub(super) fn ring(empty_polls: u32, config: RingConfig) -> Ring<'static, Late> {
        let (due, posted) = (VecDeque::new(), std::vec::Vec::new());
        let provider = Late { empty_polls, due, posted, is_lost: false, refuses: None };
        Ring::boxed(provider, config).expect("a ring")
    }

    /// The next poll gives this.
    pub(super) fn complete(&mut self, wr_id: u64, status: WcStatus) {
        self.due.push_front((wr_id, status, 0));
    }
}

impl Provider for Late {
    fn capabilities(&self) -> Capabilities {
        Capabilities::new(64, 64)
    }

    fn post(&mut self, chain: Chain<'_>) -> Result<(), PostError> {
        if let Some(errno) = self.refuses {
            return Err(PostError::Refused { taken: 0, errno });
        }
        for request in chain.requests() {
            self.posted.push(request.wr().wr_id);
            if request.wr().send_flags & SEND_SIGNALED != 0 {
                self.due.push_back((request.wr().wr_id, WcStatus::SUCCESS, self.empty_polls));
            }
        }
        if self.is_lost { Err(PostError::Unknown { errno: Errno::EIO }) } else { Ok(()) }
    }

    fn poll(&mut self, into: &mut [Wc]) -> Result<usize, DeviceFault> {
        match (self.due.front_mut(), into.first_mut()) {
            (Some((.., left @ 1..)), _) => {
                *left -= 1;
                Ok(0)
            }
            (Some(&mut (wr_id, status, 0)), Some(slot)) => {
                slot.wr_id = wr_id;
                slot.status = status;
                self.due.pop_front();
                Ok(1)
            }
            _ => Ok(0),
        }
    }
}
