//! The queues of a connection: made to measure, and what was granted.

#![allow(unsafe_code, reason = "libibverbs and librdmacm are C libraries")]

use core::mem;
use core::ptr::{self, NonNull};
use std::sync::Arc;

use rdma_sys::{
    ibv_comp_channel, ibv_cq, ibv_create_comp_channel, ibv_create_cq, ibv_destroy_comp_channel,
    ibv_destroy_cq, ibv_qp_init_attr_ex, ibv_qp_init_attr_mask as mask, ibv_qp_type,
};

use super::config::ConnConfig;
use super::error::{Cause, ConnError, Step};
use super::link::Endpoint;
use crate::error::Errno;
use crate::verbs::device::{Device, DeviceCapabilities, DeviceError, DeviceStep};
use crate::verbs::errno::last_errno;
use crate::verbs::ffi::{
    QP_EX_WITH_ATOMIC_WRITE, QP_EX_WITH_FLUSH, QP_EX_WITH_RDMA_READ, QP_EX_WITH_RDMA_WRITE,
};
use crate::verbs::pd::Pd;
use crate::verbs::qp::{Path, PathUnavailable};
use crate::verbs::thread_domain::ThreadDomain;

/// A word.
const INLINE: u32 = 8;

/// A completion queue and the channel of its events.
#[derive(Debug)]
struct Cq {
    raw: NonNull<ibv_cq>,
    channel: NonNull<ibv_comp_channel>,
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
        let context = device.context().as_ptr();
        // SAFETY: the device keeps the context open.
        let channel = unsafe { ibv_create_comp_channel(context) };
        let channel = NonNull::new(channel).ok_or_else(|| failed(last_errno()))?;
        let (ours, theirs) = (ptr::null_mut(), channel.as_ptr());
        // SAFETY: as above; the channel was just made; vector 0 is there.
        let raw = unsafe { ibv_create_cq(context, asked, ours, theirs, 0) };
        let Some(raw) = NonNull::new(raw) else {
            let errno = last_errno();
            // SAFETY: it was just made and nothing uses it.
            unsafe { ibv_destroy_comp_channel(channel.as_ptr()) };
            return Err(failed(errno));
        };
        // SAFETY: it was just made.
        let granted = unsafe { raw.as_ref().cqe };
        Ok(Cq { raw, channel, depth: u32::try_from(granted).unwrap_or(0) })
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        // SAFETY: the queue pair that used it is gone, and its events are
        // acknowledged by whoever took them, the provider: see `Queues`.
        unsafe { ibv_destroy_cq(self.raw.as_ptr()) };
        // SAFETY: the queue that used it is gone.
        unsafe { ibv_destroy_comp_channel(self.channel.as_ptr()) };
    }
}

/// What was granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Granted {
    pub(super) sq_depth: u32,
    pub(super) cq_depth: u32,
    pub(super) max_inline: u32,
    /// `IBV_QP_EX_WITH_*` flags.
    pub(super) send_ops: u64,
}

/// The queues of an id. Dropping them destroys the queue pair first, then what
/// it used.
#[derive(Debug)]
pub(super) struct Queues {
    end: Arc<Endpoint>,
    cq: Cq,
    granted: Granted,
    _thread: Option<ThreadDomain>,
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
        // SAFETY: the device keeps the context open, and `Queues` keeps the
        // domain, and so the device, until the thread domain is gone.
        let thread = unsafe { ThreadDomain::new(device.context(), pd.raw()) };
        let domain = thread.as_ref().map_or(pd.raw(), ThreadDomain::pd);

        let best = PathUnavailable { asked: Path::Native, best: Path::PostSend };
        let mut result = Err(failed(Cause::Path(best)));
        for send_ops in attempts(config.path, can) {
            let mut wanted = attributes(&cq, config, send_ops);
            wanted.pd = domain.as_ptr();
            // SAFETY: the domain and the completion queue are alive, and
            // `Queues` keeps both until the queue pair is destroyed.
            match unsafe { end.id().create_qp(&mut wanted) } {
                Ok(()) => {
                    let granted = Granted {
                        sq_depth: wanted.cap.max_send_wr.min(cq.depth.saturating_sub(1)),
                        cq_depth: cq.depth,
                        max_inline: wanted.cap.max_inline_data,
                        send_ops,
                    };
                    let (end, pd) = (Arc::clone(end), pd.clone());
                    return Queues { end, cq, granted, _thread: thread, _pd: pd }.checked();
                }
                Err(errno) => {
                    let error = DeviceError::os(DeviceStep::QueuePair, device.name(), errno);
                    result = Err(failed(Cause::Device(error)));
                    // An older library does not know the operation: try with less.
                    if !matches!(errno, Errno::EOPNOTSUPP | Errno::EINVAL | Errno::ENOSYS) {
                        break;
                    }
                }
            }
        }
        result
    }

    fn checked(self) -> Result<Self, ConnError> {
        let Granted { max_inline: granted, send_ops, .. } = self.granted;
        if granted < INLINE && send_ops & QP_EX_WITH_ATOMIC_WRITE == 0 {
            return Err(ConnError::new(Step::Queues, Cause::InlineTooSmall { granted }));
        }
        Ok(self)
    }

    pub(super) fn granted(&self) -> Granted {
        self.granted
    }

    pub(super) fn cq(&self) -> NonNull<ibv_cq> {
        self.cq.raw
    }

    pub(super) fn channel(&self) -> *mut ibv_comp_channel {
        self.cq.channel.as_ptr()
    }
}

impl Drop for Queues {
    fn drop(&mut self) {
        // SAFETY: the id's queue pair was made by `new`; whoever posts to it
        // holds these queues.
        unsafe { self.end.id().destroy_qp() };
    }
}

/// The operations to ask a queue pair for, best first; none for one that is
/// driven by `ibv_post_send`.
fn attempts(path: Option<Path>, can: &DeviceCapabilities) -> impl Iterator<Item = u64> {
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

fn attributes(cq: &Cq, config: &ConnConfig, send_ops: u64) -> ibv_qp_init_attr_ex {
    // SAFETY: a C struct of pointers and numbers, for which zeros are valid.
    let mut wanted: ibv_qp_init_attr_ex = unsafe { mem::zeroed() };
    wanted.send_cq = cq.raw.as_ptr();
    wanted.recv_cq = cq.raw.as_ptr();
    wanted.qp_type = ibv_qp_type::IBV_QPT_RC;
    wanted.cap.max_send_wr = config.sq_depth;
    wanted.cap.max_recv_wr = 1;
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
