//! The device as a queue pair of another make sees it: the software NIC of the
//! `verbs` feature hands its requests over here.

use core::sync::atomic::AtomicU64;

use crate::error::WcStatus;
use crate::region::{LocalSlice, Usage};
use crate::soft::execute::{Kind, SCRATCH_LKEY, Wqe};
use crate::soft::{Mode, SoftDevice, flush_usage, next_qp_num};
use crate::wr::{WR_ATOMIC_WRITE, WR_FLUSH, WR_RDMA_READ, WR_RDMA_WRITE};

/// A queue pair's own 8 bytes, where emulated flushes read to.
pub(crate) const SCRATCH: LocalSlice = LocalSlice::new(0, 8, SCRATCH_LKEY);

/// One request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wire {
    /// `IBV_WR_*`.
    pub(crate) opcode: u32,
    /// Whether `data` is the word itself.
    pub(crate) inline: bool,
    pub(crate) remote_addr: u64,
    pub(crate) rkey: u32,
    /// The word, the address of the local bytes, or a flush's length.
    pub(crate) data: u64,
    pub(crate) lkey: u32,
    pub(crate) len: u32,
    /// As [`FlushKind`](crate::FlushKind) numbers it.
    pub(crate) flush_kind: u32,
}

impl SoftDevice<'_> {
    /// Carries a request out, or says with which status it fails; the target is
    /// untouched then.
    pub(crate) fn carry_out(
        &self,
        wire: &Wire,
        native: bool,
        scratch: &AtomicU64,
    ) -> Result<(), WcStatus> {
        let kind = match wire.opcode {
            WR_RDMA_WRITE if wire.inline => Kind::WriteWord,
            WR_RDMA_WRITE => Kind::Write,
            WR_RDMA_READ => Kind::Read,
            WR_ATOMIC_WRITE => Kind::AtomicWrite,
            WR_FLUSH if flush_usage(wire.flush_kind) == Usage::FLUSH_PERSISTENT => {
                Kind::FlushPersistent
            }
            WR_FLUSH => Kind::FlushVisibility,
            _ => return Err(WcStatus::LOC_QP_OP_ERR),
        };
        let wqe = Wqe {
            wr_id: 0,
            remote_addr: wire.remote_addr,
            data: wire.data,
            rkey: wire.rkey,
            lkey: wire.lkey,
            len: wire.len,
            kind,
            flags: 0,
        };
        self.execute(&wqe, if native { Mode::Native } else { Mode::Emulated }, scratch)
    }

    /// Stores a word where the key, the bounds, the rights and the alignment
    /// allow it, and says whether they did.
    #[inline]
    pub(crate) fn place_word(&self, address: u64, rkey: u32, word: u64) -> bool {
        self.store_word(address, rkey, word)
    }
}

/// A number for a queue pair.
pub(crate) fn fresh_qp_num() -> u32 {
    next_qp_num()
}
