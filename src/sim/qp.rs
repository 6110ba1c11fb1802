//! One simulated queue pair: what it was given, and how far each request is.

use core::fmt;
use std::collections::VecDeque;
use std::vec::Vec;

use crate::batch::Request;
use crate::error::{DeviceFault, Errno, WcStatus};
use crate::op::FlushKind;
use crate::wr::{
    SEND_FENCE, SEND_SIGNALED, WC_ATOMIC_WRITE, WC_FLUSH, WC_RDMA_READ, WC_RDMA_WRITE,
    WR_ATOMIC_WRITE, WR_FLUSH, WR_RDMA_READ, WR_RDMA_WRITE, Wc,
};

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An inline write of 8 bytes.
    Word,
    /// The ATOMIC WRITE operation.
    Atomic,
    Write,
    Read,
    Flush(FlushKind),
}

impl Kind {
    /// Whether the responder answers it when it likes, rather than as it comes.
    pub(super) fn is_answered(self) -> bool {
        matches!(self, Kind::Read | Kind::Flush(_))
    }

    fn wc_opcode(self) -> u32 {
        match self {
            Kind::Word | Kind::Write => WC_RDMA_WRITE,
            Kind::Atomic => WC_ATOMIC_WRITE,
            Kind::Read => WC_RDMA_READ,
            Kind::Flush(_) => WC_FLUSH,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Word => "word",
            Kind::Atomic => "atomic write",
            Kind::Write => "write",
            Kind::Read => "read",
            Kind::Flush(FlushKind::Persistent) => "flush to persistence",
            Kind::Flush(FlushKind::Visibility) => "flush to visibility",
        })
    }
}

/// A request as it was posted, and what became of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wqe {
    pub(super) wr_id: u64,
    pub(super) remote: u64,
    /// The word itself, or the address of the local bytes.
    pub(super) data: u64,
    pub(super) len: u64,
    pub(super) rkey: u32,
    pub(super) lkey: u32,
    pub(super) kind: Kind,
    pub(super) flags: u32,
    pub(super) fate: Fate,
}

/// What became of one request, as only a simulation can know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Fate {
    /// The `wr_id` it was posted with.
    pub wr_id: u64,
    /// How often it was carried out: a write that reached the target, a read or
    /// a flush that was answered.
    pub executed: u32,
    /// Whether it was rejected: it is never carried out.
    pub rejected: bool,
}

impl Wqe {
    /// Copies a posted request.
    ///
    /// # Errors
    /// `EINVAL` for one that no provider takes.
    pub(super) fn copy(request: &Request<'_>) -> Result<Wqe, Errno> {
        let wr = request.wr();
        let sge = request.sge().unwrap_or_default();
        let mut wqe = Wqe {
            wr_id: wr.wr_id,
            remote: wr.remote_addr,
            data: sge.addr,
            len: u64::from(sge.length),
            rkey: wr.rkey,
            lkey: sge.lkey,
            kind: Kind::Write,
            flags: wr.send_flags,
            fate: Fate { wr_id: wr.wr_id, ..Fate::default() },
        };
        wqe.kind = match (wr.opcode, request.word()) {
            (WR_ATOMIC_WRITE, Some(word)) => {
                wqe.data = word;
                Kind::Atomic
            }
            (WR_RDMA_WRITE, Some(word)) if wqe.len == 8 => {
                wqe.data = word;
                Kind::Word
            }
            (WR_RDMA_WRITE, None) => Kind::Write,
            (WR_RDMA_READ, None) => Kind::Read,
            (WR_FLUSH, None) => {
                wqe.len = wr.flush_len;
                let persistent = wr.flush_kind == FlushKind::Persistent as u32;
                let kind = if persistent { FlushKind::Persistent } else { FlushKind::Visibility };
                Kind::Flush(kind)
            }
            _ => return Err(Errno::EINVAL),
        };
        Ok(wqe)
    }

    pub(super) fn is_fenced(&self) -> bool {
        self.flags & SEND_FENCE != 0
    }

    pub(super) fn is_signaled(&self) -> bool {
        self.flags & SEND_SIGNALED != 0
    }
}

impl fmt::Display for Wqe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fenced = if self.is_fenced() { "fenced " } else { "" };
        let signaled = if self.is_signaled() { "signaled " } else { "" };
        write!(f, "{fenced}{signaled}{}", self.kind)?;
        if let Kind::Word | Kind::Atomic = self.kind {
            write!(f, " of {:#x}", self.data)?;
        }
        Ok(())
    }
}

/// Some bytes of a write that has arrived and not landed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) request: u32,
    pub(super) at: u32,
    pub(super) len: u8,
    /// Whether it lands as one.
    pub(super) whole: bool,
    pub(super) bytes: [u8; 8],
}

/// A range that a write touched and no flush has covered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unflushed {
    pub(super) request: u32,
    pub(super) at: u32,
    pub(super) len: u32,
}

/// Whether the requester's side takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Local {
    Live,
    /// In the error state: what is posted is flushed.
    Error,
}

/// Whether the responder's side takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remote {
    Live,
    /// It rejected a request and takes no more.
    Rejecting,
    /// Torn down, or without power.
    Gone,
}

/// A queue pair. Requests are numbered from 0 and kept, to be asked about.
#[derive(Debug)]
pub(super) struct Qp {
    pub(super) sq_depth: u32,
    pub(super) cq_depth: u32,
    pub(super) local: Local,
    pub(super) remote: Remote,
    pub(super) work: Vec<Wqe>,
    /// How many have arrived at the responder.
    pub(super) arrived: u32,
    /// How many arrive at all: fewer than were posted once the queue pair is in
    /// the error state.
    pub(super) sendable: u32,
    /// How many have completed in order.
    pub(super) acked: u32,
    /// How many slots are free again.
    pub(super) retired: u32,
    /// Reads and flushes that arrived and were not answered.
    pub(super) unanswered: VecDeque<u32>,
    /// The last read or flush that arrived.
    pub(super) last_read: Option<u32>,
    pub(super) rejected: Option<(u32, WcStatus)>,
    pub(super) pieces: Vec<Piece>,
    pub(super) unflushed: Vec<Unflushed>,
    pub(super) cq: VecDeque<(Wc, u32)>,
    pub(super) overrun: bool,
    pub(super) fault: Option<DeviceFault>,
    /// Where emulated flushes read to.
    pub(super) scratch: u64,
}

impl Qp {
    pub(super) fn new() -> Self {
        Qp {
            sq_depth: 0,
            cq_depth: 0,
            local: Local::Live,
            remote: Remote::Live,
            work: Vec::new(),
            arrived: 0,
            sendable: 0,
            acked: 0,
            retired: 0,
            unanswered: VecDeque::new(),
            last_read: None,
            rejected: None,
            pieces: Vec::new(),
            unflushed: Vec::new(),
            cq: VecDeque::new(),
            overrun: false,
            fault: None,
            scratch: 0,
        }
    }

    /// Makes a new queue pair of it, its memory kept.
    pub(super) fn reuse(&mut self, sq_depth: u32, cq_depth: u32) {
        let old = core::mem::replace(self, Qp::new());
        *self = Qp {
            sq_depth,
            cq_depth,
            work: emptied(old.work),
            pieces: emptied(old.pieces),
            unflushed: emptied(old.unflushed),
            unanswered: VecDeque::from(emptied(Vec::from(old.unanswered))),
            cq: VecDeque::from(emptied(Vec::from(old.cq))),
            ..Qp::new()
        };
    }

    /// Whether the next request can arrive now.
    #[inline]
    pub(super) fn can_arrive(&self) -> bool {
        if self.remote != Remote::Live || self.arrived >= self.sendable {
            return false;
        }
        let Some(wqe) = self.work.get(self.arrived as usize) else {
            return false;
        };
        if wqe.is_fenced() && self.last_read.is_some_and(|read| read >= self.acked) {
            return false;
        }
        match wqe.kind {
            Kind::Read | Kind::Flush(_) => self.unanswered.len() < MAX_READS,
            // The one order that the FLUSH operation keeps by itself.
            Kind::Atomic => !self.has_native_flush_unanswered(),
            Kind::Word | Kind::Write => true,
        }
    }

    fn has_native_flush_unanswered(&self) -> bool {
        self.unanswered
            .iter()
            .any(|&request| matches!(self.work[request as usize].kind, Kind::Flush(_)))
    }

    #[inline]
    pub(super) fn can_answer(&self) -> bool {
        self.remote != Remote::Gone && !self.unanswered.is_empty()
    }

    /// Whether the oldest request that has not completed can complete: with
    /// success, or because it was rejected.
    #[inline]
    pub(super) fn can_ack(&self) -> bool {
        if self.local != Local::Live {
            return false;
        }
        let executed = self.work.get(self.acked as usize).is_some_and(|wqe| wqe.fate.executed > 0);
        executed || self.rejected.is_some_and(|(request, _)| request == self.acked)
    }

    /// Whether it can only fail: the responder is gone, and nothing that it did
    /// is still to be told.
    #[inline]
    pub(super) fn must_fail(&self) -> bool {
        self.local == Local::Live
            && self.remote == Remote::Gone
            && self.outstanding() > 0
            && !self.can_ack()
    }

    /// Whether a mutant could complete a request that was not carried out.
    pub(super) fn can_complete_early(&self) -> bool {
        self.local == Local::Live && self.outstanding() > 0
    }

    /// Whether nothing of it is left to happen.
    pub(super) fn is_over(&self) -> bool {
        self.local == Local::Error && self.remote == Remote::Gone && self.pieces.is_empty()
    }

    pub(super) fn outstanding(&self) -> u32 {
        self.work.len() as u32 - self.acked
    }

    /// A number for how far everything is.
    #[inline]
    pub(super) fn print(&self) -> u64 {
        let part = |value: u32| u64::from(value & 0xff);
        let posted = self.work.len() as u32;
        part(posted - self.arrived)
            | part(self.arrived.wrapping_sub(self.acked)) << 8
            | part(self.unanswered.len() as u32) << 16
            | part(self.pieces.len() as u32) << 24
            | part(self.cq.len() as u32) << 32
            | part(posted - self.retired) << 40
            | part(self.local as u32) << 48
            | part(self.remote as u32) << 56
    }

    /// Puts a completion into the queue.
    pub(super) fn complete(&mut self, request: u32, named: u32, status: WcStatus) {
        if self.cq.len() as u32 >= self.cq_depth {
            self.overrun = true;
            return;
        }
        let (wqe, named) = (&self.work[request as usize], &self.work[named as usize]);
        let ok = status == WcStatus::SUCCESS;
        let (opcode, len) = if ok { (wqe.kind.wc_opcode(), wqe.len as u32) } else { (0, 0) };
        self.cq.push_back((Wc::new(named.wr_id, status, opcode, len, 0), request));
    }
}

/// How many reads the responder holds at once.
const MAX_READS: usize = 16;

fn emptied<T>(mut list: Vec<T>) -> Vec<T> {
    list.clear();
    list
}
