//! The `ibv_wr_*` calls: function pointers in an extended queue pair.

#![allow(unsafe_code, reason = "libibverbs is a C library")]

use core::ffi::c_int;
#[cfg(feature = "capi")]
use core::ffi::c_void;
use core::ptr::{self, NonNull};

use crate::batch::{Chain, Request};
use crate::error::Errno;
use crate::op::FlushKind;
use crate::provider::PostError;
use crate::verbs::ffi::{
    FLUSH_GLOBAL, FLUSH_PERSISTENT, FLUSH_RANGE, QP_EX_WITH_ATOMIC_WRITE, QP_EX_WITH_FLUSH,
    QP_EX_WITH_RDMA_READ, QP_EX_WITH_RDMA_WRITE, QpEx, WrAtomicWrite, WrComplete, WrFlush, WrRdma,
    WrSetInlineData, WrSetSge, WrSetSgeList, WrStart, returned,
};
use crate::wr::{SEND_INLINE, SendWr, WR_ATOMIC_WRITE, WR_FLUSH, WR_RDMA_READ, WR_RDMA_WRITE};

/// An extended queue pair and its calls, each of which is known to be there.
#[derive(Clone, Copy, Debug)]
pub(in crate::verbs) struct WrCalls {
    qp: NonNull<QpEx>,
    start: WrStart,
    complete: WrComplete,
    abort: WrStart,
    rdma_write: WrRdma,
    rdma_read: WrRdma,
    set_inline_data: WrSetInlineData,
    set_sge: WrSetSge,
    set_sge_list: WrSetSgeList,
    atomic_write: Option<WrAtomicWrite>,
    flush: Option<WrFlush>,
}

/// A field of the extended queue pair.
macro_rules! field {
    ($qp:expr, $name:ident) => {{
        // SAFETY: the caller of the function around says that it is a live
        // extended queue pair, and that this field is one that it has.
        unsafe { (*$qp.as_ptr()).$name }
    }};
}

impl WrCalls {
    /// The calls of a queue pair that was created with these operations; `None`
    /// where it lacks those that every path needs.
    ///
    /// # Safety
    /// `qp` is a live extended queue pair, and `send_ops` are the flags that its
    /// creation was asked for and granted.
    pub(in crate::verbs) unsafe fn of(qp: NonNull<QpEx>, send_ops: u64) -> Option<Self> {
        let needed = QP_EX_WITH_RDMA_WRITE | QP_EX_WITH_RDMA_READ;
        if send_ops & needed != needed {
            return None;
        }
        // The last two lie where an older library has something else. One that
        // granted their flag is not older.
        let has_atomic_write = send_ops & QP_EX_WITH_ATOMIC_WRITE != 0;
        let has_flush = send_ops & QP_EX_WITH_FLUSH != 0;
        Some(WrCalls {
            qp,
            start: field!(qp, wr_start)?,
            complete: field!(qp, wr_complete)?,
            abort: field!(qp, wr_abort)?,
            rdma_write: field!(qp, wr_rdma_write)?,
            rdma_read: field!(qp, wr_rdma_read)?,
            set_inline_data: field!(qp, wr_set_inline_data)?,
            set_sge: field!(qp, wr_set_sge)?,
            set_sge_list: field!(qp, wr_set_sge_list)?,
            atomic_write: if has_atomic_write { field!(qp, wr_atomic_write) } else { None },
            flush: if has_flush { field!(qp, wr_flush) } else { None },
        })
    }

    pub(in crate::verbs) fn has_atomic_write(&self) -> bool {
        self.atomic_write.is_some()
    }

    pub(in crate::verbs) fn has_flush(&self) -> bool {
        self.flush.is_some()
    }

    /// Posts a chain with one doorbell, or what fits of it.
    ///
    /// # Safety
    /// The queue pair is alive and no other thread uses its send side.
    #[inline(never)]
    pub(in crate::verbs) unsafe fn post(&self, chain: Chain<'_>) -> Result<(), PostError> {
        let chain = &chain;
        let posted = match (chain.all_words(), self.atomic_write) {
            // SAFETY: this function's own condition.
            (Some(WR_RDMA_WRITE), _) => unsafe { self.post_inline(chain) },
            // SAFETY: as above.
            (Some(WR_ATOMIC_WRITE), Some(call)) => unsafe { self.post_atomic(chain, call) },
            // SAFETY: as above.
            _ => unsafe { self.post_range(chain, 0, chain.len()) },
        };
        match posted {
            Ok(()) => Ok(()),
            // SAFETY: as above.
            Err(errno) => Err(unsafe { self.post_what_fits(chain, errno) }),
        }
    }

    /// Posts a chain of inline words, all of it or nothing.
    ///
    /// # Safety
    /// As [`post`](Self::post).
    #[inline]
    unsafe fn post_inline(&self, chain: &Chain<'_>) -> Result<(), Errno> {
        // SAFETY: this function's own condition.
        unsafe { (self.start)(self.qp.as_ptr()) };
        for piece in chain.pieces(chain.len()) {
            for wr in piece {
                // SAFETY: as above, and between `start` and `complete`.
                unsafe { self.build_inline(wr) };
            }
        }
        // SAFETY: as above.
        unsafe { self.finish() }
    }

    /// Posts a chain of native atomic writes, all of it or nothing.
    ///
    /// # Safety
    /// As [`post`](Self::post), and `call` is the queue pair's.
    #[inline]
    unsafe fn post_atomic(&self, chain: &Chain<'_>, call: WrAtomicWrite) -> Result<(), Errno> {
        // SAFETY: this function's own condition.
        unsafe { (self.start)(self.qp.as_ptr()) };
        for piece in chain.pieces(chain.len()) {
            for wr in piece {
                // SAFETY: as above, and between `start` and `complete`.
                unsafe { self.build_atomic(wr, call) };
            }
        }
        // SAFETY: as above.
        unsafe { self.finish() }
    }

    /// Rings the doorbell for what was built.
    ///
    /// # Safety
    /// As [`post`](Self::post), and after `start`.
    #[inline]
    unsafe fn finish(&self) -> Result<(), Errno> {
        // SAFETY: this function's own condition.
        let code: c_int = unsafe { (self.complete)(self.qp.as_ptr()) };
        if code == 0 { Ok(()) } else { Err(returned(code)) }
    }

    /// `ibv_wr_complete` takes all or nothing and does not say why. So the most
    /// that is taken is found by halves: each try either posts or changes
    /// nothing, so that nothing is posted twice.
    ///
    /// # Safety
    /// As [`post`](Self::post).
    #[cold]
    unsafe fn post_what_fits(&self, chain: &Chain<'_>, mut errno: Errno) -> PostError {
        let mut taken = 0;
        // The requests from `taken` to here have just been refused.
        let mut refused = chain.len();
        while refused - taken > 1 {
            let half = (refused - taken) / 2;
            // SAFETY: this function's own condition.
            match unsafe { self.post_range(chain, taken, half) } {
                Ok(()) => taken += half,
                Err(why) => {
                    refused = taken + half;
                    errno = why;
                }
            }
        }
        // A full queue is ENOMEM to some providers, ENOSPC to others.
        let errno = if errno == Errno::ENOSPC { Errno::ENOMEM } else { errno };
        PostError::Refused { taken, errno }
    }

    /// Posts `count` requests from number `from` on, all or none.
    ///
    /// # Safety
    /// As [`post`](Self::post).
    unsafe fn post_range(&self, chain: &Chain<'_>, from: u32, count: u32) -> Result<(), Errno> {
        // SAFETY: this function's own condition.
        unsafe { (self.start)(self.qp.as_ptr()) };
        for request in chain.requests().skip(from as usize).take(count as usize) {
            // SAFETY: as above, and between `start` and `complete`.
            let known = unsafe { self.build(&request) };
            if !known {
                // SAFETY: as above; it drops what was built.
                unsafe { (self.abort)(self.qp.as_ptr()) };
                return Err(Errno::EINVAL);
            }
        }
        // SAFETY: as above.
        unsafe { self.finish() }
    }

    /// What every request begins with.
    ///
    /// `flags` must say `SEND_INLINE` exactly where inline data follows. The
    /// call that sets the data says so itself to most providers; Soft-RoCE's
    /// looks at the flag alone and, without it, takes the data for a gather list.
    ///
    /// # Safety
    /// As [`post`](Self::post), and between `start` and `complete`.
    #[inline]
    unsafe fn begin(&self, wr_id: u64, flags: u32) {
        let qp = self.qp.as_ptr();
        // SAFETY: a field of the live queue pair, the caller's to write here.
        unsafe { (*qp).wr_id = wr_id };
        // SAFETY: as above.
        unsafe { (*qp).wr_flags = flags };
    }

    /// Posts one native atomic write of the 8 bytes at `src`; `None` where the
    /// queue pair has no such operation. Several threads may: the provider locks
    /// the queue pair from `wr_start` to `wr_complete`.
    ///
    /// # Safety
    /// The queue pair is alive, and 8 bytes may be read at `src`.
    #[cfg(feature = "capi")]
    #[inline]
    pub(in crate::verbs) unsafe fn one_word(
        &self,
        (address, rkey): (u64, u32),
        src: *const c_void,
        flags: u32,
        wr_id: u64,
    ) -> Option<Result<(), c_int>> {
        let atomic_write = self.atomic_write?;
        // SAFETY: this function's own condition.
        unsafe { (self.start)(self.qp.as_ptr()) };
        // SAFETY: as above, and between `start` and `complete`.
        unsafe { self.begin(wr_id, flags) };
        // SAFETY: as above; the 8 bytes are copied.
        unsafe { atomic_write(self.qp.as_ptr(), rkey, address, src) };
        // SAFETY: as above.
        let code = unsafe { (self.complete)(self.qp.as_ptr()) };
        Some(if code == 0 { Ok(()) } else { Err(code) })
    }

    /// Posts one native flush, as [`one_word`](Self::one_word).
    ///
    /// # Safety
    /// The queue pair is alive.
    #[cfg(feature = "capi")]
    pub(in crate::verbs) unsafe fn one_flush(
        &self,
        (address, rkey): (u64, u32),
        len: usize,
        persistent: bool,
        flags: u32,
        wr_id: u64,
    ) -> Option<Result<(), c_int>> {
        let flush = self.flush?;
        let kind = if persistent { FLUSH_PERSISTENT } else { FLUSH_GLOBAL };
        // SAFETY: this function's own condition.
        unsafe { (self.start)(self.qp.as_ptr()) };
        // SAFETY: as above, and between `start` and `complete`.
        unsafe { self.begin(wr_id, flags) };
        // SAFETY: as above.
        unsafe { flush(self.qp.as_ptr(), rkey, address, len, kind, FLUSH_RANGE) };
        // SAFETY: as above.
        let code = unsafe { (self.complete)(self.qp.as_ptr()) };
        Some(if code == 0 { Ok(()) } else { Err(code) })
    }

    /// Builds an inline write of a word, whose flags say that it is one.
    ///
    /// # Safety
    /// As [`begin`](Self::begin).
    #[inline]
    unsafe fn build_inline(&self, wr: &SendWr) {
        // SAFETY: this function's own condition.
        unsafe { self.begin(wr.wr_id, wr.send_flags) };
        // SAFETY: as above.
        unsafe { (self.rdma_write)(self.qp.as_ptr(), wr.rkey, wr.remote_addr) };
        let word = (&raw const wr.word).cast_mut().cast();
        // SAFETY: as above; the word is read, not written, and copied.
        unsafe { (self.set_inline_data)(self.qp.as_ptr(), word, size_of::<u64>()) };
    }

    /// Builds a native atomic write.
    ///
    /// # Safety
    /// As [`begin`](Self::begin), and `atomic_write` is the queue pair's.
    #[inline]
    unsafe fn build_atomic(&self, wr: &SendWr, atomic_write: WrAtomicWrite) {
        // SAFETY: this function's own condition.
        unsafe { self.begin(wr.wr_id, wr.send_flags & !SEND_INLINE) };
        let word = (&raw const wr.word).cast();
        // SAFETY: as above; the 8 bytes are copied.
        unsafe { atomic_write(self.qp.as_ptr(), wr.rkey, wr.remote_addr, word) };
    }

    /// Builds one request; `false` for one that there is no call for.
    ///
    /// # Safety
    /// As [`begin`](Self::begin).
    unsafe fn build(&self, request: &Request<'_>) -> bool {
        let wr = request.wr();
        match (wr.opcode, self.atomic_write) {
            // SAFETY: this function's own condition.
            (WR_RDMA_WRITE, _) if wr.is_inline() => unsafe { self.build_inline(wr) },
            // SAFETY: as above.
            (WR_ATOMIC_WRITE, Some(call)) => unsafe { self.build_atomic(wr, call) },
            // SAFETY: as above.
            _ => return unsafe { self.build_other(request) },
        }
        true
    }

    /// # Safety
    /// As [`build`](Self::build).
    unsafe fn build_other(&self, request: &Request<'_>) -> bool {
        let wr = request.wr();
        let qp = self.qp.as_ptr();
        // SAFETY: this function's own condition.
        unsafe { self.begin(wr.wr_id, wr.send_flags & !SEND_INLINE) };
        match wr.opcode {
            WR_RDMA_WRITE => {
                // SAFETY: this function's own condition.
                unsafe { (self.rdma_write)(qp, wr.rkey, wr.remote_addr) };
            }
            WR_RDMA_READ => {
                // SAFETY: this function's own condition.
                unsafe { (self.rdma_read)(qp, wr.rkey, wr.remote_addr) };
            }
            WR_FLUSH => {
                let Some(flush) = self.flush else {
                    return false;
                };
                let (kind, len) = flush_parts(wr);
                // SAFETY: this function's own condition.
                unsafe { flush(qp, wr.rkey, wr.remote_addr, len, kind, FLUSH_RANGE) };
                return true;
            }
            _ => return false,
        }
        match request.sge() {
            // SAFETY: this function's own condition.
            Some(sge) => unsafe { (self.set_sge)(qp, sge.lkey, sge.addr, sge.length) },
            // SAFETY: as above; a list of none.
            None => unsafe { (self.set_sge_list)(qp, 0, ptr::null()) },
        }
        true
    }
}

fn flush_parts(wr: &SendWr) -> (u8, usize) {
    let persistent = wr.flush_kind == FlushKind::Persistent as u32;
    (if persistent { FLUSH_PERSISTENT } else { FLUSH_GLOBAL }, wr.flush_len as usize)
}
