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
use crate::verbs::nic::wqe::{MALFORMED, WORD, Wqe};
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
    let mut next: *const PostedWr = wr.cast();
    let mut taken = 0;
    let mut refused = None;
    let driver = Driver::of(hardware);
    while !next.is_null() {
        // SAFETY: the caller's chain may be read, and begins as the ABI's does.
        let wr = unsafe { &*next };
        if taken == limit {
            refused = Some(Errno::ENOMEM);
            break;
        }
        // SAFETY: the entry is free, since it is below the limit; the caller's
        // scatter-gather lists and inline data may be read.
        if let Err(errno) = unsafe { driver.write(wr, taken) } {
            refused = Some(errno);
            break;
        }
        taken += 1;
        next = wr.next;
    }
    hardware.ring(taken, false);
    match refused {
        None => 0,
        Some(errno) => {
            let errno = if taken == limit { hardware.reason(errno) } else { errno };
            // SAFETY: the caller says that `bad_wr` may be written.
            unsafe { refuse(hardware.config.refusal, errno, next.cast_mut().cast(), bad_wr) }
        }
    }
}

/// What the driver reads of a request: the part that every opcode here has. Like
/// `struct ibv_send_wr`, and unlike [`SendWr`], it may lie at any multiple of 8.
#[repr(C)]
struct PostedWr {
    wr_id: u64,
    next: *const PostedWr,
    sg_list: *const Sge,
    num_sge: i32,
    opcode: u32,
    send_flags: u32,
    imm_data: u32,
    remote_addr: u64,
    rkey: u32,
}

const _: () = {
    use core::mem::offset_of;
    assert!(offset_of!(PostedWr, sg_list) == offset_of!(SendWr, sg_list));
    assert!(offset_of!(PostedWr, send_flags) == offset_of!(SendWr, send_flags));
    assert!(offset_of!(PostedWr, remote_addr) == offset_of!(SendWr, remote_addr));
    assert!(offset_of!(PostedWr, rkey) == offset_of!(SendWr, rkey));
};

/// The driver's view of the send queue, to be kept in registers.
#[derive(Clone, Copy)]
struct Driver {
    base: *mut Wqe,
    mask: u32,
    next: u64,
    inline_len: u32,
}

impl Driver {
    #[inline]
    fn of(hardware: &mut Hardware<'_>) -> Self {
        let inline_len = hardware.inline_len;
        let (sq, next) = hardware.entries();
        Driver { base: sq.at(0), mask: sq.len() - 1, next, inline_len }
    }

    /// The entry that is `ahead` from the next one.
    #[inline]
    fn entry(self, ahead: u32) -> *mut Wqe {
        let index = (self.next as u32).wrapping_add(ahead) & self.mask;
        // `wrapping_add` because it needs no proof: the masked index is one of
        // the queue's.
        self.base.wrapping_add(index as usize)
    }

    /// Writes one request into the queue, `ahead` entries from the next one.
    ///
    /// # Safety
    /// The queue is alive and that entry is free; the request's scatter-gather
    /// list, and inline data, may be read.
    #[inline]
    unsafe fn write(self, wr: &PostedWr, ahead: u32) -> Result<(), Errno> {
        let is_inline = wr.send_flags & SEND_INLINE != 0;
        if wr.opcode != WR_RDMA_WRITE || !is_inline || wr.num_sge != 1 {
            // SAFETY: this function's own condition.
            return unsafe { write_other(self.entry(ahead), wr) };
        }
        // SAFETY: the list has one element, and the caller says that it may be
        // read.
        let sge = unsafe { &*wr.sg_list };
        if sge.length != self.inline_len {
            return Err(Errno::EINVAL);
        }
        let word = ptr::with_exposed_provenance::<u64>(sge.addr as usize);
        // SAFETY: 8 bytes of inline data, which the caller says may be read.
        let word = unsafe { word.read_unaligned() };
        // SAFETY: an entry of the queue that nobody else uses now.
        let wqe = unsafe { &mut *self.entry(ahead) };
        wqe.set_head(WR_RDMA_WRITE, wr.send_flags | WORD);
        wqe.len = 8;
        wqe.remote_addr = wr.remote_addr;
        wqe.set_keys(wr.rkey, 0);
        wqe.data = word;
        wqe.wr_id = wr.wr_id;
        Ok(())
    }
}

/// As [`Driver::write`], for what carries no word.
///
/// # Safety
/// As [`Driver::write`], the entry being that one.
#[inline(never)]
unsafe fn write_other(entry: *mut Wqe, wr: &PostedWr) -> Result<(), Errno> {
    let known = matches!(wr.opcode, WR_RDMA_WRITE | WR_RDMA_READ | WR_ATOMIC_WRITE | WR_FLUSH);
    let is_inline = wr.send_flags & SEND_INLINE != 0;
    let nothing = Sge::default();
    let sge = match wr.num_sge {
        0 => &nothing,
        // SAFETY: the list has one element, and the caller says that it may be
        // read.
        1 if !is_inline => unsafe { &*wr.sg_list },
        _ => return Err(Errno::EINVAL),
    };
    if !known {
        return Err(Errno::EINVAL);
    }
    let malformed = matches!(wr.opcode, WR_ATOMIC_WRITE | WR_FLUSH);
    // SAFETY: an entry of the queue that nobody else uses now.
    let wqe = unsafe { &mut *entry };
    let flags = wr.send_flags & !(SEND_INLINE | WORD | MALFORMED);
    wqe.set_head(wr.opcode, flags | if malformed { MALFORMED } else { 0 });
    wqe.len = sge.length;
    wqe.remote_addr = wr.remote_addr;
    wqe.set_keys(wr.rkey, sge.lkey);
    wqe.data = sge.addr;
    wqe.wr_id = wr.wr_id;
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
    unsafe { (*board).hardware.cq.armed = true };
    0
}
