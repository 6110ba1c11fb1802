//! Requests posted one at a time: one call, one doorbell, no ring.
//!
//! A [`Direct`] keeps no account of what is in flight. It holds pointers that
//! never change and one flag, so that any number of threads may post through it
//! while others poll: the provider's own locks see to the rest. That is what C
//! programs written for librpma expect; a [`Ring`](crate::Ring) shares nothing
//! with it.

#![allow(unsafe_code, reason = "libibverbs is a C library")]

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU32, Ordering};

use rdma_sys::{ibv_qp, ibv_qp_ex, ibv_recv_wr, ibv_send_wr, ibv_sge};

use crate::error::Errno;
use crate::verbs::ffi::QpEx;
use crate::verbs::qp::{PostSend, WrCalls, post_send_of};
use crate::wr::{SEND_FENCE, SEND_INLINE, SendWr, Sge, WR_RDMA_READ, WR_RDMA_WRITE};

mod chain;
mod recv;

pub(crate) use chain::{Staging, Unposted};
pub(crate) use recv::post_recv;

type PostRecv = unsafe extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int;

/// Where a request leads: an address and its key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Remote {
    pub(crate) address: u64,
    pub(crate) rkey: u32,
}

/// What a request does, but for its data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Command {
    /// `IBV_WR_*`.
    pub(crate) opcode: u32,
    /// `IBV_SEND_*` bits.
    pub(crate) flags: u32,
    /// Immediate data in network byte order, for an opcode that has it.
    pub(crate) imm: u32,
    /// Comes back in the completion.
    pub(crate) wr_id: u64,
}

impl Command {
    /// A read.
    pub(crate) fn read(flags: u32, wr_id: u64) -> Self {
        Command { opcode: WR_RDMA_READ, flags, imm: 0, wr_id }
    }
}

/// The part of a work request that providers read for the opcodes posted here.
#[repr(C)]
struct Short {
    wr_id: u64,
    next: *mut c_void,
    sg_list: *const Sge,
    num_sge: i32,
    opcode: u32,
    send_flags: u32,
    imm_data: u32,
    remote_addr: u64,
    rkey: u32,
    /// The union's other members, shared receive queues, memory windows,
    /// segmentation offload: never looked at.
    rest: MaybeUninit<[u32; 19]>,
}

const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<Short>() == size_of::<ibv_send_wr>());
    assert!(offset_of!(Short, sg_list) == offset_of!(SendWr, sg_list));
    assert!(offset_of!(Short, num_sge) == offset_of!(SendWr, num_sge));
    assert!(offset_of!(Short, opcode) == offset_of!(SendWr, opcode));
    assert!(offset_of!(Short, send_flags) == offset_of!(SendWr, send_flags));
    assert!(offset_of!(Short, imm_data) == offset_of!(SendWr, imm_data));
    assert!(offset_of!(Short, remote_addr) == offset_of!(SendWr, remote_addr));
    assert!(offset_of!(Short, rkey) == offset_of!(SendWr, rkey));
};

/// A queue pair to post to. Its owner sees to it that the queue pair stays.
#[derive(Debug)]
pub(crate) struct Direct {
    qp: NonNull<ibv_qp>,
    post_send: PostSend,
    /// Where the device has ATOMIC WRITE.
    calls: Option<WrCalls>,
    post_recv: Option<PostRecv>,
    /// [`SEND_FENCE`] once a read was posted, which may be how a flush is
    /// emulated, and which a native atomic write would overtake.
    fence: AtomicU32,
}

// SAFETY: verbs objects may be used from any thread.
unsafe impl Send for Direct {}
// SAFETY: as above, by several threads at once: a provider locks a queue pair
// for a post, and from `wr_start` to `wr_complete`.
unsafe impl Sync for Direct {}

impl Direct {
    /// # Safety
    /// The queue pair is alive and outlives this, and was not made with a thread
    /// domain. `qp_ex` is null or its extended part, and `send_ops` are the
    /// `IBV_QP_EX_WITH_*` flags that its creation granted.
    pub(crate) unsafe fn new(qp: NonNull<ibv_qp>, qp_ex: *mut ibv_qp_ex, send_ops: u64) -> Self {
        // SAFETY: this function's own condition.
        let context = unsafe { (*qp.as_ptr()).context };
        // SAFETY: a live queue pair's context is open.
        let post_recv = unsafe { (*context).ops.post_recv };
        // SAFETY: this function's own condition.
        let post_send = unsafe { post_send_of(qp) };
        let calls = NonNull::new(qp_ex.cast::<QpEx>())
            // SAFETY: this function's own condition.
            .and_then(|qp_ex| unsafe { WrCalls::of(qp_ex, send_ops) });
        Direct { qp, post_send, calls, post_recv, fence: AtomicU32::new(0) }
    }

    /// Another for the same queue pair, under the same conditions.
    pub(crate) fn again(&self) -> Self {
        let fence = AtomicU32::new(self.fence.load(Ordering::Relaxed));
        Direct { fence, ..*self }
    }

    /// The queue pair.
    pub(crate) fn qp(&self) -> NonNull<ibv_qp> {
        self.qp
    }

    /// Writes 8 bytes atomically; they are copied before the call returns.
    ///
    /// # Errors
    /// What the post returned, which is not 0.
    ///
    /// # Safety
    /// 8 bytes may be read at `src`.
    #[inline]
    pub(crate) unsafe fn atomic_write(
        &self,
        to: Remote,
        src: *const c_void,
        signaled: u32,
        wr_id: u64,
    ) -> Result<(), c_int> {
        if let Some(calls) = &self.calls {
            // SAFETY: this function's own condition.
            return unsafe { self.native_word(calls, to, src, (signaled, wr_id)) };
        }
        // SAFETY: this function's own condition.
        unsafe { self.inline_word(to, src, signaled, wr_id) }
    }

    /// Of its own, so that the other way needs no registers kept for it.
    ///
    /// # Safety
    /// As [`atomic_write`](Self::atomic_write), and the calls are the queue
    /// pair's.
    #[inline(never)]
    unsafe fn native_word(
        &self,
        calls: &WrCalls,
        to: Remote,
        src: *const c_void,
        (signaled, wr_id): (u32, u64),
    ) -> Result<(), c_int> {
        let flags = signaled | self.fence.load(Ordering::Relaxed);
        // SAFETY: the queue pair is alive, says `new`, and the 8 bytes may be
        // read.
        match unsafe { calls.one_word((to.address, to.rkey), src, flags, wr_id) } {
            Some(posted) => posted,
            // SAFETY: this function's own condition.
            None => unsafe { self.inline_word(to, src, signaled, wr_id) },
        }
    }

    /// # Safety
    /// As [`atomic_write`](Self::atomic_write).
    #[inline]
    unsafe fn inline_word(
        &self,
        to: Remote,
        src: *const c_void,
        signaled: u32,
        wr_id: u64,
    ) -> Result<(), c_int> {
        let flags = signaled | SEND_INLINE | SEND_FENCE;
        let command = Command { opcode: WR_RDMA_WRITE, flags, imm: 0, wr_id };
        // Inline data has no use for a key.
        self.post(
            command,
            Some(to),
            Some(Sge { addr: src.expose_provenance() as u64, length: 8, lkey: 0 }),
        )
    }

    /// Flushes a remote range: by the operation where the queue pair has it, else
    /// by a read of its first 8 bytes into `scratch`.
    ///
    /// # Errors
    /// What the post returned, which is not 0.
    pub(crate) fn flush(
        &self,
        range: (Remote, usize),
        persistent: bool,
        signaled: u32,
        wr_id: u64,
        scratch: Sge,
    ) -> Result<(), c_int> {
        let (at, len) = range;
        if let Some(calls) = &self.calls {
            let remote = (at.address, at.rkey);
            // SAFETY: the queue pair is alive, says `new`.
            let posted = unsafe { calls.one_flush(remote, len, persistent, signaled, wr_id) };
            if let Some(posted) = posted {
                return posted;
            }
        }
        self.note_read();
        self.post(Command::read(signaled, wr_id), Some(at), Some(scratch))
    }

    /// From now on native atomic writes are fenced: a read may be outstanding that
    /// they would overtake.
    #[inline]
    pub(crate) fn note_read(&self) {
        self.fence.store(SEND_FENCE, Ordering::Relaxed);
    }

    /// Posts one request.
    ///
    /// # Errors
    /// What the post returned, which is not 0.
    #[inline]
    pub(crate) fn post(
        &self,
        command: Command,
        remote: Option<Remote>,
        sge: Option<Sge>,
    ) -> Result<(), c_int> {
        let remote = remote.unwrap_or(Remote { address: 0, rkey: 0 });
        let mut wr = Short {
            wr_id: command.wr_id,
            next: ptr::null_mut(),
            sg_list: sge.as_ref().map_or(ptr::null(), ptr::from_ref),
            num_sge: i32::from(sge.is_some()),
            opcode: command.opcode,
            send_flags: command.flags,
            imm_data: command.imm,
            remote_addr: remote.address,
            rkey: remote.rkey,
            rest: MaybeUninit::uninit(),
        };
        // There is one request: which was refused is no question.
        let mut bad_wr = MaybeUninit::uninit();
        let wr = ptr::from_mut(&mut wr).cast::<ibv_send_wr>();
        // SAFETY: the queue pair is alive, says `new`; the request is laid out as
        // the ABI has it (the assertions above) and, like its element, may be
        // read until the call returns; what the element names is checked by the
        // device against its key.
        let code = unsafe { (self.post_send)(self.qp.as_ptr(), wr, bad_wr.as_mut_ptr()) };
        if code == 0 { Ok(()) } else { Err(code) }
    }

    /// Posts a receive.
    ///
    /// # Errors
    /// What the post returned, which is not 0.
    pub(crate) fn recv(&self, wr_id: u64, sge: Option<Sge>) -> Result<(), c_int> {
        let Some(call) = self.post_recv else {
            return Err(Errno::EOPNOTSUPP.0);
        };
        post_recv(wr_id, sge, |wr, bad_wr| {
            // SAFETY: the queue pair is alive, says `new`; the request may be read
            // until the call returns.
            unsafe { call(self.qp.as_ptr(), wr, bad_wr) }
        })
    }
}

// What is handed over as an element.
const _: () = assert!(size_of::<Sge>() == size_of::<ibv_sge>());
