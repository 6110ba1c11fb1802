//! What a device does not say, found by trying.

use core::ptr::{self, NonNull};

use rdma_sys::{
    ibv_alloc_pd, ibv_context, ibv_create_cq, ibv_create_qp, ibv_dealloc_pd, ibv_destroy_cq,
    ibv_destroy_qp, ibv_qp_init_attr, ibv_qp_type,
};

/// The most inline data that a queue pair was granted, of the powers of two up
/// to 1,024 bytes; 0 if no queue pair could be made.
///
/// # Safety
/// The context is open.
pub(super) unsafe fn max_inline(context: NonNull<ibv_context>) -> u32 {
    // SAFETY: this function's own condition.
    let pd = unsafe { ibv_alloc_pd(context.as_ptr()) };
    if pd.is_null() {
        return 0;
    }
    // SAFETY: as above; no channel, vector 0.
    let cq = unsafe { ibv_create_cq(context.as_ptr(), 2, ptr::null_mut(), ptr::null_mut(), 0) };
    let mut most = 0;
    if !cq.is_null() {
        for exponent in 3..=10 {
            // SAFETY: both were just made and live until the end.
            let Some(granted) = (unsafe { granted_inline(pd, cq, 1 << exponent) }) else {
                break;
            };
            most = most.max(granted);
        }
        // SAFETY: no queue pair uses it any more.
        unsafe { ibv_destroy_cq(cq) };
    }
    // SAFETY: nothing of it is left.
    unsafe { ibv_dealloc_pd(pd) };
    most
}

/// # Safety
/// Both are alive, and of one device.
unsafe fn granted_inline(
    pd: *mut rdma_sys::ibv_pd,
    cq: *mut rdma_sys::ibv_cq,
    bytes: u32,
) -> Option<u32> {
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
