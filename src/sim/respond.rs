//! What the responder does: requests arrive, bytes land, reads are answered.

use crate::error::WcStatus;
use crate::op::FlushKind;
use crate::region::Usage;
use crate::sim::config::Mutant;
use crate::sim::event::Event;
use crate::sim::qp::{Kind, Piece, Qp, Remote, Unflushed, Wqe};
use crate::sim::world::{LKEY_TAG, REMOTE_BASE, RKEY, SCRATCH_LKEY, World};
use crate::soft::{load_bytes, store_bytes};

/// The statuses that say for certain that a request was not carried out.
const REJECTIONS: [WcStatus; 5] = [
    WcStatus::REM_ACCESS_ERR,
    WcStatus::REM_INV_REQ_ERR,
    WcStatus::LOC_PROT_ERR,
    WcStatus::LOC_LEN_ERR,
    WcStatus::LOC_QP_OP_ERR,
];

/// The usage bits any of which lets a peer read.
const REMOTE_READ: Usage =
    Usage::READ_SRC.and(Usage::FLUSH_VISIBILITY).and(Usage::FLUSH_PERSISTENT);

impl World {
    /// The next request of a queue pair reaches the responder.
    pub(super) fn arrive(&mut self, index: usize) {
        let request = self.qps[index].arrived;
        let wqe = self.qps[index].work[request as usize];
        let checked = if !self.calm && self.choices.chance(self.config.faults.reject) {
            Err(REJECTIONS[self.choices.below(REJECTIONS.len() as u32) as usize])
        } else {
            self.check(&wqe)
        };
        let qp = &mut self.qps[index];
        let number = index as u32;
        if let Err(status) = checked {
            qp.remote = Remote::Rejecting;
            qp.rejected = Some((request, status));
            qp.work[request as usize].fate.rejected = true;
            self.coverage.rejections += 1;
            return self.note(|| Event::Rejected { qp: number, request, status });
        }
        qp.arrived += 1;
        let overtakes = if wqe.kind.is_answered() { 0 } else { qp.unanswered.len() as u32 };
        self.coverage.overtaken += u64::from(overtakes);
        if wqe.kind.is_answered() {
            qp.unanswered.push_back(request);
            qp.last_read = Some(request);
        } else {
            qp.work[request as usize].fate.executed += 1;
            self.spread(index, request, &wqe);
        }
        self.note(|| Event::Arrived { qp: number, request, kind: wqe.kind, overtakes });
    }

    /// Whether the responder, or the requester's own device, takes a request.
    fn check(&self, wqe: &Wqe) -> Result<(), WcStatus> {
        let (native_write, native_flush) =
            (self.config.native_atomic_write, self.config.native_flush);
        let needs = match wqe.kind {
            Kind::Atomic if !native_write => return Err(WcStatus::LOC_QP_OP_ERR),
            Kind::Flush(_) if !native_flush => return Err(WcStatus::LOC_QP_OP_ERR),
            Kind::Atomic if wqe.len != 8 || !wqe.remote.is_multiple_of(8) => {
                return Err(WcStatus::REM_INV_REQ_ERR);
            }
            Kind::Word | Kind::Atomic | Kind::Write => Usage::WRITE_DST,
            Kind::Read => REMOTE_READ,
            Kind::Flush(kind) => Usage::for_flush(kind),
        };
        if wqe.len == 0 {
            return Ok(());
        }
        let scratch = wqe.lkey == SCRATCH_LKEY && wqe.kind == Kind::Read && wqe.len <= 8;
        if matches!(wqe.kind, Kind::Write | Kind::Read) && !scratch {
            self.local_range(wqe).ok_or(WcStatus::LOC_PROT_ERR)?;
        }
        let within = wqe
            .remote
            .checked_sub(REMOTE_BASE)
            .and_then(|at| at.checked_add(wqe.len))
            .is_some_and(|end| end <= u64::from(self.config.memory));
        let allowed = self.config.usage.bits() & needs.bits() != 0;
        if wqe.rkey == RKEY && within && allowed { Ok(()) } else { Err(WcStatus::REM_ACCESS_ERR) }
    }

    /// The number of the local buffer and the offset of a request's bytes in it.
    fn local_range(&self, wqe: &Wqe) -> Option<(usize, u64)> {
        let number = (wqe.lkey >> 8).checked_sub(1)? as usize;
        let buffer = self.local.get(number)?;
        let at = wqe.data.checked_sub(local_base(number))?;
        let fits = at.checked_add(wqe.len)? <= size_of_val(&buffer[..]) as u64;
        (wqe.lkey & 0xff == LKEY_TAG && fits).then_some((number, at))
    }

    /// Cuts a write that has arrived into the pieces in which it lands.
    fn spread(&mut self, index: usize, request: u32, wqe: &Wqe) {
        if wqe.len == 0 {
            return;
        }
        let at = (wqe.remote - REMOTE_BASE) as u32;
        self.qps[index].unflushed.push(Unflushed { request, at, len: wqe.len as u32 });
        if wqe.kind != Kind::Write {
            let whole = at.is_multiple_of(8) && self.config.mutant != Some(Mutant::TornWord);
            let bytes = wqe.data.to_ne_bytes();
            return self.qps[index].pieces.push(Piece { request, at, len: 8, whole, bytes });
        }
        let Some((number, from)) = self.local_range(wqe) else {
            return;
        };
        let mut done = 0;
        while done < wqe.len as u32 {
            let place = at + done;
            let len = (8 - place % 8).min(wqe.len as u32 - done);
            let mut bytes = [0; 8];
            let into = &mut bytes[..len as usize];
            load_bytes(&self.local[number], from + u64::from(done), into);
            let piece = Piece { request, at: place, len: len as u8, whole: false, bytes };
            self.qps[index].pieces.push(piece);
            done += len;
        }
    }

    /// Some bytes of a write become visible: of the oldest one that has not
    /// landed, or, with relaxed ordering, of any.
    pub(super) fn land(&mut self, index: usize) {
        let pieces = &self.qps[index].pieces;
        let Some(oldest) = pieces.first().map(|piece| piece.request) else {
            return;
        };
        let count = if self.config.relaxed_ordering {
            pieces.len()
        } else {
            pieces.iter().take_while(|piece| piece.request == oldest).count()
        };
        let chosen = self.choices.below(count as u32) as usize;
        self.coverage.reordered += u64::from(chosen > 0);
        let piece = self.qps[index].pieces.remove(chosen);
        if piece.whole || piece.len < 2 {
            return self.place(index, &piece);
        }
        // All of it, or the part before a cut, or the part behind.
        let cut = self.choices.below(2 * u32::from(piece.len) - 1) as u8;
        if cut == 0 {
            return self.place(index, &piece);
        }
        self.coverage.torn += 1;
        let (head, tail) = split(&piece, cut.div_ceil(2));
        let (now, later) = if cut % 2 == 1 { (head, tail) } else { (tail, head) };
        self.qps[index].pieces.insert(chosen, later);
        self.place(index, &now);
    }

    fn place(&mut self, index: usize, piece: &Piece) {
        let left = self.qps[index].pieces.iter().filter(|other| other.request == piece.request);
        let left = left.count() as u32;
        let (from, to) = (piece.at, piece.at + u32::from(piece.len));
        let request = piece.request;
        self.note(|| Event::Landed { qp: index as u32, request, from, to, left });
        self.store(piece.at as usize, &piece.bytes[..usize::from(piece.len)]);
    }

    /// The oldest read or flush is carried out.
    pub(super) fn answer(&mut self, index: usize) {
        let Some(request) = self.qps[index].unanswered.pop_front() else {
            return;
        };
        let wqe = self.qps[index].work[request as usize];
        self.note(|| Event::Answered { qp: index as u32, request, kind: wqe.kind });
        if self.config.mutant != Some(Mutant::NoFlush) {
            match wqe.kind {
                Kind::Flush(kind) => self.flush_range(index, request, &wqe, kind),
                _ => self.flush_by_read(index, request),
            }
        }
        if wqe.kind == Kind::Read {
            self.read(index, &wqe);
        }
        self.qps[index].work[request as usize].fate.executed += 1;
    }

    /// A read's answer pushes every earlier write of its queue pair before it.
    fn flush_by_read(&mut self, index: usize, request: u32) {
        self.place_before(index, request);
        if self.config.direct_to_persistence {
            self.persist_before(index, request, 0, u32::MAX);
        }
    }

    /// The FLUSH operation: earlier writes to its range, and no others. Writes
    /// land in order, so those before the last of them land too.
    fn flush_range(&mut self, index: usize, request: u32, wqe: &Wqe, kind: FlushKind) {
        let from = (wqe.remote - REMOTE_BASE) as u32;
        let to = from + wqe.len as u32;
        let qp: &Qp = &self.qps[index];
        let last = qp
            .pieces
            .iter()
            .filter(|piece| piece.request < request)
            .filter(|piece| piece.at < to && piece.at + u32::from(piece.len) > from)
            .map(|piece| piece.request)
            .max();
        if let Some(last) = last {
            self.place_before(index, last + 1);
        }
        if kind == FlushKind::Persistent {
            self.persist_before(index, request, from, to);
        }
    }

    /// Lands every write before a request.
    pub(super) fn place_before(&mut self, index: usize, request: u32) {
        let mut at = 0;
        while let Some(piece) = self.qps[index].pieces.get(at).copied() {
            if piece.request >= request {
                at += 1;
                continue;
            }
            self.qps[index].pieces.remove(at);
            self.place(index, &piece);
        }
    }

    /// Makes durable what writes before a request wrote between two offsets.
    fn persist_before(&mut self, index: usize, request: u32, from: u32, to: u32) {
        let mut at = 0;
        while let Some(range) = self.qps[index].unflushed.get(at).copied() {
            let (low, high) = (range.at.max(from), (range.at + range.len).min(to));
            if range.request >= request || low >= high {
                at += 1;
                continue;
            }
            if low == range.at && high == range.at + range.len {
                self.qps[index].unflushed.remove(at);
            } else {
                at += 1;
            }
            self.persist(low as usize, (high - low) as usize);
        }
    }

    /// Copies what is visible into local memory.
    fn read(&mut self, index: usize, wqe: &Wqe) {
        if wqe.len == 0 {
            return;
        }
        let from = (wqe.remote - REMOTE_BASE) as usize;
        let Some(bytes) = self.memory.visible().get(from..from + wqe.len as usize) else {
            return;
        };
        if wqe.lkey == SCRATCH_LKEY {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            self.qps[index].scratch = u64::from_ne_bytes(word);
        } else if let Some((number, at)) = self.local_range(wqe) {
            store_bytes(&self.local[number], at, bytes);
        }
    }
}

/// Where the `number`-th local buffer starts in this process's address space:
/// a made-up place, so that a run does not depend on where memory really lies.
pub(super) fn local_base(number: usize) -> u64 {
    (number as u64 + 1) << 32
}

fn split(piece: &Piece, len: u8) -> (Piece, Piece) {
    let mut tail =
        Piece { at: piece.at + u32::from(len), len: piece.len - len, bytes: [0; 8], ..*piece };
    let (from, count) = (usize::from(len), usize::from(tail.len));
    tail.bytes[..count].copy_from_slice(&piece.bytes[from..from + count]);
    (Piece { len, ..*piece }, tail)
}
