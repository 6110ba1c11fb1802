//! An established connection.

use core::fmt;
use core::time::Duration;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::vec::Vec;

use super::config::{ConnConfig, PathChoice};
use super::error::{Cause, ConnError, Step, Via};
use super::link::{Endpoint, Link};
use super::queues::Queues;
use crate::error::{Errno, Error, Why};
use crate::provider::{Capabilities, FlushSupport};
use crate::region::Usage;
use crate::ring::{Ring, RingConfig};
use crate::verbs::device::{Device, DeviceError, Gid};
use crate::verbs::mr::Mr;
use crate::verbs::pd::Pd;
use crate::verbs::qp::VerbsQp;

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
}

impl Connection {
    pub(super) fn new(
        end: &Arc<Endpoint>,
        queues: Queues,
        pd: &Pd,
        config: &ConnConfig,
        private_data: Vec<u8>,
    ) -> Result<Self, ConnError> {
        let device = |error: DeviceError| ConnError::new(Step::Queues, Cause::Device(error));
        let granted = queues.granted();
        // What a flush that is emulated reads is of no interest, but goes
        // somewhere.
        let scratch = match granted.native_flush {
            true => None,
            false => Some(Mr::alloc(pd, 8, Usage::READ_DST).map_err(device)?),
        };
        let flush = match &scratch {
            Some(scratch) => FlushSupport::Emulated(scratch.local()),
            None => FlushSupport::Native,
        };
        let capabilities = Capabilities::new(granted.sq_depth, granted.cq_depth)
            .with_max_inline(granted.max_inline)
            .with_native_atomic_write(granted.native_atomic_write)
            .with_flush(flush);
        let via = via(end, pd.device());
        let (peer, local) = (end.id().peer_address(), end.id().local_address());
        let link = Arc::new(Link::new(end, queues, scratch)?);
        let provider = Some(VerbsQp::of_connection(
            end.id().qp(),
            link.queues().cq(),
            capabilities,
            end.fault().clone(),
            Arc::clone(&link) as _,
        ));
        let (pd, config) = (pd.clone(), *config);
        Ok(Connection { provider, link, pd, via, peer, local, private_data, config })
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
        let Some(provider) = self.provider.take() else {
            return Err(Error::Failed { why: Why::Abandoned });
        };
        Ring::boxed(provider, RingConfig::new(self.ring_depth(), batch))
    }

    /// The depth of the deepest ring that the send queue allows: the largest
    /// power of two that is not above what was granted.
    #[must_use]
    pub fn ring_depth(&self) -> u32 {
        let granted = self.link.queues().granted().sq_depth;
        if granted == 0 { 0 } else { 1 << granted.ilog2() }
    }

    /// How an atomic write travels: [`PathChoice::Native`] or
    /// [`PathChoice::Fallback`].
    #[must_use]
    pub fn path(&self) -> PathChoice {
        match self.link.queues().granted().native_atomic_write {
            true => PathChoice::Native,
            false => PathChoice::Fallback,
        }
    }

    /// Whether a flush is the device's own; else it is emulated by a read.
    #[must_use]
    pub fn has_native_flush(&self) -> bool {
        self.link.queues().granted().native_flush
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
