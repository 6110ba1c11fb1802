//! rdma_cm's own way from a host and a service to addresses, and calls on an id
//! that take what it found.

#![allow(unsafe_code, reason = "librdmacm is a C library")]

use core::ffi::{CStr, c_char, c_int};
use core::{fmt, mem, ptr};

use rdma_sys::{
    ibv_qp_type, rdma_addrinfo, rdma_bind_addr, rdma_freeaddrinfo, rdma_getaddrinfo,
    rdma_port_space, rdma_resolve_addr, rdma_resolve_route,
};

use super::id::{CmId, check};
use crate::error::Errno;
use crate::verbs::errno::last_errno;

/// `RAI_PASSIVE` of `rdma_cma.h`: addresses to listen on.
const PASSIVE: c_int = 1;

/// Addresses, as rdma_cm found them.
#[derive(Debug)]
pub(crate) struct AddressInfo(ptr::NonNull<rdma_addrinfo>);

/// Why there are none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoAddress {
    code: c_int,
    errno: Errno,
}

impl fmt::Display for NoAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.code == -1 || self.code == libc::EAI_SYSTEM {
            return self.errno.fmt(f);
        }
        // SAFETY: it gives a constant string for any number.
        let words = unsafe { libc::gai_strerror(self.code) };
        // SAFETY: as above.
        f.write_str(&unsafe { CStr::from_ptr(words) }.to_string_lossy())
    }
}

impl AddressInfo {
    /// Looks them up: to listen on where `passive`, else to connect to.
    ///
    /// # Errors
    /// What the name service said.
    ///
    /// # Safety
    /// Both are C strings, or null.
    pub(crate) unsafe fn new(
        host: *const c_char,
        service: *const c_char,
        passive: bool,
    ) -> Result<Self, NoAddress> {
        // SAFETY: a C struct of pointers and numbers, for which zeros are valid.
        let mut hints: rdma_addrinfo = unsafe { mem::zeroed() };
        hints.ai_flags = if passive { PASSIVE } else { 0 };
        hints.ai_qp_type = ibv_qp_type::IBV_QPT_RC.cast_signed();
        hints.ai_port_space = rdma_port_space::RDMA_PS_TCP.cast_signed();
        let mut found = ptr::null_mut();
        // SAFETY: this function's own condition; `found` may be written.
        let code = unsafe { rdma_getaddrinfo(host, service, &hints, &mut found) };
        let failed = NoAddress { code, errno: last_errno() };
        match ptr::NonNull::new(found) {
            Some(found) if code == 0 => Ok(AddressInfo(found)),
            _ => Err(failed),
        }
    }

    fn first(&self) -> &rdma_addrinfo {
        // SAFETY: it is there until it is freed, and nobody changes it.
        unsafe { self.0.as_ref() }
    }

    /// Binds an id to the first address.
    ///
    /// # Errors
    /// The errno of the call.
    pub(crate) fn bind(&self, id: &CmId) -> Result<(), Errno> {
        // SAFETY: the id is alive; the address is only read.
        check(unsafe { rdma_bind_addr(id.as_ptr(), self.first().ai_src_addr) })
    }

    /// Finds the device that leads to the first address, and waits until it is
    /// found where the id has no channel.
    ///
    /// # Errors
    /// The errno of the call.
    pub(crate) fn resolve(&self, id: &CmId, timeout_ms: c_int) -> Result<(), Errno> {
        let (from, to) = (self.first().ai_src_addr, self.first().ai_dst_addr);
        // SAFETY: as above.
        check(unsafe { rdma_resolve_addr(id.as_ptr(), from, to, timeout_ms) })
    }
}

impl Drop for AddressInfo {
    fn drop(&mut self) {
        // SAFETY: it came from `rdma_getaddrinfo` and is freed once.
        unsafe { rdma_freeaddrinfo(self.0.as_ptr()) };
    }
}

impl CmId {
    /// Finds the route to the address that was resolved, as
    /// [`AddressInfo::resolve`].
    ///
    /// # Errors
    /// The errno of the call.
    pub(crate) fn route(&self, timeout_ms: c_int) -> Result<(), Errno> {
        // SAFETY: the id is alive.
        check(unsafe { rdma_resolve_route(self.as_ptr(), timeout_ms) })
    }
}
