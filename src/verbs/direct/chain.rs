//! Requests that are staged and go with one doorbell.

#![allow(unsafe_code, reason = "libibverbs is a C library")]

use core::ptr;
use core::sync::atomic::Ordering;

use rdma_sys::ibv_send_wr;

use super::{Command, Direct, Remote};
use crate::batch::{Batch, Chain};
use crate::error::{Errno, Invalid};
use crate::op::FlushKind;
use crate::provider::PostError;
use crate::slots::Slots;
use crate::verbs::qp::post_failed;
use crate::wr::{SEND_FENCE, SendWr, Sge, WR_ATOMIC_WRITE, WR_FLUSH, WR_RDMA_READ, WR_RDMA_WRITE};

/// Requests for one queue pair, filled in advance as a ring's are, and posted
/// by [`Direct::post_staged`]. It keeps no account of what is in flight.
#[derive(Debug)]
pub(crate) struct Staging {
    batch: Batch<'static>,
    /// The number of the first request that is not posted.
    head: u64,
    /// The number of the next request.
    tail: u64,
    /// `head` and how many there may be.
    end: u64,
    most: u32,
}

/// What is left of a batch that was not taken whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unposted {
    /// So many were taken; the rest is still staged.
    Rest(u32, Errno),
    /// How many were taken is not known; nothing is staged any more.
    Unknown(Errno),
}

impl Staging {
    /// Room for `most` requests, at least one.
    ///
    /// # Errors
    /// More than a million.
    pub(crate) fn new(direct: &Direct, most: u32) -> Result<Self, Invalid> {
        let most = most.max(1);
        let room = most.checked_next_power_of_two().unwrap_or(u32::MAX);
        let wrs = Slots::boxed(room, || SendWr::ZERO)?;
        let batch = Batch::new(wrs, direct.is_native());
        Ok(Staging { batch, head: 0, tail: 0, end: most.into(), most })
    }

    /// How many are staged.
    #[inline]
    pub(crate) fn staged(&self) -> u32 {
        // At most `most`.
        (self.tail - self.head) as u32
    }

    /// The first `count` are posted, or forgotten.
    fn advance(&mut self, count: u32) {
        self.head += u64::from(count);
        self.end = self.head + u64::from(self.most);
    }

    /// The contexts of what is staged, in order.
    pub(crate) fn contexts(&self) -> impl Iterator<Item = u64> {
        (self.head..self.tail).map(|number| self.batch.get(number).wr_id)
    }

    /// Drops what is staged.
    pub(crate) fn clear(&mut self) {
        let staged = self.staged();
        self.batch.restore(self.head, staged, staged);
        self.advance(staged);
    }

    /// The number of the next request, if there is room.
    #[inline]
    fn next(&mut self) -> Option<u64> {
        let number = self.tail;
        if number == self.end {
            return None;
        }
        self.tail = number + 1;
        Some(number)
    }

    /// Stages an atomic write; `false` where there is no room.
    #[inline]
    pub(crate) fn atomic_write(
        &mut self,
        to: Remote,
        word: u64,
        signaled: u32,
        wr_id: u64,
    ) -> bool {
        let Some(number) = self.next() else {
            return false;
        };
        self.batch.set_word_at(number, (wr_id, signaled), (to.address, to.rkey), word);
        true
    }

    /// Stages any other request; `false` where there is no room.
    pub(crate) fn request(
        &mut self,
        command: Command,
        remote: Option<Remote>,
        sge: Option<Sge>,
    ) -> bool {
        let Some(number) = self.next() else {
            return false;
        };
        if command.opcode == WR_RDMA_READ {
            self.batch.set_fence_due(true);
        }
        let place = remote.map_or((0, 0), |remote| (remote.address, remote.rkey));
        let Command { opcode, flags, imm, wr_id } = command;
        self.batch.set_request(number, (wr_id, flags), (opcode, imm), place, sge);
        true
    }

    /// Stages a native flush; `false` where there is no room.
    pub(crate) fn flush(
        &mut self,
        (at, len): (Remote, usize),
        persistent: bool,
        flags: u32,
        wr_id: u64,
    ) -> bool {
        let Some(number) = self.next() else {
            return false;
        };
        let kind = if persistent { FlushKind::Persistent } else { FlushKind::Visibility };
        let (place, what) = ((at.address, at.rkey), (kind as u32, len as u64));
        self.batch.set_flush_at(number, (wr_id, flags), place, what);
        true
    }

    /// How many requests from the first on go by the same kind of call, and
    /// whether it is `ibv_wr_*`.
    fn run(&self, direct: &Direct) -> (u32, bool) {
        if direct.calls.is_none() {
            return (self.staged(), false);
        }
        let has_call = |index: u32| {
            let opcode = self.batch.get(self.head + u64::from(index)).opcode;
            matches!(opcode, WR_RDMA_WRITE | WR_RDMA_READ | WR_ATOMIC_WRITE | WR_FLUSH)
        };
        let first = has_call(0);
        let count = (1..self.staged()).find(|index| has_call(*index) != first);
        (count.unwrap_or(self.staged()), first)
    }
}

impl Direct {
    /// Whether an atomic write is the operation of that name.
    pub(crate) fn is_native(&self) -> bool {
        self.calls.is_some_and(|calls| calls.has_atomic_write())
    }

    /// Whether a flush is the operation of that name.
    pub(crate) fn has_flush(&self) -> bool {
        self.calls.is_some_and(|calls| calls.has_flush())
    }

    /// Makes ready for staging: a read that was posted alone holds back the
    /// batch's atomic writes, too.
    pub(crate) fn begin(&self, staging: &mut Staging) {
        staging.batch.set_fence_due(self.fence.load(Ordering::Relaxed) & SEND_FENCE != 0);
    }

    /// Posts all that is staged, with one doorbell. (Where the device has ATOMIC
    /// WRITE, messages among other requests take a doorbell of their own.)
    ///
    /// # Errors
    /// [`Unposted`].
    pub(crate) fn post_staged(&self, staging: &mut Staging) -> Result<(), Unposted> {
        let mut posted = 0;
        while staging.staged() > 0 {
            let (count, by_calls) = staging.run(self);
            let post = |chain: Chain<'_>| self.post_chain(chain, by_calls);
            let result = staging.batch.post(staging.head, count, post);
            let taken = match result {
                Ok(()) => count,
                Err(PostError::Refused { taken, .. }) => taken,
                Err(PostError::Unknown { errno }) => {
                    staging.clear();
                    return Err(Unposted::Unknown(errno));
                }
            };
            staging.batch.restore(staging.head, count, taken);
            staging.advance(taken);
            posted += taken;
            if let Err(PostError::Refused { errno, .. }) = result {
                return Err(Unposted::Rest(posted, errno));
            }
        }
        Ok(())
    }

    #[inline]
    fn post_chain(&self, chain: Chain<'_>, by_calls: bool) -> Result<(), PostError> {
        if by_calls && let Some(calls) = &self.calls {
            // SAFETY: the queue pair is alive, says `new`; the provider locks it
            // from `wr_start` to `wr_complete`.
            return unsafe { calls.post(chain) };
        }
        let mut bad_wr: *mut ibv_send_wr = ptr::null_mut();
        let first: *mut ibv_send_wr = chain.first().cast();
        // SAFETY: the queue pair is alive, says `new`; the chain is laid out as
        // the ABI has it and may be read until the call returns.
        let code = unsafe { (self.post_send)(self.qp.as_ptr(), first, &mut bad_wr) };
        if code == 0 { Ok(()) } else { Err(post_failed(chain, code, bad_wr)) }
    }
}
