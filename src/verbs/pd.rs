//! Protection domains.

#![allow(unsafe_code, reason = "libibverbs is a C library")]

use core::fmt;
#[cfg(feature = "capi")]
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use std::sync::Arc;

use rdma_sys::{ibv_alloc_pd, ibv_context, ibv_dealloc_pd, ibv_pd};

use crate::error::Errno;
use crate::verbs::device::{Device, DeviceError, DeviceStep};
use crate::verbs::errno::{last_errno, set_errno};
#[cfg(feature = "capi")]
use crate::verbs::ffi::returned;

/// A protection domain: a queue pair reaches the memory that is registered with
/// its own domain, and no other.
///
/// Clones are the same domain; what is made from it keeps it.
#[derive(Clone)]
pub struct Pd(Arc<Allocated>);

struct Allocated {
    // First: it goes before its device does.
    raw: RawPd,
    device: Device,
}

/// A domain with one owner, who sees to it that what is made of it goes first.
#[derive(Debug)]
pub(crate) struct RawPd(NonNull<ibv_pd>);

// SAFETY: a protection domain may be used from any thread; libibverbs serialises.
unsafe impl Send for RawPd {}
// SAFETY: as above.
unsafe impl Sync for RawPd {}

impl RawPd {
    /// A new domain.
    ///
    /// # Errors
    /// The errno of the call.
    ///
    /// # Safety
    /// The context is open, and stays so for as long as the domain is there.
    pub(crate) unsafe fn new(context: NonNull<ibv_context>) -> Result<Self, Errno> {
        set_errno(Errno(0));
        // SAFETY: this function's own condition.
        let raw = unsafe { ibv_alloc_pd(context.as_ptr()) };
        NonNull::new(raw).map(RawPd).ok_or_else(last_errno)
    }

    /// The domain.
    pub(crate) fn get(&self) -> NonNull<ibv_pd> {
        self.0
    }

    /// Frees it, and says whether it could be: something that was made of it may
    /// be left.
    ///
    /// # Errors
    /// The errno of the call.
    #[cfg(feature = "capi")]
    pub(crate) fn free(self) -> Result<(), Errno> {
        let raw = ManuallyDrop::new(self);
        // SAFETY: it is freed this once, since its drop does not run.
        let code = unsafe { ibv_dealloc_pd(raw.0.as_ptr()) };
        if code == 0 { Ok(()) } else { Err(returned(code)) }
    }
}

impl Drop for RawPd {
    fn drop(&mut self) {
        // SAFETY: it is freed once; where something of it is left the provider
        // refuses, which leaks it and harms nothing.
        unsafe { ibv_dealloc_pd(self.0.as_ptr()) };
    }
}

impl Pd {
    /// A new domain of this device.
    ///
    /// # Errors
    /// [`DeviceError::Os`].
    pub fn new(device: &Device) -> Result<Self, DeviceError> {
        let step = DeviceStep::ProtectionDomain;
        // SAFETY: the device keeps the context open, and the domain keeps it.
        let raw = unsafe { RawPd::new(device.context()) }
            .map_err(|errno| DeviceError::os(step, device.name(), errno))?;
        Ok(Pd(Arc::new(Allocated { raw, device: device.clone() })))
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    pub(in crate::verbs) fn raw(&self) -> NonNull<ibv_pd> {
        self.0.raw.get()
    }

    /// The domain itself, alive as long as this or a clone of it. For calls
    /// that farword does not make.
    #[must_use]
    pub fn as_ptr(&self) -> *mut ibv_pd {
        self.raw().as_ptr()
    }
}

impl fmt::Debug for Pd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pd of {}", self.device().name())
    }
}

impl PartialEq for Pd {
    fn eq(&self, other: &Self) -> bool {
        self.raw() == other.raw()
    }
}

impl Eq for Pd {}
