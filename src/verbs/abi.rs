//! Compile-time proof that our work request and completion are the ABI's.
//!
//! The ring's chain goes to `ibv_post_send` as it stands, and `ibv_poll_cq`
//! writes into our completions. Both rest on the equalities below; if a header
//! ever broke one, this file would not compile.

use core::mem::offset_of;

use rdma_sys::{
    ibv_send_flags as flags, ibv_send_wr, ibv_sge, ibv_wc, ibv_wc_opcode as wc_opcode,
    ibv_wc_status as wc_status, ibv_wr_opcode as wr_opcode,
};

use crate::error::WcStatus;
use crate::wr::{self, SendWr, Sge, Wc};

/// Each field lies where the header has it.
macro_rules! same_offsets {
    ($ours:ty, $theirs:ty: $($our:ident = $their:ident $(. $inner:ident)* ),+ $(,)?) => {
        $(const _: () = assert!(
            offset_of!($ours, $our) == offset_of!($theirs, $their $(. $inner)*),
            concat!(stringify!($ours), "::", stringify!($our), " is not where the ABI has it"),
        );)+
    };
}

const _: () = assert!(size_of::<SendWr>() == size_of::<ibv_send_wr>());
const _: () = assert!(align_of::<SendWr>().is_multiple_of(align_of::<ibv_send_wr>()));
same_offsets!(SendWr, ibv_send_wr:
    wr_id = wr_id,
    next = next,
    sg_list = sg_list,
    num_sge = num_sge,
    opcode = opcode,
    send_flags = send_flags,
    imm_data = imm_data_invalidated_rkey_union,
    remote_addr = wr,
    rest = wr.atomic.rkey,
    xrc = qp_type,
    sge = bind_mw_tso_union,
);
// `rdma` is a member of the union at `wr`.
const _: () = assert!(
    offset_of!(SendWr, remote_addr)
        == offset_of!(ibv_send_wr, wr) + offset_of!(rdma_sys::rdma_t, remote_addr)
);
const _: () = assert!(
    offset_of!(SendWr, rkey) == offset_of!(ibv_send_wr, wr) + offset_of!(rdma_sys::rdma_t, rkey)
);
// What farword keeps for itself lies where no provider looks for an RDMA
// operation: behind the union's `rdma` member.
const _: () = assert!(
    offset_of!(SendWr, flush_kind)
        >= offset_of!(ibv_send_wr, wr) + offset_of!(rdma_sys::rdma_t, rkey) + 4
);

const _: () = assert!(size_of::<Sge>() == size_of::<ibv_sge>());
const _: () = assert!(align_of::<Sge>() == align_of::<ibv_sge>());
same_offsets!(Sge, ibv_sge: addr = addr, length = length, lkey = lkey);

const _: () = assert!(size_of::<Wc>() == size_of::<ibv_wc>());
const _: () = assert!(align_of::<Wc>() == align_of::<ibv_wc>());
same_offsets!(Wc, ibv_wc:
    wr_id = wr_id,
    status = status,
    opcode = opcode,
    vendor_err = vendor_err,
    byte_len = byte_len,
    imm_data = imm_data_invalidated_rkey_union,
    qp_num = qp_num,
    src_qp = src_qp,
    wc_flags = wc_flags,
    pkey_index = pkey_index,
    slid = slid,
    sl = sl,
    dlid_path_bits = dlid_path_bits,
);

// Numbers. The headers of rdma-core 44 have no names for FLUSH, ATOMIC WRITE and
// their completions; theirs are held to the kernel's by `tests/vm`.
const _: () = assert!(wr::WR_RDMA_WRITE == wr_opcode::IBV_WR_RDMA_WRITE);
const _: () = assert!(wr::WR_RDMA_READ == wr_opcode::IBV_WR_RDMA_READ);
const _: () = assert!(wr::SEND_FENCE == flags::IBV_SEND_FENCE.0);
const _: () = assert!(wr::SEND_SIGNALED == flags::IBV_SEND_SIGNALED.0);
const _: () = assert!(wr::SEND_INLINE == flags::IBV_SEND_INLINE.0);
const _: () = assert!(wr::WC_RDMA_WRITE == wc_opcode::IBV_WC_RDMA_WRITE);
const _: () = assert!(wr::WC_RDMA_READ == wc_opcode::IBV_WC_RDMA_READ);

const _: () = assert!(WcStatus::SUCCESS.0 == wc_status::IBV_WC_SUCCESS);
const _: () = assert!(WcStatus::LOC_LEN_ERR.0 == wc_status::IBV_WC_LOC_LEN_ERR);
const _: () = assert!(WcStatus::LOC_QP_OP_ERR.0 == wc_status::IBV_WC_LOC_QP_OP_ERR);
const _: () = assert!(WcStatus::LOC_PROT_ERR.0 == wc_status::IBV_WC_LOC_PROT_ERR);
const _: () = assert!(WcStatus::WR_FLUSH_ERR.0 == wc_status::IBV_WC_WR_FLUSH_ERR);
const _: () = assert!(WcStatus::REM_INV_REQ_ERR.0 == wc_status::IBV_WC_REM_INV_REQ_ERR);
const _: () = assert!(WcStatus::REM_ACCESS_ERR.0 == wc_status::IBV_WC_REM_ACCESS_ERR);
const _: () = assert!(WcStatus::REM_OP_ERR.0 == wc_status::IBV_WC_REM_OP_ERR);
const _: () = assert!(WcStatus::RETRY_EXC_ERR.0 == wc_status::IBV_WC_RETRY_EXC_ERR);
const _: () = assert!(WcStatus::RNR_RETRY_EXC_ERR.0 == wc_status::IBV_WC_RNR_RETRY_EXC_ERR);
const _: () = assert!(WcStatus::GENERAL_ERR.0 == wc_status::IBV_WC_GENERAL_ERR);
