//! The entries of a software NIC's queues.

use crate::error::WcStatus;
use crate::soft::Wire;
use crate::wr::{
    SEND_FENCE, SEND_INLINE, SEND_SIGNALED, WC_ATOMIC_WRITE, WC_FLUSH, WC_RDMA_READ, WC_RDMA_WRITE,
    WR_ATOMIC_WRITE, WR_FLUSH, WR_RDMA_READ,
};

/// A send-queue entry: 64 bytes, as on most NICs.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub(super) struct Wqe {
    pub(super) opcode: u32,
    pub(super) qp_num: u32,
    pub(super) flags: u32,
    pub(super) len: u32,
    pub(super) remote_addr: u64,
    pub(super) rkey: u32,
    /// The local key, or the kind of a flush.
    pub(super) lkey: u32,
    /// The word, the address of the local bytes, or a flush's length.
    pub(super) data: u64,
}

const _: () = assert!(size_of::<Wqe>() == 64);

impl Wqe {
    /// Whether it carries a word and nothing else.
    #[inline]
    pub(super) fn is_word(&self) -> bool {
        self.flags & SEND_INLINE != 0 || self.opcode == WR_ATOMIC_WRITE
    }

    #[inline]
    pub(super) fn is_signaled(&self) -> bool {
        self.flags & SEND_SIGNALED != 0
    }

    pub(super) fn is_fenced(&self) -> bool {
        self.flags & SEND_FENCE != 0
    }

    pub(super) fn is_read(&self) -> bool {
        self.opcode == WR_RDMA_READ
    }

    #[inline]
    pub(super) fn wc_opcode(&self) -> u32 {
        match self.opcode {
            WR_ATOMIC_WRITE => WC_ATOMIC_WRITE,
            WR_RDMA_READ => WC_RDMA_READ,
            WR_FLUSH => WC_FLUSH,
            _ => WC_RDMA_WRITE,
        }
    }

    pub(super) fn wire(&self) -> Wire {
        Wire {
            opcode: self.opcode,
            inline: self.flags & SEND_INLINE != 0,
            remote_addr: self.remote_addr,
            rkey: self.rkey,
            data: self.data,
            lkey: self.lkey,
            len: self.len,
            flush_kind: self.lkey,
        }
    }
}

/// A completion-queue entry: the number of its request, whose `wr_id` the driver
/// keeps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cqe {
    pub(super) number: u64,
    pub(super) status: WcStatus,
    pub(super) opcode: u32,
    pub(super) len: u32,
}

impl Cqe {
    pub(super) const EMPTY: Cqe = Cqe { number: 0, status: WcStatus::SUCCESS, opcode: 0, len: 0 };
}
