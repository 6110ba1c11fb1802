//! The queues of a connection: made to measure, and what was granted.

#![allow(unsafe_code, reason = "librdmacm is a C library")]

use core::ptr::{self, NonNull};
use std::sync::Arc;

use rdma_sys::{ibv_comp_channel, ibv_cq};

use super::config::ConnConfig;
use super::error::{Cause, ConnError, Step};
use super::link::Endpoint;
use super::shape::{Granted, INLINE, QpShape, attempts};
use crate::error::Errno;
use crate::verbs::completion::{CompChannel, CompletionQueue};
use crate::verbs::device::{Device, DeviceError, DeviceStep};
use crate::verbs::ffi::QP_EX_WITH_ATOMIC_WRITE;
use crate::verbs::pd::Pd;
use crate::verbs::qp::{Path, PathUnavailable};
use crate::verbs::thread_domain::ThreadDomain;

/// A completion queue and the channel of its events.
#[derive(Debug)]
struct Cq {
    // First: it goes before its channel. Its events are acknowledged by whoever
    // took them, the provider: see `Queues`.
    raw: CompletionQueue,
    channel: CompChannel,
}

impl Cq {
    fn new(device: &Device, depth: u32) -> Result<Self, DeviceError> {
        let failed = |errno| DeviceError::os(DeviceStep::CompletionQueue, device.name(), errno);
        let asked = i32::try_from(depth).map_err(|_| failed(Errno::EINVAL))?;
        let context = device.context();
        // SAFETY: the device keeps the context open, and `Queues` keeps it.
        let channel = unsafe { CompChannel::new(context) }.map_err(failed)?;
        // SAFETY: as above.
        let raw = unsafe { CompletionQueue::new(context, asked, &channel) }.map_err(failed)?;
        Ok(Cq { raw, channel })
    }
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

        let shape = QpShape {
            pd: domain,
            send_cq: cq.raw.get(),
            recv_cq: cq.raw.get(),
            srq: ptr::null_mut(),
            sq_depth: config.sq_depth,
            rq_depth: 1,
        };
        // SAFETY: the domain and the completion queue are alive, and `Queues`
        // keeps both until the queue pair is destroyed.
        match unsafe { shape.create(end.id(), attempts(config.path, can)) } {
            Ok(made) => {
                let granted = Granted {
                    sq_depth: made.sq_depth.min(cq.raw.depth().saturating_sub(1)),
                    cq_depth: cq.raw.depth(),
                    ..made
                };
                let (end, pd) = (Arc::clone(end), pd.clone());
                Queues { end, cq, granted, _thread: thread, _pd: pd }.checked()
            }
            Err(Some(errno)) => {
                let error = DeviceError::os(DeviceStep::QueuePair, device.name(), errno);
                Err(failed(Cause::Device(error)))
            }
            Err(None) => {
                let best = PathUnavailable { asked: Path::Native, best: Path::PostSend };
                Err(failed(Cause::Path(best)))
            }
        }
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
        self.cq.raw.get()
    }

    pub(super) fn channel(&self) -> *mut ibv_comp_channel {
        self.cq.channel.get().as_ptr()
    }
}

impl Drop for Queues {
    fn drop(&mut self) {
        // SAFETY: the id's queue pair was made by `new`; whoever posts to it
        // holds these queues.
        unsafe { self.end.id().destroy_qp() };
    }
}
