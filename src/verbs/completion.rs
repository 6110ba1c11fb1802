//! Completion queues and the channels of their events, each with one owner.

#![allow(unsafe_code, reason = "libibverbs is a C library")]

use core::ffi::c_int;
#[cfg(feature = "capi")]
use core::mem::ManuallyDrop;
use core::ptr::{self, NonNull};

use rdma_sys::{
    ibv_comp_channel, ibv_context, ibv_cq, ibv_create_comp_channel, ibv_create_cq,
    ibv_destroy_comp_channel, ibv_destroy_cq,
};

use crate::error::Errno;
use crate::verbs::errno::last_errno;
use crate::verbs::ffi::returned;

/// A channel of completion events. Its owner sees to it that the queues whose
/// events it carries go first.
#[derive(Debug)]
pub(crate) struct CompChannel(NonNull<ibv_comp_channel>);

// SAFETY: a channel is a descriptor; it may be used from any thread.
unsafe impl Send for CompChannel {}
// SAFETY: as above.
unsafe impl Sync for CompChannel {}

impl CompChannel {
    /// A channel whose reads wait.
    ///
    /// # Errors
    /// The errno of the call.
    ///
    /// # Safety
    /// The context is open and outlives the channel.
    pub(crate) unsafe fn new(context: NonNull<ibv_context>) -> Result<Self, Errno> {
        // SAFETY: this function's own condition.
        let raw = unsafe { ibv_create_comp_channel(context.as_ptr()) };
        NonNull::new(raw).map(CompChannel).ok_or_else(last_errno)
    }

    /// The channel, alive as long as this.
    pub(crate) fn get(&self) -> NonNull<ibv_comp_channel> {
        self.0
    }

    /// Its descriptor.
    #[cfg(feature = "capi")]
    pub(crate) fn fd(&self) -> c_int {
        // SAFETY: the channel is alive.
        unsafe { (*self.0.as_ptr()).fd }
    }

    /// Destroys it, and says whether that could be done.
    ///
    /// # Errors
    /// The errno of the call.
    #[cfg(feature = "capi")]
    pub(crate) fn destroy(self) -> Result<(), Errno> {
        let channel = ManuallyDrop::new(self);
        // SAFETY: it is destroyed this once, since its drop does not run.
        let code = unsafe { ibv_destroy_comp_channel(channel.0.as_ptr()) };
        if code == 0 { Ok(()) } else { Err(returned(code)) }
    }
}

impl Drop for CompChannel {
    fn drop(&mut self) {
        // SAFETY: its queues are gone, says the type.
        unsafe { ibv_destroy_comp_channel(self.0.as_ptr()) };
    }
}

/// A completion queue. Its owner sees to it that the queue pairs that use it go
/// first, and its channel after it.
#[derive(Debug)]
pub(crate) struct CompletionQueue(NonNull<ibv_cq>);

// SAFETY: a completion queue may be used from any thread; libibverbs serialises.
unsafe impl Send for CompletionQueue {}
// SAFETY: as above.
unsafe impl Sync for CompletionQueue {}

impl CompletionQueue {
    /// A queue for that many completions, or more.
    ///
    /// # Errors
    /// The errno of the call.
    ///
    /// # Safety
    /// The context is open and outlives the queue, and the channel is of it.
    pub(crate) unsafe fn new(
        context: NonNull<ibv_context>,
        depth: c_int,
        channel: &CompChannel,
    ) -> Result<Self, Errno> {
        let (ours, channel) = (ptr::null_mut(), channel.0.as_ptr());
        // SAFETY: this function's own condition; vector 0 is there.
        let raw = unsafe { ibv_create_cq(context.as_ptr(), depth, ours, channel, 0) };
        NonNull::new(raw).map(CompletionQueue).ok_or_else(last_errno)
    }

    /// The queue, alive as long as this.
    pub(crate) fn get(&self) -> NonNull<ibv_cq> {
        self.0
    }

    /// # Safety
    /// The queue is this one's to destroy, or this is never dropped.
    #[cfg(feature = "capi")]
    pub(crate) unsafe fn from_raw(cq: NonNull<ibv_cq>) -> Self {
        CompletionQueue(cq)
    }

    /// How many completions it holds.
    pub(crate) fn depth(&self) -> u32 {
        // SAFETY: the queue is alive.
        let granted = unsafe { self.0.as_ref().cqe };
        u32::try_from(granted).unwrap_or(0)
    }

    /// Destroys it, and says whether that could be done.
    ///
    /// # Errors
    /// The errno of the call.
    #[cfg(feature = "capi")]
    pub(crate) fn destroy(self) -> Result<(), Errno> {
        let queue = ManuallyDrop::new(self);
        // SAFETY: it is destroyed this once, since its drop does not run.
        let code = unsafe { ibv_destroy_cq(queue.0.as_ptr()) };
        if code == 0 { Ok(()) } else { Err(returned(code)) }
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        // SAFETY: the queue pairs that used it are gone, says the type, and its
        // events are acknowledged by whoever took them.
        unsafe { ibv_destroy_cq(self.0.as_ptr()) };
    }
}

/// Asks for an event with the next completion that comes.
///
/// # Errors
/// The provider's errno.
///
/// # Safety
/// The queue is alive.
pub(crate) unsafe fn request_notify(cq: NonNull<ibv_cq>) -> Result<(), Errno> {
    // SAFETY: this function's own condition.
    let context = unsafe { (*cq.as_ptr()).context };
    // SAFETY: a live queue's context is open.
    let request = unsafe { (*context).ops.req_notify_cq };
    let request = request.ok_or(Errno::EOPNOTSUPP)?;
    // SAFETY: the queue is alive; 0 asks for every completion.
    let code: c_int = unsafe { request(cq.as_ptr(), 0) };
    if code == 0 { Ok(()) } else { Err(returned(code)) }
}
