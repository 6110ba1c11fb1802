//! rdma_cm's connection identifier, and the calls on it.

#![allow(unsafe_code, reason = "librdmacm is a C library")]

use core::ffi::{c_int, c_void};
#[cfg(feature = "capi")]
use core::mem::ManuallyDrop;
use core::net::SocketAddr;
use core::ops::Deref;
use core::ptr::{self, NonNull};
use core::time::Duration;
use std::sync::Arc;

use rdma_sys::{
    ibv_context, ibv_qp, ibv_qp_attr, ibv_qp_init_attr_ex, ibv_qp_state, rdma_accept,
    rdma_bind_addr, rdma_cm_id, rdma_conn_param, rdma_connect, rdma_create_id, rdma_create_qp_ex,
    rdma_destroy_id, rdma_destroy_qp, rdma_disconnect, rdma_event_channel, rdma_get_src_port,
    rdma_init_qp_attr, rdma_listen, rdma_migrate_id, rdma_port_space, rdma_reject,
    rdma_resolve_addr, rdma_resolve_route, rdma_set_option,
};
use socket2::{SockAddr, SockAddrStorage};

use super::channel::Channel;
use crate::error::Errno;
use crate::verbs::errno::last_errno;

/// `RDMA_OPTION_ID` and `RDMA_OPTION_ID_ACK_TIMEOUT` of `rdma_cma.h`.
const OPTION_ID: c_int = 0;
const OPTION_ID_ACK_TIMEOUT: c_int = 3;

/// An id of the connected kind. Its owner sees to it that the channel of its
/// events stays.
#[derive(Debug)]
pub(crate) struct CmId(NonNull<rdma_cm_id>);

// SAFETY: librdmacm's calls may be made from any thread, and an id holds
// nothing of the thread that made it.
unsafe impl Send for CmId {}
// SAFETY: as above; calls on one id are serialised by the kernel. The fields
// that are read here are written by librdmacm while a call or an event of the
// set-up is carried out, which happens in the one thread that then has the id.
unsafe impl Sync for CmId {}

/// An id that keeps its channel.
#[derive(Debug)]
pub(super) struct Id {
    // First: it goes before its channel.
    raw: CmId,
    channel: Arc<Channel>,
}

impl Id {
    pub(super) fn new(channel: &Arc<Channel>) -> Result<Self, Errno> {
        // SAFETY: the channel is kept.
        let raw = unsafe { CmId::new(channel.as_ptr()) }?;
        Ok(Id { raw, channel: Arc::clone(channel) })
    }

    pub(super) fn channel(&self) -> &Arc<Channel> {
        &self.channel
    }

    /// Moves an id, and the events that are pending for it, to a channel.
    pub(super) fn migrated(raw: CmId, to: &Arc<Channel>) -> Result<Self, Errno> {
        // SAFETY: the channel is kept.
        unsafe { raw.migrate(to.as_ptr()) }?;
        Ok(Id { raw, channel: Arc::clone(to) })
    }
}

impl Deref for Id {
    type Target = CmId;

    fn deref(&self) -> &CmId {
        &self.raw
    }
}

impl CmId {
    /// A new id. With a null channel, calls on it that take time wait until they
    /// are done.
    ///
    /// # Safety
    /// The channel, where there is one, is alive and outlives the id.
    pub(crate) unsafe fn new(channel: *mut rdma_event_channel) -> Result<Self, Errno> {
        let mut raw = ptr::null_mut();
        let space = rdma_port_space::RDMA_PS_TCP;
        // SAFETY: this function's own condition; `raw` may be written.
        check(unsafe { rdma_create_id(channel, &mut raw, ptr::null_mut(), space) })?;
        NonNull::new(raw).map(CmId).ok_or(Errno::EINVAL)
    }

    /// # Safety
    /// `raw` is a live id, which nobody else destroys.
    pub(crate) unsafe fn from_raw(raw: NonNull<rdma_cm_id>) -> Self {
        CmId(raw)
    }

    /// The id, alive as long as this.
    #[cfg(feature = "capi")]
    pub(super) fn as_ptr(&self) -> *mut rdma_cm_id {
        self.0.as_ptr()
    }

    /// Moves it, and the events that are pending for it, to a channel.
    ///
    /// # Safety
    /// The channel is alive and outlives the id. No event of the id is
    /// unacknowledged.
    pub(crate) unsafe fn migrate(&self, to: *mut rdma_event_channel) -> Result<(), Errno> {
        // SAFETY: the id is alive; the rest is this function's own condition.
        check(unsafe { rdma_migrate_id(self.0.as_ptr(), to) })
    }

    /// Destroys it, and says whether that could be done.
    #[cfg(feature = "capi")]
    pub(crate) fn destroy(self) -> Result<(), Errno> {
        let id = ManuallyDrop::new(self);
        // SAFETY: it is destroyed this once, since its drop does not run.
        check(unsafe { rdma_destroy_id(id.0.as_ptr()) })
    }

    pub(crate) fn bind(&self, to: SocketAddr) -> Result<(), Errno> {
        let to = SockAddr::from(to);
        // SAFETY: the id is alive; the address is one of its family and is only
        // read.
        check(unsafe { rdma_bind_addr(self.0.as_ptr(), to.as_ptr().cast_mut().cast()) })
    }

    pub(crate) fn listen(&self, backlog: c_int) -> Result<(), Errno> {
        // SAFETY: the id is alive.
        check(unsafe { rdma_listen(self.0.as_ptr(), backlog) })
    }

    pub(crate) fn resolve_address(
        &self,
        from: Option<SocketAddr>,
        to: SocketAddr,
        timeout: Duration,
    ) -> Result<(), Errno> {
        let from = from.map(SockAddr::from);
        let from = from.as_ref().map_or(ptr::null_mut(), |from| from.as_ptr().cast_mut().cast());
        let to = SockAddr::from(to);
        let (id, to, timeout) = (self.0.as_ptr(), to.as_ptr().cast_mut().cast(), millis(timeout));
        // SAFETY: the id is alive; both addresses live until the call is over,
        // and it copies them.
        check(unsafe { rdma_resolve_addr(id, from, to, timeout) })
    }

    pub(crate) fn resolve_route(&self, timeout: Duration) -> Result<(), Errno> {
        // SAFETY: the id is alive.
        check(unsafe { rdma_resolve_route(self.0.as_ptr(), millis(timeout)) })
    }

    /// Sets the acknowledgement timeout of the queue pair to come, as the
    /// exponent of the InfiniBand formula.
    pub(crate) fn set_ack_timeout(&self, mut exponent: u8) -> Result<(), Errno> {
        let value = ptr::from_mut(&mut exponent).cast::<c_void>();
        let (id, level) = (self.0.as_ptr(), OPTION_ID);
        // SAFETY: the id is alive; this option's value is one byte.
        check(unsafe { rdma_set_option(id, level, OPTION_ID_ACK_TIMEOUT, value, 1) })
    }

    /// Makes the id's queue pair; the id is then to be kept until
    /// [`destroy_qp`](Self::destroy_qp).
    ///
    /// # Safety
    /// What the attributes point at is alive, and outlives the queue pair.
    pub(crate) unsafe fn create_qp(
        &self,
        attributes: &mut ibv_qp_init_attr_ex,
    ) -> Result<(), Errno> {
        // SAFETY: the id is alive; the attributes are valid by this function's
        // own condition.
        check(unsafe { rdma_create_qp_ex(self.0.as_ptr(), attributes) })
    }

    /// # Safety
    /// The id has a queue pair, and nobody uses it any more.
    pub(crate) unsafe fn destroy_qp(&self) {
        // SAFETY: this function's own condition.
        unsafe { rdma_destroy_qp(self.0.as_ptr()) }
    }

    pub(crate) fn connect(&self, handshake: Handshake<'_>) -> Result<(), Errno> {
        let mut parameters = handshake.parameters()?;
        // SAFETY: the id is alive; the private data is borrowed by `handshake`
        // until the call is over.
        check(unsafe { rdma_connect(self.0.as_ptr(), &mut parameters) })
    }

    pub(crate) fn accept(&self, handshake: Handshake<'_>) -> Result<(), Errno> {
        let mut parameters = handshake.parameters()?;
        // SAFETY: as for `connect`.
        check(unsafe { rdma_accept(self.0.as_ptr(), &mut parameters) })
    }

    /// Whether the peer whose request this is still waits for an answer. No
    /// event tells of one that gave up before it was accepted.
    pub(crate) fn is_waiting(&self) -> bool {
        // SAFETY: a C struct of numbers, for which zeros are valid.
        let mut attributes: ibv_qp_attr = unsafe { core::mem::zeroed() };
        attributes.qp_state = ibv_qp_state::IBV_QPS_INIT;
        let mut mask = 0;
        // SAFETY: the id is alive; both may be written. It fails where the
        // connection is in no state to give a queue pair its first settings.
        let status = unsafe { rdma_init_qp_attr(self.0.as_ptr(), &mut attributes, &mut mask) };
        status == 0
    }

    pub(crate) fn reject(&self, private_data: &[u8]) -> Result<(), Errno> {
        let len = u8::try_from(private_data.len()).map_err(|_| Errno::EINVAL)?;
        // SAFETY: the id is alive; the bytes live until the call is over.
        check(unsafe { rdma_reject(self.0.as_ptr(), private_data.as_ptr().cast(), len) })
    }

    /// Says goodbye to the peer and puts the queue pair into the error state,
    /// so that what is pending is flushed.
    pub(crate) fn disconnect(&self) -> Result<(), Errno> {
        // SAFETY: the id is alive.
        check(unsafe { rdma_disconnect(self.0.as_ptr()) })
    }

    /// The device's context, once the id is bound to one.
    pub(crate) fn context(&self) -> Option<NonNull<ibv_context>> {
        // SAFETY: the id is alive; see the note at `Sync`.
        NonNull::new(unsafe { (*self.0.as_ptr()).verbs })
    }

    /// The queue pair, where one was made.
    pub(crate) fn qp(&self) -> Option<NonNull<ibv_qp>> {
        // SAFETY: as above.
        NonNull::new(unsafe { (*self.0.as_ptr()).qp })
    }

    pub(crate) fn port_number(&self) -> u8 {
        // SAFETY: as above.
        unsafe { (*self.0.as_ptr()).port_num }
    }

    pub(crate) fn local_address(&self) -> Option<SocketAddr> {
        // SAFETY: as above.
        let route = unsafe { &(*self.0.as_ptr()).route };
        // SAFETY: the union's largest member, all of it initialised.
        let mut address = to_socket_addr(unsafe { route.addr.src_addr_union.src_storage })?;
        if address.port() == 0 {
            // SAFETY: the id is alive.
            address.set_port(u16::from_be(unsafe { rdma_get_src_port(self.0.as_ptr()) }));
        }
        Some(address)
    }

    pub(crate) fn peer_address(&self) -> Option<SocketAddr> {
        // SAFETY: the id is alive; see the note at `Sync`.
        let route = unsafe { &(*self.0.as_ptr()).route };
        // SAFETY: the union's largest member, all of it initialised.
        to_socket_addr(unsafe { route.addr.dst_addr_union.dst_storage })
    }

    /// The GID that the connection goes out from.
    pub(crate) fn source_gid(&self) -> [u8; 16] {
        // SAFETY: the id is alive; see the note at `Sync`.
        let route = unsafe { &(*self.0.as_ptr()).route };
        // SAFETY: the union's only member.
        let address = unsafe { &route.addr.addr.ibaddr };
        // SAFETY: any 16 bytes are a GID.
        unsafe { address.sgid.raw }
    }
}

impl Drop for CmId {
    fn drop(&mut self) {
        // SAFETY: the id is this one's own; its queue pair, if it had one, was
        // destroyed by who made it, and every event was acknowledged as it came,
        // so this does not wait.
        unsafe { rdma_destroy_id(self.0.as_ptr()) };
    }
}

/// What one side tells the other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handshake<'a> {
    pub(crate) private_data: &'a [u8],
    pub(crate) retry_count: u8,
    pub(crate) rnr_retry_count: u8,
}

impl Handshake<'_> {
    fn parameters(&self) -> Result<rdma_conn_param, Errno> {
        /// As many reads at once, in either direction, as the devices can.
        const MOST: u8 = u8::MAX;
        Ok(rdma_conn_param {
            private_data: match self.private_data {
                [] => ptr::null(),
                bytes => bytes.as_ptr().cast(),
            },
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

pub(super) fn check(status: c_int) -> Result<(), Errno> {
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
