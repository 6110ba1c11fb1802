//! Real RDMA: libibverbs and rdma_cm, through rdma-sys.
//!
//! [`Listener`] and [`Connector`] make a [`Connection`], which gives a
//! [`Ring`](crate::Ring) its provider, a [`VerbsQp`]. Memory that a peer may
//! reach, or that requests move, is an [`Mr`].

mod abi;
mod completion;
mod conn;
mod cq;
mod device;
#[cfg(feature = "capi")]
mod direct;
mod errno;
mod events;
mod fault_cell;
mod ffi;
mod library;
mod memory;
mod mr;
pub mod nic;
mod pd;
mod qp;
mod registration;
#[cfg(feature = "capi")]
mod srq;
mod thread_domain;

pub use conn::{
    Cause, ConnConfig, ConnError, ConnEvent, ConnWaker, Connection, Connector, Incoming, Listener,
    MAX_ACCEPT_DATA, MAX_CONNECT_DATA, MAX_REJECT_DATA, RejectReason, Rejection, Step, Via, Waker,
};
pub use cq::CqEvents;
pub use device::{
    Device, DeviceCapabilities, DeviceError, DeviceInfo, DeviceName, DeviceStep, Gid, GidEntry,
    PortInfo, PortState, RoceVersion, devices,
};
pub use memory::{Memory, Pages, Words};
pub use mr::Mr;
pub use pd::Pd;
pub use qp::{Path, PathUnavailable, RawQp, VerbsQp};
#[cfg(feature = "capi")]
pub(crate) use {
    completion::{CompChannel, CompletionQueue, request_notify},
    conn::{
        AddressInfo, CmId, Event, EventChannel, EventError, Granted, Handshake, QpShape, attempts,
    },
    device::{capabilities_of, max_message_of},
    direct::{Command, Direct, Remote, Staging, Unposted},
    ffi::{QP_EX_WITH_FLUSH, advise_mr},
    library::LIBIBVERBS,
    pd::RawPd,
    registration::Registration,
    srq::ReceiveQueue,
};
