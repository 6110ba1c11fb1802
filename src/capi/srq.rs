//! Shared receive queues.

use core::ffi::{c_int, c_void};
use core::ptr;

use super::ops::{element, posted};
use super::{Cq, MrLocal, Owned, PROVIDER, Peer, SrqCfg, answer, get, place, take};
use crate::verbs::ReceiveQueue;

/// `struct rpma_srq`.
#[derive(Debug)]
pub struct Srq {
    pub(super) queue: ReceiveQueue,
    pub(super) rcq: Option<Owned<Cq>>,
}

impl Srq {
    pub(super) fn rcq(&self) -> *mut Cq {
        self.rcq.as_ref().map_or(ptr::null_mut(), Owned::as_ptr)
    }
}

/// Makes a shared receive queue, with the defaults where `cfg` is null.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_srq_new(
    peer: *mut Peer,
    cfg: *mut SrqCfg,
    srq_ptr: *mut *mut Srq,
) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let peer = unsafe { get(peer) }?;
        let into = place(srq_ptr)?;
        // SAFETY: null or a configuration, as the module says.
        let cfg = unsafe { cfg.as_ref() }.unwrap_or(&super::srq_cfg::DEFAULT);
        let (rq_size, rcq_size) = (cfg.rq_size(), cfg.rcq_size());
        // SAFETY: the peer outlives it, as the module says.
        let queue = unsafe { ReceiveQueue::new(peer.pd.get(), rq_size) }.map_err(|errno| {
            log!(ERROR, c"rpma_srq_new", "ibv_create_srq of {rq_size} failed: {errno}");
            PROVIDER
        })?;
        let rcq = match rcq_size {
            0 => None,
            // SAFETY: as above.
            size => Some(unsafe { Cq::new(peer.context, size, None) }?),
        };
        let new = Owned::new(Srq { queue, rcq })?;
        // SAFETY: not null, so the caller's variable.
        unsafe { into.write(new.leak()) };
        Ok(())
    })
}

/// Deletes a shared receive queue.
///
/// # Safety
/// As the [module](super) says; the connections that use it are deleted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_srq_delete(srq_ptr: *mut *mut Srq) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let Some(srq) = unsafe { take(srq_ptr) }? else {
            return Ok(());
        };
        let Srq { queue, rcq } = srq.into_inner();
        let rcq = rcq.map_or(Ok(()), |rcq| rcq.into_inner().destroy());
        let queue = queue.destroy().map_err(|errno| {
            log!(ERROR, c"rpma_srq_delete", "ibv_destroy_srq failed: {errno}");
            PROVIDER
        });
        rcq.and(queue)
    })
}

/// Posts a receive, of nothing where `dst` is null.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_srq_recv(
    srq: *mut Srq,
    dst: *mut MrLocal,
    offset: usize,
    len: usize,
    op_context: *const c_void,
) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let srq = unsafe { get(srq) }?;
        // SAFETY: as above.
        let element = unsafe { element(dst, offset, len) }?;
        posted(c"rpma_srq_recv", srq.queue.recv(op_context.addr() as u64, element))
    })
}

/// Gives its own completion queue, or null.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_srq_get_rcq(srq: *const Srq, rcq_ptr: *mut *mut Cq) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let rcq = unsafe { get(srq) }?.rcq();
        // SAFETY: not null, so the caller's variable.
        unsafe { place(rcq_ptr)?.write(rcq) };
        Ok(())
    })
}
