//! What a connection is made of, from the request on.

use core::ffi::c_int;
use core::ptr::{self, NonNull};

use rdma_sys::{ibv_context, ibv_qp, ibv_qp_ex, ibv_qp_to_qp_ex};

use super::{ConnCfg, Cq, E_PROVIDER, Failure, INVAL, Owned, PROVIDER, Peer, Srq};
use crate::error::Errno;
use crate::region::LocalSlice;
use crate::verbs::{
    CmId, CompChannel, Direct, Granted, QP_EX_WITH_FLUSH, QpShape, RawQp, attempts, max_message_of,
};

/// How a flush travels where the device has the FLUSH operation.
///
/// A peer that runs librpma 1.2, as Debian has it, lets its memory be read and
/// not flushed, so a read is what every peer understands.
fn flush_is_native() -> bool {
    std::env::var_os("FARWORD_RPMA_FLUSH").is_some_and(|value| value == "native")
}

/// A queue pair, its completion queues and the id that it belongs to.
///
/// Dropped, it destroys them in the order that verbs asks for.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) direct: Direct,
    has_qp: bool,
    pub(super) rcq: Option<Owned<Cq>>,
    cq: Option<Owned<Cq>>,
    id: Option<CmId>,
    pub(super) channel: Option<CompChannel>,
    pub(super) qp_num: u32,
    pub(super) sq_depth: u32,
    max_inline: u32,
    qp_ex: *mut ibv_qp_ex,
    /// The operations of `qp_ex` that are used.
    send_ops: u64,
}

impl Link {
    /// Makes the queues of an id that is bound to a device.
    ///
    /// # Safety
    /// The peer and the configuration's shared receive queue outlive it.
    pub(super) unsafe fn new(peer: &Peer, id: CmId, cfg: &ConnCfg) -> Result<Self, Failure> {
        let context = id.context().ok_or(PROVIDER)?;
        // SAFETY: null or a queue, says this function's condition.
        let srq = unsafe { cfg.srq().as_ref() };
        let srq_rcq = srq.and_then(|srq| srq.rcq.as_ref());
        if cfg.compl_channel() && srq_rcq.is_some() {
            log!(
                ERROR,
                c"rpma_conn_req_new",
                "a shared completion channel and a shared receive queue with a completion queue \
                 of its own exclude each other"
            );
            return Err(INVAL);
        }
        let channel = if cfg.compl_channel() { Some(shared_channel(context)?) } else { None };
        // SAFETY: the id keeps the context open, and is destroyed after it.
        let cq = unsafe { Cq::new(context, cfg.cq_size(), channel.as_ref()) }?;
        let rcq = match cfg.rcq_size() {
            size if size > 0 && srq_rcq.is_none() => {
                // SAFETY: as above.
                Some(unsafe { Cq::new(context, size, channel.as_ref()) }?)
            }
            _ => None,
        };
        let recv_cq = srq_rcq.or(rcq.as_ref()).map_or(cq.raw(), |cq| cq.raw());
        // SAFETY: all that it names is kept, or says so the caller.
        let made = unsafe { queue_pair(peer, &id, cfg, (cq.raw(), recv_cq), srq) }?;
        // SAFETY: the queue pair was just made.
        let qp_num = unsafe { made.qp.as_ref() }.qp_num;
        Ok(Link {
            // SAFETY: the queue pair belongs to the id, which is kept; it was made
            // with the peer's own domain.
            direct: unsafe { Direct::new(made.qp, made.qp_ex, made.send_ops) },
            has_qp: true,
            rcq,
            cq: Some(cq),
            id: Some(id),
            channel,
            qp_num,
            sq_depth: made.granted.sq_depth,
            max_inline: made.granted.max_inline,
            qp_ex: made.qp_ex,
            send_ops: made.send_ops,
        })
    }

    /// How many requests may be outstanding, so that each can complete.
    pub(super) fn depth(&self) -> u32 {
        let cq = self.cq.as_ref().map_or(0, |cq| cq.depth());
        self.sq_depth.min(cq.saturating_sub(1))
    }

    /// The send side and its completion queue, as a ring takes them.
    pub(super) fn raw(&self, scratch: LocalSlice) -> Result<RawQp, Failure> {
        let cq = self.cq.as_ref().ok_or(INVAL)?;
        let id = self.id()?;
        let context = id.context().ok_or(INVAL)?;
        Ok(RawQp {
            qp: self.direct.qp(),
            cq: cq.raw(),
            qp_ex: self.qp_ex,
            send_ops: self.send_ops,
            sq_depth: self.sq_depth,
            cq_depth: cq.depth(),
            max_inline: self.max_inline,
            // SAFETY: the id keeps the context open.
            max_message: unsafe { max_message_of(context, id.port_number()) },
            scratch: Some(scratch),
            channel: ptr::null_mut(),
            path: None,
        })
    }

    /// The id.
    pub(super) fn id(&self) -> Result<&CmId, Failure> {
        self.id.as_ref().ok_or(INVAL)
    }

    /// The main completion queue.
    pub(super) fn cq(&self) -> *mut Cq {
        self.cq.as_ref().map_or(ptr::null_mut(), Owned::as_ptr)
    }

    /// The receive completion queue, or null.
    pub(super) fn rcq(&self) -> *mut Cq {
        self.rcq.as_ref().map_or(ptr::null_mut(), Owned::as_ptr)
    }

    /// Destroys all of it, and gives the first code that is not 0. `finally` is
    /// called with the id once its queues are gone.
    pub(super) fn destroy(mut self, finally: impl FnOnce(&CmId) -> Result<(), Failure>) -> c_int {
        self.destroy_qp();
        let rcq = self.rcq.take().map_or(Ok(()), |cq| cq.into_inner().destroy());
        let cq = self.cq.take().map_or(Ok(()), |cq| cq.into_inner().destroy());
        let (last, id) = match self.id.take() {
            Some(id) => (finally(&id), failed("rdma_destroy_id", id.destroy())),
            None => (Ok(()), Ok(())),
        };
        let channel = self.channel.take().map_or(Ok(()), CompChannel::destroy);
        let channel = failed("ibv_destroy_comp_channel", channel);
        match rcq.and(cq).and(last).and(id).and(channel) {
            Ok(()) => 0,
            Err(Failure(code)) => code,
        }
    }

    fn destroy_qp(&mut self) {
        if let Some(id) = &self.id
            && core::mem::take(&mut self.has_qp)
        {
            // SAFETY: it has a queue pair, which nobody uses any more: whoever
            // drops or destroys this owns the connection.
            unsafe { id.destroy_qp() };
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // What follows goes in the order of the fields.
        self.destroy_qp();
    }
}

fn failed(step: &str, result: Result<(), Errno>) -> Result<(), Failure> {
    result.map_err(|errno| {
        log!(ERROR, c"rpma_conn_delete", "{step} failed: {errno}");
        Failure(E_PROVIDER)
    })
}

fn shared_channel(context: NonNull<ibv_context>) -> Result<CompChannel, Failure> {
    // SAFETY: the id of this context is destroyed after it.
    unsafe { CompChannel::new(context) }.map_err(|errno| {
        log!(ERROR, c"rpma_conn_req_new", "ibv_create_comp_channel failed: {errno}");
        PROVIDER
    })
}

/// # Safety
/// All that is named outlives the queue pair.
unsafe fn queue_pair(
    peer: &Peer,
    id: &CmId,
    cfg: &ConnCfg,
    cqs: (NonNull<rdma_sys::ibv_cq>, NonNull<rdma_sys::ibv_cq>),
    srq: Option<&Srq>,
) -> Result<Made, Failure> {
    let shape = QpShape {
        pd: peer.pd.get(),
        send_cq: cqs.0,
        recv_cq: cqs.1,
        srq: srq.map_or(ptr::null_mut(), |srq| srq.queue.get().as_ptr()),
        sq_depth: cfg.sq_size(),
        rq_depth: cfg.rq_size(),
    };
    // SAFETY: this function's own condition.
    let granted = unsafe { shape.create(id, attempts(None, &peer.device)) }.map_err(|errno| {
        let errno = errno.unwrap_or(Errno::EINVAL);
        let (sq, rq) = (shape.sq_depth, shape.rq_depth);
        log!(
            ERROR,
            c"rpma_conn_req_new",
            "rdma_create_qp_ex with a send queue of {sq} and a receive queue of {rq} failed: {errno}"
        );
        PROVIDER
    })?;
    let qp = id.qp().ok_or(PROVIDER)?;
    let qp_ex = match granted.send_ops {
        0 => ptr::null_mut(),
        // SAFETY: the queue pair was just made.
        _ => unsafe { ibv_qp_to_qp_ex(qp.as_ptr()) },
    };
    let send_ops = match flush_is_native() {
        true => granted.send_ops,
        false => granted.send_ops & !QP_EX_WITH_FLUSH,
    };
    Ok(Made { qp, qp_ex, send_ops, granted })
}

/// A queue pair, as it was made.
struct Made {
    qp: NonNull<ibv_qp>,
    qp_ex: *mut ibv_qp_ex,
    send_ops: u64,
    granted: Granted,
}
