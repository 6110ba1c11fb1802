//! The NIC as C sees it: rdma-sys's own calls on its objects.

use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering};

use rdma_sys::{ibv_poll_cq, ibv_post_send, ibv_wc};

use super::*;
use crate::region::Usage;
use crate::verbs::ffi::{
    DEVICE_ATOMIC_WRITE, DEVICE_FLUSH_GLOBAL, DEVICE_FLUSH_PERSISTENT, query_device_ex,
};
use crate::wr::{
    SEND_INLINE, SEND_SIGNALED, SendWr, Sge, WC_RDMA_WRITE, WR_ATOMIC_WRITE, WR_RDMA_WRITE, Wc,
};
use crate::{AlignedOffset, WcStatus};

/// The upper half of the capability bits, which rdma-sys's own call never sees.
#[test]
fn the_capability_bits_say_which_operations_are_native() {
    let device = SoftDevice::new();
    let flush = DEVICE_FLUSH_GLOBAL | DEVICE_FLUSH_PERSISTENT;
    for (best, native_flush, bits) in [
        (Path::PostSend, true, 0),
        (Path::WrCalls, true, 0),
        (Path::Native, false, DEVICE_ATOMIC_WRITE),
        (Path::Native, true, DEVICE_ATOMIC_WRITE | flush),
    ] {
        let config = NicConfig::default().with_best(best).with_native_flush(native_flush);
        let qp = NicQp::new(&device, config).unwrap();
        // SAFETY: the context is open as long as `qp`.
        let attributes = unsafe { query_device_ex(qp.context()) }.unwrap();
        assert_eq!(attributes.device_cap_flags_ex, bits, "{best:?} {native_flush}");
    }
}

/// A chain of inline words to the words of a region, by rdma-sys's wrappers.
fn post(qp: &NicQp<'_>, wrs: &mut [SendWr], bad_wr: &mut *mut SendWr) -> i32 {
    for at in (1..wrs.len()).rev() {
        wrs[at - 1].next = &mut wrs[at];
    }
    // SAFETY: the queue pair is alive, the chain was just linked.
    unsafe { ibv_post_send(qp.qp(), wrs.as_mut_ptr().cast(), ptr::from_mut(bad_wr).cast()) }
}

fn poll(qp: &NicQp<'_>) -> std::vec::Vec<Wc> {
    let mut wcs = [Wc::ZERO; 16];
    let into: *mut ibv_wc = wcs.as_mut_ptr().cast();
    // SAFETY: the queue is alive; there is room for 16.
    let count = unsafe { ibv_poll_cq(qp.cq(), 16, into) };
    wcs[..count as usize].into()
}

fn inline_word(sge: &mut Sge, wr_id: u64, remote_addr: u64, rkey: u32) -> SendWr {
    SendWr {
        wr_id,
        sg_list: sge,
        num_sge: 1,
        opcode: WR_RDMA_WRITE,
        send_flags: SEND_INLINE | SEND_SIGNALED,
        remote_addr,
        rkey,
        ..SendWr::ZERO
    }
}

#[test]
fn plain_verbs_calls_work_on_it() {
    let memory = [const { AtomicU64::new(0) }; 4];
    let mut device = SoftDevice::new();
    let region = device.register(&memory, Usage::WRITE_DST).unwrap().remote();
    let config = NicConfig::default().with_depths(2, 4);
    let qp = NicQp::new(&device, config).unwrap();
    let words = [10u64, 11, 12];
    let mut sges = [0, 1, 2].map(|at: usize| Sge {
        addr: ptr::from_ref(&words[at]).expose_provenance() as u64,
        length: 8,
        lkey: 0,
    });
    let targets =
        [0u32, 1, 2].map(|at| region.target(AlignedOffset::of_word(at)).unwrap().address());
    let mut wrs = [0, 1, 2]
        .map(|at: usize| inline_word(&mut sges[at], 100 + at as u64, targets[at], region.rkey()));
    let third: *mut SendWr = &mut wrs[2];

    let mut bad_wr = ptr::null_mut();
    assert_eq!(post(&qp, &mut wrs, &mut bad_wr), Errno::ENOMEM.0, "room for two of three");
    assert_eq!(bad_wr, third);
    assert_eq!(memory.each_ref().map(|word| word.load(Ordering::Acquire)), [10, 11, 0, 0]);

    let expected = [100, 101].map(|id| Wc::new(id, WcStatus::SUCCESS, WC_RDMA_WRITE, 8, 0));
    let got: std::vec::Vec<_> = poll(&qp).into_iter().map(|wc| Wc { qp_num: 0, ..wc }).collect();
    assert_eq!(got, expected);
    assert_eq!(post(&qp, &mut wrs[2..], &mut bad_wr), 0, "polling made room");
    assert_eq!(poll(&qp)[0].wr_id, 102);
    assert_eq!((qp.posted(), qp.doorbells()), (3, 2));
}

/// What `ibv_post_send` of this NIC does not take.
#[test]
fn an_inline_length_above_the_grant_and_an_unknown_opcode_are_invalid() {
    let device = SoftDevice::new();
    let qp = NicQp::new(&device, NicConfig::default()).unwrap();
    let word = [0u64; 3];
    let addr = ptr::from_ref(&word).expose_provenance() as u64;
    let mut sge = Sge { addr, length: 24, lkey: 0 };
    for wr in [
        inline_word(&mut sge, 0, 0, 0),
        SendWr { opcode: 77, ..SendWr::ZERO },
        SendWr { num_sge: 2, ..SendWr::ZERO },
        SendWr { num_sge: -1, ..SendWr::ZERO },
    ] {
        let (mut wrs, mut bad_wr) = ([wr], ptr::null_mut());
        assert_eq!(post(&qp, &mut wrs, &mut bad_wr), Errno::EINVAL.0);
        assert!(ptr::eq(bad_wr, &wrs[0]));
    }
    assert_eq!((qp.posted(), qp.doorbells()), (0, 0));
}

/// As rxe does: ATOMIC WRITE through the plain call fails at the responder or
/// before, and never writes.
#[test]
fn an_atomic_write_through_the_plain_call_fails() {
    let memory = [const { AtomicU64::new(0) }; 1];
    let mut device = SoftDevice::new();
    let region = device.register(&memory, Usage::WRITE_DST).unwrap().remote();
    let qp = NicQp::new(&device, NicConfig::default()).unwrap();
    let word = 5u64;
    let addr = ptr::from_ref(&word).expose_provenance() as u64;
    let mut sge = Sge { addr, length: 8, lkey: 0 };
    let wr = SendWr {
        opcode: WR_ATOMIC_WRITE,
        send_flags: SEND_SIGNALED,
        ..inline_word(&mut sge, 9, region.base(), region.rkey())
    };
    let mut bad_wr = ptr::null_mut();
    assert_eq!(post(&qp, &mut [wr], &mut bad_wr), 0);
    let completions = poll(&qp);
    assert_eq!((completions[0].wr_id, completions[0].status), (9, WcStatus::REM_ACCESS_ERR));
    assert_eq!(memory[0].load(Ordering::Acquire), 0);
}
