//! The peer: a protection domain, and what its device can do.

use core::ffi::c_int;
use core::ptr::NonNull;

use rdma_sys::ibv_context;

use super::{E_NOMEM, E_UNKNOWN, Failure, Owned, PROVIDER, answer, place, take};
use crate::error::Errno;
use crate::verbs::{DeviceCapabilities, RawPd, capabilities_of};

/// `struct rpma_peer`.
#[derive(Debug)]
pub struct Peer {
    pub(super) pd: RawPd,
    pub(super) context: NonNull<ibv_context>,
    pub(super) device: DeviceCapabilities,
}

// SAFETY: a context may be used from any thread; libibverbs serialises.
unsafe impl Send for Peer {}
// SAFETY: as above; its fields never change.
unsafe impl Sync for Peer {}

/// Makes a peer of an open device.
///
/// # Safety
/// As the [module](super) says; the context stays open for as long as the peer
/// is there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_peer_new(
    ibv_ctx: *mut ibv_context,
    peer_ptr: *mut *mut Peer,
) -> c_int {
    answer(|| {
        let (context, into) = (place(ibv_ctx)?, place(peer_ptr)?);
        // SAFETY: open, as the module says.
        let device = unsafe { capabilities_of(context) }.map_err(|errno| {
            log!(ERROR, c"rpma_peer_new", "asking the device what it can do failed: {errno}");
            PROVIDER
        })?;
        if !device.native_atomic_write {
            log!(INFO, c"rpma_peer_new", "the device has no ATOMIC WRITE: RDMA WRITE stands in");
        }
        // SAFETY: open for as long as the peer is there, says the caller.
        let pd = unsafe { RawPd::new(context) }.map_err(|errno| match errno {
            Errno::ENOMEM => Failure(E_NOMEM),
            Errno(0) => Failure(E_UNKNOWN),
            errno => {
                log!(ERROR, c"rpma_peer_new", "ibv_alloc_pd failed: {errno}");
                PROVIDER
            }
        })?;
        let new = Owned::new(Peer { pd, context, device })?;
        // SAFETY: not null, so the caller's variable.
        unsafe { into.write(new.leak()) };
        Ok(())
    })
}

/// Deletes a peer.
///
/// # Safety
/// As the [module](super) says; nothing that was made of it is left.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_peer_delete(peer_ptr: *mut *mut Peer) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let Some(peer) = unsafe { take(peer_ptr) }? else {
            return Ok(());
        };
        peer.into_inner().pd.free().map_err(|errno| {
            log!(ERROR, c"rpma_peer_delete", "ibv_dealloc_pd failed: {errno}");
            PROVIDER
        })
    })
}
