//! rdma_cm's connection identifier, and the calls on it.

#![allow(unsafe_code, reason = "librdmacm is a C library")]

use core::ffi::{c_int, c_void};
use core::net::SocketAddr;
use core::ptr::{self, NonNull};
use core::time::Duration;
use std::sync::Arc;

use rdma_sys::{
    ibv_context, ibv_qp, ibv_qp_attr, ibv_qp_init_attr_ex, ibv_qp_state, rdma_accept,
    rdma_bind_addr, rdma_cm_id, rdma_conn_param, rdma_connect, rdma_create_id, rdma_create_qp_ex,
    rdma_destroy_id, rdma_destroy_qp, rdma_disconnect, rdma_get_src_port, rdma_init_qp_attr,
    rdma_listen, rdma_migrate_id, rdma_port_space, rdma_reject, rdma_resolve_addr,
    rdma_resolve_route, rdma_set_option,
};
use socket2::{SockAddr, SockAddrStorage};

use super::channel::Channel;
use crate::error::Errno;
use crate::verbs::errno::last_errno;

/// `RDMA_OPTION_ID` and `RDMA_OPTION_ID_ACK_TIMEOUT` of `rdma_cma.h`.
const OPTION_ID: c_int = 0;
const OPTION_ID_ACK_TIMEOUT: c_int = 3;

/// An id of the connected kind. It keeps its channel.
#[derive(Debug)]
pub(super) struct Id {
    raw: NonNull<rdma_cm_id>,
    channel: Arc<Channel>,
}

// SAFETY: librdmacm's calls may be made from any thread, and an id holds
// nothing of the thread that made it.
unsafe impl Send for Id {}
// SAFETY: as above; calls on one id are serialised by the kernel. The fields
// that are read here are written by librdmacm while a call or an event of the
// set-up is carried out, which happens in the one thread that then has the id.
unsafe impl Sync for Id {}

impl Id {
    pub(super) fn new(channel: &Arc<Channel>) -> Result<Self, Errno> {
        let mut raw = ptr::null_mut();
        let space = rdma_port_space::RDMA_PS_TCP;
        // SAFETY: the channel is alive; `raw` may be written.
        check(unsafe { rdma_create_id(channel.as_ptr(), &mut raw, ptr::null_mut(), space) })?;
        let raw = NonNull::new(raw).ok_or(Errno::EINVAL)?;
        Ok(Id { raw, channel: Arc::clone(channel) })
    }

    /// # Safety
    /// `raw` is a live id of that channel, which nobody else destroys.
    pub(super) unsafe fn from_raw(raw: NonNull<rdma_cm_id>, channel: Arc<Channel>) -> Self {
        Id { raw, channel }
    }

    pub(super) fn channel(&self) -> &Arc<Channel> {
        &self.channel
    }

    pub(super) fn bind(&self, to: SocketAddr) -> Result<(), Errno> {
        let to = SockAddr::from(to);
        // SAFETY: the id is alive; the address is one of its family and is only
        // read.
        check(unsafe { rdma_bind_addr(self.raw.as_ptr(), to.as_ptr().cast_mut().cast()) })
    }

    pub(super) fn listen(&self, backlog: c_int) -> Result<(), Errno> {
        // SAFETY: the id is alive.
        check(unsafe { rdma_listen(self.raw.as_ptr(), backlog) })
    }

    pub(super) fn resolve_address(
        &self,
        from: Option<SocketAddr>,
        to: SocketAddr,
        timeout: Duration,
    ) -> Result<(), Errno> {
        let from = from.map(SockAddr::from);
        let from = from.as_ref().map_or(ptr::null_mut(), |from| from.as_ptr().cast_mut().cast());
        let to = SockAddr::from(to);
        let (id, to, timeout) = (self.raw.as_ptr(), to.as_ptr().cast_mut().cast(), millis(timeout));
        // SAFETY: the id is alive; both addresses live until the call is over,
        // and it copies them.
        check(unsafe { rdma_resolve_addr(id, from, to, timeout) })
    }

    pub(super) fn resolve_route(&self, timeout: Duration) -> Result<(), Errno> {
        // SAFETY: the id is alive.
        check(unsafe { rdma_resolve_route(self.raw.as_ptr(), millis(timeout)) })
    }

    /// Sets the acknowledgement timeout of the queue pair to come, as the
    /// exponent of the InfiniBand formula.
    pub(super) fn set_ack_timeout(&self, mut exponent: u8) -> Result<(), Errno> {
        let value = ptr::from_mut(&mut exponent).cast::<c_void>();
        let (id, level) = (self.raw.as_ptr(), OPTION_ID);
        // SAFETY: the id is alive; this option's value is one byte.
        check(unsafe { rdma_set_option(id, level, OPTION_ID_ACK_TIMEOUT, value, 1) })
    }

    /// Makes the id's queue pair; the id is then to be kept until
    /// [`destroy_qp`](Self::destroy_qp).
    ///
    /// # Safety
    /// What the attributes point at is alive, and outlives the queue pair.
    pub(super) unsafe fn create_qp(
        &self,
        attributes: &mut ibv_qp_init_attr_ex,
    ) -> Result<(), Errno> {
        // SAFETY: the id is alive; the attributes are valid by this function's
        // own condition.
        check(unsafe { rdma_create_qp_ex(self.raw.as_ptr(), attributes) })
    }

    /// # Safety
    /// The id has a queue pair, and nobody uses it any more.
    pub(super) unsafe fn destroy_qp(&self) {
        // SAFETY: this function's own condition.
        unsafe { rdma_destroy_qp(self.raw.as_ptr()) }
    }

    pub(super) fn connect(&self, handshake: Handshake<'_>) -> Result<(), Errno> {
        let mut parameters = handshake.parameters()?;
        // SAFETY: the id is alive; the private data is borrowed by `handshake`
        // until the call is over.
        check(unsafe { rdma_connect(self.raw.as_ptr(), &mut parameters) })
    }

    pub(super) fn accept(&self, handshake: Handshake<'_>) -> Result<(), Errno> {
        let mut parameters = handshake.parameters()?;
        // SAFETY: as for `connect`.
        check(unsafe { rdma_accept(self.raw.as_ptr(), &mut parameters) })
    }

    /// Whether the peer whose request this is still waits for an answer. No
    /// event tells of one that gave up before it was accepted.
    pub(super) fn is_waiting(&self) -> bool {
        // SAFETY: a C struct of numbers, for which zeros are valid.
        let mut attributes: ibv_qp_attr = unsafe { core::mem::zeroed() };
        attributes.qp_state = ibv_qp_state::IBV_QPS_INIT;
        let mut mask = 0;
        // SAFETY: the id is alive; both may be written. It fails where the
        // connection is in no state to give a queue pair its first settings.
        let status = unsafe { rdma_init_qp_attr(self.raw.as_ptr(), &mut attributes, &mut mask) };
        status == 0
    }

    pub(super) fn reject(&self, private_data: &[u8]) -> Result<(), Errno> {
        let len = u8::try_from(private_data.len()).map_err(|_| Errno::EINVAL)?;
        // SAFETY: the id is alive; the bytes live until the call is over.
        check(unsafe { rdma_reject(self.raw.as_ptr(), private_data.as_ptr().cast(), len) })
    }

    /// Says goodbye to the peer and puts the queue pair into the error state,
    /// so that what is pending is flushed.
    pub(super) fn disconnect(&self) -> Result<(), Errno> {
        // SAFETY: the id is alive.
        check(unsafe { rdma_disconnect(self.raw.as_ptr()) })
    }

    /// Moves the id, and the events that are pending for it, to a channel.
    pub(super) fn migrate(mut self, to: &Arc<Channel>) -> Result<Self, Errno> {
        // SAFETY: the id and the channel are alive, and no event of the id is
        // unacknowledged.
        check(unsafe { rdma_migrate_id(self.raw.as_ptr(), to.as_ptr()) })?;
        self.channel = Arc::clone(to);
        Ok(self)
    }

    /// The device's context, once the id is bound to one.
    pub(super) fn context(&self) -> Option<NonNull<ibv_context>> {
        // SAFETY: the id is alive; see the note at `Sync`.
        NonNull::new(unsafe { (*self.raw.as_ptr()).verbs })
    }

    /// The queue pair, where one was made.
    pub(super) fn qp(&self) -> Option<NonNull<ibv_qp>> {
        // SAFETY: as above.
        NonNull::new(unsafe { (*self.raw.as_ptr()).qp })
    }

    pub(super) fn port_number(&self) -> u8 {
        // SAFETY: as above.
        unsafe { (*self.raw.as_ptr()).port_num }
    }

    pub(super) fn local_address(&self) -> Option<SocketAddr> {
        // SAFETY: as above.
        let route = unsafe { &(*self.raw.as_ptr()).route };
        // SAFETY: the union's largest member, all of it initialised.
        let mut address = to_socket_addr(unsafe { route.addr.src_addr_union.src_storage })?;
        if address.port() == 0 {
            // SAFETY: the id is alive.
            address.set_port(u16::from_be(unsafe { rdma_get_src_port(self.raw.as_ptr()) }));
        }
        Some(address)
    }

    pub(super) fn peer_address(&self) -> Option<SocketAddr> {
        // SAFETY: the id is alive; see the note at `Sync`.
        let route = unsafe { &(*self.raw.as_ptr()).route };
        // SAFETY: the union's largest member, all of it initialised.
        to_socket_addr(unsafe { route.addr.dst_addr_union.dst_storage })
    }

    /// The GID that the connection goes out from.
    pub(super) fn source_gid(&self) -> [u8; 16] {
        // SAFETY: the id is alive; see the note at `Sync`.
        let route = unsafe { &(*self.raw.as_ptr()).route };
        // SAFETY: the union's only member.
        let address = unsafe { &route.addr.addr.ibaddr };
        // SAFETY: any 16 bytes are a GID.
        unsafe { address.sgid.raw }
    }
}

impl Drop for Id {
    fn drop(&mut self) {
        // SAFETY: the id is this one's own; its queue pair, if it had one, was
        // destroyed by who made it, and every event was acknowledged as it came,
        // so this does not wait.
        unsafe { rdma_destroy_id(self.raw.as_ptr()) };
    }
}

/// What one side tells the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handshake<'a> {
    pub(super) private_data: &'a [u8],
    pub(super) retry_count: u8,
    pub(super) rnr_retry_count: u8,
}

impl Handshake<'_> {
    fn parameters(&self) -> Result<rdma_conn_param, Errno> {
        /// As many reads at once, in either direction, as the devices can.
        const MOST: u8 = u8::MAX;
        Ok(rdma_conn_param {
            private_data: self.private_data.as_ptr().cast(),
            private_data_len: u8::try_from(self.private_data.len()).map_err(|_| Errno::EINVAL)?,
            responder_resources: MOST,
            initiator_depth: MOST,
            flow_control: 1,
            retry_count: self.retry_count,
            rnr_retry_count: self.rnr_retry_count,
            srq: 0,
            qp_num: 0,
        })
    }
}

fn check(status: c_int) -> Result<(), Errno> {
    match status {
        0 => Ok(()),
        // librdmacm answers -1 and sets errno; some paths return the errno.
        -1 => Err(last_errno()),
        other => Err(Errno(other.saturating_abs())),
    }
}

fn millis(time: Duration) -> c_int {
    c_int::try_from(time.as_millis()).unwrap_or(c_int::MAX).max(1)
}

fn to_socket_addr(raw: libc::sockaddr_storage) -> Option<SocketAddr> {
    let len = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    let mut storage = SockAddrStorage::zeroed();
    // SAFETY: `SockAddrStorage` is documented to be viewable as the platform's
    // `sockaddr_storage`.
    unsafe { *storage.view_as::<libc::sockaddr_storage>() = raw };
    // SAFETY: every byte of it is initialised, and it is as long as it says.
    unsafe { SockAddr::new(storage, len) }.as_socket()
}
