//! The send-queue entries of a software NIC.

use crate::soft::Wire;
use crate::wr::{
    SEND_FENCE, SEND_INLINE, SEND_SIGNALED, WC_ATOMIC_WRITE, WC_FLUSH, WC_RDMA_READ, WC_RDMA_WRITE,
    WR_ATOMIC_WRITE, WR_FLUSH, WR_RDMA_READ,
};

/// A send-queue entry: 64 bytes, as on most NICs.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub(super) struct Wqe {
    /// Opcode and flags in one, and so are the keys: a driver writes its entries
    /// in as few stores as it can.
    head: u64,
    pub(super) len: u32,
    pub(super) qp_num: u32,
    pub(super) remote_addr: u64,
    keys: u64,
    /// The word, the address of the local bytes, or a flush's length.
    pub(super) data: u64,
    /// Beside the hardware's part of the entry, the driver's own note.
    pub(super) wr_id: u64,
}

const _: () = assert!(size_of::<Wqe>() == 64);

/// In the flags of an entry: it carries a word and nothing else, as one with
/// `SEND_INLINE` does too.
pub(super) const WORD: u32 = 1 << 31;
/// In the flags of an entry: an operation of the `wr_*` calls that came through
/// the plain call, which has no place for what it needs.
pub(super) const MALFORMED: u32 = 1 << 30;

impl Wqe {
    pub(super) fn empty(qp_num: u32) -> Self {
        Wqe { qp_num, ..Wqe::default() }
    }

    /// Sets the opcode, and `IBV_SEND_*` bits with the marks above.
    #[inline]
    pub(super) fn set_head(&mut self, opcode: u32, flags: u32) {
        self.head = u64::from(opcode) | u64::from(flags) << 32;
    }

    #[inline]
    pub(super) fn opcode(&self) -> u32 {
        self.head as u32
    }

    #[inline]
    pub(super) fn flags(&self) -> u32 {
        (self.head >> 32) as u32
    }

    /// Sets the remote key and the local key, or the kind of a flush.
    #[inline]
    pub(super) fn set_keys(&mut self, rkey: u32, lkey: u32) {
        self.keys = u64::from(rkey) | u64::from(lkey) << 32;
    }

    #[inline]
    pub(super) fn rkey(&self) -> u32 {
        self.keys as u32
    }

    #[inline]
    pub(super) fn lkey(&self) -> u32 {
        (self.keys >> 32) as u32
    }

    #[inline]
    pub(super) fn is_word(&self) -> bool {
        self.flags() & (WORD | SEND_INLINE) != 0
    }

    #[inline]
    pub(super) fn is_signaled(&self) -> bool {
        self.flags() & SEND_SIGNALED != 0
    }

    pub(super) fn is_fenced(&self) -> bool {
        self.flags() & SEND_FENCE != 0
    }

    pub(super) fn is_read(&self) -> bool {
        self.opcode() == WR_RDMA_READ
    }

    #[inline]
    pub(super) fn wc_opcode(&self) -> u32 {
        match self.opcode() {
            WR_ATOMIC_WRITE => WC_ATOMIC_WRITE,
            WR_RDMA_READ => WC_RDMA_READ,
            WR_FLUSH => WC_FLUSH,
            _ => WC_RDMA_WRITE,
        }
    }

    pub(super) fn wire(&self) -> Wire {
        Wire {
            opcode: self.opcode(),
            inline: self.flags() & SEND_INLINE != 0,
            remote_addr: self.remote_addr,
            rkey: self.rkey(),
            data: self.data,
            lkey: self.lkey(),
            len: self.len,
            flush_kind: self.lkey(),
        }
    }
}
