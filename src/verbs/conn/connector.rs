//! The connecting side.

use core::net::SocketAddr;
use std::sync::Arc;

use rdma_sys::rdma_cm_event_type as kind;

use super::channel::{Channel, Waker};
use super::config::{ConnConfig, check_private_data};
use super::connection::{Connection, via};
use super::error::{Cause, ConnError, Step};
use super::id::{Handshake, Id};
use super::link::Endpoint;
use super::queues::Queues;
use super::resolve::{expect, lookup, resolve_address};
use crate::error::Errno;
use crate::verbs::device::{Device, DeviceError};
use crate::verbs::pd::Pd;

/// Makes connections.
#[derive(Debug)]
pub struct Connector {
    config: ConnConfig,
    pd: Option<Pd>,
    source: Option<SocketAddr>,
    waker: Waker,
}

impl Connector {
    /// With these settings.
    ///
    /// # Errors
    /// [`Cause::Os`] where the process has no descriptor left.
    pub fn new(config: ConnConfig) -> Result<Self, ConnError> {
        let waker = Waker::new().map_err(|errno| ConnError::new(Step::Open, Cause::Os(errno)))?;
        Ok(Connector { config, pd: None, source: None, waker })
    }

    /// Connects with queues in this protection domain, so that memory that is
    /// registered with it already can be used. Without it, each connection has a
    /// domain of its own.
    #[must_use]
    pub fn with_pd(mut self, pd: &Pd) -> Self {
        self.pd = Some(pd.clone());
        self
    }

    /// Connects from this address of this machine, and so from its device. The
    /// port may be 0.
    #[must_use]
    pub fn with_source(mut self, source: SocketAddr) -> Self {
        self.source = Some(source);
        self
    }

    /// What ends a [`connect`](Self::connect) of another thread.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Connects to a listening peer and sends it `private_data` along, 56 bytes
    /// at most.
    ///
    /// `to` is a host name or an address, and a port: `storage-7:7000`,
    /// `10.9.0.1:7000`, `[fd09::1]:7000`, `[fe80::1%eth0]:7000`. A name's
    /// addresses are tried one after the other.
    ///
    /// # Errors
    /// [`Cause::NameService`] at [`Step::Lookup`]; else as
    /// [`connect_address`](Self::connect_address). Of several addresses, the
    /// last one's error.
    pub fn connect(&self, to: &str, private_data: &[u8]) -> Result<Connection, ConnError> {
        let addresses = lookup(to)?;
        let mut result = self.connect_address(addresses[0], private_data);
        for address in &addresses[1..] {
            if result.as_ref().err().is_none_or(ConnError::is_woken) {
                break;
            }
            result = self.connect_address(*address, private_data);
        }
        result.map_err(|error| error.with_host(to))
    }

    /// Connects to a peer that listens at this address.
    ///
    /// # Errors
    /// [`Cause::PrivateDataTooLong`] before anything is sent;
    /// [`Cause::Os`] where no device leads there; [`Cause::WrongDevice`];
    /// [`Cause::TimedOut`] of a step; [`Cause::Rejected`] and
    /// [`Cause::Unreachable`] as the peer, or its silence, has it.
    pub fn connect_address(
        &self,
        to: SocketAddr,
        private_data: &[u8],
    ) -> Result<Connection, ConnError> {
        let connect = || {
            check_private_data(Step::Connect, private_data)?;
            self.establish(&self.resolve(to)?, private_data)
        };
        connect().map_err(|error: ConnError| error.with_peer(Some(to)))
    }

    /// An id with a device and a route.
    fn resolve(&self, to: SocketAddr) -> Result<Arc<Endpoint>, ConnError> {
        let os = |step| move |errno: Errno| ConnError::new(step, Cause::Os(errno));
        let config = &self.config;
        let channel = Channel::new(self.waker.clone()).map_err(os(Step::Open))?;
        let within = config.address_timeout;
        let prepare = |id: &Id| set_ack_timeout(id, config);
        let id = resolve_address(&channel, self.source, to, within, prepare)
            .map_err(|cause| ConnError::new(Step::Address, cause))?;
        id.resolve_route(config.route_timeout).map_err(os(Step::Route))?;
        let resolved = kind::RDMA_CM_EVENT_ROUTE_RESOLVED;
        expect(&channel, resolved, Step::Route, config.route_timeout)?;
        Ok(Endpoint::new(id))
    }

    fn establish(&self, end: &Arc<Endpoint>, data: &[u8]) -> Result<Connection, ConnError> {
        let config = &self.config;
        let pd = domain(end.id(), self.pd.as_ref())?;
        let via = via(end, pd.device());
        let connect = || {
            let queues = Queues::new(end, &pd, config)?;
            let handshake = Handshake {
                private_data: data,
                retry_count: config.retry_count,
                rnr_retry_count: config.rnr_retry_count,
            };
            let os = |errno| ConnError::new(Step::Connect, Cause::Os(errno));
            end.id().connect(handshake).map_err(os)?;
            let (channel, established) = (end.id().channel(), kind::RDMA_CM_EVENT_ESTABLISHED);
            let event = expect(channel, established, Step::Connect, config.connect_timeout)?;
            Connection::new(end, queues, &pd, config, event.private_data)
        };
        connect().map_err(|error: ConnError| error.with_via(Some(via)))
    }
}

/// The protection domain for an id's queues: the caller's, if it is of the id's
/// device, or a new one.
pub(super) fn domain(id: &Id, given: Option<&Pd>) -> Result<Pd, ConnError> {
    let failed = |error: DeviceError| ConnError::new(Step::Queues, Cause::Device(error));
    let Some(context) = id.context() else {
        return Err(ConnError::new(Step::Queues, Cause::Os(Errno::ENODEV)));
    };
    match given {
        Some(pd) if pd.device().context() == context => Ok(pd.clone()),
        Some(pd) => {
            let pd = pd.device().name();
            Err(ConnError::new(Step::Queues, Cause::WrongDevice { pd }))
        }
        None => Pd::new(&Device::from_context(context).map_err(failed)?).map_err(failed),
    }
}

/// Kernels before 5.2 do not have the setting; the device's own then stays.
pub(super) fn set_ack_timeout(id: &Id, config: &ConnConfig) {
    if let Some(exponent) = config.ack_timeout {
        let _ = id.set_ack_timeout(exponent);
    }
}
