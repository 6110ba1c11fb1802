//! Memory as a device knows it.

#![allow(unsafe_code, reason = "libibverbs is a C library")]

use core::ffi::c_void;
#[cfg(feature = "capi")]
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use rdma_sys::{ibv_access_flags as access, ibv_dereg_mr, ibv_mr, ibv_pd, ibv_reg_mr};

use crate::error::Errno;
use crate::region::Usage;
use crate::verbs::device::DeviceCapabilities;
use crate::verbs::errno::last_errno;
#[cfg(feature = "capi")]
use crate::verbs::ffi::returned;
use crate::verbs::mr::access_flags;

/// A registration, until it is dropped. It keeps neither the memory nor the
/// domain: its owner does.
#[derive(Debug)]
pub(crate) struct Registration(NonNull<ibv_mr>);

// SAFETY: a registration may be used and ended from any thread.
unsafe impl Send for Registration {}
// SAFETY: as above; its fields never change.
unsafe impl Sync for Registration {}

impl Registration {
    /// Registers `len` bytes. Where they cannot be pinned (EOPNOTSUPP, as for a
    /// DAX file) and the device has on-demand paging, they are registered so.
    ///
    /// # Errors
    /// The errno of the call.
    ///
    /// # Safety
    /// The domain is alive and outlives the registration. What a peer's device
    /// may do to the memory under this usage is what its owner allows, for as
    /// long as the registration is there.
    pub(crate) unsafe fn new(
        pd: NonNull<ibv_pd>,
        first: *mut c_void,
        len: usize,
        usage: Usage,
        device: &DeviceCapabilities,
    ) -> Result<Self, Errno> {
        let register = |rights: u32| {
            // SAFETY: this function's own condition.
            let raw = unsafe { ibv_reg_mr(pd.as_ptr(), first, len, rights.cast_signed()) };
            NonNull::new(raw).map(Registration).ok_or_else(last_errno)
        };
        pinned_or_on_demand(access_flags(usage, device), device, register)
    }

    /// Where the memory begins, and how many bytes it has.
    #[cfg(feature = "capi")]
    pub(crate) fn range(&self) -> (*mut c_void, usize) {
        // SAFETY: the registration is alive.
        let mr = unsafe { &*self.0.as_ptr() };
        (mr.addr, mr.length)
    }

    /// Its domain.
    #[cfg(feature = "capi")]
    pub(crate) fn pd(&self) -> *mut ibv_pd {
        // SAFETY: the registration is alive.
        unsafe { (*self.0.as_ptr()).pd }
    }

    /// The key that peers name.
    pub(crate) fn rkey(&self) -> u32 {
        // SAFETY: the registration is alive.
        unsafe { (*self.0.as_ptr()).rkey }
    }

    /// The key that this side's own requests name.
    pub(crate) fn lkey(&self) -> u32 {
        // SAFETY: the registration is alive.
        unsafe { (*self.0.as_ptr()).lkey }
    }

    /// Ends it, and says whether the device could: memory windows may be left on
    /// it.
    ///
    /// # Errors
    /// The errno of the call.
    #[cfg(feature = "capi")]
    pub(crate) fn end(self) -> Result<(), Errno> {
        let registration = ManuallyDrop::new(self);
        // SAFETY: it is ended this once, since its drop does not run.
        let code = unsafe { ibv_dereg_mr(registration.0.as_ptr()) };
        if code == 0 { Ok(()) } else { Err(returned(code)) }
    }
}

/// Registers with these rights and, where the memory cannot be pinned and the
/// device can do without, for paging on demand.
fn pinned_or_on_demand<T>(
    rights: u32,
    device: &DeviceCapabilities,
    register: impl Fn(u32) -> Result<T, Errno>,
) -> Result<T, Errno> {
    match register(rights) {
        Err(Errno::EOPNOTSUPP) if device.on_demand_paging => {
            register(rights | access::IBV_ACCESS_ON_DEMAND.0)
        }
        other => other,
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: it was registered once and is ended once. Requests that still
        // name its keys fail from now on.
        unsafe { ibv_dereg_mr(self.0.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use core::cell::RefCell;
    use std::vec::Vec;

    use super::*;

    /// What a device that answers so is asked for, and what comes of it.
    fn asked(on_demand_paging: bool, pinned: Errno) -> (Vec<u32>, Result<(), Errno>) {
        let device = DeviceCapabilities { on_demand_paging, ..DeviceCapabilities::default() };
        let asked = RefCell::new(Vec::new());
        let result = pinned_or_on_demand(3, &device, |rights| {
            asked.borrow_mut().push(rights);
            if rights & access::IBV_ACCESS_ON_DEMAND.0 == 0 { Err(pinned) } else { Ok(()) }
        });
        (asked.into_inner(), result)
    }

    #[test]
    fn what_cannot_be_pinned_is_paged_on_demand_where_the_device_can() {
        let on_demand = 3 | access::IBV_ACCESS_ON_DEMAND.0;
        assert_eq!(asked(true, Errno::EOPNOTSUPP), (Vec::from([3, on_demand]), Ok(())));
        assert_eq!(asked(false, Errno::EOPNOTSUPP), (Vec::from([3]), Err(Errno::EOPNOTSUPP)));
        // Memory that is refused for another reason is not tried again.
        assert_eq!(asked(true, Errno::ENOMEM), (Vec::from([3]), Err(Errno::ENOMEM)));
    }
}
