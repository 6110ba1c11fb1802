//! What a device does not say, found by trying.

use core::ptr::{self, NonNull};

use rdma_sys::{
    ibv_alloc_pd, ibv_context, ibv_cq, ibv_create_cq, ibv_create_qp, ibv_dealloc_pd,
    ibv_destroy_cq, ibv_destroy_qp, ibv_pd, ibv_qp_init_attr, ibv_qp_init_attr_ex,
    ibv_qp_init_attr_mask as mask, ibv_qp_type,
};

use crate::verbs::ffi;

/// What queue pairs were granted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Probed {
    /// The most inline data, of the powers of two up to 1,024 bytes; 0 if no
    /// queue pair could be made.
    pub(super) max_inline: u32,
    /// Whether the library made one with ATOMIC WRITE.
    pub(super) atomic_write: bool,
    /// Whether the library made one with FLUSH.
    pub(super) flush: bool,
}

/// Makes queue pairs, and never uses them.
///
/// # Safety
/// The context is open.
pub(super) unsafe fn probe(context: NonNull<ibv_context>) -> Probed {
    let mut probed = Probed::default();
    // SAFETY: this function's own condition.
    let pd = unsafe { ibv_alloc_pd(context.as_ptr()) };
    if pd.is_null() {
        return probed;
    }
    // SAFETY: as above; no channel, vector 0.
    let cq = unsafe { ibv_create_cq(context.as_ptr(), 2, ptr::null_mut(), ptr::null_mut(), 0) };
    if !cq.is_null() {
        for exponent in 3..=10 {
            // SAFETY: both were just made and live until the end.
            let Some(granted) = (unsafe { granted_inline(pd, cq, 1 << exponent) }) else {
                break;
            };
            probed.max_inline = probed.max_inline.max(granted);
        }
        // SAFETY: as above, and of that context.
        probed.atomic_write = unsafe { grants(context, pd, cq, ffi::QP_EX_WITH_ATOMIC_WRITE) };
        // SAFETY: as above.
        probed.flush = unsafe { grants(context, pd, cq, ffi::QP_EX_WITH_FLUSH) };
        // SAFETY: no queue pair uses it any more.
        unsafe { ibv_destroy_cq(cq) };
    }
    // SAFETY: nothing of it is left.
    unsafe { ibv_dealloc_pd(pd) };
    probed
}

/// # Safety
/// The context is open, and both are alive and its.
unsafe fn grants(
    context: NonNull<ibv_context>,
    pd: *mut ibv_pd,
    cq: *mut ibv_cq,
    send_op: u64,
) -> bool {
    // SAFETY: a plain C struct, for which zeros are valid.
    let mut attributes: ibv_qp_init_attr_ex = unsafe { core::mem::zeroed() };
    attributes.send_cq = cq;
    attributes.recv_cq = cq;
    attributes.pd = pd;
    attributes.qp_type = ibv_qp_type::IBV_QPT_RC;
    attributes.cap.max_send_wr = 1;
    attributes.cap.max_recv_wr = 1;
    attributes.cap.max_send_sge = 1;
    attributes.cap.max_recv_sge = 1;
    attributes.comp_mask = mask::IBV_QP_INIT_ATTR_PD.0 | mask::IBV_QP_INIT_ATTR_SEND_OPS_FLAGS.0;
    attributes.send_ops_flags = send_op | ffi::QP_EX_WITH_RDMA_WRITE;
    // SAFETY: this function's own condition.
    let Ok(qp) = (unsafe { ffi::create_qp_ex(context.as_ptr(), &mut attributes) }) else {
        return false;
    };
    // SAFETY: it was just made and never used.
    unsafe { ibv_destroy_qp(qp.as_ptr()) };
    true
}

/// # Safety
/// Both are alive, and of one device.
unsafe fn granted_inline(pd: *mut ibv_pd, cq: *mut ibv_cq, bytes: u32) -> Option<u32> {
    // SAFETY: a plain C struct, for which zeros are valid.
    let mut attributes: ibv_qp_init_attr = unsafe { core::mem::zeroed() };
    attributes.send_cq = cq;
    attributes.recv_cq = cq;
    attributes.qp_type = ibv_qp_type::IBV_QPT_RC;
    attributes.cap.max_send_wr = 1;
    attributes.cap.max_recv_wr = 1;
    attributes.cap.max_send_sge = 1;
    attributes.cap.max_recv_sge = 1;
    attributes.cap.max_inline_data = bytes;
    // SAFETY: this function's own condition; the attributes may be written.
    let qp = unsafe { ibv_create_qp(pd, &mut attributes) };
    if qp.is_null() {
        return None;
    }
    // SAFETY: it was just made and never used.
    unsafe { ibv_destroy_qp(qp) };
    (attributes.cap.max_inline_data >= bytes).then_some(attributes.cap.max_inline_data)
}
