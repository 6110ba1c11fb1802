//! The list of devices, with what each can do and where it is connected.

use core::ptr::NonNull;
use std::vec::Vec;

use rdma_sys::{
    ibv_close_device, ibv_context, ibv_device, ibv_free_device_list, ibv_get_device_list,
    ibv_open_device, ibv_port_attr, ibv_query_port, ibv_transport_type,
};

use super::gid::gid_table;
use super::*;
use crate::verbs::ffi;

/// `IBV_ODP_SUPPORT`, and `IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ`.
const ODP_SUPPORT: u64 = 1;
const ODP_RC_WRITE_AND_READ: u32 = 1 << 2 | 1 << 3;

/// What there is to know of a device.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// Its name.
    pub name: DeviceName,
    /// What it can do.
    pub capabilities: DeviceCapabilities,
    /// The most inline data that a queue pair of it was seen to grant, in
    /// bytes. Found by trying.
    pub max_inline: u32,
    /// Whether the verbs library of this machine makes queue pairs with ATOMIC
    /// WRITE for it (rdma-core 44 and later). That alone proves nothing: see
    /// [`DeviceCapabilities::native_atomic_write`].
    pub library_atomic_write: bool,
    /// Whether the verbs library of this machine makes queue pairs with FLUSH
    /// for it. Without that, flushes are emulated by reads, whatever the device
    /// has.
    pub library_flush: bool,
    /// Its ports.
    pub ports: Vec<PortInfo>,
}

/// What there is to know of a port.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PortInfo {
    /// Its number.
    pub number: u8,
    /// Its state.
    pub state: PortState,
    /// The largest packet that it sends, in bytes.
    pub mtu: u32,
    /// Its GIDs, those that are in use.
    pub gids: Vec<GidEntry>,
}

/// The state of a port: the values of `enum ibv_port_state`.
///
/// ```
/// use farword::verbs::PortState;
/// assert!(PortState(4).is_active());
/// assert_eq!(PortState(1).to_string(), "down");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortState(
    /// The number.
    pub u32,
);

impl PortState {
    /// Whether data can go through it.
    #[must_use]
    pub const fn is_active(self) -> bool {
        self.0 == 4
    }
}

impl fmt::Display for PortState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self.0 {
            0 => "nop",
            1 => "down",
            2 => "init",
            3 => "armed",
            4 => "active",
            5 => "active, deferred",
            other => return write!(f, "state {other}"),
        })
    }
}

/// All RDMA devices of this machine, in the library's order.
///
/// # Errors
/// [`DeviceError::NoDevices`] where the list cannot be had; a machine that has
/// none gives an empty list. [`DeviceError::Os`] for a device that does not open
/// or answer.
pub fn devices() -> Result<Vec<DeviceInfo>, DeviceError> {
    let mut count = 0;
    // SAFETY: `count` may be written.
    let list = unsafe { ibv_get_device_list(&mut count) };
    let Some(list) = NonNull::new(list) else {
        return match last_errno() {
            // The kernel has no RDMA at all.
            Errno::ENOSYS => Ok(Vec::new()),
            errno => Err(DeviceError::NoDevices { errno }),
        };
    };
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: the list has `count` entries and lives until it is freed below.
    let listed = unsafe { core::slice::from_raw_parts(list.as_ptr(), count) };
    let infos = listed
        .iter()
        .map(|device| {
            // SAFETY: it is an entry of the list, which is not freed yet.
            unsafe { info(*device) }
        })
        .collect();
    // SAFETY: it came from `ibv_get_device_list` and is freed once.
    unsafe { ibv_free_device_list(list.as_ptr()) };
    infos
}

/// # Safety
/// `device` is in a list that is not freed yet.
unsafe fn info(device: *mut ibv_device) -> Result<DeviceInfo, DeviceError> {
    // SAFETY: this function's own condition.
    let name = unsafe { ibv_get_device_name(device) };
    // SAFETY: a device's name is a C string.
    let name = DeviceName::from(&*unsafe { CStr::from_ptr(name) }.to_string_lossy());
    // SAFETY: this function's own condition.
    let context = unsafe { ibv_open_device(device) };
    let Some(context) = NonNull::new(context) else {
        return Err(DeviceError::os(DeviceStep::Open, name, last_errno()));
    };
    // SAFETY: the context is open.
    let info = unsafe { info_of(name, context) };
    // SAFETY: it was opened above and nothing of it is left.
    unsafe { ibv_close_device(context.as_ptr()) };
    info
}

/// # Safety
/// The context is open.
unsafe fn info_of(
    name: DeviceName,
    context: NonNull<ibv_context>,
) -> Result<DeviceInfo, DeviceError> {
    let failed = |errno| DeviceError::os(DeviceStep::Query, name, errno);
    // SAFETY: this function's own condition.
    let capabilities = unsafe { query_capabilities(context) }.map_err(failed)?;
    // SAFETY: this function's own condition.
    let probed = unsafe { probe::probe(context) };
    let mut ports = Vec::new();
    for number in 1..=capabilities.ports {
        // SAFETY: this function's own condition.
        ports.push(unsafe { port_of(name, context, number) }.map_err(failed)?);
    }
    Ok(DeviceInfo {
        name,
        capabilities,
        max_inline: probed.max_inline,
        library_atomic_write: probed.atomic_write,
        library_flush: probed.flush,
        ports,
    })
}

/// # Safety
/// The context is open.
unsafe fn port_of(
    device: DeviceName,
    context: NonNull<ibv_context>,
    number: u8,
) -> Result<PortInfo, Errno> {
    // SAFETY: this function's own condition.
    let port = unsafe { query_port(context, number) }?;
    let len = u32::try_from(port.gid_tbl_len).unwrap_or(0);
    Ok(PortInfo {
        number,
        state: PortState(port.state),
        mtu: 128u32.checked_shl(port.active_mtu).unwrap_or(0),
        gids: gid_table(device, number, len),
    })
}

/// How many bytes one request may move: the least that InfiniBand allows a
/// port, where it does not say.
///
/// # Safety
/// The context is open.
pub(super) unsafe fn max_message(context: NonNull<ibv_context>, port: u8) -> u64 {
    const LEAST: u64 = 1 << 20;
    // SAFETY: this function's own condition.
    let queried = unsafe { query_port(context, port) };
    queried.ok().map(|port| u64::from(port.max_msg_sz)).filter(|max| *max > 0).unwrap_or(LEAST)
}

/// # Safety
/// The context is open.
unsafe fn query_port(context: NonNull<ibv_context>, number: u8) -> Result<ibv_port_attr, Errno> {
    // SAFETY: a plain C struct, for which zeros are valid.
    let mut port: ibv_port_attr = unsafe { core::mem::zeroed() };
    // The library's own symbol fills the part that all versions have.
    let part = core::ptr::from_mut(&mut port).cast();
    // SAFETY: the context is open; `part` is at least as long as what is filled.
    match unsafe { ibv_query_port(context.as_ptr(), number, part) } {
        0 => Ok(port),
        errno => Err(ffi::returned(errno)),
    }
}

/// # Safety
/// The context is open.
pub(super) unsafe fn query_capabilities(
    context: NonNull<ibv_context>,
) -> Result<DeviceCapabilities, Errno> {
    // SAFETY: this function's own condition.
    let all = unsafe { ffi::query_device_ex(context.as_ptr()) }?;
    let has = |bit| all.device_cap_flags_ex & bit != 0;
    let odp = all.odp_caps.per_transport_caps.rc_odp_caps & ODP_RC_WRITE_AND_READ;
    // SAFETY: this function's own condition.
    let device = unsafe { (*context.as_ptr()).device };
    // SAFETY: an open context's device is there.
    let transport = unsafe { (*device).transport_type };
    Ok(DeviceCapabilities {
        native_atomic_write: has(ffi::DEVICE_ATOMIC_WRITE),
        native_flush_visibility: has(ffi::DEVICE_FLUSH_GLOBAL),
        native_flush_persistent: has(ffi::DEVICE_FLUSH_PERSISTENT),
        on_demand_paging: all.odp_caps.general_caps & ODP_SUPPORT != 0
            && odp == ODP_RC_WRITE_AND_READ,
        iwarp: transport == ibv_transport_type::IBV_TRANSPORT_IWARP,
        max_sq_depth: u32::try_from(all.orig_attr.max_qp_wr).unwrap_or(0),
        max_cq_depth: u32::try_from(all.orig_attr.max_cqe).unwrap_or(0),
        ports: all.orig_attr.phys_port_cnt,
    })
}
