//! Real RDMA: libibverbs and rdma_cm, through rdma-sys.

mod abi;
mod conn;
mod device;
mod errno;
mod fault_cell;
#[allow(dead_code, reason = "provisional")]
mod ffi;
mod memory;
mod mr;
mod pd;
mod qp;

pub use conn::{
    Cause, ConnConfig, ConnError, ConnEvent, ConnWaker, Connection, Connector, Incoming, Listener,
    MAX_ACCEPT_DATA, MAX_CONNECT_DATA, MAX_REJECT_DATA, PathChoice, RejectReason, Rejection, Step,
    Via, Waker,
};
pub use device::{
    Device, DeviceCapabilities, DeviceError, DeviceInfo, DeviceName, DeviceStep, Gid, GidEntry,
    PortInfo, PortState, RoceVersion, devices,
};
pub use memory::{Memory, Pages, Words};
pub use mr::Mr;
pub use pd::Pd;
pub use qp::VerbsQp;
