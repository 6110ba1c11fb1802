//! What a queue pair is asked for, and what is granted.

#![allow(unsafe_code, reason = "librdmacm is a C library")]

use core::mem;
use core::ptr::NonNull;

use rdma_sys::{
    ibv_cq, ibv_pd, ibv_qp_init_attr_ex, ibv_qp_init_attr_mask as mask, ibv_qp_type, ibv_srq,
};

use super::id::CmId;
use crate::error::Errno;
use crate::verbs::device::DeviceCapabilities;
use crate::verbs::ffi::{
    QP_EX_WITH_ATOMIC_WRITE, QP_EX_WITH_FLUSH, QP_EX_WITH_RDMA_READ, QP_EX_WITH_RDMA_WRITE,
};
use crate::verbs::qp::Path;

/// A word.
pub(crate) const INLINE: u32 = 8;

/// What was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    pub(crate) sq_depth: u32,
    pub(crate) cq_depth: u32,
    pub(crate) max_inline: u32,
    /// `IBV_QP_EX_WITH_*` flags.
    pub(crate) send_ops: u64,
}

/// A reliable connected queue pair to be made: requests of one element, 8 bytes
/// of inline data, signaled where they say so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QpShape {
    pub(crate) pd: NonNull<ibv_pd>,
    pub(crate) send_cq: NonNull<ibv_cq>,
    pub(crate) recv_cq: NonNull<ibv_cq>,
    /// Null for a receive queue of its own.
    pub(crate) srq: *mut ibv_srq,
    pub(crate) sq_depth: u32,
    pub(crate) rq_depth: u32,
}

impl QpShape {
    /// Makes the id's queue pair with the first of these operations that it can
    /// be made with. The depth of the completion queue is left 0.
    ///
    /// # Errors
    /// The errno of the last try; `None` where there was nothing to try.
    ///
    /// # Safety
    /// What the shape names is alive, and outlives the queue pair.
    pub(crate) unsafe fn create(
        &self,
        id: &CmId,
        attempts: impl Iterator<Item = u64>,
    ) -> Result<Granted, Option<Errno>> {
        let mut result = Err(None);
        for send_ops in attempts {
            let mut wanted = self.attributes(send_ops);
            // SAFETY: this function's own condition.
            match unsafe { id.create_qp(&mut wanted) } {
                Ok(()) => {
                    let cap = wanted.cap;
                    let (sq_depth, max_inline) = (cap.max_send_wr, cap.max_inline_data);
                    return Ok(Granted { sq_depth, cq_depth: 0, max_inline, send_ops });
                }
                Err(errno) => {
                    result = Err(Some(errno));
                    // An older library does not know the operation: try with less.
                    if !matches!(errno, Errno::EOPNOTSUPP | Errno::EINVAL | Errno::ENOSYS) {
                        break;
                    }
                }
            }
        }
        result
    }

    fn attributes(&self, send_ops: u64) -> ibv_qp_init_attr_ex {
        // SAFETY: a C struct of pointers and numbers, for which zeros are valid.
        let mut wanted: ibv_qp_init_attr_ex = unsafe { mem::zeroed() };
        wanted.pd = self.pd.as_ptr();
        wanted.send_cq = self.send_cq.as_ptr();
        wanted.recv_cq = self.recv_cq.as_ptr();
        wanted.srq = self.srq;
        wanted.qp_type = ibv_qp_type::IBV_QPT_RC;
        wanted.cap.max_send_wr = self.sq_depth;
        wanted.cap.max_recv_wr = self.rq_depth;
        wanted.cap.max_send_sge = 1;
        wanted.cap.max_recv_sge = 1;
        wanted.cap.max_inline_data = INLINE;
        wanted.comp_mask = mask::IBV_QP_INIT_ATTR_PD.0;
        if send_ops != 0 {
            wanted.comp_mask |= mask::IBV_QP_INIT_ATTR_SEND_OPS_FLAGS.0;
            wanted.send_ops_flags = send_ops;
        }
        wanted
    }
}

/// The operations to ask a queue pair for, best first; none for one that is
/// driven by `ibv_post_send`.
pub(crate) fn attempts(
    path: Option<Path>,
    can: &DeviceCapabilities,
) -> impl Iterator<Item = u64> + use<> {
    let native = path.is_none_or(|path| path == Path::Native) && can.native_atomic_write;
    let flush = native && can.native_flush_visibility;
    let plain = QP_EX_WITH_RDMA_WRITE | QP_EX_WITH_RDMA_READ;
    [
        flush.then_some(plain | QP_EX_WITH_ATOMIC_WRITE | QP_EX_WITH_FLUSH),
        native.then_some(plain | QP_EX_WITH_ATOMIC_WRITE),
        (path == Some(Path::WrCalls)).then_some(plain),
        path.is_none_or(|path| path == Path::PostSend).then_some(0),
    ]
    .into_iter()
    .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn asked(path: Option<Path>, write: bool, flush: bool) -> Vec<u64> {
        let can = DeviceCapabilities {
            native_atomic_write: write,
            native_flush_visibility: flush,
            ..DeviceCapabilities::default()
        };
        attempts(path, &can).collect()
    }

    /// A library grants operations that the device does not have, so the
    /// device's capability bits decide.
    #[test]
    fn native_operations_are_asked_for_where_the_device_has_them() {
        let plain = QP_EX_WITH_RDMA_WRITE | QP_EX_WITH_RDMA_READ;
        let write = plain | QP_EX_WITH_ATOMIC_WRITE;
        assert_eq!(asked(None, false, false), [0]);
        assert_eq!(asked(None, true, false), [write, 0]);
        assert_eq!(asked(None, true, true), [write | QP_EX_WITH_FLUSH, write, 0]);
        assert_eq!(asked(Some(Path::Native), true, false), [write]);
        assert_eq!(asked(Some(Path::Native), false, true), [0; 0]);
        assert_eq!(asked(Some(Path::WrCalls), true, true), [plain]);
        assert_eq!(asked(Some(Path::PostSend), true, true), [0]);
    }
}
