//! The endpoint that peers connect to.

use core::ffi::{c_char, c_int};
use std::os::fd::{AsFd, AsRawFd};

use super::conn::no_event;
use super::conn_req::with_cfg;
use super::{ConnCfg, ConnReq, Failure, INVAL, Owned, PROVIDER, Peer, answer, get, place, take};
use crate::error::Errno;
use crate::verbs::{AddressInfo, CmId, EventChannel};

/// `struct rpma_ep`.
#[derive(Debug)]
pub struct Ep {
    peer: *const Peer,
    // Before its channel.
    id: CmId,
    events: EventChannel,
}

fn os(step: &'static str) -> impl Fn(Errno) -> Failure {
    move |errno| {
        log!(ERROR, c"rpma_ep", "{step} failed: {errno}");
        PROVIDER
    }
}

/// Listens on an address of this machine.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_ep_listen(
    peer: *mut Peer,
    addr: *const c_char,
    port: *const c_char,
    ep_ptr: *mut *mut Ep,
) -> c_int {
    answer(|| {
        let (peer, into) = (place(peer)?, place(ep_ptr)?);
        let (addr, port) = (place(addr.cast_mut())?, place(port.cast_mut())?);
        let events = EventChannel::new().map_err(os("rdma_create_event_channel"))?;
        // SAFETY: the channel goes after the id.
        let id = unsafe { CmId::new(events.as_ptr()) }.map_err(os("rdma_create_id"))?;
        // SAFETY: both are C strings, as the module says.
        let info = unsafe { AddressInfo::new(addr.as_ptr(), port.as_ptr(), true) };
        let info = info.map_err(|why| {
            log!(ERROR, c"rpma_ep_listen", "looking up the address failed: {why}");
            PROVIDER
        })?;
        info.bind(&id).map_err(os("rdma_bind_addr"))?;
        id.listen(0).map_err(os("rdma_listen"))?;
        let new = Owned::new(Ep { peer: peer.as_ptr(), id, events })?;
        // SAFETY: not null, so the caller's variable.
        unsafe { into.write(new.leak()) };
        log!(NOTICE, c"rpma_ep_listen", "waiting for connections");
        Ok(())
    })
}

/// Ends listening.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_ep_shutdown(ep_ptr: *mut *mut Ep) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let Some(ep) = unsafe { take(ep_ptr) }? else {
            return Ok(());
        };
        let Ep { id, events, .. } = ep.into_inner();
        let destroyed = id.destroy().map_err(os("rdma_destroy_id"));
        drop(events);
        destroyed
    })
}

/// Gives the descriptor that is readable when a peer asks.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_ep_get_fd(ep: *const Ep, fd: *mut c_int) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let value = unsafe { get(ep) }?.events.as_fd().as_raw_fd();
        // SAFETY: not null, so the caller's variable.
        unsafe { place(fd)?.write(value) };
        Ok(())
    })
}

/// Waits for the next request and makes queues for it.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_ep_next_conn_req(
    ep: *mut Ep,
    cfg: *const ConnCfg,
    req_ptr: *mut *mut ConnReq,
) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let ep = unsafe { get(ep) }?;
        let into = place(req_ptr)?;
        let mut event = ep.events.next().map_err(no_event)?;
        let Some(id) = event.request.take() else {
            log!(ERROR, c"rpma_ep_next_conn_req", "an event that is no request: {}", event.kind);
            return Err(INVAL);
        };
        // SAFETY: a listener's connection request hands its id over to whoever
        // reads the event.
        let id = unsafe { CmId::from_raw(id) };
        // SAFETY: as the module says.
        let peer = unsafe { get(ep.peer) }?;
        // SAFETY: the peer and the queue outlive it, as the module says.
        let make = |cfg: &ConnCfg| unsafe { ConnReq::incoming(peer, id, event, cfg) };
        // SAFETY: as the module says.
        let new = unsafe { with_cfg(cfg, make) }?;
        // SAFETY: not null, so the caller's variable.
        unsafe { into.write(new.leak()) };
        Ok(())
    })
}
