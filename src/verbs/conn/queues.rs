//! The queues of a connection: made to measure, and what was granted.

#![allow(unsafe_code, reason = "libibverbs and librdmacm are C libraries")]

use core::mem;
use core::ptr::{self, NonNull};
use std::sync::Arc;

use rdma_sys::{
    ibv_cq, ibv_create_cq, ibv_destroy_cq, ibv_qp_init_attr_ex, ibv_qp_init_attr_mask as mask,
    ibv_qp_type,
};

use super::config::{ConnConfig, PathChoice};
use super::error::{Cause, ConnError, Step};
use super::id::Id;
use super::link::Endpoint;
use crate::error::Errno;
use crate::verbs::device::{Device, DeviceCapabilities, DeviceError, DeviceStep};
use crate::verbs::errno::last_errno;
use crate::verbs::ffi::{
    QP_EX_WITH_ATOMIC_WRITE, QP_EX_WITH_FLUSH, QP_EX_WITH_RDMA_READ, QP_EX_WITH_RDMA_WRITE,
};
use crate::verbs::pd::Pd;

/// A word.
const INLINE: u32 = 8;

/// A completion queue.
#[derive(Debug)]
pub(super) struct Cq {
    raw: NonNull<ibv_cq>,
    depth: u32,
}

// SAFETY: a completion queue may be used from any thread; libibverbs serialises.
unsafe impl Send for Cq {}
// SAFETY: as above.
unsafe impl Sync for Cq {}

impl Cq {
    fn new(device: &Device, depth: u32) -> Result<Self, DeviceError> {
        let failed = |errno| DeviceError::os(DeviceStep::CompletionQueue, device.name(), errno);
        let asked = i32::try_from(depth).map_err(|_| failed(Errno::EINVAL))?;
        let (context, none) = (device.context().as_ptr(), ptr::null_mut());
        // SAFETY: the device keeps the context open; no channel, vector 0.
        let raw = unsafe { ibv_create_cq(context, asked, none, ptr::null_mut(), 0) };
        let raw = NonNull::new(raw).ok_or_else(|| failed(last_errno()))?;
        // SAFETY: it was just made.
        let granted = unsafe { raw.as_ref().cqe };
        Ok(Cq { raw, depth: u32::try_from(granted).unwrap_or(0) })
    }

    pub(super) fn as_ptr(&self) -> *mut ibv_cq {
        self.raw.as_ptr()
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        // SAFETY: the queue pair that used it is gone: see `Queues`.
        unsafe { ibv_destroy_cq(self.as_ptr()) };
    }
}

/// What was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Granted {
    pub(super) sq_depth: u32,
    pub(super) cq_depth: u32,
    pub(super) max_inline: u32,
    pub(super) native_atomic_write: bool,
    pub(super) native_flush: bool,
}

/// The queues of an id. Dropping them destroys the queue pair first.
#[derive(Debug)]
pub(super) struct Queues {
    end: Arc<Endpoint>,
    cq: Cq,
    granted: Granted,
    _pd: Pd,
}

impl Queues {
    /// Makes queues for an id that has none.
    pub(super) fn new(
        end: &Arc<Endpoint>,
        pd: &Pd,
        config: &ConnConfig,
    ) -> Result<Self, ConnError> {
        let failed = |cause| ConnError::new(Step::Queues, cause);
        let device = pd.device();
        let can = device.capabilities();
        // On an error every request completes. Twice, because more may be
        // granted for the send queue than was asked, and none of it should go to
        // waste.
        let cq_depth = config.sq_depth.saturating_mul(2).saturating_add(1).min(can.max_cq_depth);
        let cq = Cq::new(device, cq_depth).map_err(|error| failed(Cause::Device(error)))?;

        let mut result = Err(failed(Cause::NoNativePath));
        for operations in attempts(config.path, can) {
            match try_create(end.id(), pd, &cq, config, operations) {
                Ok(granted) => {
                    let queues = Queues { end: Arc::clone(end), cq, granted, _pd: pd.clone() };
                    return queues.checked();
                }
                Err(errno) => {
                    let error = DeviceError::os(DeviceStep::QueuePair, device.name(), errno);
                    result = Err(failed(Cause::Device(error)));
                    // An older library does not know the operation: try with less.
                    if !matches!(errno, Errno::EOPNOTSUPP | Errno::EINVAL | Errno(38)) {
                        break;
                    }
                }
            }
        }
        result
    }

    fn checked(self) -> Result<Self, ConnError> {
        let granted = self.granted.max_inline;
        if granted < INLINE && !self.granted.native_atomic_write {
            return Err(ConnError::new(Step::Queues, Cause::InlineTooSmall { granted }));
        }
        Ok(self)
    }

    pub(super) fn granted(&self) -> Granted {
        self.granted
    }

    pub(super) fn cq(&self) -> *mut ibv_cq {
        self.cq.as_ptr()
    }
}

impl Drop for Queues {
    fn drop(&mut self) {
        // SAFETY: the id's queue pair was made by `new`; whoever posts to it
        // holds these queues.
        unsafe { self.end.id().destroy_qp() };
    }
}

/// The operations to ask a queue pair for, best first; none for one that takes
/// `ibv_post_send` alone.
fn attempts(path: PathChoice, can: &DeviceCapabilities) -> impl Iterator<Item = u64> {
    let native = path != PathChoice::Fallback && can.native_atomic_write;
    let flush = native && can.native_flush_visibility;
    let plain = QP_EX_WITH_RDMA_WRITE | QP_EX_WITH_RDMA_READ;
    [
        flush.then_some(plain | QP_EX_WITH_ATOMIC_WRITE | QP_EX_WITH_FLUSH),
        native.then_some(plain | QP_EX_WITH_ATOMIC_WRITE),
        (path != PathChoice::Native).then_some(0),
    ]
    .into_iter()
    .flatten()
}

fn try_create(
    id: &Id,
    pd: &Pd,
    cq: &Cq,
    config: &ConnConfig,
    operations: u64,
) -> Result<Granted, Errno> {
    // SAFETY: a plain C struct, for which zeros are valid.
    let mut wanted: ibv_qp_init_attr_ex = unsafe { mem::zeroed() };
    wanted.send_cq = cq.as_ptr();
    wanted.recv_cq = cq.as_ptr();
    wanted.qp_type = ibv_qp_type::IBV_QPT_RC;
    wanted.cap.max_send_wr = config.sq_depth;
    wanted.cap.max_recv_wr = 1;
    wanted.cap.max_send_sge = 1;
    wanted.cap.max_recv_sge = 1;
    wanted.cap.max_inline_data = INLINE;
    wanted.pd = pd.as_ptr();
    wanted.comp_mask = mask::IBV_QP_INIT_ATTR_PD.0;
    if operations != 0 {
        wanted.comp_mask |= mask::IBV_QP_INIT_ATTR_SEND_OPS_FLAGS.0;
        wanted.send_ops_flags = operations;
    }
    // SAFETY: the domain and the completion queue are alive, and `Queues` keeps
    // both until the queue pair is destroyed.
    unsafe { id.create_qp(&mut wanted) }?;
    Ok(Granted {
        sq_depth: wanted.cap.max_send_wr.min(cq.depth.saturating_sub(1)),
        cq_depth: cq.depth,
        max_inline: wanted.cap.max_inline_data,
        native_atomic_write: operations & QP_EX_WITH_ATOMIC_WRITE != 0,
        native_flush: operations & QP_EX_WITH_FLUSH != 0,
    })
}
