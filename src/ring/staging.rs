//! Staging: a request is checked, numbered, written into its slot and kept in
//! mind. Nothing here talks to the provider.

use super::Ring;
use super::storage::Record;
use crate::error::{Error, Invalid};
use crate::op::{FlushKind, Notify, Op, OpContext, Ticket, Word};
use crate::provider::{FlushSupport, Provider};
use crate::region::{LocalSlice, Span, Target, Usage};
use crate::wr::{SEND_SIGNALED, Sge, WR_RDMA_READ, WR_RDMA_WRITE};

impl<P: Provider> Ring<'_, P> {
    /// Stages an atomic write of 8 bytes. The word is copied; nothing that is
    /// passed needs to outlive the call.
    ///
    /// It is fenced when a flush staged before it may still be outstanding and
    /// the write could overtake it, and only then: an emulated flush, or the
    /// FLUSH operation where the write is a plain one.
    ///
    /// # Errors
    /// [`Error::Full`] with the remedy, or [`Error::Failed`]. Nothing is staged
    /// then.
    #[inline]
    pub fn atomic_write(
        &mut self,
        target: Target,
        word: Word,
        notify: Notify,
        context: OpContext,
    ) -> Result<Ticket, Error> {
        let Some(number) = self.flight.stage() else {
            return Err(self.no_room());
        };
        let flags = self.signal(notify);
        self.batch.set_word(number, flags, target, word.to_ne());
        *self.records.get_mut(number) = Record::new(context, Op::AtomicWrite, notify);
        Ok(self.ticket(number))
    }

    /// Stages a write of registered local memory.
    ///
    /// The bytes are read when the request is carried out: leave them as they
    /// are until it is confirmed.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the region lacks [`Usage::WRITE_DST`], the lengths
    /// differ, or the provider does not move that many bytes at once. Else as
    /// [`atomic_write`](Self::atomic_write).
    #[inline]
    pub fn write(
        &mut self,
        local: LocalSlice,
        remote: Span,
        notify: Notify,
        context: OpContext,
    ) -> Result<Ticket, Error> {
        if !self.may_move(local, remote, Usage::WRITE_DST) {
            return Err(self.no_move(local, remote, Usage::WRITE_DST));
        }
        let sge = whole(local);
        self.stage_buffer(Op::Write, WR_RDMA_WRITE, sge, remote, notify, context)
    }

    /// Stages a read into registered local memory. The bytes are there when the
    /// request is confirmed.
    ///
    /// # Errors
    /// As [`write`](Self::write), the usage being [`Usage::READ_SRC`].
    #[inline]
    pub fn read(
        &mut self,
        local: LocalSlice,
        remote: Span,
        notify: Notify,
        context: OpContext,
    ) -> Result<Ticket, Error> {
        if !self.may_move(local, remote, Usage::READ_SRC) {
            return Err(self.no_move(local, remote, Usage::READ_SRC));
        }
        let sge = whole(local);
        self.stage_buffer(Op::Read, WR_RDMA_READ, sge, remote, notify, context)
    }

    /// Stages a flush of a range: when it is confirmed, everything written to
    /// the range before it is visible to the peer's processors, or persistent.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the region lacks the usage bit of this kind, the
    /// range is empty, the provider cannot flush, or, for
    /// [`FlushKind::Persistent`], the peer's configuration does not promise
    /// direct write to persistent memory. Else as
    /// [`atomic_write`](Self::atomic_write).
    #[inline(always)]
    pub fn flush(
        &mut self,
        remote: Span,
        kind: FlushKind,
        notify: Notify,
        context: OpContext,
    ) -> Result<Ticket, Error> {
        if !self.may_flush(remote, kind) {
            return Err(self.no_flush(remote, kind));
        }
        match self.capabilities.flush {
            FlushSupport::None => Err(Invalid::FlushUnsupported { kind }.into()),
            FlushSupport::Emulated(scratch) => {
                let sge = Sge {
                    addr: scratch.address(),
                    length: remote.len().min(scratch.len()).min(8) as u32,
                    lkey: scratch.lkey(),
                };
                let staged =
                    self.stage_buffer(Op::Flush, WR_RDMA_READ, sge, remote, notify, context)?;
                self.fence_behind(self.number(staged));
                Ok(staged)
            }
            FlushSupport::Native => self.flush_natively(remote, kind, notify, context),
        }
    }

    #[inline(never)]
    fn flush_natively(
        &mut self,
        remote: Span,
        kind: FlushKind,
        notify: Notify,
        context: OpContext,
    ) -> Result<Ticket, Error> {
        let Some((number, flags)) = self.stage_record(Op::Flush, notify, context) else {
            return Err(self.no_room());
        };
        self.batch.set_flush(number, flags, remote, kind as u32);
        if !self.capabilities.native_atomic_write {
            // An ATOMIC WRITE stays behind a FLUSH by itself; the plain write that
            // stands in for it may overtake one.
            self.fence_behind(number);
        }
        Ok(self.ticket(number))
    }

    /// The signaled flag of a request, as the caller wishes it.
    #[inline]
    fn signal(&mut self, notify: Notify) -> u32 {
        let flag = notify.bits() & SEND_SIGNALED;
        self.signaled += u64::from(flag >> 1);
        flag
    }

    /// The next atomic write waits for this flush.
    #[inline]
    fn fence_behind(&mut self, number: u64) {
        self.batch.set_fence_due(true);
        self.fence_to = number.wrapping_add(1);
    }

    /// Whether a flush of this kind would be staged: [`check_flush`](Self::check_flush)
    /// without the reasons.
    #[inline]
    fn may_flush(&self, remote: Span, kind: FlushKind) -> bool {
        let persists = kind == FlushKind::Persistent;
        !matches!(self.capabilities.flush, FlushSupport::None)
            && (!persists || self.peer_is_persistent)
            && remote.usage().contains(Usage::for_flush(kind))
            && remote.len() > 0
    }

    #[cold]
    #[inline(never)]
    fn no_flush(&self, remote: Span, kind: FlushKind) -> Error {
        let why = self.check_flush(remote, kind).err();
        why.unwrap_or(Invalid::FlushUnsupported { kind }).into()
    }

    /// Whether a flush of this kind would be staged, or why not.
    pub(crate) fn check_flush(&self, remote: Span, kind: FlushKind) -> Result<(), Invalid> {
        if self.capabilities.flush == FlushSupport::None {
            return Err(Invalid::FlushUnsupported { kind });
        }
        if kind == FlushKind::Persistent && !self.peer_is_persistent {
            return Err(Invalid::PeerNotPersistent);
        }
        remote.usage().require(Usage::for_flush(kind))?;
        if remote.len() == 0 {
            return Err(Invalid::EmptyRange);
        }
        Ok(())
    }

    /// The furthest flush that a region's usage and the peer allow.
    pub(crate) fn best_flush(&self, usage: Usage) -> FlushKind {
        if self.peer_is_persistent && usage.contains(Usage::FLUSH_PERSISTENT) {
            FlushKind::Persistent
        } else {
            FlushKind::Visibility
        }
    }

    /// How many bytes one request may move.
    #[inline]
    fn max_message(&self) -> u64 {
        self.capabilities.max_message.min(u64::from(u32::MAX))
    }

    /// Whether bytes may be moved between these places.
    #[inline]
    fn may_move(&self, local: LocalSlice, remote: Span, needs: Usage) -> bool {
        remote.usage().contains(needs)
            && local.len() == remote.len()
            && local.len() <= self.max_message()
    }

    /// Why they may not.
    #[cold]
    #[inline(never)]
    fn no_move(&self, local: LocalSlice, remote: Span, needs: Usage) -> Error {
        if let Err(which) = remote.usage().require(needs) {
            return which.into();
        }
        if local.len() != remote.len() {
            let (local, remote) = (local.len(), remote.len());
            return Invalid::LengthMismatch { local, remote }.into();
        }
        Invalid::MessageTooLong { len: local.len(), max: self.max_message() }.into()
    }

    #[inline]
    fn stage_buffer(
        &mut self,
        op: Op,
        opcode: u32,
        sge: Sge,
        remote: Span,
        notify: Notify,
        context: OpContext,
    ) -> Result<Ticket, Error> {
        let Some((number, flags)) = self.stage_record(op, notify, context) else {
            return Err(self.no_room());
        };
        self.batch.set_buffer(number, opcode, flags, sge, remote);
        Ok(self.ticket(number))
    }

    /// Takes the next number and keeps what is to be told of it; the flags that
    /// its request begins with go along.
    #[inline]
    fn stage_record(&mut self, op: Op, notify: Notify, context: OpContext) -> Option<(u64, u32)> {
        let number = self.flight.stage()?;
        let flags = self.signal(notify);
        *self.records.get_mut(number) = Record::new(context, op, notify);
        Some((number, flags))
    }
}

/// An element for all of a local range, whose length was checked.
#[inline]
fn whole(local: LocalSlice) -> Sge {
    Sge { addr: local.address(), length: local.len() as u32, lkey: local.lkey() }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::super::late::Late;
    use crate::{FlushKind, RingConfig, Usage};

    #[test]
    fn a_flush_goes_as_far_as_both_the_region_and_the_peer_allow() {
        let (both, seen) =
            (Usage::FLUSH_VISIBILITY | Usage::FLUSH_PERSISTENT, Usage::FLUSH_VISIBILITY);
        for (persistent, usage, best) in [
            (true, both, FlushKind::Persistent),
            (true, seen, FlushKind::Visibility),
            (false, both, FlushKind::Visibility),
            (false, seen, FlushKind::Visibility),
        ] {
            let config = RingConfig::new(16, 16).with_persistent_peer(persistent);
            assert_eq!(Late::ring(0, config).best_flush(usage), best, "{persistent}, {usage:?}");
        }
    }
}
