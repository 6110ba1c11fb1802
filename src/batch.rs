//! The staged work requests: a circle of them, linked and filled in advance.
//!
//! Opcode, length, scatter-gather element and links of an atomic write are set
//! when the batch is made. Staging one stores its number, flags, target and
//! payload, and nothing else. Another kind of request rewrites its slot, which
//! gets its template back once it has been posted.

#![allow(unsafe_code, reason = "requests point at one another, as the verbs ABI has it")]

use core::fmt;
use core::mem::offset_of;
use core::ptr;

use crate::region::{Span, Target};
use crate::slots::Slots;
use crate::wr::{
    SEND_FENCE, SEND_INLINE, SEND_SIGNALED, SendWr, Sge, WR_ATOMIC_WRITE, WR_FLUSH, WR_RDMA_WRITE,
};

// A target is what stands from `remote_addr` on in a request.
const _: () = {
    assert!(size_of::<Target>() == 16 && align_of::<Target>() == 8);
    assert!(offset_of!(SendWr, rkey) == offset_of!(SendWr, remote_addr) + 8);
    assert!(offset_of!(SendWr, flush_kind) == offset_of!(SendWr, remote_addr) + 12);
};

#[cfg(feature = "capi")]
mod unchecked;

pub(crate) struct Batch<'m> {
    wrs: Slots<'m, SendWr>,
    /// The opcode of an atomic write.
    opcode: u32,
    /// The flags of the next atomic write: `SEND_INLINE` unless it is native,
    /// and `SEND_FENCE` while one is due.
    flags: u32,
    /// Whether a staged request has overwritten its slot's template.
    dirty: bool,
}

// SAFETY: the pointers in the requests lead into the batch's own memory, which
// only the batch reaches and which moves with it.
unsafe impl Send for Batch<'_> {}

impl<'m> Batch<'m> {
    /// Fills and links all requests.
    pub(crate) fn new(wrs: Slots<'m, SendWr>, native_atomic_write: bool) -> Self {
        let (opcode, flags) =
            if native_atomic_write { (WR_ATOMIC_WRITE, 0) } else { (WR_RDMA_WRITE, SEND_INLINE) };
        let mut batch = Batch { wrs, opcode, flags, dirty: false };
        for number in 0..u64::from(batch.len()) {
            *batch.wrs.get_mut(number) = SendWr::ZERO;
            batch.link(number);
            batch.set_template(number);
        }
        batch
    }

    pub(crate) fn len(&self) -> u32 {
        self.wrs.len()
    }

    /// Stages an atomic write.
    #[inline]
    pub(crate) fn set_word(&mut self, number: u64, flags: u32, target: Target, word: u64) {
        let flags = flags | self.flags;
        if flags & SEND_FENCE != 0 {
            // The fence holds this write back until every earlier read is done,
            // so what follows it needs none.
            self.flags &= !SEND_FENCE;
        }
        let wr = self.wrs.get_mut(number);
        wr.send_flags = flags;
        wr.wr_id = number;
        wr.word = word;
        let wr = self.wrs.at(number);
        // SAFETY: `wr` is an element of the batch, so this is within it.
        let remote = unsafe { wr.byte_add(offset_of!(SendWr, remote_addr)) };
        // SAFETY: the address is a multiple of 8 within an element, and a
        // `Target` covers the fields `remote_addr`, `rkey` and `flush_kind` with
        // what may stand there (the assertions at the top); no reference to the
        // element is live.
        unsafe { remote.cast::<Target>().write(target) };
    }

    /// Whether the next atomic write will be fenced, and whether it shall be.
    #[inline]
    pub(crate) fn is_fence_due(&self) -> bool {
        self.flags & SEND_FENCE != 0
    }

    pub(crate) fn set_fence_due(&mut self, due: bool) {
        self.flags = self.flags & !SEND_FENCE | if due { SEND_FENCE } else { 0 };
    }

    /// Stages a request that moves a registered buffer.
    #[inline]
    pub(crate) fn set_buffer(
        &mut self,
        number: u64,
        opcode: u32,
        flags: u32,
        sge: Sge,
        remote: Span,
    ) {
        self.dirty = true;
        let wr = self.wrs.get_mut(number);
        wr.wr_id = number;
        wr.opcode = opcode;
        wr.send_flags = flags;
        wr.remote_addr = remote.address();
        wr.rkey = remote.rkey();
        wr.sge = sge;
    }

    /// Stages a write that moves nothing.
    pub(crate) fn set_nothing(&mut self, number: u64, flags: u32) {
        self.dirty = true;
        let wr = self.wrs.get_mut(number);
        wr.wr_id = number;
        wr.opcode = WR_RDMA_WRITE;
        wr.send_flags = flags;
        wr.num_sge = 0;
        (wr.remote_addr, wr.rkey) = (0, 0);
    }

    /// Stages a native flush of a range.
    #[inline]
    pub(crate) fn set_flush(&mut self, number: u64, flags: u32, remote: Span, kind: u32) {
        self.dirty = true;
        let wr = self.wrs.get_mut(number);
        wr.wr_id = number;
        wr.opcode = WR_FLUSH;
        wr.send_flags = flags;
        wr.num_sge = 0;
        wr.remote_addr = remote.address();
        wr.rkey = remote.rkey();
        wr.flush_kind = kind;
        wr.flush_len = remote.len();
    }

    /// Signals a request that is staged and not posted, and says whether it was
    /// not signaled before.
    pub(crate) fn signal(&mut self, number: u64) -> bool {
        let wr = self.wrs.get_mut(number);
        let is_news = !wr.is_signaled();
        wr.send_flags |= SEND_SIGNALED;
        is_news
    }

    /// Gives the `count` requests from `head` on to `post`, as a chain that ends
    /// with the last of them, and mends its link afterwards.
    #[inline]
    pub(crate) fn post<R>(
        &mut self,
        head: u64,
        count: u32,
        post: impl FnOnce(Chain<'_>) -> R,
    ) -> R {
        debug_assert!(count > 0 && count <= self.len());
        let last = self.wrs.at(head.wrapping_add(u64::from(count) - 1));
        // SAFETY: `last` is an initialised element of the batch, so its field may
        // be pointed at.
        let link = unsafe { &raw mut (*last).next };
        // SAFETY: the batch alone reaches its elements, and no reference to this
        // one is live.
        let next = unsafe { link.replace(ptr::null_mut()) };
        let result = post(Chain { batch: self, head, count });
        // SAFETY: as above; the references that the chain gave ended with it.
        unsafe { link.write(next) };
        result
    }

    /// Whether a staged request has overwritten its slot's template.
    #[inline]
    pub(crate) fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// Of the `count` requests from `head` on, the first `taken` were posted:
    /// gives their slots the template back.
    #[inline(never)]
    pub(crate) fn restore(&mut self, head: u64, count: u32, taken: u32) {
        if !self.dirty {
            return;
        }
        for index in 0..taken {
            self.set_template(head.wrapping_add(u64::from(index)));
        }
        self.dirty = taken < count;
    }

    /// What a request of another kind overwrites.
    #[inline]
    fn set_template(&mut self, number: u64) {
        let wr = self.wrs.at(number);
        // SAFETY: `wr` is an element of the batch, so its field is within it.
        let word = unsafe { &raw const (*wr).word };
        let opcode = self.opcode;
        let wr = self.wrs.get_mut(number);
        wr.sge = Sge { addr: word as u64, length: 8, lkey: 0 };
        wr.num_sge = 1;
        wr.opcode = opcode;
    }

    /// Ties a request to its successor and to its element, once for all.
    fn link(&mut self, number: u64) {
        let wr = self.wrs.at(number);
        let next = self.wrs.at(number.wrapping_add(1));
        // Field addresses without a reference in between, so that the pointers
        // stay good for as long as the slot's own does.
        // SAFETY: `wr` is an element of the batch, so its field is within it.
        let sg_list = unsafe { &raw mut (*wr).sge };
        let wr = self.wrs.get_mut(number);
        wr.next = next;
        wr.sg_list = sg_list;
    }
}

impl fmt::Debug for Batch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("len", &self.len())
            .field("opcode", &self.opcode)
            .finish_non_exhaustive()
    }
}

/// The work requests of one doorbell, in order; at least one.
///
/// A provider either hands [`first`](Self::first) to a verbs call, or walks
/// [`requests`](Self::requests).
#[derive(Debug)]
pub struct Chain<'a> {
    batch: &'a Batch<'a>,
    head: u64,
    count: u32,
}

impl Chain<'_> {
    /// How many requests there are.
    #[inline]
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "a chain is never empty")]
    pub fn len(&self) -> u32 {
        self.count
    }

    /// The first request, as `ibv_post_send` takes it: linked to the others
    /// through `next`, the last one's being null. It may be read and written
    /// through until the post returns.
    #[inline]
    #[must_use]
    pub fn first(&self) -> *mut SendWr {
        self.batch.wrs.at(self.head)
    }

    /// The opcode of all requests, where every one of them carries its 8 bytes
    /// with it and nothing else: atomic writes, as inline RDMA writes or
    /// natively. Told without a look at any of them.
    #[inline]
    pub(crate) fn all_words(&self) -> Option<u32> {
        (!self.batch.dirty).then_some(self.batch.opcode)
    }

    /// The first `most` requests, or all if there are fewer, as they lie in
    /// memory: in one piece or two.
    #[inline]
    pub(crate) fn pieces(&self, most: u32) -> [&[SendWr]; 2] {
        self.batch.wrs.view().slices(self.head, self.count.min(most))
    }

    /// The requests, in order.
    #[inline]
    pub fn requests(&self) -> impl ExactSizeIterator<Item = Request<'_>> {
        let (wrs, head) = (self.batch.wrs.view(), self.head);
        (0..self.count)
            .map(move |index| Request { wr: wrs.get(head.wrapping_add(u64::from(index))) })
    }

    /// Hands the first `count` requests (at least 1, at most all) to `post`, as
    /// a chain that ends with the last of them, and mends the link afterwards.
    /// With `signal_last`, the last one is signaled for the length of the call.
    ///
    /// For providers that take a part of what they are given.
    pub fn with_prefix<R>(
        &mut self,
        count: u32,
        signal_last: bool,
        post: impl FnOnce(Chain<'_>) -> R,
    ) -> R {
        let count = count.clamp(1, self.count);
        let last = self.batch.wrs.at(self.head.wrapping_add(u64::from(count) - 1));
        // SAFETY: `last` is an initialised request of the batch, which this
        // chain borrows; `&mut self` ended all references that `requests` gave.
        let kept = unsafe { *last };
        let signal = if signal_last { SEND_SIGNALED } else { 0 };
        let ending = SendWr { next: ptr::null_mut(), send_flags: kept.send_flags | signal, ..kept };
        // SAFETY: as above; the batch is reached through raw pointers, so the
        // store invalidates nothing that the batch holds.
        unsafe { *last = ending };
        let result = post(Chain { batch: self.batch, head: self.head, count });
        // SAFETY: as above.
        unsafe { *last = kept };
        result
    }

    /// The index in this chain of the request at `wr`, a pointer that a verbs
    /// call gave back as `bad_wr`; `None` where it is none of them.
    #[must_use]
    pub fn index_of(&self, wr: *const SendWr) -> Option<u32> {
        (0..self.count)
            .find(|index| ptr::eq(self.batch.wrs.at(self.head.wrapping_add(u64::from(*index))), wr))
    }
}

/// One work request of a [`Chain`].
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    wr: &'a SendWr,
}

impl<'a> Request<'a> {
    /// The request as the ABI has it.
    #[inline]
    #[must_use]
    pub fn wr(&self) -> &'a SendWr {
        self.wr
    }

    /// Its only scatter-gather element, or `None` where it moves no bytes.
    #[inline]
    #[must_use]
    pub fn sge(&self) -> Option<Sge> {
        (self.wr().num_sge > 0).then_some(self.wr().sge)
    }

    /// Its 8 bytes of payload, where they travel in the request: an inline
    /// write or a native atomic write.
    #[inline]
    #[must_use]
    pub fn word(&self) -> Option<u64> {
        let wr = self.wr();
        (wr.is_inline() || wr.opcode == WR_ATOMIC_WRITE).then_some(wr.word)
    }
}
