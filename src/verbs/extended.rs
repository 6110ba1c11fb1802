//! Calls through the extended part of a context.

#![allow(unsafe_code, reason = "libibverbs is a C library")]

use core::mem::offset_of;
use core::ptr::{self, NonNull};

use rdma_sys::{ibv_context, ibv_device_attr_ex, verbs_context};

/// The extended part of a context, if it has one.
///
/// rdma-sys looks for it with `u32::MAX` where libibverbs sets `UINTPTR_MAX`,
/// and so never finds it.
///
/// # Safety
/// The context is open.
unsafe fn verbs_context(context: NonNull<ibv_context>) -> Option<NonNull<verbs_context>> {
    // SAFETY: this function's own condition.
    let mark = unsafe { (*context.as_ptr()).abi_compat };
    if mark.addr() != usize::MAX {
        return None;
    }
    // SAFETY: a context with that mark is the `context` member of a
    // `verbs_context`, says verbs.h.
    let extended = unsafe { context.byte_sub(offset_of!(verbs_context, context)) };
    Some(extended.cast())
}

/// Asks for the extended attributes, and says whether the device has any.
///
/// # Safety
/// The context is open.
pub(super) unsafe fn query_device_ex(
    context: NonNull<ibv_context>,
    attributes: &mut ibv_device_attr_ex,
) -> bool {
    // SAFETY: this function's own condition.
    let Some(extended) = (unsafe { verbs_context(context) }) else {
        return false;
    };
    // SAFETY: it is a live `verbs_context`.
    let extended = unsafe { extended.as_ref() };
    // The structure grows at its head, and says how much of it there is.
    if extended.sz < size_of::<verbs_context>() - offset_of!(verbs_context, query_device_ex) {
        return false;
    }
    let Some(query) = extended.query_device_ex else {
        return false;
    };
    let len = size_of::<ibv_device_attr_ex>();
    // SAFETY: the context is open; the attributes are as long as is said.
    unsafe { query(context.as_ptr(), ptr::null(), attributes, len) == 0 }
}
