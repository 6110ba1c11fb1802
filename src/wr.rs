//! The work request and the work completion as the verbs ABI lays them out.
//!
//! One chain serves every provider: libibverbs takes it as it stands, the
//! software device walks it. With the `verbs` feature, compile-time assertions
//! hold every size and offset to rdma-sys's.

use core::fmt;
use core::ptr;

use crate::error::WcStatus;

/// `IBV_WR_RDMA_WRITE`.
pub const WR_RDMA_WRITE: u32 = 0;
/// `IBV_WR_RDMA_READ`.
pub const WR_RDMA_READ: u32 = 4;
/// `IBV_WR_FLUSH`.
pub const WR_FLUSH: u32 = 14;
/// `IBV_WR_ATOMIC_WRITE`.
pub const WR_ATOMIC_WRITE: u32 = 15;

/// `IBV_SEND_FENCE`: wait for every earlier read of this queue pair.
pub const SEND_FENCE: u32 = 1 << 0;
/// `IBV_SEND_SIGNALED`: complete on success too.
pub const SEND_SIGNALED: u32 = 1 << 1;
/// `IBV_SEND_INLINE`: the payload is copied by the post itself.
pub const SEND_INLINE: u32 = 1 << 3;

/// `IBV_WC_RDMA_WRITE`.
pub const WC_RDMA_WRITE: u32 = 1;
/// `IBV_WC_RDMA_READ`.
pub const WC_RDMA_READ: u32 = 2;
/// `IBV_WC_FLUSH`.
pub const WC_FLUSH: u32 = 8;
/// `IBV_WC_ATOMIC_WRITE`.
pub const WC_ATOMIC_WRITE: u32 = 9;

/// A scatter-gather element: `struct ibv_sge`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Sge {
    /// The address of its first byte.
    pub addr: u64,
    /// Its length in bytes.
    pub length: u32,
    /// The local key; not looked at for inline data.
    pub lkey: u32,
}

/// A work request: `struct ibv_send_wr`, its unions laid flat.
///
/// Of the union that a request's opcode selects, farword uses the RDMA member
/// (`remote_addr`, `rkey`), which no provider looks behind. The rest of that
/// union, and the unions of shared receive queues, memory windows and
/// segmentation offload in the last 56 bytes, are farword's own: the request's
/// word, its only scatter-gather element and a flush's kind and length live in
/// them, so that a request is two cache lines and nothing else. [`WR_FLUSH`]
/// goes through `ibv_wr_flush`, never through `ibv_post_send`.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct SendWr {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// The next request of the chain, or null.
    pub next: *mut SendWr,
    /// The scatter-gather list.
    pub sg_list: *mut Sge,
    /// How many elements the list has.
    pub num_sge: i32,
    /// `IBV_WR_*`.
    pub opcode: u32,
    /// `IBV_SEND_*` bits.
    pub send_flags: u32,
    /// Immediate data; farword sends none.
    pub imm_data: u32,
    /// The remote address.
    pub remote_addr: u64,
    /// The remote key.
    pub rkey: u32,
    /// For [`WR_FLUSH`]: 0 to persistence, 1 to visibility.
    pub flush_kind: u32,
    /// The payload of an atomic write, which its element points at. It lies in
    /// the union that the opcode selects, behind the RDMA member, so that all
    /// that staging an atomic write stores is in one cache line.
    pub(crate) word: u64,
    /// The rest of that union.
    pub(crate) rest: u64,
    /// The union of shared receive queues.
    pub(crate) xrc: u64,
    /// The element that `sg_list` points at.
    pub(crate) sge: Sge,
    /// For [`WR_FLUSH`]: how many bytes.
    pub flush_len: u64,
    pub(crate) reserved: [u64; 3],
}

const _: () = assert!(size_of::<SendWr>() == 128 && size_of::<Sge>() == 16);

impl SendWr {
    /// All zero: an RDMA write of nothing.
    pub const ZERO: SendWr = SendWr {
        wr_id: 0,
        next: ptr::null_mut(),
        sg_list: ptr::null_mut(),
        num_sge: 0,
        opcode: WR_RDMA_WRITE,
        send_flags: 0,
        imm_data: 0,
        remote_addr: 0,
        rkey: 0,
        flush_kind: 0,
        word: 0,
        rest: 0,
        xrc: 0,
        sge: Sge { addr: 0, length: 0, lkey: 0 },
        flush_len: 0,
        reserved: [0; 3],
    };

    /// Whether a success of it gives a completion.
    #[inline]
    #[must_use]
    pub const fn is_signaled(&self) -> bool {
        self.send_flags & SEND_SIGNALED != 0
    }

    /// Whether it waits for every earlier read.
    #[inline]
    #[must_use]
    pub const fn is_fenced(&self) -> bool {
        self.send_flags & SEND_FENCE != 0
    }

    /// Whether its payload is copied by the post itself.
    #[inline]
    #[must_use]
    pub const fn is_inline(&self) -> bool {
        self.send_flags & SEND_INLINE != 0
    }
}

impl fmt::Debug for SendWr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendWr")
            .field("wr_id", &format_args!("{:#x}", self.wr_id))
            .field("opcode", &self.opcode)
            .field("send_flags", &format_args!("{:#x}", self.send_flags))
            .field("num_sge", &self.num_sge)
            .field("remote_addr", &format_args!("{:#x}", self.remote_addr))
            .field("rkey", &format_args!("{:#x}", self.rkey))
            .finish_non_exhaustive()
    }
}

/// A work completion: `struct ibv_wc`.
///
/// When `status` is not success, only `wr_id`, `status`, `vendor_err` and
/// `qp_num` mean anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Wc {
    /// The request's.
    pub wr_id: u64,
    /// How it went.
    pub status: WcStatus,
    /// `IBV_WC_*`.
    pub opcode: u32,
    /// The provider's own code for an error.
    pub vendor_err: u32,
    /// How many bytes were moved.
    pub byte_len: u32,
    /// Immediate data.
    pub imm_data: u32,
    /// The local queue pair's number.
    pub qp_num: u32,
    /// The sending queue pair's number.
    pub src_qp: u32,
    /// `IBV_WC_*` flag bits.
    pub wc_flags: u32,
    /// Partition key index.
    pub pkey_index: u16,
    /// Source LID.
    pub slid: u16,
    /// Service level.
    pub sl: u8,
    /// Destination LID path bits.
    pub dlid_path_bits: u8,
}

const _: () = assert!(size_of::<Wc>() == 48);

impl Wc {
    /// All zero.
    pub const ZERO: Wc = Wc {
        wr_id: 0,
        status: WcStatus::SUCCESS,
        opcode: 0,
        vendor_err: 0,
        byte_len: 0,
        imm_data: 0,
        qp_num: 0,
        src_qp: 0,
        wc_flags: 0,
        pkey_index: 0,
        slid: 0,
        sl: 0,
        dlid_path_bits: 0,
    };

    /// A completion with these fields and the rest zero.
    #[inline]
    #[must_use]
    pub const fn new(wr_id: u64, status: WcStatus, opcode: u32, byte_len: u32, qp_num: u32) -> Wc {
        Wc { wr_id, status, opcode, byte_len, qp_num, ..Wc::ZERO }
    }
}

impl Default for Wc {
    fn default() -> Self {
        Wc::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::offset_of;

    /// The numbers of `verbs.h` on a 64-bit machine, read off the C compiler.
    #[test]
    fn the_layout_is_the_abis() {
        assert_eq!(offset_of!(SendWr, next), 8);
        assert_eq!(offset_of!(SendWr, sg_list), 16);
        assert_eq!(offset_of!(SendWr, num_sge), 24);
        assert_eq!(offset_of!(SendWr, opcode), 28);
        assert_eq!(offset_of!(SendWr, send_flags), 32);
        assert_eq!(offset_of!(SendWr, imm_data), 36);
        assert_eq!(offset_of!(SendWr, remote_addr), 40);
        assert_eq!(offset_of!(SendWr, rkey), 48);
        assert!(offset_of!(SendWr, word) == 56 && offset_of!(SendWr, rest) == 64, "its own");
        assert_eq!(offset_of!(SendWr, xrc), 72, "the union behind the RDMA one");
        assert_eq!(offset_of!(SendWr, sge), 80, "the union of windows and offload");
        assert_eq!(offset_of!(Wc, status), 8);
        assert_eq!(offset_of!(Wc, vendor_err), 16);
        assert_eq!(offset_of!(Wc, qp_num), 28);
        assert_eq!(offset_of!(Wc, dlid_path_bits), 45);
    }
}
