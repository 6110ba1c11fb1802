//! The accepting side.

#![allow(unsafe_code, reason = "librdmacm is a C library")]

use core::net::SocketAddr;
use core::time::Duration;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;
use std::vec::Vec;

use rdma_sys::rdma_cm_event_type as kind;

use super::channel::{Channel, Waited, Waker};
use super::config::{ConnConfig, check_private_data};
use super::connection::{Connection, via};
use super::connector::{domain, set_ack_timeout};
use super::error::{Cause, ConnError, Step};
use super::id::{CmId, Handshake, Id};
use super::link::Endpoint;
use super::queues::Queues;
use super::resolve::{expect, lookup};
use crate::error::Errno;
use crate::verbs::device::{Device, DeviceError};
use crate::verbs::pd::Pd;

/// How many requests may wait to be taken up.
const BACKLOG: i32 = 64;

/// Waits for peers that connect.
///
/// ```no_run
/// use farword::Usage;
/// use farword::log::{self, Announcement};
/// use farword::verbs::{ConnConfig, Listener, Mr, Pd};
///
/// let listener = Listener::bind("0.0.0.0:7000")?;
/// let request = listener.next(None)?;
/// let pd = Pd::new(&request.device()?)?;
/// let usage = Usage::WRITE_DST | Usage::READ_SRC | Usage::FLUSH_VISIBILITY;
/// let region = Mr::alloc(&pd, 1 << 20, usage)?;
/// log::format(region.words())?;
/// let told = Announcement::new(region.remote())
///     .with_native_flush(region.grants_native_flush())
///     .to_bytes();
/// let connection = request.accept(&pd, &told, &ConnConfig::default())?;
/// connection.wait_end(None)?;
/// println!("the log's tail is at {}", log::tail(region.words())?.get());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Listener {
    id: Id,
    address: Option<SocketAddr>,
}

impl Listener {
    /// Listens on an address of this machine; with port 0, on a free port that
    /// [`local_address`](Self::local_address) tells. On an unspecified address
    /// (`0.0.0.0`, `::`) it listens on all devices.
    ///
    /// # Errors
    /// [`Cause::Os`] with ENODEV or EADDRNOTAVAIL at [`Step::Bind`] where no
    /// RDMA device has the address, with EADDRINUSE where somebody listens there
    /// already. Of a host name, the first address is taken.
    pub fn bind(to: &str) -> Result<Self, ConnError> {
        let to = lookup(to)?[0];
        let failed =
            |step| move |errno: Errno| ConnError::new(step, Cause::Os(errno)).with_peer(Some(to));
        let waker = Waker::new().map_err(failed(Step::Open))?;
        let channel = Channel::new(waker).map_err(failed(Step::Open))?;
        let id = Id::new(&channel).map_err(failed(Step::Open))?;
        id.bind(to).map_err(failed(Step::Bind))?;
        id.listen(BACKLOG).map_err(failed(Step::Listen))?;
        let address = id.local_address();
        Ok(Listener { id, address })
    }

    /// Where it listens.
    #[must_use]
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The device that it listens on; `None` where it listens on all.
    ///
    /// # Errors
    /// [`Cause::Device`].
    pub fn device(&self) -> Result<Option<Device>, ConnError> {
        let device = self.id.context().map(Device::from_context).transpose();
        device.map_err(|error| self.error(Cause::Device(error)))
    }

    /// Waits for the next peer, for ever where `timeout` is `None`.
    ///
    /// # Errors
    /// [`Cause::TimedOut`], [`Cause::Woken`]; [`Cause::Lost`] with ENODEV when
    /// the device was taken away.
    pub fn next(&self, timeout: Option<Duration>) -> Result<Incoming, ConnError> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            let event = match self.id.channel().next(deadline) {
                Waited::Came(event) => event,
                Waited::TimedOut => {
                    return Err(self.error(Cause::TimedOut(timeout.unwrap_or_default())));
                }
                Waited::Woken => return Err(self.error(Cause::Woken)),
                Waited::Failed(errno) => return Err(self.error(Cause::Os(errno))),
            };
            match (event.kind, event.request) {
                (kind::RDMA_CM_EVENT_CONNECT_REQUEST, Some(id)) => {
                    // SAFETY: a listener's connection request hands its id
                    // over to whoever reads the event.
                    let id = unsafe { CmId::from_raw(id) };
                    return Incoming::new(id, event.private_data);
                }
                (kind::RDMA_CM_EVENT_DEVICE_REMOVAL, _) => {
                    return Err(self.error(Cause::Lost(Errno::ENODEV)));
                }
                // Nothing else concerns a listener.
                _ => {}
            }
        }
    }

    /// What ends a [`next`](Self::next) of another thread.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.id.channel().waker().clone()
    }

    fn error(&self, cause: Cause) -> ConnError {
        ConnError::new(Step::Request, cause).with_peer(self.address)
    }
}

/// Readable when a peer is waiting: for epoll and its kin. A
/// [`next`](Listener::next) with a timeout of zero then takes it up.
impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.id.channel().as_fd()
    }
}

/// A peer that wants to connect. Dropped, it is rejected.
#[derive(Debug)]
pub struct Incoming {
    id: Option<Id>,
    peer: Option<SocketAddr>,
    private_data: Vec<u8>,
}

impl Incoming {
    fn new(id: CmId, private_data: Vec<u8>) -> Result<Self, ConnError> {
        let peer = id.peer_address();
        let failed = |errno| ConnError::new(Step::Request, Cause::Os(errno)).with_peer(peer);
        // A channel of its own, so that the listener never sees its events.
        let channel = Waker::new().and_then(Channel::new).map_err(failed)?;
        let id = Id::migrated(id, &channel).map_err(failed)?;
        Ok(Incoming { id: Some(id), peer, private_data })
    }

    /// The peer's address.
    #[must_use]
    pub fn peer_address(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// What the peer sent along. The protocol pads it with zeros.
    #[must_use]
    pub fn private_data(&self) -> &[u8] {
        &self.private_data
    }

    /// The device that it came in by.
    ///
    /// # Errors
    /// [`Cause::Device`].
    pub fn device(&self) -> Result<Device, ConnError> {
        let context = self.id.as_ref().and_then(|id| id.context());
        let Some(context) = context else {
            return Err(self.error(Step::Accept, Cause::Os(Errno::ENODEV)));
        };
        Device::from_context(context)
            .map_err(|error: DeviceError| self.error(Step::Accept, Cause::Device(error)))
    }

    /// Accepts it, with queues in this protection domain, and sends it
    /// `private_data` along, 196 bytes at most. Returns when the peer has
    /// confirmed.
    ///
    /// # Errors
    /// [`Cause::PrivateDataTooLong`] before anything is sent;
    /// [`Cause::WrongDevice`]; [`Cause::TimedOut`] if the peer does not confirm
    /// within [`ConnConfig::connect_timeout`], [`Cause::Closed`] or
    /// [`Cause::Lost`] if it is gone.
    pub fn accept(
        mut self,
        pd: &Pd,
        private_data: &[u8],
        config: &ConnConfig,
    ) -> Result<Connection, ConnError> {
        check_private_data(Step::Accept, private_data)
            .map_err(|error| error.with_peer(self.peer))?;
        let Some(id) = self.id.take() else {
            return Err(self.error(Step::Accept, Cause::Os(Errno::EINVAL)));
        };
        let peer = self.peer;
        let data = core::mem::take(&mut self.private_data);
        accept(id, pd, private_data, data, config).map_err(|error| error.with_peer(peer))
    }

    /// Rejects it, and sends it `private_data` along as the reason, 148 bytes at
    /// most.
    ///
    /// # Errors
    /// [`Cause::PrivateDataTooLong`], whereupon it is rejected without a reason;
    /// [`Cause::Os`].
    pub fn reject(mut self, private_data: &[u8]) -> Result<(), ConnError> {
        check_private_data(Step::Reject, private_data)
            .map_err(|error| error.with_peer(self.peer))?;
        let rejected = self.id.take().map_or(Ok(()), |id| id.reject(private_data));
        rejected.map_err(|errno| self.error(Step::Reject, Cause::Os(errno)))
    }

    fn error(&self, step: Step, cause: Cause) -> ConnError {
        ConnError::new(step, cause).with_peer(self.peer)
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            // A peer that has gone cannot be told.
            let _ = id.reject(&[]);
        }
    }
}

fn accept(
    id: Id,
    pd: &Pd,
    private_data: &[u8],
    told: Vec<u8>,
    config: &ConnConfig,
) -> Result<Connection, ConnError> {
    set_ack_timeout(&id, config);
    let end = Endpoint::new(id);
    let accept = || {
        let pd = domain(end.id(), Some(pd))?;
        let queues = Queues::new(&end, &pd, config)?;
        let handshake = Handshake {
            private_data,
            retry_count: config.retry_count,
            rnr_retry_count: config.rnr_retry_count,
        };
        let os = |errno| ConnError::new(Step::Accept, Cause::Os(errno));
        end.id().accept(handshake).map_err(os)?;
        let (channel, established) = (end.id().channel(), kind::RDMA_CM_EVENT_ESTABLISHED);
        expect(channel, established, Step::Accept, config.connect_timeout)?;
        Connection::new(&end, queues, &pd, config, told)
    };
    if !end.id().is_waiting() {
        return Err(ConnError::new(Step::Accept, Cause::Closed));
    }
    let result: Result<Connection, ConnError> = accept();
    result.map_err(|error| {
        // A peer that gave up meanwhile makes any of the calls fail.
        let gave_up = error.is_einval() && !end.id().is_waiting();
        let error = if gave_up { ConnError::new(Step::Accept, Cause::Closed) } else { error };
        // Not accepted is rejected: the peer need not wait for its timeout.
        let _ = end.id().reject(&[]);
        error.with_via(Some(via(&end, pd.device())))
    })
}
