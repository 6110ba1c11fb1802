//! Connection requests, on either side.

use core::ffi::{c_char, c_int, c_void};
use core::ptr;
use core::slice;
use std::vec::Vec;

use super::link::Link;
use super::ops::posted;
use super::{Conn, ConnCfg, INVAL, MrLocal, Owned, PROVIDER, Peer, answer, get, place, take};
use crate::error::Errno;
use crate::verbs::{AddressInfo, CmId, Event, Handshake};

/// `struct rpma_conn_req`.
#[derive(Debug)]
pub struct ConnReq {
    pub(super) link: Link,
    /// Whether the other side asks.
    pub(super) is_passive: bool,
    pub(super) private_data: Vec<u8>,
    pub(super) peer: *const Peer,
}

/// `struct rpma_conn_private_data`.
#[derive(Debug)]
#[repr(C)]
pub struct PrivateData {
    /// Where it is.
    pub ptr: *mut c_void,
    /// How many bytes it has.
    pub len: u8,
}

impl PrivateData {
    /// What bytes that C may look at are told as.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let len = u8::try_from(bytes.len()).unwrap_or(u8::MAX);
        let ptr = if bytes.is_empty() { ptr::null() } else { bytes.as_ptr() };
        PrivateData { ptr: ptr.cast_mut().cast(), len }
    }
}

/// The default configuration, or what C gave.
///
/// # Safety
/// Null or a live configuration.
pub(super) unsafe fn with_cfg<T>(cfg: *const ConnCfg, call: impl FnOnce(&ConnCfg) -> T) -> T {
    // SAFETY: this function's own condition.
    match unsafe { cfg.as_ref() } {
        Some(cfg) => call(cfg),
        None => call(&super::conn_cfg::DEFAULT),
    }
}

fn os(step: &'static str) -> impl Fn(Errno) -> super::Failure {
    move |errno| {
        log!(ERROR, c"rpma_conn_req", "{step} failed: {errno}");
        PROVIDER
    }
}

impl ConnReq {
    /// The request that an event brought.
    ///
    /// # Safety
    /// As [`Link::new`].
    pub(super) unsafe fn incoming(
        peer: &Peer,
        id: CmId,
        event: Event,
        cfg: &ConnCfg,
    ) -> Result<Owned<Self>, super::Failure> {
        // SAFETY: this function's own condition.
        let link = unsafe { Link::new(peer, id, cfg) }?;
        Owned::new(ConnReq { link, is_passive: true, private_data: event.private_data, peer })
    }
}

/// Makes a request to connect to a peer that listens.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_conn_req_new(
    peer: *mut Peer,
    addr: *const c_char,
    port: *const c_char,
    cfg: *const ConnCfg,
    req_ptr: *mut *mut ConnReq,
) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let peer = unsafe { get(peer) }?;
        let (addr, port) = (place(addr.cast_mut())?, place(port.cast_mut())?);
        let into = place(req_ptr)?;
        // SAFETY: both are C strings, as the module says.
        let info = unsafe { AddressInfo::new(addr.as_ptr(), port.as_ptr(), false) };
        let info = info.map_err(|why| {
            log!(ERROR, c"rpma_conn_req_new", "looking up the address failed: {why}");
            PROVIDER
        })?;
        // SAFETY: no channel.
        let id = unsafe { CmId::new(ptr::null_mut()) }.map_err(os("rdma_create_id"))?;
        let request = |cfg: &ConnCfg| {
            let timeout = cfg.timeout_ms();
            info.resolve(&id, timeout).map_err(os("rdma_resolve_addr"))?;
            id.route(timeout).map_err(os("rdma_resolve_route"))?;
            // SAFETY: the peer and the queue outlive it, as the module says.
            unsafe { Link::new(peer, id, cfg) }
        };
        // SAFETY: as the module says.
        let link = unsafe { with_cfg(cfg, request) }?;
        let private_data = Vec::new();
        let new = Owned::new(ConnReq { link, is_passive: false, private_data, peer })?;
        // SAFETY: not null, so the caller's variable.
        unsafe { into.write(new.leak()) };
        log!(NOTICE, c"rpma_conn_req_new", "a connection is requested");
        Ok(())
    })
}

/// Deletes a request; one of the other side is rejected.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_conn_req_delete(req_ptr: *mut *mut ConnReq) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        match unsafe { take(req_ptr) }? {
            Some(req) => delete(req.into_inner()),
            None => Ok(()),
        }
    })
}

fn delete(req: ConnReq) -> super::Answer {
    let is_passive = req.is_passive;
    let code = req.link.destroy(|id| match is_passive {
        true => id.reject(&[]).map_err(os("rdma_reject")),
        false => Ok(()),
    });
    if code == 0 { Ok(()) } else { Err(super::Failure(code)) }
}

/// Connects, or accepts the other side's request. The request is gone whatever
/// comes of it.
///
/// # Safety
/// As the [module](super) says; the private data is as long as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_conn_req_connect(
    req_ptr: *mut *mut ConnReq,
    pdata: *const PrivateData,
    conn_ptr: *mut *mut Conn,
) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let req = unsafe { take(req_ptr) }?.ok_or(INVAL)?.into_inner();
        // SAFETY: as the module says.
        let told = unsafe { private_data(pdata) };
        let (Ok(into), Ok(private_data)) = (place(conn_ptr), told) else {
            let _ = delete(req);
            return Err(INVAL);
        };
        let handshake = Handshake { private_data, retry_count: 7, rnr_retry_count: 7 };
        let conn = if req.is_passive { accept(req, handshake) } else { connect(req, handshake) }?;
        // SAFETY: not null, so the caller's variable.
        unsafe { into.write(conn.leak()) };
        Ok(())
    })
}

fn accept(req: ConnReq, handshake: Handshake<'_>) -> Result<Owned<Conn>, super::Failure> {
    req.link.id()?.accept(handshake).map_err(os("rdma_accept"))?;
    Conn::new(req)
}

fn connect(req: ConnReq, handshake: Handshake<'_>) -> Result<Owned<Conn>, super::Failure> {
    let conn = Conn::new(req)?;
    let connected = conn.link()?.id()?.connect(handshake).map_err(os("rdma_connect"));
    match connected {
        Ok(()) => Ok(conn),
        Err(failure) => {
            let _ = conn.into_inner().destroy();
            Err(failure)
        }
    }
}

/// # Safety
/// Null, or private data that is as long as it says.
unsafe fn private_data<'a>(pdata: *const PrivateData) -> Result<&'a [u8], super::Failure> {
    // SAFETY: this function's own condition.
    match unsafe { pdata.as_ref() } {
        None => Ok(&[]),
        Some(data) if data.ptr.is_null() || data.len == 0 => Err(INVAL),
        // SAFETY: as above.
        Some(data) => Ok(unsafe { slice::from_raw_parts(data.ptr.cast(), data.len.into()) }),
    }
}

/// Posts a receive before there is a connection.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_conn_req_recv(
    req: *mut ConnReq,
    dst: *mut MrLocal,
    offset: usize,
    len: usize,
    op_context: *const c_void,
) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let req = unsafe { get(req) }?;
        // SAFETY: as the module says.
        let element = unsafe { get(dst) }?.element(offset, len);
        let wr_id = op_context.addr() as u64;
        posted(c"rpma_conn_req_recv", req.link.direct.recv(wr_id, Some(element)))
    })
}

/// Gives what the other side sent with its request.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_conn_req_get_private_data(
    req: *const ConnReq,
    pdata: *mut PrivateData,
) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let data = PrivateData::of(&unsafe { get(req) }?.private_data);
        // SAFETY: not null, so the caller's variable.
        unsafe { place(pdata)?.write(data) };
        Ok(())
    })
}
