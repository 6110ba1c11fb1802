//! Devices: opened by name or by address, and what each can do.

#![allow(unsafe_code, reason = "libibverbs and librdmacm are C libraries")]

use core::ffi::CStr;
use core::fmt;
use core::net::SocketAddr;
use core::ops::ControlFlow;
use core::ptr::{self, NonNull};
use core::time::Duration;
use std::boxed::Box;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::vec::Vec;

use rdma_sys::{ibv_context, ibv_get_device_name, rdma_free_devices, rdma_get_devices};

use crate::error::Errno;
use crate::verbs::conn::resolve_device;
use crate::verbs::conn::watch::Watch;
use crate::verbs::errno::last_errno;
use crate::verbs::events::AsyncEvents;

mod error;
mod gid;
mod list;
mod name;
mod probe;

pub use error::{DeviceError, DeviceStep};
pub use gid::{Gid, GidEntry, RoceVersion};
pub use list::{DeviceInfo, PortInfo, PortState, devices};
pub use name::DeviceName;

/// An open device. Clones are the same device; what is made from it keeps it
/// open.
///
/// It is the context that rdma_cm has of the device, since a connection takes
/// no other.
///
/// ```no_run
/// use farword::verbs::Device;
/// let device = Device::open_by_address("10.9.0.1:0".parse()?)?;
/// println!("{}", device.name());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Device(Arc<Opened>);

struct Opened {
    /// Dropped first: it reads the context's events.
    events: Mutex<Option<Watched>>,
    context: NonNull<ibv_context>,
    name: DeviceName,
    capabilities: DeviceCapabilities,
    _list: ContextList,
}

/// The context's events, and the watch that takes them in.
struct Watched {
    _watch: Watch,
    events: Arc<AsyncEvents>,
}

/// What is open. There must be one `Opened` for a context: its events are given
/// once, to whoever reads them first.
static OPEN: Mutex<Vec<Weak<Opened>>> = Mutex::new(Vec::new());

// SAFETY: a context may be used from any thread; libibverbs serialises.
unsafe impl Send for Opened {}
// SAFETY: as above.
unsafe impl Sync for Opened {}

/// What a device can do that matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct DeviceCapabilities {
    /// It has the ATOMIC WRITE operation.
    pub native_atomic_write: bool,
    /// It can flush to visibility.
    pub native_flush_visibility: bool,
    /// It can flush to persistence.
    pub native_flush_persistent: bool,
    /// It registers memory that is not pinned (on-demand paging), for a
    /// connected queue pair's writes and reads.
    pub on_demand_paging: bool,
    /// It is an iWARP device.
    pub iwarp: bool,
    /// The deepest send queue.
    pub max_sq_depth: u32,
    /// The deepest completion queue.
    pub max_cq_depth: u32,
    /// How many ports it has, numbered from 1.
    pub ports: u8,
}

/// How many bytes one request may move through a port of any open context.
///
/// # Safety
/// The context is open.
#[cfg(feature = "capi")]
pub(crate) unsafe fn max_message_of(context: NonNull<ibv_context>, port: u8) -> u64 {
    // SAFETY: this function's own condition.
    unsafe { list::max_message(context, port) }
}

/// What the device of any open context can do.
///
/// # Errors
/// The errno of asking it.
///
/// # Safety
/// The context is open.
#[cfg(feature = "capi")]
pub(crate) unsafe fn capabilities_of(
    context: NonNull<ibv_context>,
) -> Result<DeviceCapabilities, Errno> {
    // SAFETY: this function's own condition.
    unsafe { list::query_capabilities(context) }
}

impl Device {
    /// Opens the device of this name, such as `mlx5_0`.
    ///
    /// # Errors
    /// [`DeviceError::NotFound`]; [`DeviceError::Os`] where rdma_cm cannot be
    /// opened, as on a machine with no RDMA device at all.
    pub fn open_by_name(name: &str) -> Result<Self, DeviceError> {
        let list = ContextList::new()?;
        let found = list.contexts().find(|context| name_of(*context).as_deref() == Some(name));
        match found {
            Some(context) => Self::from_list(context, list),
            None => Err(DeviceError::NotFound { name: name.into() }),
        }
    }

    /// Opens the device that has this address or, if it is none of this
    /// machine's, the one that leads there. The port does not matter.
    ///
    /// # Errors
    /// [`DeviceError::Os`] with ENODEV or EADDRNOTAVAIL where no device has the
    /// address or leads to it.
    pub fn open_by_address(address: SocketAddr) -> Result<Self, DeviceError> {
        const PATIENCE: Duration = Duration::from_secs(2);
        let list = ContextList::new()?;
        let context = resolve_device(address, PATIENCE)
            .map_err(|errno| DeviceError::NoRoute { address, errno })?;
        Self::from_list(context, list)
    }

    /// The device of a context that rdma_cm gave.
    pub(super) fn from_context(context: NonNull<ibv_context>) -> Result<Self, DeviceError> {
        Self::from_list(context, ContextList::new()?)
    }

    fn from_list(context: NonNull<ibv_context>, list: ContextList) -> Result<Self, DeviceError> {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|device| device.strong_count() > 0);
        let known = open.iter().filter_map(Weak::upgrade).find(|known| known.context == context);
        if let Some(known) = known {
            return Ok(Device(known));
        }
        // The list keeps its contexts open; one that is not in it could go.
        if !list.contexts().any(|listed| listed == context) {
            return Err(DeviceError::os(DeviceStep::Open, "?".into(), Errno::ENODEV));
        }
        let name = name_of(context).as_deref().map_or("?".into(), DeviceName::from);
        // SAFETY: the list keeps the context open.
        let capabilities = unsafe { list::query_capabilities(context) }
            .map_err(|errno| DeviceError::os(DeviceStep::Query, name, errno))?;
        let events = Mutex::new(None);
        let opened = Arc::new(Opened { events, context, name, capabilities, _list: list });
        open.push(Arc::downgrade(&opened));
        Ok(Device(opened))
    }

    /// The device's events, which are taken in by the watching thread from the
    /// first call on.
    pub(super) fn events(&self) -> Result<Arc<AsyncEvents>, Errno> {
        let mut watched = self.0.events.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(watched) = &*watched {
            return Ok(Arc::clone(&watched.events));
        }
        // SAFETY: the list keeps the context open, and goes after the events;
        // whoever is given them holds the device.
        let events = Arc::new(unsafe { AsyncEvents::new(self.0.context) }?);
        let handled = Arc::clone(&events);
        let handler = move || match handled.drain() {
            Ok(_) => ControlFlow::Continue(()),
            Err(_) => {
                handled.device_is_gone();
                ControlFlow::Break(())
            }
        };
        let watch = Watch::new(events.as_fd(), Box::new(handler))?;
        *watched = Some(Watched { _watch: watch, events: Arc::clone(&events) });
        Ok(events)
    }

    /// How many bytes one request may move through this port.
    pub(super) fn max_message(&self, port: u8) -> u64 {
        // SAFETY: the list keeps the context open.
        unsafe { list::max_message(self.0.context, port) }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> DeviceName {
        self.0.name
    }

    /// What it can do.
    #[must_use]
    pub fn capabilities(&self) -> &DeviceCapabilities {
        &self.0.capabilities
    }

    /// The context, open as long as this device or a clone of it lives. For
    /// calls that farword does not make.
    #[must_use]
    pub fn context(&self) -> NonNull<ibv_context> {
        self.0.context
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.name())
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        self.0.context == other.0.context
    }
}

impl Eq for Device {}

/// The contexts of all devices, which rdma_cm keeps open at least as long as
/// this list lives.
struct ContextList {
    first: NonNull<*mut ibv_context>,
    count: usize,
}

impl ContextList {
    fn new() -> Result<Self, DeviceError> {
        let mut count = 0;
        // SAFETY: `count` may be written.
        let first = unsafe { rdma_get_devices(&mut count) };
        match NonNull::new(first) {
            Some(first) => Ok(ContextList { first, count: usize::try_from(count).unwrap_or(0) }),
            None => Err(DeviceError::NoDevices { errno: last_errno() }),
        }
    }

    fn contexts(&self) -> impl Iterator<Item = NonNull<ibv_context>> + '_ {
        // SAFETY: the list has `count` entries, and lives as long as `self`.
        let contexts = unsafe { core::slice::from_raw_parts(self.first.as_ptr(), self.count) };
        contexts.iter().filter_map(|context| NonNull::new(*context))
    }
}

impl Drop for ContextList {
    fn drop(&mut self) {
        // SAFETY: it came from `rdma_get_devices` and is freed once.
        unsafe { rdma_free_devices(self.first.as_ptr()) };
    }
}

fn name_of(context: NonNull<ibv_context>) -> Option<std::string::String> {
    // SAFETY: contexts come from a live list; a context's device never changes.
    let device = unsafe { (*context.as_ptr()).device };
    // SAFETY: the context is open, so its device is there.
    let name = unsafe { ibv_get_device_name(device) };
    if ptr::eq(name, ptr::null()) {
        return None;
    }
    // SAFETY: a device's name is a C string that lives as long as the device.
    let name = unsafe { CStr::from_ptr(name) };
    Some(name.to_string_lossy().into_owned())
}
