//! A software NIC at the level of verbs, for tests and benches.
//!
//! Function pointers in an `ibv_context` and in an `ibv_qp_ex`, as a NIC's
//! driver fills them in: the code that runs on real hardware runs against it,
//! with no hardware and no kernel support. It writes one 64-byte entry per
//! request into its send queue and rings one doorbell per post, with a full
//! fence; carries requests out on the regions of a
//! [`SoftDevice`], with its keys, bounds and rights;
//! frees slots by polled completions alone; and can be given the habits that
//! real providers differ in.
//!
//! ```
//! use core::sync::atomic::{AtomicU64, Ordering};
//! use farword::soft::SoftDevice;
//! use farword::verbs::Path;
//! use farword::verbs::nic::{NicConfig, NicQp};
//! use farword::{AlignedOffset, Notify, OpContext, Ring, RingConfig, Usage, Word};
//!
//! let memory = [const { AtomicU64::new(0) }; 8];
//! let mut device = SoftDevice::new();
//! let region = device.register(&memory, Usage::WRITE_DST)?.remote();
//!
//! let config = NicConfig::default().with_path(Path::PostSend).with_records(true);
//! let mut ring = Ring::boxed(NicQp::new(&device, config)?.into_provider()?, RingConfig::default())?;
//! let tail = region.target(AlignedOffset::literal::<8>())?;
//! ring.atomic_write(tail, Word::le(16), Notify::Always, OpContext::new(1))?;
//! ring.doorbell()?;
//!
//! assert_eq!(ring.poll_with(|_| {})?, 1);
//! assert_eq!(u64::from_le(memory[1].load(Ordering::Acquire)), 16);
//! assert!(ring.provider().owner().given()[0].is_inline());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![allow(unsafe_code, reason = "it makes a provider of raw verbs objects")]

use rdma_sys::{ibv_context, ibv_cq, ibv_event_type as event, ibv_qp, ibv_qp_ex};

use crate::error::{DeviceFault, Errno, Invalid};
use crate::soft::{SCRATCH, SoftDevice};
use crate::verbs::events::AsyncEvents;
use crate::verbs::ffi::{
    QP_EX_WITH_ATOMIC_WRITE, QP_EX_WITH_FLUSH, QP_EX_WITH_RDMA_READ, QP_EX_WITH_RDMA_WRITE,
};
use crate::verbs::library::AsyncEvent;
use crate::verbs::qp::{Path, PathUnavailable, RawQp, VerbsQp};

mod board;
mod calls;
mod config;
mod hardware;
mod post;
mod queue;
mod record;
#[cfg(test)]
mod tests;
mod wqe;

use board::{NIC, Owned};
pub use config::{NicConfig, Refusal};
use hardware::Hardware;
pub use record::Given;

/// A connected queue pair of a software NIC, both of whose sides are on one
/// device.
#[derive(Debug)]
pub struct NicQp<'d> {
    board: Owned<'d>,
}

/// Why a software NIC's queue pair could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NicError {
    /// A depth out of bounds.
    Invalid(Invalid),
    /// The operating system gave no event descriptor.
    Events(Errno),
}

impl core::fmt::Display for NicError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            NicError::Invalid(which) => which.fmt(f),
            NicError::Events(errno) => write!(f, "no event descriptor: {errno}"),
        }
    }
}

impl core::error::Error for NicError {}

impl<'d> NicQp<'d> {
    /// A queue pair.
    ///
    /// # Errors
    /// [`NicError::Invalid`] for a depth of 0 or above 65,536;
    /// [`NicError::Events`] if a channel was asked for and there is none.
    pub fn new(device: &'d SoftDevice<'d>, config: NicConfig) -> Result<Self, NicError> {
        let hardware = Hardware::new(device, config).map_err(NicError::Invalid)?;
        let board = Owned::new(hardware).map_err(NicError::Events)?;
        Ok(NicQp { board })
    }

    /// Its send side and its completion queue, for a ring, through the very code
    /// that drives a real queue pair.
    ///
    /// # Errors
    /// [`PathUnavailable`] if the configuration asks for a path better than what
    /// it offers.
    pub fn into_provider(self) -> Result<VerbsQp<NicQp<'d>>, PathUnavailable> {
        let hardware = &self.board.get().hardware;
        let (config, fault) = (hardware.config, hardware.cq.fault.clone());
        let send_ops = self.send_ops();
        let raw = RawQp {
            qp: self.board.qp(),
            cq: self.board.cq(),
            qp_ex: self.board.qp_ex(),
            send_ops,
            sq_depth: config.sq_depth,
            cq_depth: config.cq_depth,
            max_inline: config.max_inline,
            max_message: 1 << 30,
            scratch: Some(SCRATCH),
            channel: self.board.channel(),
            path: config.path,
        };
        // SAFETY: the board is alive as long as its owner, which goes along;
        // nothing else uses its queue pair, since whoever takes the raw pointers
        // promises so; the flags are those that its function pointers are for.
        unsafe { VerbsQp::assemble(raw, self, fault, &NIC) }
    }

    /// The operations of its extended queue pair, as `IBV_QP_EX_WITH_*` flags.
    pub(crate) fn send_ops(&self) -> u64 {
        let config = self.board.get().hardware.config;
        let plain = QP_EX_WITH_RDMA_WRITE | QP_EX_WITH_RDMA_READ;
        match config.best {
            Path::PostSend => 0,
            Path::WrCalls => plain,
            Path::Native if config.native_flush => {
                plain | QP_EX_WITH_ATOMIC_WRITE | QP_EX_WITH_FLUSH
            }
            Path::Native => plain | QP_EX_WITH_ATOMIC_WRITE,
        }
    }

    /// The queue pair, for verbs calls of one's own: `ibv_post_send`, or a
    /// library that follows the pointer.
    ///
    /// It is valid as long as this value, or the provider made of it. One thread
    /// at a time may use it, and not while the provider or a reference to this
    /// value is in use. Only calls that go through the context's function
    /// pointers work: `ibv_post_send`, `ibv_poll_cq`, `ibv_req_notify_cq`.
    #[must_use]
    pub fn qp(&self) -> *mut ibv_qp {
        self.board.qp().as_ptr()
    }

    /// The extended queue pair, for `ibv_wr_*` calls, or null; as
    /// [`qp`](Self::qp).
    #[must_use]
    pub fn qp_ex(&self) -> *mut ibv_qp_ex {
        self.board.qp_ex()
    }

    /// The completion queue; as [`qp`](Self::qp).
    #[must_use]
    pub fn cq(&self) -> *mut ibv_cq {
        self.board.cq().as_ptr()
    }

    /// The context, of which `ibv_query_device_ex` works too; as
    /// [`qp`](Self::qp).
    #[must_use]
    pub fn context(&self) -> *mut ibv_context {
        self.board.context().as_ptr()
    }

    /// How many requests it took.
    #[must_use]
    pub fn posted(&self) -> u64 {
        self.board.get().hardware.posted()
    }

    /// How often its doorbell rang.
    #[must_use]
    pub fn doorbells(&self) -> u64 {
        self.board.get().hardware.doorbells
    }

    /// Every request that it took, if it [keeps a record](NicConfig::records).
    #[must_use]
    pub fn given(&self) -> &[Given] {
        &self.board.get().hardware.given
    }

    /// How many completion events it gave, and how many of them were
    /// acknowledged.
    #[must_use]
    pub fn events(&self) -> (u32, u32) {
        (self.board.get().hardware.cq.events_given, self.board.get().events_acked)
    }
}

impl<'d> VerbsQp<NicQp<'d>> {
    /// The NIC behind it, to be made to fail.
    pub fn nic(&mut self) -> NicControl<'_, 'd> {
        NicControl { nic: self.owner_mut() }
    }
}

/// Makes a software NIC fail.
#[derive(Debug)]
pub struct NicControl<'a, 'd> {
    nic: &'a mut NicQp<'d>,
}

impl NicControl<'_, '_> {
    /// Refuses the request after `taken` more with this errno, as often as it is
    /// posted, until [`accept_all`](Self::accept_all).
    pub fn refuse_after(&mut self, taken: u32, errno: Errno) {
        self.nic.board.get_mut().hardware.set_refused(Some((taken, errno)));
    }

    /// Refuses no request any more but for want of room.
    pub fn accept_all(&mut self) {
        self.nic.board.get_mut().hardware.set_refused(None);
    }

    /// Refuses in another way from now on.
    pub fn set_refusal(&mut self, refusal: Refusal) {
        self.nic.board.get_mut().hardware.config.refusal = refusal;
    }

    /// Breaks down: what is outstanding never completes. The device tells of it
    /// by an asynchronous event, or, for [`DeviceFault::Poll`], each poll by its
    /// errno.
    ///
    /// # Errors
    /// The errno of making the event, or of reading it.
    pub fn break_down(&mut self, fault: DeviceFault) -> Result<(), Errno> {
        let (qp, cq) = (self.nic.board.qp().as_ptr(), self.nic.board.cq().as_ptr());
        let (qp_at, cq_at) = (qp.addr() as u64, cq.addr() as u64);
        let (kind, element) = match fault {
            DeviceFault::CompletionQueue => (event::IBV_EVENT_CQ_ERR, cq_at),
            DeviceFault::QueuePair => (event::IBV_EVENT_QP_FATAL, qp_at),
            DeviceFault::Port => (event::IBV_EVENT_PORT_ERR, PORT.into()),
            DeviceFault::Device => (event::IBV_EVENT_DEVICE_FATAL, 0),
            DeviceFault::Poll(errno) => {
                let hardware = &mut self.nic.board.get_mut().hardware;
                hardware.die();
                hardware.poll_error = Some(errno);
                return Ok(());
            }
            // The connection manager's to tell.
            DeviceFault::Connection => {
                let hardware = &mut self.nic.board.get_mut().hardware;
                hardware.die();
                hardware.cq.fault.set(fault);
                return Ok(());
            }
        };
        let board = self.nic.board.get_mut();
        board.hardware.die();
        let cell = board.hardware.cq.fault.clone();
        board.raise(AsyncEvent { element, kind: kind as core::ffi::c_int })?;
        // SAFETY: the context is open as long as `self`, and is this library's.
        let events = unsafe { AsyncEvents::with_library(self.nic.board.context(), &NIC) }?;
        let _route = events.route(qp, cq, PORT, cell);
        events.drain().map(|_| ())
    }
}

/// The one port.
const PORT: u8 = 1;
