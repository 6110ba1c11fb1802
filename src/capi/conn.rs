//! Connections: their events, their queues, their end.

use core::ffi::{c_int, c_void};
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicBool, Ordering};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::OnceLock;
use std::vec::Vec;

use rdma_sys::rdma_cm_event_type as kind;

use super::batch::Batches;
use super::cq::settle;
use super::link::Link;
use super::utils::event_words;
use super::{
    Answer, CONN_CLOSED, CONN_ESTABLISHED, CONN_LOST, CONN_REJECTED, CONN_UNREACHABLE, ConnReq, Cq,
    E_NO_COMPLETION, E_NO_EVENT, E_NOMEM, E_NOT_SHARED_CHNL, E_UNKNOWN, Failure, INVAL, Owned,
    PROVIDER, PeerCfg, PrivateData, answer, get, place, take,
};
use crate::error::Errno;
use crate::region::{LocalSlice, Usage};
use crate::verbs::{
    Direct, EventChannel, EventError, LIBIBVERBS, Memory, Pages, Registration, VerbsQp,
};
use crate::wr::Sge;

/// `struct rpma_conn`.
#[derive(Debug)]
pub struct Conn {
    /// What requests are posted by.
    pub(super) direct: Direct,
    /// Where an emulated flush reads to.
    pub(super) scratch: Sge,
    pub(super) batch: Batches,
    direct_write_to_pmem: AtomicBool,
    private_data: OnceLock<Vec<u8>>,
    /// None for a queue pair that somebody else connected.
    base: Option<Base>,
}

/// What keeps a connection's queue pair, in the order in which it goes.
#[derive(Debug)]
struct Base {
    scratch: Registration,
    link: Link,
    events: EventChannel,
    /// What `scratch` registers.
    _memory: Pages,
}

/// How many bytes an emulated flush reads.
const SCRATCH: usize = 8;

fn os(step: &'static str) -> impl Fn(Errno) -> Failure {
    move |errno| {
        log!(ERROR, c"rpma_conn", "{step} failed: {errno}");
        PROVIDER
    }
}

/// What it says to the program that there is no event.
pub(super) fn no_event(error: EventError) -> Failure {
    match error {
        EventError::Get(Errno(libc::ENODATA)) => Failure(E_NO_EVENT),
        EventError::Get(errno) => os("rdma_get_cm_event")(errno),
        EventError::Acknowledge(errno) => os("rdma_ack_cm_event")(errno),
        EventError::NoMemory => Failure(E_NOMEM),
    }
}

impl Conn {
    /// The request's connection, with a channel for its events.
    pub(super) fn new(req: ConnReq) -> Result<Owned<Self>, Failure> {
        let ConnReq { link, private_data, peer, .. } = req;
        // SAFETY: the peer outlives what is made of it, as the module says.
        let peer = unsafe { get(peer) }?;
        let events = EventChannel::new().map_err(os("rdma_create_event_channel"))?;
        // Dropped in this order where something fails below.
        let parts = (link, events);
        // SAFETY: the channel goes after the id; the event of its request is
        // acknowledged.
        unsafe { parts.0.id()?.migrate(parts.1.as_ptr()) }.map_err(os("rdma_migrate_id"))?;
        let memory = Pages::zeroed(SCRATCH).map_err(|_| Failure(E_NOMEM))?;
        let at = memory.words().as_ptr().cast_mut().cast::<c_void>();
        let scratch = super::mr::register(peer, at, SCRATCH, Usage::READ_DST)?;
        let told = OnceLock::new();
        if !private_data.is_empty() {
            let _ = told.set(private_data);
        }
        let (link, events) = parts;
        let at = scratch.range().0.addr() as u64;
        Owned::new(Conn {
            direct: link.direct.again(),
            scratch: Sge { addr: at, length: SCRATCH as u32, lkey: scratch.lkey() },
            batch: Batches::new(link.sq_depth),
            direct_write_to_pmem: AtomicBool::new(false),
            private_data: told,
            base: Some(Base { scratch, link, events, _memory: memory }),
        })
    }

    /// A connection over a queue pair that somebody else connected.
    pub(super) fn over(direct: Direct, scratch: Sge, sq_depth: u32) -> Self {
        Conn {
            direct,
            scratch,
            batch: Batches::new(sq_depth),
            direct_write_to_pmem: AtomicBool::new(false),
            private_data: OnceLock::new(),
            base: None,
        }
    }

    /// The send side, for a ring.
    ///
    /// # Safety
    /// The connection outlives it; nothing else posts on the connection or polls
    /// its main completion queue meanwhile.
    pub(super) unsafe fn provider(&self) -> Result<VerbsQp<()>, Failure> {
        let Sge { addr, length, lkey } = self.scratch;
        let raw = self.link()?.raw(LocalSlice::new(addr, length.into(), lkey))?;
        // SAFETY: the connection keeps all of it alive; the rest is this
        // function's own condition.
        unsafe { VerbsQp::from_raw(raw, ()) }.map_err(|_| PROVIDER)
    }

    /// The depth of the deepest ring that there is room for.
    pub(super) fn ring_depth(&self) -> Result<u32, Failure> {
        let depth = self.link()?.depth();
        Ok(if depth == 0 { 0 } else { 1 << depth.ilog2() })
    }

    fn base(&self) -> Result<&Base, Failure> {
        self.base.as_ref().ok_or(INVAL)
    }

    /// The id and the queues.
    pub(super) fn link(&self) -> Result<&Link, Failure> {
        self.base().map(|base| &base.link)
    }

    pub(super) fn direct_write_to_pmem(&self) -> bool {
        self.direct_write_to_pmem.load(Ordering::SeqCst)
    }

    /// Destroys it, and says whether all of it went well.
    pub(super) fn destroy(self) -> Answer {
        let Some(Base { scratch, link, events, .. }) = self.base else {
            return Ok(());
        };
        let scratch = scratch.end().map_err(os("ibv_dereg_mr"));
        let link = match link.destroy(|_| Ok(())) {
            0 => Ok(()),
            code => Err(Failure(code)),
        };
        drop(events);
        scratch.and(link)
    }
}

/// Gives the descriptor that is readable when there is a connection event.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_conn_get_event_fd(conn: *const Conn, fd: *mut c_int) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let value = unsafe { get(conn) }?.base()?.events.as_fd().as_raw_fd();
        // SAFETY: not null, so the caller's variable.
        unsafe { place(fd)?.write(value) };
        Ok(())
    })
}

/// Waits for the next connection event.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_conn_next_event(conn: *mut Conn, event: *mut c_int) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let conn = unsafe { get(conn) }?;
        let into = place(event)?;
        let event = conn.base()?.events.next().map_err(no_event)?;
        let name = match event.kind {
            kind::RDMA_CM_EVENT_ESTABLISHED => CONN_ESTABLISHED,
            kind::RDMA_CM_EVENT_CONNECT_ERROR | kind::RDMA_CM_EVENT_DEVICE_REMOVAL => CONN_LOST,
            kind::RDMA_CM_EVENT_DISCONNECTED | kind::RDMA_CM_EVENT_TIMEWAIT_EXIT => CONN_CLOSED,
            kind::RDMA_CM_EVENT_REJECTED => CONN_REJECTED,
            kind::RDMA_CM_EVENT_UNREACHABLE => CONN_UNREACHABLE,
            other => {
                log!(WARNING, c"rpma_conn_next_event", "rdma_cm's event {other} has no name here");
                return Err(Failure(E_UNKNOWN));
            }
        };
        if name == CONN_ESTABLISHED && !event.private_data.is_empty() {
            // What came with the request stays.
            let _ = conn.private_data.set(event.private_data);
        }
        // SAFETY: not null, so the caller's variable.
        unsafe { into.write(name) };
        log!(NOTICE, c"rpma_conn_next_event", "{}", event_words(name).to_string_lossy());
        Ok(())
    })
}

/// Waits for a completion event on the shared channel, says whose it is, and
/// asks for the next one.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_conn_wait(
    conn: *mut Conn,
    _flags: c_int,
    cq: *mut *mut Cq,
    is_rcq: *mut bool,
) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let conn = unsafe { get(conn) }?;
        let into = place(cq)?;
        let channel = conn.link()?.channel.as_ref().ok_or(Failure(E_NOT_SHARED_CHNL))?;
        // SAFETY: the channel is alive.
        let whose = unsafe { (LIBIBVERBS.next_cq_event)(channel.get().as_ptr()) }
            .map_err(|_| Failure(E_NO_COMPLETION))?;
        let (main, rcq) = (conn.link()?.cq(), conn.link()?.rcq());
        // SAFETY: null or a queue of the connection.
        let is = |cq: *mut Cq| unsafe { cq.as_ref() }.is_some_and(|cq| cq.raw().as_ptr() == whose);
        let of_rcq = match (is(main), is(rcq)) {
            (true, _) => false,
            (false, true) => true,
            (false, false) => {
                log!(ERROR, c"rpma_conn_wait", "an event of a queue that is not the connection's");
                return Err(Failure(E_UNKNOWN));
            }
        };
        let settled = settle(place(whose)?, "rpma_conn_wait");
        let cq = match (&settled, of_rcq) {
            (Err(_), _) => ptr::null_mut(),
            (Ok(()), true) => rcq,
            (Ok(()), false) => main,
        };
        // SAFETY: not null, so the caller's variable.
        unsafe { into.write(cq) };
        if let Some(is_rcq) = NonNull::new(is_rcq) {
            // SAFETY: as above.
            unsafe { is_rcq.write(of_rcq) };
        }
        settled
    })
}

/// Gives the descriptor of the shared completion channel.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_conn_get_compl_fd(conn: *const Conn, fd: *mut c_int) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let conn = unsafe { get(conn) }?;
        let into = place(fd)?;
        let channel = conn.link()?.channel.as_ref().ok_or(Failure(E_NOT_SHARED_CHNL))?;
        // SAFETY: not null, so the caller's variable.
        unsafe { into.write(channel.fd()) };
        Ok(())
    })
}

/// Gives what the other side sent along.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_conn_get_private_data(
    conn: *const Conn,
    pdata: *mut PrivateData,
) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let conn = unsafe { get(conn) }?;
        let data = PrivateData::of(conn.private_data.get().map_or(&[], Vec::as_slice));
        // SAFETY: not null, so the caller's variable.
        unsafe { place(pdata)?.write(data) };
        Ok(())
    })
}

/// Tells the connection what the other side can do.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_conn_apply_remote_peer_cfg(
    conn: *mut Conn,
    pcfg: *const PeerCfg,
) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let conn = unsafe { get(conn) }?;
        // SAFETY: as above.
        let can = unsafe { get(pcfg) }?.direct_write_to_pmem();
        conn.direct_write_to_pmem.store(can, Ordering::SeqCst);
        Ok(())
    })
}

/// Gives the number of the queue pair.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_conn_get_qp_num(conn: *const Conn, qp_num: *mut u32) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let number = unsafe { get(conn) }?.link()?.qp_num;
        // SAFETY: not null, so the caller's variable.
        unsafe { place(qp_num)?.write(number) };
        Ok(())
    })
}

/// Gives the main completion queue.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_conn_get_cq(conn: *const Conn, cq_ptr: *mut *mut Cq) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let cq = unsafe { get(conn) }?.link()?.cq();
        // SAFETY: not null, so the caller's variable.
        unsafe { place(cq_ptr)?.write(cq) };
        Ok(())
    })
}

/// Gives the receive completion queue, or null.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_conn_get_rcq(conn: *const Conn, rcq_ptr: *mut *mut Cq) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let rcq = unsafe { get(conn) }?.link()?.rcq();
        // SAFETY: not null, so the caller's variable.
        unsafe { place(rcq_ptr)?.write(rcq) };
        Ok(())
    })
}

/// Begins to close the connection; an event tells when it is closed.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_conn_disconnect(conn: *mut Conn) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let conn = unsafe { get(conn) }?;
        conn.link()?.id()?.disconnect().map_err(os("rdma_disconnect"))?;
        log!(NOTICE, c"rpma_conn_disconnect", "the connection is being closed");
        Ok(())
    })
}

/// Deletes a connection.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_conn_delete(conn_ptr: *mut *mut Conn) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        match unsafe { take(conn_ptr) }? {
            Some(conn) => conn.into_inner().destroy(),
            None => Ok(()),
        }
    })
}
