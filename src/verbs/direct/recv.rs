//! The receive request, for a queue pair's own queue or a shared one.

use core::ffi::c_int;
use core::ptr;

use rdma_sys::{ibv_recv_wr, ibv_sge};

use crate::wr::Sge;

/// Posts one receive by `call`, which is given the request and the place of the
/// one that is refused.
///
/// # Errors
/// What the post returned, which is not 0.
pub(crate) fn post_recv(
    wr_id: u64,
    sge: Option<Sge>,
    call: impl FnOnce(*mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int,
) -> Result<(), c_int> {
    let mut sge = sge.map(|Sge { addr, length, lkey }| ibv_sge { addr, length, lkey });
    let mut wr = ibv_recv_wr {
        wr_id,
        next: ptr::null_mut(),
        num_sge: c_int::from(sge.is_some()),
        sg_list: sge.as_mut().map_or(ptr::null_mut(), ptr::from_mut),
    };
    let mut bad_wr = ptr::null_mut();
    match call(&mut wr, &mut bad_wr) {
        0 => Ok(()),
        code => Err(code),
    }
}
