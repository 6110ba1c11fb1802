//! The function pointers of the extended queue pair: `wr_start` to
//! `wr_complete`.

#![allow(unsafe_code, reason = "C calls them")]

use core::ffi::{c_int, c_void};
use core::slice;

use rdma_sys::ibv_sge;

use crate::error::Errno;
use crate::op::FlushKind;
use crate::verbs::ffi::{FLUSH_GLOBAL, FLUSH_PERSISTENT, FLUSH_RANGE, QpEx};
use crate::verbs::nic::board::Board;
use crate::verbs::nic::hardware::Hardware;
use crate::verbs::nic::wqe::{MALFORMED, WORD, Wqe};
use crate::wr::{WR_ATOMIC_WRITE, WR_FLUSH, WR_RDMA_READ, WR_RDMA_WRITE};

/// Fills a queue pair's function pointers in, those of ATOMIC WRITE and FLUSH
/// only where it has them.
pub(super) fn install(qp: &mut QpEx, atomic_write: bool, flush: bool) {
    qp.wr_start = Some(wr_start);
    qp.wr_complete = Some(wr_complete);
    qp.wr_abort = Some(wr_abort);
    qp.wr_rdma_write = Some(wr_rdma_write);
    qp.wr_rdma_read = Some(wr_rdma_read);
    qp.wr_set_inline_data = Some(wr_set_inline_data);
    qp.wr_set_sge = Some(wr_set_sge);
    qp.wr_set_sge_list = Some(wr_set_sge_list);
    if atomic_write {
        qp.wr_atomic_write = Some(wr_atomic_write);
    }
    if flush {
        qp.wr_flush = Some(wr_flush);
    }
}

/// # Safety
/// The queue pair is a live board's and this thread alone uses it, for as long
/// as the reference lives.
#[inline]
unsafe fn hardware<'a, 'd>(qp: *mut QpEx) -> &'a mut Hardware<'d> {
    // SAFETY: this function's own condition.
    unsafe { &mut (*Board::of_qp(qp.cast())).hardware }
}

unsafe extern "C" fn wr_start(qp: *mut QpEx) {
    // SAFETY: the caller's queue pair is a live board's, and its own.
    let hardware = unsafe { hardware(qp) };
    hardware.building = hardware.posted();
    hardware.build_error = None;
}

unsafe extern "C" fn wr_abort(qp: *mut QpEx) {
    // SAFETY: as for `wr_start`.
    unsafe { wr_start(qp) };
}

unsafe extern "C" fn wr_complete(qp: *mut QpEx) -> c_int {
    // SAFETY: as for `wr_start`.
    let hardware = unsafe { hardware(qp) };
    if let Some(errno) = hardware.build_error {
        return errno.0;
    }
    hardware.ring(hardware.built(), true);
    0
}

/// Begins a request of this opcode, mark and length, and gives its entry. Where there is no room that is one
/// which is never posted, so that it may be written all the same.
///
/// # Safety
/// As for `wr_start`, and between it and `wr_complete`.
#[inline]
unsafe fn begin<'a>(
    qp: *mut QpEx,
    (opcode, mark, len): (u32, u32, u32),
    rkey: u32,
    remote_addr: u64,
) -> &'a mut Wqe {
    // SAFETY: a field of the caller's queue pair.
    let id = unsafe { (*qp).wr_id };
    // SAFETY: as above.
    let flags = unsafe { (*qp).wr_flags };
    // SAFETY: this function's own condition.
    let hardware = unsafe { hardware(qp) };
    let number = hardware.building;
    if hardware.is_full_at(number) {
        // A full queue as rxe and others say it.
        let errno = hardware.reason(Errno::ENOSPC);
        hardware.build_error.get_or_insert(errno);
        return hardware.entry(number);
    }
    hardware.building = number.wrapping_add(1);
    let wqe = hardware.entry(number);
    wqe.set_head(opcode, flags & !(WORD | MALFORMED) | mark);
    wqe.len = len;
    wqe.remote_addr = remote_addr;
    wqe.set_keys(rkey, 0);
    wqe.wr_id = id;
    wqe
}

/// The entry of the request that was begun last, as [`begin`] gave it.
///
/// # Safety
/// As for [`begin`].
#[inline]
unsafe fn last<'a>(qp: *mut QpEx) -> &'a mut Wqe {
    // SAFETY: this function's own condition.
    let hardware = unsafe { hardware(qp) };
    // Where nothing was begun it is the next one's, which is never in use.
    let back = u64::from(hardware.built() > 0);
    hardware.entry(hardware.building.wrapping_sub(back))
}

unsafe extern "C" fn wr_rdma_write(qp: *mut QpEx, rkey: u32, remote_addr: u64) {
    // SAFETY: the caller is between `wr_start` and `wr_complete`.
    unsafe { begin(qp, (WR_RDMA_WRITE, 0, 0), rkey, remote_addr) };
}

unsafe extern "C" fn wr_rdma_read(qp: *mut QpEx, rkey: u32, remote_addr: u64) {
    // SAFETY: as for `wr_rdma_write`.
    unsafe { begin(qp, (WR_RDMA_READ, 0, 0), rkey, remote_addr) };
}

unsafe extern "C" fn wr_atomic_write(
    qp: *mut QpEx,
    rkey: u32,
    remote_addr: u64,
    word: *const c_void,
) {
    // SAFETY: as for `wr_rdma_write`.
    let wqe = unsafe { begin(qp, (WR_ATOMIC_WRITE, WORD, 8), rkey, remote_addr) };
    // SAFETY: the caller's 8 bytes may be read.
    wqe.data = unsafe { word.cast::<u64>().read_unaligned() };
}

unsafe extern "C" fn wr_flush(
    qp: *mut QpEx,
    rkey: u32,
    remote_addr: u64,
    len: usize,
    kind: u8,
    level: u8,
) {
    // SAFETY: as for `wr_rdma_write`.
    let wqe = unsafe { begin(qp, (WR_FLUSH, 0, 0), rkey, remote_addr) };
    wqe.data = len as u64;
    let kind = match (kind, level) {
        (FLUSH_PERSISTENT, FLUSH_RANGE) => FlushKind::Persistent as u32,
        (FLUSH_GLOBAL, FLUSH_RANGE) => FlushKind::Visibility as u32,
        _ => {
            // SAFETY: as above.
            unsafe { hardware(qp) }.build_error = Some(Errno::EINVAL);
            return;
        }
    };
    wqe.set_keys(rkey, kind);
}

unsafe extern "C" fn wr_set_inline_data(qp: *mut QpEx, data: *mut c_void, len: usize) {
    // SAFETY: as for `wr_rdma_write`.
    if len != unsafe { hardware(qp) }.inline_len as usize {
        // SAFETY: as above.
        unsafe { hardware(qp) }.build_error.get_or_insert(Errno::EINVAL);
        return;
    }
    // SAFETY: as above.
    let wqe = unsafe { last(qp) };
    // As on Soft-RoCE, the flag says that this is a word, and not the call:
    // without it, it counts as a gather list, of a key that is nobody's.
    wqe.len = 8;
    // SAFETY: the caller's 8 bytes may be read.
    wqe.data = unsafe { data.cast::<u64>().read_unaligned() };
}

unsafe extern "C" fn wr_set_sge(qp: *mut QpEx, lkey: u32, addr: u64, len: u32) {
    // SAFETY: as for `wr_rdma_write`.
    let wqe = unsafe { last(qp) };
    wqe.set_keys(wqe.rkey(), lkey);
    (wqe.data, wqe.len) = (addr, len);
}

unsafe extern "C" fn wr_set_sge_list(qp: *mut QpEx, count: usize, list: *const ibv_sge) {
    match count {
        // SAFETY: as for `wr_rdma_write`.
        0 => unsafe { wr_set_sge(qp, 0, 0, 0) },
        1 => {
            // SAFETY: the caller's list has one element.
            let sge = unsafe { &slice::from_raw_parts(list, 1)[0] };
            // SAFETY: as above.
            unsafe { wr_set_sge(qp, sge.lkey, sge.addr, sge.length) };
        }
        _ => {
            // SAFETY: as above.
            unsafe { hardware(qp) }.build_error.get_or_insert(Errno::EINVAL);
        }
    }
}
