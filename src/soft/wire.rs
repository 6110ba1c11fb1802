//! The device as a queue pair of another make sees it: the software NIC of the
//! `verbs` feature hands its requests over here.

use core::sync::atomic::AtomicU64;

use crate::error::WcStatus;
use crate::region::{LocalSlice, Usage};
use crate::soft::execute::{Kind, SCRATCH_LKEY, Wqe};
use crate::soft::{Mode, Registration, SoftDevice, flush_usage, next_qp_num};
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
    /// Where words may be stored, for a loop that keeps it at hand; `None` for a
    /// device without regions.
    #[inline]
    pub(crate) fn places(&self) -> Option<Places<'_>> {
        Some(Places { device: self, region: self.regions.first()? })
    }
}

/// Where words may be stored.
#[derive(Debug)]
pub(crate) struct Places<'a> {
    device: &'a SoftDevice<'a>,
    /// The region of the last word. Keys are unique, so that it tells by its own
    /// whether the next word is for it too.
    region: &'a Registration<'a>,
}

impl Places<'_> {
    /// Stores a word where the key, the bounds, the rights and the alignment
    /// allow it, and says whether they did.
    #[inline]
    pub(crate) fn put(&mut self, address: u64, rkey: u32, word: u64) -> bool {
        if !self.region.is_written_by(rkey) {
            match self.device.by_key(rkey) {
                Some(other) if other.is_written_by(rkey) => self.region = other,
                _ => return false,
            }
        }
        self.region.store_word(address, word)
    }
}

/// A number for a queue pair.
pub(crate) fn fresh_qp_num() -> u32 {
    next_qp_num()
}
