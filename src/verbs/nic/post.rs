//! The function pointers of the context: `post_send`, `poll_cq`,
//! `req_notify_cq`.

#![allow(unsafe_code, reason = "C calls them")]

use core::ffi::c_int;
use core::ptr;

use rdma_sys::{ibv_cq, ibv_qp, ibv_send_wr, ibv_wc};

use crate::error::Errno;
use crate::verbs::errno::set_errno;
use crate::verbs::nic::board::Board;
use crate::verbs::nic::config::Refusal;
use crate::verbs::nic::hardware::Hardware;
use crate::wr::{
    SEND_INLINE, SendWr, Sge, WR_ATOMIC_WRITE, WR_FLUSH, WR_RDMA_READ, WR_RDMA_WRITE, Wc,
};

/// As `ibv_post_send` of the manual.
///
/// # Safety
/// The queue pair is a live board's and this thread alone uses it; the chain and
/// `bad_wr` are as `ibv_post_send` wants them.
pub(super) unsafe extern "C" fn post_send(
    qp: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    bad_wr: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: the queue pair is a board's, and this thread's alone.
    let hardware = unsafe { &mut (*Board::of_qp(qp)).hardware };
    let limit = hardware.limit();
    let mut next: *mut SendWr = wr.cast();
    let mut taken = 0;
    let mut refused = None;
    while !next.is_null() {
        // SAFETY: the caller's chain may be read; a request of ours is laid out
        // as the ABI's.
        let wr = unsafe { &*next };
        // SAFETY: the caller's scatter-gather lists and inline data may be read.
        let written = unsafe { write(hardware, wr, taken, limit) };
        if let Err(errno) = written {
            refused = Some(errno);
            break;
        }
        taken += 1;
        next = wr.next;
    }
    hardware.ring(taken, false);
    let habit = hardware.config.refusal;
    // SAFETY: the queue pair is a board's.
    unsafe { signal_events(qp) };
    match refused {
        None => 0,
        // SAFETY: the caller says that `bad_wr` may be written.
        Some(errno) => unsafe { refuse(habit, errno, next.cast(), bad_wr) },
    }
}

/// Writes one request into the queue, `ahead` entries from the next one.
///
/// # Safety
/// Its scatter-gather list, and inline data, may be read.
#[inline]
unsafe fn write(
    hardware: &mut Hardware<'_>,
    wr: &SendWr,
    ahead: u32,
    limit: u32,
) -> Result<(), Errno> {
    if ahead >= limit {
        return Err(hardware.reason(Errno::ENOMEM));
    }
    let (qp_num, max_inline) = (hardware.qp_num, hardware.config.max_inline);
    if !matches!(wr.opcode, WR_RDMA_WRITE | WR_RDMA_READ | WR_ATOMIC_WRITE | WR_FLUSH)
        || !(0..=1).contains(&wr.num_sge)
    {
        return Err(Errno::EINVAL);
    }
    let (wqe, wr_id) = hardware.entry(ahead);
    wqe.opcode = wr.opcode;
    wqe.qp_num = qp_num;
    wqe.flags = wr.send_flags;
    wqe.remote_addr = wr.remote_addr;
    wqe.rkey = wr.rkey;
    *wr_id = wr.wr_id;
    if wr.num_sge == 0 {
        (wqe.len, wqe.lkey, wqe.data) = (0, 0, 0);
        wqe.flags &= !SEND_INLINE;
        return Ok(());
    }
    // SAFETY: the list has one element, and the caller says that it may be read.
    let sge: Sge = unsafe { *wr.sg_list };
    wqe.len = sge.length;
    if wr.send_flags & SEND_INLINE == 0 {
        wqe.lkey = sge.lkey;
        wqe.data = sge.addr;
        return Ok(());
    }
    if sge.length != 8 || max_inline < 8 || wr.opcode != WR_RDMA_WRITE {
        return Err(Errno::EINVAL);
    }
    wqe.lkey = 0;
    let word = ptr::with_exposed_provenance::<u64>(sge.addr as usize);
    // SAFETY: 8 bytes of inline data, which the caller says may be read.
    wqe.data = unsafe { word.read_unaligned() };
    Ok(())
}

/// Says no, in the way that the NIC is used to.
///
/// # Safety
/// `bad_wr` may be written.
#[cold]
unsafe fn refuse(
    habit: Refusal,
    errno: Errno,
    wr: *mut ibv_send_wr,
    bad_wr: *mut *mut ibv_send_wr,
) -> c_int {
    let told = match habit {
        Refusal::Errno | Refusal::MinusOne | Refusal::Negative => Some(wr),
        Refusal::BadWrUnset => None,
        Refusal::BadWrNull => Some(ptr::null_mut()),
        // The address of something that is certainly not in the chain.
        Refusal::BadWrForeign => Some(ptr::from_ref(&habit).cast_mut().cast()),
    };
    if let Some(told) = told {
        // SAFETY: this function's own condition.
        unsafe { bad_wr.write(told) };
    }
    match habit {
        Refusal::MinusOne => {
            set_errno(errno);
            -1
        }
        Refusal::Negative => -errno.0,
        _ => errno.0,
    }
}

/// As `ibv_poll_cq` of the manual.
///
/// # Safety
/// The completion queue is a live board's and this thread alone uses it; there
/// is room for that many completions.
pub(super) unsafe extern "C" fn poll_cq(cq: *mut ibv_cq, most: c_int, wc: *mut ibv_wc) -> c_int {
    // SAFETY: the queue is a board's.
    let board = unsafe { Board::of_cq(cq) };
    // SAFETY: as above, and this thread's alone.
    let hardware = unsafe { &mut (*board).hardware };
    if let Some(errno) = hardware.poll_error {
        return -errno.0;
    }
    let into: *mut Wc = wc.cast();
    let count = hardware.poll(usize::try_from(most).unwrap_or(0), |place, completion| {
        // SAFETY: `place` is below `most`, so it lies in the caller's array.
        let slot = unsafe { into.add(place) };
        // SAFETY: as above; ours is laid out as the ABI's.
        unsafe { slot.write(completion) };
    });
    count as c_int
}

/// As `ibv_req_notify_cq` of the manual.
///
/// # Safety
/// The completion queue is a live board's and this thread alone uses it.
pub(super) unsafe extern "C" fn req_notify_cq(cq: *mut ibv_cq, _solicited_only: c_int) -> c_int {
    // SAFETY: the queue is a board's.
    let board = unsafe { Board::of_cq(cq) };
    // SAFETY: as above, and this thread's alone.
    unsafe { (*board).hardware.armed = true };
    0
}

/// # Safety
/// The queue pair is a live board's and this thread alone uses it.
#[inline]
pub(super) unsafe fn signal_events(qp: *mut ibv_qp) {
    // SAFETY: this function's own condition.
    let board = unsafe { &mut *Board::of_qp(qp) };
    if board.hardware.events > 0 {
        board.signal_events();
    }
}
