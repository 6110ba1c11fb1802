//! What a software NIC was given.

use crate::verbs::nic::wqe::{MALFORMED, WORD, Wqe};
use crate::wr::{SEND_FENCE, SEND_INLINE, SEND_SIGNALED};

/// One request as it stood in the send queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Given {
    /// The number of the doorbell that it came with; the first is 1.
    pub doorbell: u64,
    /// Its `wr_id`.
    pub wr_id: u64,
    /// `IBV_WR_*`.
    pub opcode: u32,
    /// `IBV_SEND_*` bits, as `send_flags` or `wr_flags` said them.
    pub flags: u32,
    /// How many bytes it moves; for a flush, 0.
    pub len: u32,
    /// The remote address.
    pub remote_addr: u64,
    /// The remote key.
    pub rkey: u32,
    /// The local key; 0 for inline data.
    pub lkey: u32,
    /// The word, the address of the local bytes, or a flush's length.
    pub data: u64,
    /// Whether it came through `wr_*` calls.
    pub by_calls: bool,
}

impl Given {
    pub(super) fn new(wqe: &Wqe, doorbell: u64, by_calls: bool) -> Self {
        Given {
            doorbell,
            wr_id: wqe.wr_id,
            opcode: wqe.opcode(),
            flags: wqe.flags() & !(WORD | MALFORMED),
            len: wqe.len,
            remote_addr: wqe.remote_addr,
            rkey: wqe.rkey(),
            lkey: wqe.lkey(),
            data: wqe.data,
            by_calls,
        }
    }

    /// Whether its payload was copied by the post itself.
    #[must_use]
    pub fn is_inline(&self) -> bool {
        self.flags & SEND_INLINE != 0
    }

    /// Whether it waits for every earlier read.
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        self.flags & SEND_FENCE != 0
    }

    /// Whether a success of it gives a completion.
    #[must_use]
    pub fn is_signaled(&self) -> bool {
        self.flags & SEND_SIGNALED != 0
    }
}
