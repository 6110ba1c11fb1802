//! Protection domains.

#![allow(unsafe_code, reason = "libibverbs is a C library")]

use core::fmt;
use core::ptr::NonNull;
use std::sync::Arc;

use rdma_sys::{ibv_alloc_pd, ibv_dealloc_pd, ibv_pd};

use crate::verbs::device::{Device, DeviceError, DeviceStep};
use crate::verbs::errno::last_errno;

/// A protection domain: a queue pair reaches the memory that is registered with
/// its own domain, and no other.
///
/// Clones are the same domain; what is made from it keeps it.
#[derive(Clone)]
pub struct Pd(Arc<Allocated>);

struct Allocated {
    raw: NonNull<ibv_pd>,
    device: Device,
}

// SAFETY: a protection domain may be used from any thread; libibverbs serialises.
unsafe impl Send for Allocated {}
// SAFETY: as above.
unsafe impl Sync for Allocated {}

impl Pd {
    /// A new domain of this device.
    ///
    /// # Errors
    /// [`DeviceError::Os`].
    pub fn new(device: &Device) -> Result<Self, DeviceError> {
        // SAFETY: the device keeps the context open.
        let raw = unsafe { ibv_alloc_pd(device.context().as_ptr()) };
        let Some(raw) = NonNull::new(raw) else {
            let step = DeviceStep::ProtectionDomain;
            return Err(DeviceError::os(step, device.name(), last_errno()));
        };
        Ok(Pd(Arc::new(Allocated { raw, device: device.clone() })))
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    pub(in crate::verbs) fn raw(&self) -> NonNull<ibv_pd> {
        self.0.raw
    }

    /// The domain itself, alive as long as this or a clone of it. For calls
    /// that farword does not make.
    #[must_use]
    pub fn as_ptr(&self) -> *mut ibv_pd {
        self.0.raw.as_ptr()
    }
}

impl fmt::Debug for Pd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pd of {}", self.device().name())
    }
}

impl PartialEq for Pd {
    fn eq(&self, other: &Self) -> bool {
        self.0.raw == other.0.raw
    }
}

impl Eq for Pd {}

impl Drop for Allocated {
    fn drop(&mut self) {
        // SAFETY: everything that was made of it holds an `Arc` of it, so
        // nothing is left.
        unsafe { ibv_dealloc_pd(self.raw.as_ptr()) };
    }
}
