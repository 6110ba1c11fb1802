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
use crate::verbs::ffi::{
    FLUSH_GLOBAL, FLUSH_PERSISTENT, FLUSH_RANGE, QP_EX_WITH_ATOMIC_WRITE, QP_EX_WITH_FLUSH, QpEx,
    WrAtomicWrite, WrComplete, WrFlush, WrStart,
};
use crate::wr::{SEND_FENCE, SEND_INLINE, SendWr, Sge, WR_RDMA_READ, WR_RDMA_WRITE};

mod recv;

pub(crate) use recv::post_recv;

type PostSend = unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int;
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
    unused: u32,
    /// The union's other members, shared receive queues, memory windows,
    /// segmentation offload: never looked at.
    rest: MaybeUninit<[u64; 9]>,
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

/// The calls of the native path.
#[derive(Clone, Copy, Debug)]
struct Native {
    qp: NonNull<QpEx>,
    start: WrStart,
    complete: WrComplete,
    atomic_write: Option<WrAtomicWrite>,
    flush: Option<WrFlush>,
}

/// A queue pair to post to. Its owner sees to it that the queue pair stays.
#[derive(Debug)]
pub(crate) struct Direct {
    qp: NonNull<ibv_qp>,
    post_send: Option<PostSend>,
    post_recv: Option<PostRecv>,
    native: Option<Native>,
    /// [`SEND_FENCE`] once a flush was emulated by a read, which a native atomic
    /// write would overtake.
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
        let ops = unsafe { &(*context).ops };
        let native = NonNull::new(qp_ex.cast::<QpEx>())
            // SAFETY: this function's own condition.
            .and_then(|qp_ex| unsafe { Native::of(qp_ex, send_ops) });
        let (post_send, post_recv) = (ops.post_send, ops.post_recv);
        Direct { qp, post_send, post_recv, native, fence: AtomicU32::new(0) }
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
        if let Some(native) = &self.native
            && let Some(call) = native.atomic_write
        {
            let flags = signaled | self.fence.load(Ordering::Relaxed);
            let qp = native.begin(flags, wr_id);
            // SAFETY: the queue pair's own builder, between `begin` and `finish`;
            // the 8 bytes are copied.
            unsafe { call(qp, to.rkey, to.address, src) };
            return native.finish();
        }
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
        if let Some(native) = &self.native
            && let Some(call) = native.flush
        {
            let kind = if persistent { FLUSH_PERSISTENT } else { FLUSH_GLOBAL };
            let qp = native.begin(signaled, wr_id);
            // SAFETY: the queue pair's own builder, between `begin` and `finish`.
            unsafe { call(qp, at.rkey, at.address, len, kind, FLUSH_RANGE) };
            return native.finish();
        }
        self.fence.store(SEND_FENCE, Ordering::Relaxed);
        let command = Command { opcode: WR_RDMA_READ, flags: signaled, imm: 0, wr_id };
        self.post(command, Some(at), Some(scratch))
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
            unused: 0,
            rest: MaybeUninit::uninit(),
        };
        let Some(post_send) = self.post_send else {
            return Err(Errno::EOPNOTSUPP.0);
        };
        let mut bad_wr = ptr::null_mut();
        let wr = ptr::from_mut(&mut wr).cast::<ibv_send_wr>();
        // SAFETY: the queue pair is alive, says `new`; the request is laid out as
        // the ABI has it (the assertions above) and, like its element, may be
        // read until the call returns; what the element names is checked by the
        // device against its key.
        let code = unsafe { post_send(self.qp.as_ptr(), wr, &mut bad_wr) };
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

impl Native {
    /// # Safety
    /// As [`Direct::new`].
    unsafe fn of(qp: NonNull<QpEx>, send_ops: u64) -> Option<Self> {
        let has_atomic_write = send_ops & QP_EX_WITH_ATOMIC_WRITE != 0;
        let has_flush = send_ops & QP_EX_WITH_FLUSH != 0;
        let at = qp.as_ptr();
        // SAFETY: an extended queue pair has it.
        let start = unsafe { (*at).wr_start }?;
        // SAFETY: as above.
        let complete = unsafe { (*at).wr_complete }?;
        // Where an older library has something else; one that granted the flag
        // is not older.
        let atomic_write = if has_atomic_write {
            // SAFETY: its flag was granted, so it is there.
            unsafe { (*at).wr_atomic_write }
        } else {
            None
        };
        let flush = if has_flush {
            // SAFETY: as above.
            unsafe { (*at).wr_flush }
        } else {
            None
        };
        Some(Native { qp, start, complete, atomic_write, flush })
    }

    /// Locks the queue pair and begins a request, whose builder is to be called
    /// next.
    #[inline]
    fn begin(&self, flags: u32, wr_id: u64) -> *mut QpEx {
        let qp = self.qp.as_ptr();
        // SAFETY: the queue pair is alive, says `Direct::new`.
        unsafe { (self.start)(qp) };
        // SAFETY: a field of the live queue pair, which is ours to write here.
        unsafe { (*qp).wr_id = wr_id };
        // SAFETY: as above.
        unsafe { (*qp).wr_flags = flags };
        qp
    }

    /// Rings the doorbell and unlocks the queue pair.
    #[inline]
    fn finish(&self) -> Result<(), c_int> {
        // SAFETY: the queue pair is alive, says `Direct::new`, and was locked by
        // `begin`.
        let code = unsafe { (self.complete)(self.qp.as_ptr()) };
        if code == 0 { Ok(()) } else { Err(code) }
    }
}

// What is handed over as an element.
const _: () = assert!(size_of::<Sge>() == size_of::<ibv_sge>());
