//! Devices, and connection events in words.

use core::ffi::{CStr, c_char, c_int};
use core::ptr;

use rdma_sys::ibv_context;

use super::{INVAL, PROVIDER, answer, place};
use crate::verbs::{AddressInfo, CmId, capabilities_of};

/// `RPMA_CONN_UNDEFINED`.
pub const CONN_UNDEFINED: c_int = -1;
/// `RPMA_CONN_ESTABLISHED`.
pub const CONN_ESTABLISHED: c_int = 0;
/// `RPMA_CONN_CLOSED`.
pub const CONN_CLOSED: c_int = 1;
/// `RPMA_CONN_LOST`.
pub const CONN_LOST: c_int = 2;
/// `RPMA_CONN_REJECTED`.
pub const CONN_REJECTED: c_int = 3;
/// `RPMA_CONN_UNREACHABLE`.
pub const CONN_UNREACHABLE: c_int = 4;

/// `RPMA_UTIL_IBV_CONTEXT_LOCAL`.
pub const IBV_CONTEXT_LOCAL: c_int = 0;
/// `RPMA_UTIL_IBV_CONTEXT_REMOTE`.
pub const IBV_CONTEXT_REMOTE: c_int = 1;

/// How long the way to a remote device may take to find, in milliseconds.
const TIMEOUT_MS: c_int = 1000;

/// Gives the context of the device that has a local address, or that leads to a
/// remote one.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_utils_get_ibv_context(
    addr: *const c_char,
    context_type: c_int,
    ibv_ctx_ptr: *mut *mut ibv_context,
) -> c_int {
    answer(|| {
        let (addr, into) = (place(addr.cast_mut())?, place(ibv_ctx_ptr)?);
        let passive = match context_type {
            IBV_CONTEXT_LOCAL => true,
            IBV_CONTEXT_REMOTE => false,
            _ => return Err(INVAL),
        };
        // SAFETY: a C string, as the module says.
        let info = unsafe { AddressInfo::new(addr.as_ptr(), ptr::null(), passive) };
        let info = info.map_err(|why| {
            log!(ERROR, c"rpma_utils_get_ibv_context", "looking up the address failed: {why}");
            PROVIDER
        })?;
        // SAFETY: no channel.
        let id = unsafe { CmId::new(ptr::null_mut()) }.map_err(|errno| {
            log!(ERROR, c"rpma_utils_get_ibv_context", "rdma_create_id failed: {errno}");
            PROVIDER
        })?;
        let found = if passive { info.bind(&id) } else { info.resolve(&id, TIMEOUT_MS) };
        found.map_err(|errno| {
            log!(ERROR, c"rpma_utils_get_ibv_context", "no device has the address: {errno}");
            PROVIDER
        })?;
        let context = id.context().map_or(ptr::null_mut(), ptr::NonNull::as_ptr);
        // SAFETY: not null, so the caller's variable.
        unsafe { into.write(context) };
        Ok(())
    })
}

/// Says whether a device registers memory that is not pinned, for what a
/// connection does to it.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_utils_ibv_context_is_odp_capable(
    ibv_ctx: *mut ibv_context,
    is_odp_capable: *mut c_int,
) -> c_int {
    answer(|| {
        let (context, into) = (place(ibv_ctx)?, place(is_odp_capable)?);
        // SAFETY: not null, so the caller's variable.
        unsafe { into.write(0) };
        // SAFETY: open, as the module says.
        let device = unsafe { capabilities_of(context) }.map_err(|errno| {
            let function = "asking the device what it can do";
            log!(ERROR, c"rpma_utils_ibv_context_is_odp_capable", "{function} failed: {errno}");
            PROVIDER
        })?;
        // SAFETY: as above.
        unsafe { into.write(device.on_demand_paging.into()) };
        Ok(())
    })
}

/// A connection event in words, which are there for ever. Any number is taken.
#[unsafe(no_mangle)]
pub extern "C" fn rpma_utils_conn_event_2str(conn_event: c_int) -> *const c_char {
    event_words(conn_event).as_ptr()
}

/// What an event is called.
pub(super) fn event_words(conn_event: c_int) -> &'static CStr {
    match conn_event {
        CONN_UNDEFINED => c"Undefined connection event",
        CONN_ESTABLISHED => c"Connection established",
        CONN_CLOSED => c"Connection closed",
        CONN_LOST => c"Connection lost",
        CONN_REJECTED => c"Connection rejected",
        CONN_UNREACHABLE => c"Connection unreachable",
        _ => c"Unsupported connection event",
    }
}
