//! Shared receive queues.

#![allow(unsafe_code, reason = "libibverbs is a C library")]

use core::ffi::c_int;
use core::mem::ManuallyDrop;
use core::ptr::{self, NonNull};

use rdma_sys::{ibv_create_srq, ibv_destroy_srq, ibv_pd, ibv_srq, ibv_srq_attr, ibv_srq_init_attr};

use crate::error::Errno;
use crate::verbs::direct::post_recv;
use crate::verbs::errno::last_errno;
use crate::verbs::ffi::returned;
use crate::wr::Sge;

/// A receive queue that several queue pairs share. Its owner sees to it that
/// they go first.
#[derive(Debug)]
pub(crate) struct ReceiveQueue(NonNull<ibv_srq>);

// SAFETY: a shared receive queue may be used from any thread; libibverbs
// serialises.
unsafe impl Send for ReceiveQueue {}
// SAFETY: as above.
unsafe impl Sync for ReceiveQueue {}

impl ReceiveQueue {
    /// A queue for that many receives of one element each.
    ///
    /// # Errors
    /// The errno of the call.
    ///
    /// # Safety
    /// The domain is alive and outlives the queue.
    pub(crate) unsafe fn new(pd: NonNull<ibv_pd>, depth: u32) -> Result<Self, Errno> {
        let attr = ibv_srq_attr { max_wr: depth, max_sge: 1, srq_limit: 0 };
        let mut wanted = ibv_srq_init_attr { srq_context: ptr::null_mut(), attr };
        // SAFETY: this function's own condition.
        let raw = unsafe { ibv_create_srq(pd.as_ptr(), &mut wanted) };
        NonNull::new(raw).map(ReceiveQueue).ok_or_else(last_errno)
    }

    /// The queue, alive as long as this.
    pub(crate) fn get(&self) -> NonNull<ibv_srq> {
        self.0
    }

    /// Posts a receive.
    ///
    /// # Errors
    /// What the post returned, which is not 0.
    pub(crate) fn recv(&self, wr_id: u64, sge: Option<Sge>) -> Result<(), c_int> {
        // SAFETY: the queue is alive.
        let context = unsafe { (*self.0.as_ptr()).context };
        // SAFETY: a live queue's context is open.
        let call = unsafe { (*context).ops.post_srq_recv };
        let call = call.ok_or(Errno::EOPNOTSUPP.0)?;
        post_recv(wr_id, sge, |wr, bad_wr| {
            // SAFETY: the queue is alive; the request may be read until the call
            // returns.
            unsafe { call(self.0.as_ptr(), wr, bad_wr) }
        })
    }

    /// Destroys it, and says whether that could be done.
    ///
    /// # Errors
    /// The errno of the call.
    pub(crate) fn destroy(self) -> Result<(), Errno> {
        let queue = ManuallyDrop::new(self);
        // SAFETY: it is destroyed this once, since its drop does not run.
        let code = unsafe { ibv_destroy_srq(queue.0.as_ptr()) };
        if code == 0 { Ok(()) } else { Err(returned(code)) }
    }
}

impl Drop for ReceiveQueue {
    fn drop(&mut self) {
        // SAFETY: its queue pairs are gone, says the type.
        unsafe { ibv_destroy_srq(self.0.as_ptr()) };
    }
}
