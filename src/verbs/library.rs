//! What libibverbs does itself, rather than through the function pointers of a
//! context: the software NIC has its own in their place.

#![allow(unsafe_code, reason = "libibverbs is a C library")]

use core::ffi::c_int;
use core::{fmt, mem, ptr};

use rdma_sys::{
    ibv_ack_async_event, ibv_ack_cq_events, ibv_async_event, ibv_comp_channel, ibv_context, ibv_cq,
    ibv_get_async_event, ibv_get_cq_event, ibv_modify_qp, ibv_qp, ibv_qp_attr, ibv_qp_attr_mask,
    ibv_qp_state,
};

use crate::error::Errno;
use crate::verbs::errno::last_errno;
use crate::verbs::ffi::returned;

/// A table of calls.
pub(crate) struct Library {
    /// Puts a live queue pair into the error state.
    pub(crate) to_error: unsafe fn(*mut ibv_qp) -> Result<(), Errno>,
    /// Takes the next event out of a live, non-blocking completion channel, and
    /// says whose it is. It must be acknowledged.
    pub(crate) next_cq_event: unsafe fn(*mut ibv_comp_channel) -> Result<*mut ibv_cq, Errno>,
    /// Acknowledges events of a live completion queue.
    pub(crate) ack_cq_events: unsafe fn(*mut ibv_cq, u32),
    /// Takes the next asynchronous event out of an open, non-blocking context.
    /// It must be acknowledged.
    pub(crate) next_async_event: unsafe fn(*mut ibv_context) -> Result<AsyncEvent, Errno>,
    /// Acknowledges such an event, once.
    pub(crate) ack_async_event: unsafe fn(&mut AsyncEvent),
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Library").finish_non_exhaustive()
    }
}

/// libibverbs.
pub(crate) static LIBIBVERBS: Library = Library {
    to_error,
    next_cq_event,
    ack_cq_events: |cq, count| {
        // SAFETY: the caller says that the queue is alive.
        unsafe { ibv_ack_cq_events(cq, count) }
    },
    next_async_event,
    ack_async_event: |event| {
        // SAFETY: the event is libibverbs' own, as `next_async_event` left it.
        unsafe { ibv_ack_async_event(ptr::from_mut(event).cast()) }
    },
};

/// `struct ibv_async_event`, its type as a number.
///
/// rdma-sys has a Rust enum there, and a library that is newer than its headers
/// would put a number into it that it has no variant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct AsyncEvent {
    /// The address of the queue pair or the completion queue, or in its lower
    /// half the number of the port.
    pub(crate) element: u64,
    /// `IBV_EVENT_*`.
    pub(crate) kind: c_int,
}

const _: () = assert!(size_of::<AsyncEvent>() == size_of::<ibv_async_event>());
const _: () = assert!(align_of::<AsyncEvent>() == align_of::<ibv_async_event>());
const _: () = assert!(
    mem::offset_of!(AsyncEvent, kind) == mem::offset_of!(ibv_async_event, event_type)
        && mem::offset_of!(AsyncEvent, element) == mem::offset_of!(ibv_async_event, element)
);

/// # Safety
/// The queue pair is alive.
unsafe fn to_error(qp: *mut ibv_qp) -> Result<(), Errno> {
    // SAFETY: a C struct of numbers, for which zeros are valid.
    let mut attributes: ibv_qp_attr = unsafe { mem::zeroed() };
    attributes.qp_state = ibv_qp_state::IBV_QPS_ERR;
    let mask = ibv_qp_attr_mask::IBV_QP_STATE.0;
    // SAFETY: this function's own condition.
    let code = unsafe { ibv_modify_qp(qp, &mut attributes, mask as c_int) };
    if code == 0 { Ok(()) } else { Err(returned(code)) }
}

/// # Safety
/// The channel is alive.
unsafe fn next_cq_event(channel: *mut ibv_comp_channel) -> Result<*mut ibv_cq, Errno> {
    let (mut cq, mut context) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: this function's own condition.
    let code = unsafe { ibv_get_cq_event(channel, &mut cq, &mut context) };
    if code == 0 { Ok(cq) } else { Err(last_errno()) }
}

/// # Safety
/// The context is open.
unsafe fn next_async_event(context: *mut ibv_context) -> Result<AsyncEvent, Errno> {
    let mut event = AsyncEvent { element: 0, kind: -1 };
    // SAFETY: this function's own condition; ours is laid out as the header's.
    let code = unsafe { ibv_get_async_event(context, ptr::from_mut(&mut event).cast()) };
    if code == 0 { Ok(event) } else { Err(last_errno()) }
}
