//! The one place where rdma-sys 0.3 is worked round.
//!
//! What is wrong or missing there:
//! - Its `verbs_get_ctx` looks for the mark `u32::MAX` where libibverbs sets
//!   `UINTPTR_MAX`, so it never finds the extended part of a context: every
//!   extended call says EOPNOTSUPP or falls back to its short form, and the
//!   upper half of a device's capability bits is never seen.
//! - Its `ibv_qp_ex` is as long as in the headers it was built against, which is
//!   not what the library that runs has: 44 added `wr_atomic_write`, 50 added
//!   `wr_flush`.
//!
//! The age of the headers must not decide what a running library can do, so
//! what is newer than the oldest supported header is declared here.

#![allow(unsafe_code, reason = "libibverbs is a C library")]

use core::ffi::{c_int, c_uint, c_void};
use core::mem::offset_of;
use core::ptr::{self, NonNull};

use rdma_sys::{
    ibv_context, ibv_device_attr_ex, ibv_parent_domain_init_attr, ibv_pd, ibv_qp,
    ibv_qp_init_attr_ex, ibv_query_device, ibv_td, ibv_td_init_attr, verbs_context,
};

use crate::error::Errno;
use crate::verbs::errno::last_errno;

/// `device_cap_flags_ex`: FLUSH to visibility.
pub(crate) const DEVICE_FLUSH_GLOBAL: u64 = 1 << 38;
/// `device_cap_flags_ex`: FLUSH to persistence.
pub(crate) const DEVICE_FLUSH_PERSISTENT: u64 = 1 << 39;
/// `device_cap_flags_ex`: ATOMIC WRITE.
pub(crate) const DEVICE_ATOMIC_WRITE: u64 = 1 << 40;

/// `send_ops_flags`: `wr_rdma_write`.
pub(crate) const QP_EX_WITH_RDMA_WRITE: u64 = 1 << 0;
/// `send_ops_flags`: `wr_rdma_read`.
pub(crate) const QP_EX_WITH_RDMA_READ: u64 = 1 << 4;
/// `send_ops_flags`: `wr_flush`.
pub(crate) const QP_EX_WITH_FLUSH: u64 = 1 << 11;
/// `send_ops_flags`: `wr_atomic_write`.
pub(crate) const QP_EX_WITH_ATOMIC_WRITE: u64 = 1 << 12;

/// `ibv_reg_mr` access: a peer may flush to visibility.
pub(crate) const ACCESS_FLUSH_GLOBAL: u32 = 1 << 8;
/// `ibv_reg_mr` access: a peer may flush to persistence.
pub(crate) const ACCESS_FLUSH_PERSISTENT: u32 = 1 << 9;

/// `wr_flush` type: to visibility.
pub(crate) const FLUSH_GLOBAL: u8 = 1 << 0;
/// `wr_flush` type: to persistence.
pub(crate) const FLUSH_PERSISTENT: u8 = 1 << 1;
/// `wr_flush` level: the range that is named, not the whole region.
pub(crate) const FLUSH_RANGE: u8 = 0;

/// The mark in `abi_compat` of a context that is part of a `verbs_context`.
pub(crate) const EXTENDED: usize = usize::MAX;

/// `struct ibv_qp_ex` as rdma-core 50 and later have it.
///
/// A library older than that has a shorter one, with something else behind it:
/// [`wr_atomic_write`](Self::wr_atomic_write) and [`wr_flush`](Self::wr_flush)
/// are there only where a queue pair was created with
/// [`QP_EX_WITH_ATOMIC_WRITE`] and [`QP_EX_WITH_FLUSH`], since a library that
/// does not know a flag refuses it. Never form a reference to the whole.
#[repr(C)]
pub(crate) struct QpEx {
    pub(crate) qp_base: ibv_qp,
    pub(crate) comp_mask: u64,
    pub(crate) wr_id: u64,
    pub(crate) wr_flags: c_uint,
    pub(crate) wr_atomic_cmp_swp: Option<unsafe extern "C" fn()>,
    pub(crate) wr_atomic_fetch_add: Option<unsafe extern "C" fn()>,
    pub(crate) wr_bind_mw: Option<unsafe extern "C" fn()>,
    pub(crate) wr_local_inv: Option<unsafe extern "C" fn()>,
    pub(crate) wr_rdma_read: Option<WrRdma>,
    pub(crate) wr_rdma_write: Option<WrRdma>,
    pub(crate) wr_rdma_write_imm: Option<unsafe extern "C" fn()>,
    pub(crate) wr_send: Option<unsafe extern "C" fn()>,
    pub(crate) wr_send_imm: Option<unsafe extern "C" fn()>,
    pub(crate) wr_send_inv: Option<unsafe extern "C" fn()>,
    pub(crate) wr_send_tso: Option<unsafe extern "C" fn()>,
    pub(crate) wr_set_ud_addr: Option<unsafe extern "C" fn()>,
    pub(crate) wr_set_xrc_srqn: Option<unsafe extern "C" fn()>,
    pub(crate) wr_set_inline_data: Option<WrSetInlineData>,
    pub(crate) wr_set_inline_data_list: Option<unsafe extern "C" fn()>,
    pub(crate) wr_set_sge: Option<WrSetSge>,
    pub(crate) wr_set_sge_list: Option<WrSetSgeList>,
    pub(crate) wr_start: Option<WrStart>,
    pub(crate) wr_complete: Option<WrComplete>,
    pub(crate) wr_abort: Option<WrStart>,
    pub(crate) wr_atomic_write: Option<WrAtomicWrite>,
    pub(crate) wr_flush: Option<WrFlush>,
}

/// `wr_rdma_write`, `wr_rdma_read`: (qp, rkey, remote address).
pub(crate) type WrRdma = unsafe extern "C" fn(*mut QpEx, u32, u64);
/// `wr_set_inline_data`: (qp, address, length).
pub(crate) type WrSetInlineData = unsafe extern "C" fn(*mut QpEx, *mut c_void, usize);
/// `wr_set_sge`: (qp, lkey, address, length).
pub(crate) type WrSetSge = unsafe extern "C" fn(*mut QpEx, u32, u64, u32);
/// `wr_set_sge_list`: (qp, count, list).
pub(crate) type WrSetSgeList = unsafe extern "C" fn(*mut QpEx, usize, *const rdma_sys::ibv_sge);
/// `wr_start`, `wr_abort`.
pub(crate) type WrStart = unsafe extern "C" fn(*mut QpEx);
/// `wr_complete`.
pub(crate) type WrComplete = unsafe extern "C" fn(*mut QpEx) -> c_int;
/// `wr_atomic_write`: (qp, rkey, remote address, the 8 bytes).
pub(crate) type WrAtomicWrite = unsafe extern "C" fn(*mut QpEx, u32, u64, *const c_void);
/// `wr_flush`: (qp, rkey, remote address, length, type, level).
pub(crate) type WrFlush = unsafe extern "C" fn(*mut QpEx, u32, u64, usize, u8, u8);

/// Our declaration begins as the header's does.
macro_rules! same_offsets {
    ($($field:ident),+ $(,)?) => {
        $(const _: () = assert!(
            offset_of!(QpEx, $field) == offset_of!(rdma_sys::ibv_qp_ex, $field),
            concat!("QpEx::", stringify!($field), " is not where the header has it"),
        );)+
    };
}

same_offsets!(
    qp_base,
    comp_mask,
    wr_id,
    wr_flags,
    wr_atomic_cmp_swp,
    wr_rdma_read,
    wr_rdma_write,
    wr_set_inline_data,
    wr_set_sge,
    wr_set_sge_list,
    wr_start,
    wr_complete,
    wr_abort,
);
const _: () = assert!(
    size_of::<rdma_sys::ibv_qp_ex>() >= offset_of!(QpEx, wr_atomic_write),
    "the headers are older than ibv_wr_start and the like (rdma-core 23)"
);

/// The extended part of a context, if it has one.
///
/// # Safety
/// The context is open.
pub(crate) unsafe fn extended(context: *mut ibv_context) -> Option<NonNull<verbs_context>> {
    // SAFETY: an open context is readable, says this function's condition.
    let mark = unsafe { (*context).abi_compat };
    if mark.addr() != EXTENDED {
        return None;
    }
    // SAFETY: a context with that mark is the last member of a `verbs_context`,
    // says verbs.h, so what lies this far before it is in the same object.
    let start = unsafe { context.byte_sub(offset_of!(verbs_context, context)) };
    NonNull::new(start.cast())
}

/// A function pointer of a context's extended part: `verbs_get_ctx_op` of
/// verbs.h. `None` where the library that runs does not have it.
macro_rules! extended_op {
    ($context:expr, $field:ident) => {{
        // SAFETY: the caller of the function around says that the context is
        // open.
        match unsafe { extended($context) } {
            None => None,
            Some(extended) => {
                // The structure grows at its head and says how much of it there
                // is, counted from its end.
                let needed = size_of::<verbs_context>() - offset_of!(verbs_context, $field);
                // SAFETY: `sz` has been there since there are extended contexts.
                let there = unsafe { (*extended.as_ptr()).sz };
                if there < needed {
                    None
                } else {
                    // SAFETY: the field lies within what there is.
                    unsafe { (*extended.as_ptr()).$field }
                }
            }
        }
    }};
}

/// What a device can do, its extended attributes among it where it has them;
/// else those are zero.
///
/// # Errors
/// The errno of the call.
///
/// # Safety
/// The context is open.
pub(crate) unsafe fn query_device_ex(
    context: *mut ibv_context,
) -> Result<ibv_device_attr_ex, Errno> {
    // SAFETY: a C struct of numbers, for which zeros are valid.
    let mut attributes: ibv_device_attr_ex = unsafe { core::mem::zeroed() };
    if let Some(query) = extended_op!(context, query_device_ex) {
        let len = size_of::<ibv_device_attr_ex>();
        // SAFETY: the context is open, the attributes are as long as said.
        let code = unsafe { query(context, ptr::null(), &mut attributes, len) };
        if code == 0 {
            return Ok(attributes);
        }
        if code.abs() != Errno::EOPNOTSUPP.0 {
            return Err(returned(code));
        }
    }
    // SAFETY: the context is open.
    let code = unsafe { ibv_query_device(context, &mut attributes.orig_attr) };
    if code == 0 { Ok(attributes) } else { Err(returned(code)) }
}

/// Creates a queue pair by its extended attributes.
///
/// # Errors
/// The errno of the call; `EOPNOTSUPP` where the context is not extended.
///
/// # Safety
/// The context is open, and what the attributes point at is alive, of this
/// context, and outlives the queue pair.
pub(crate) unsafe fn create_qp_ex(
    context: *mut ibv_context,
    attributes: &mut ibv_qp_init_attr_ex,
) -> Result<NonNull<ibv_qp>, Errno> {
    let create = extended_op!(context, create_qp_ex).ok_or(Errno::EOPNOTSUPP)?;
    // SAFETY: this function's own condition.
    let qp = unsafe { create(context, attributes) };
    NonNull::new(qp).ok_or_else(last_errno)
}

/// Allocates a thread domain.
///
/// # Errors
/// The errno of the call; `EOPNOTSUPP` where the context is not extended, or the
/// library is older than the call.
///
/// # Safety
/// The context is open.
pub(crate) unsafe fn alloc_td(context: *mut ibv_context) -> Result<NonNull<ibv_td>, Errno> {
    let alloc = extended_op!(context, alloc_td).ok_or(Errno::EOPNOTSUPP)?;
    let mut attributes = ibv_td_init_attr { comp_mask: 0 };
    // SAFETY: the context is open.
    let td = unsafe { alloc(context, &mut attributes) };
    NonNull::new(td).ok_or_else(last_errno)
}

/// Frees a thread domain.
///
/// # Errors
/// The errno of the call.
///
/// # Safety
/// The domain is alive, of this context, and nothing uses it any more.
pub(crate) unsafe fn dealloc_td(
    context: *mut ibv_context,
    td: NonNull<ibv_td>,
) -> Result<(), Errno> {
    let dealloc = extended_op!(context, dealloc_td).ok_or(Errno::EOPNOTSUPP)?;
    // SAFETY: this function's own condition.
    let code = unsafe { dealloc(td.as_ptr()) };
    if code == 0 { Ok(()) } else { Err(returned(code)) }
}

/// Allocates a parent domain: a protection domain whose queue pairs and
/// completion queues belong to one thread, so that the provider takes no lock.
/// It is freed by `ibv_dealloc_pd`.
///
/// # Errors
/// The errno of the call; `EOPNOTSUPP` where the context is not extended, or the
/// library is older than the call.
///
/// # Safety
/// The context is open; both domains are alive, of this context, and outlive
/// the new one.
pub(crate) unsafe fn alloc_parent_domain(
    context: *mut ibv_context,
    pd: NonNull<ibv_pd>,
    td: NonNull<ibv_td>,
) -> Result<NonNull<ibv_pd>, Errno> {
    let alloc = extended_op!(context, alloc_parent_domain).ok_or(Errno::EOPNOTSUPP)?;
    // SAFETY: a C struct of pointers and numbers, for which zeros are valid.
    let mut attributes: ibv_parent_domain_init_attr = unsafe { core::mem::zeroed() };
    attributes.pd = pd.as_ptr();
    attributes.td = td.as_ptr();
    // SAFETY: this function's own condition.
    let parent = unsafe { alloc(context, &mut attributes) };
    NonNull::new(parent).ok_or_else(last_errno)
}

/// Gives advice about registered memory.
///
/// # Errors
/// What the call returned; `EOPNOTSUPP` where there is no such call.
///
/// # Safety
/// The domain is alive, and the element names registered memory of it.
#[cfg(feature = "capi")]
pub(crate) unsafe fn advise_mr(
    pd: NonNull<ibv_pd>,
    advice: u32,
    flags: u32,
    element: &mut rdma_sys::ibv_sge,
) -> Result<(), c_int> {
    // SAFETY: the domain is alive, so its context is open.
    let context = unsafe { (*pd.as_ptr()).context };
    let advise = extended_op!(context, advise_mr).ok_or(Errno::EOPNOTSUPP.0)?;
    // SAFETY: this function's own condition; one element.
    match unsafe { advise(pd.as_ptr(), advice, flags, element, 1) } {
        0 => Ok(()),
        code => Err(code),
    }
}

/// The errno in a call's return value: the number itself, its negative, or −1
/// with `errno` set.
pub(crate) fn returned(code: c_int) -> Errno {
    match code {
        -1 => last_errno(),
        _ => Errno(code.saturating_abs()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::boxed::Box;

    unsafe extern "C" fn no_td(_: *mut ibv_context, _: *mut ibv_td_init_attr) -> *mut ibv_td {
        ptr::dangling_mut()
    }

    /// A context whose only extended function is `alloc_td`.
    fn context(sz: usize) -> Box<verbs_context> {
        // SAFETY: a C struct of pointers and numbers, for which zeros are valid.
        let mut context: Box<verbs_context> = Box::new(unsafe { core::mem::zeroed() });
        context.sz = sz;
        context.alloc_td = Some(no_td);
        context.context.abi_compat = ptr::without_provenance_mut(EXTENDED);
        context
    }

    /// When this fails, rdma-sys finds extended contexts by itself, and what
    /// this module does for it can go.
    #[test]
    fn rdma_sys_still_misses_the_extended_part_of_a_context() {
        let mut extended = context(size_of::<verbs_context>());
        let whole: *mut verbs_context = &mut *extended;
        // SAFETY: a field of a live context.
        let raw = unsafe { &raw mut (*whole).context };
        let mut attributes = ibv_td_init_attr { comp_mask: 0 };
        // SAFETY: it only calls `alloc_td` above, or nothing.
        let theirs = unsafe { rdma_sys::ibv_alloc_td(raw, &mut attributes) };
        assert!(theirs.is_none(), "rdma-sys has mended verbs_get_ctx");
        assert_eq!(last_errno(), Errno::EOPNOTSUPP);
        // SAFETY: the context is live.
        assert!(unsafe { alloc_td(raw) }.is_ok());
    }

    #[test]
    fn a_function_that_the_running_library_lacks_is_not_called() {
        let short = size_of::<verbs_context>() - offset_of!(verbs_context, alloc_td) - 1;
        let mut extended = context(short);
        let whole: *mut verbs_context = &mut *extended;
        // SAFETY: a field of a live context.
        let raw = unsafe { &raw mut (*whole).context };
        // SAFETY: the context is live.
        assert_eq!(unsafe { alloc_td(raw) }, Err(Errno::EOPNOTSUPP));
    }

    #[test]
    fn a_context_without_the_mark_has_no_extended_part() {
        for mark in [0, u32::MAX as usize] {
            let mut extended = context(size_of::<verbs_context>());
            extended.context.abi_compat = ptr::without_provenance_mut(mark);
            let whole: *mut verbs_context = &mut *extended;
            // SAFETY: a field of a live context.
            let raw = unsafe { &raw mut (*whole).context };
            // SAFETY: the context is live.
            assert_eq!(unsafe { alloc_td(raw) }, Err(Errno::EOPNOTSUPP), "{mark:#x}");
        }
    }

    #[test]
    fn each_way_to_return_an_errno_is_understood() {
        assert_eq!(returned(12), Errno::ENOMEM);
        assert_eq!(returned(-12), Errno::ENOMEM);
        assert_eq!(returned(c_int::MIN), Errno(c_int::MAX));
        crate::verbs::errno::set_errno(Errno::ENOSPC);
        assert_eq!(returned(-1), Errno::ENOSPC);
    }
}
