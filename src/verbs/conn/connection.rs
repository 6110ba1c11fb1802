//! An established connection.

#![allow(unsafe_code, reason = "a queue pair is made a provider")]

use core::any::Any;
use core::net::SocketAddr;
use core::time::Duration;
use core::{fmt, ptr};
use std::sync::{Arc, Weak};
use std::vec::Vec;

use rdma_sys::ibv_qp_to_qp_ex;

use super::config::ConnConfig;
use super::error::{Cause, ConnError, Step, Via};
use super::link::{Endpoint, Link};
use super::queues::Queues;
use crate::error::{Errno, Error, Why};
use crate::provider::{Capabilities, Provider};
use crate::region::Usage;
use crate::ring::{Ring, RingConfig};
use crate::verbs::device::{Device, DeviceError, Gid};
use crate::verbs::library::LIBIBVERBS;
use crate::verbs::mr::Mr;
use crate::verbs::pd::Pd;
use crate::verbs::qp::{Path, RawQp, VerbsQp};

/// What can happen to an established connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnEvent {
    /// It was closed: by this side, by the peer, or because the peer's program
    /// ended.
    Closed,
    /// It broke.
    Lost(Errno),
    /// The device was taken away.
    DeviceRemoved,
    /// The network moved the address elsewhere. The connection goes on, on the
    /// old path, for as long as that works.
    AddressChanged,
}

impl ConnEvent {
    /// Whether the connection is over.
    #[must_use]
    pub const fn is_end(self) -> bool {
        !matches!(self, ConnEvent::AddressChanged)
    }
}

/// An established connection.
///
/// Its queue pair's send side is a [`Provider`](crate::Provider) for one
/// [`Ring`]; see [`ring`](Self::ring) and [`take_provider`](Self::take_provider).
/// The connection stays up as long as this value or that provider lives.
///
/// Its events are watched by a thread of the library: when the peer goes away,
/// whatever is pending is flushed at once, and the ring fails with
/// [`DeviceFault::Connection`](crate::DeviceFault::Connection) or with the first
/// flushed request, whichever it meets first. That costs the ring's polls one
/// load each and no system call.
pub struct Connection {
    provider: Option<VerbsQp>,
    link: Arc<Link>,
    pd: Pd,
    via: Via,
    peer: Option<SocketAddr>,
    local: Option<SocketAddr>,
    private_data: Vec<u8>,
    config: ConnConfig,
    path: Path,
    capabilities: Capabilities,
}

impl Connection {
    pub(super) fn new(
        end: &Arc<Endpoint>,
        queues: Queues,
        pd: &Pd,
        config: &ConnConfig,
        private_data: Vec<u8>,
    ) -> Result<Self, ConnError> {
        let failed = |cause| ConnError::new(Step::Queues, cause);
        let device = |error: DeviceError| failed(Cause::Device(error));
        let granted = queues.granted();
        // What a flush that is emulated reads is of no interest, but goes
        // somewhere. Which kind of flush the peer's memory takes is not known
        // yet.
        let scratch = Mr::alloc(pd, 8, Usage::READ_DST).map_err(device)?;
        let via = via(end, pd.device());
        let (peer, local) = (end.id().peer_address(), end.id().local_address());
        let qp = end.id().qp().ok_or_else(|| failed(Cause::Os(Errno::EINVAL)))?;
        let raw = RawQp {
            qp,
            cq: queues.cq(),
            // SAFETY: the queue pair is alive. Null for one that has no
            // extended part.
            qp_ex: match granted.send_ops {
                0 => ptr::null_mut(),
                // SAFETY: as above.
                _ => unsafe { ibv_qp_to_qp_ex(qp.as_ptr()) },
            },
            send_ops: granted.send_ops,
            sq_depth: granted.sq_depth,
            cq_depth: granted.cq_depth,
            max_inline: granted.max_inline,
            max_message: pd.device().max_message(via.port),
            scratch: Some(scratch.local()),
            channel: queues.channel(),
            path: config.path,
        };
        let link = Arc::new(Link::new(end, queues, scratch, pd.device(), via.port)?);
        let (owner, fault): (Arc<dyn Any + Send + Sync>, _) = (Arc::clone(&link) as _, end.fault());
        // SAFETY: the link keeps all of it alive; it is libibverbs' own; the
        // provider alone posts and polls; the operations were granted.
        let provider = unsafe { VerbsQp::assemble(raw, owner, fault.clone(), &LIBIBVERBS) };
        let provider = provider.map_err(|error| failed(Cause::Path(error)))?;
        let path = provider.path();
        let capabilities = provider.capabilities();
        let (pd, config, provider) = (pd.clone(), *config, Some(provider));
        Ok(Connection {
            provider,
            link,
            pd,
            via,
            peer,
            local,
            private_data,
            config,
            path,
            capabilities,
        })
    }

    /// The queue pair's send side, for a ring; `None` once it was taken.
    pub fn take_provider(&mut self) -> Option<VerbsQp> {
        self.provider.take()
    }

    /// A ring as deep as the send queue allows, at most `batch` requests to a
    /// doorbell.
    ///
    /// # Errors
    /// As [`Ring::boxed`], and [`Error::Failed`] with
    /// [`Why::Abandoned`] once the provider was taken.
    pub fn ring(&mut self, batch: u32) -> Result<Ring<'static, VerbsQp>, Error> {
        self.ring_with(RingConfig::new(self.ring_depth(), batch))
    }

    /// A ring with this configuration: a shallower one, or one whose peer is
    /// known to have persistent memory.
    ///
    /// # Errors
    /// As [`ring`](Self::ring). What is asked too much costs the connection its
    /// provider.
    pub fn ring_with(&mut self, config: RingConfig) -> Result<Ring<'static, VerbsQp>, Error> {
        let Some(provider) = self.provider.take() else {
            return Err(Error::Failed { why: Why::Abandoned });
        };
        Ring::boxed(provider, config)
    }

    /// The depth of the deepest ring that the send queue allows: the largest
    /// power of two that is not above what was granted.
    #[must_use]
    pub fn ring_depth(&self) -> u32 {
        let granted = self.capabilities.sq_depth;
        if granted == 0 { 0 } else { 1 << granted.ilog2() }
    }

    /// Has flushes emulated by reads on a queue pair that could use the FLUSH
    /// operation, and says whether it does so now: not once the provider was
    /// taken, by [`ring`](Self::ring) too.
    ///
    /// FLUSH needs a right that only the peer's registration can give, and not
    /// every peer does: Debian's librpma 1.2.0 is older than the operation. A
    /// FLUSH of memory that lacks it fails with a remote access error, and the
    /// connection is dead. So call this unless the peer is known to give the
    /// right, as [`Announcement::native_flush`](crate::log::Announcement) says of
    /// a log. A flush by a read costs a fence on the atomic write behind it.
    pub fn emulate_flush(&mut self) -> bool {
        let Some(provider) = &mut self.provider else {
            return false;
        };
        let emulated = provider.emulate_flush();
        self.capabilities = provider.capabilities();
        emulated
    }

    /// Which calls the queue pair is driven by, and so how an atomic write
    /// travels.
    #[must_use]
    pub fn path(&self) -> Path {
        self.path
    }

    /// What the queue pair was granted and can do.
    #[must_use]
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// The settings that it was made with.
    #[must_use]
    pub fn config(&self) -> &ConnConfig {
        &self.config
    }

    /// What the peer sent along when the connection was made. The protocol pads
    /// it with zeros: the connecting side sees 196 bytes on InfiniBand and RoCE,
    /// the accepting side 56.
    #[must_use]
    pub fn private_data(&self) -> &[u8] {
        &self.private_data
    }

    /// The protection domain that memory must be registered with.
    #[must_use]
    pub fn pd(&self) -> &Pd {
        &self.pd
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Device {
        self.pd.device()
    }

    /// What it goes through.
    #[must_use]
    pub fn via(&self) -> &Via {
        &self.via
    }

    /// The peer's address.
    #[must_use]
    pub fn peer_address(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// This side's address.
    #[must_use]
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.local
    }

    /// Whether it is over.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.link.end().has_ended()
    }

    /// Waits for the next event, for ever where `timeout` is `None`.
    ///
    /// # Errors
    /// [`Cause::TimedOut`], [`Cause::Woken`].
    pub fn next_event(&self, timeout: Option<Duration>) -> Result<ConnEvent, ConnError> {
        self.link.end().next(timeout).map_err(|cause| self.error(Step::Transfer, cause))
    }

    /// Waits until the connection is over, and says how it ended.
    ///
    /// # Errors
    /// As [`next_event`](Self::next_event).
    pub fn wait_end(&self, timeout: Option<Duration>) -> Result<ConnEvent, ConnError> {
        loop {
            let event = self.next_event(timeout)?;
            if event.is_end() {
                return Ok(event);
            }
        }
    }

    /// What ends the waits of this connection from another thread.
    #[must_use]
    pub fn waker(&self) -> ConnWaker {
        ConnWaker(Arc::downgrade(self.link.end()))
    }

    /// Closes the connection: the peer is told, and what is pending here is
    /// flushed. The event [`ConnEvent::Closed`] follows on both sides. On a
    /// connection that is over it does nothing.
    ///
    /// # Errors
    /// [`Cause::Os`].
    pub fn disconnect(&self) -> Result<(), ConnError> {
        if self.has_ended() {
            return Ok(());
        }
        match self.link.end().id().disconnect() {
            // The peer was quicker.
            Ok(()) | Err(Errno::EINVAL) => Ok(()),
            Err(errno) => Err(self.error(Step::Disconnect, Cause::Os(errno))),
        }
    }

    /// Puts what killed this connection's ring into words that name the peer,
    /// the device and what to look at.
    #[must_use]
    pub fn explain(&self, why: Why) -> ConnError {
        self.error(Step::Transfer, Cause::Ring(why))
    }

    fn error(&self, step: Step, cause: Cause) -> ConnError {
        ConnError::new(step, cause).with_peer(self.peer).with_via(Some(self.via))
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("peer", &self.peer)
            .field("local", &self.local)
            .field("via", &self.via)
            .field("path", &self.path())
            .field("has_ended", &self.has_ended())
            .finish_non_exhaustive()
    }
}

/// Ends the waits of a connection from another thread. A wake is kept until a
/// wait takes it.
#[derive(Clone, Debug)]
pub struct ConnWaker(Weak<Endpoint>);

impl ConnWaker {
    /// Ends the wait that is under way, or else the next one.
    pub fn wake(&self) {
        if let Some(end) = self.0.upgrade() {
            end.wake();
        }
    }
}

pub(super) fn via(end: &Endpoint, device: &Device) -> Via {
    let id = end.id();
    Via { device: device.name(), port: id.port_number(), gid: Gid::from(id.source_gid()) }
}
