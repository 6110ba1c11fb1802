//! Connections over rdma_cm: listen, accept, connect, and know when it is over.
//!
//! ```no_run
//! use farword::log::{Announcement, Log, LogConfig};
//! use farword::verbs::{ConnConfig, Connector, Mr};
//! use farword::{RingConfig, Usage};
//!
//! // To a server that exposes a log, as `farword serve` and librpma's example do.
//! let mut connection = Connector::new(ConnConfig::default())?.connect("10.9.0.1:7000", &[])?;
//! let told = Announcement::from_bytes(connection.private_data())?;
//! if told.native_flush != Some(true) {
//!     connection.emulate_flush();
//! }
//! let staging = Mr::alloc(connection.pd(), 1 << 16, Usage::WRITE_SRC | Usage::READ_DST)?;
//! let ring = connection.ring(32)?;
//! let mut log =
//!     Log::open(ring, told.region, staging.words(), staging.local(), LogConfig::default())?;
//! let lsn = log.append(b"record")?;
//! log.wait(lsn)?;
//! connection.disconnect()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod channel;
mod config;
mod connection;
mod connector;
mod error;
mod id;
#[cfg(feature = "capi")]
mod info;
mod link;
mod listener;
mod queues;
mod resolve;
mod shape;
pub(in crate::verbs) mod watch;

pub use channel::Waker;
pub use config::{ConnConfig, MAX_ACCEPT_DATA, MAX_CONNECT_DATA, MAX_REJECT_DATA};
pub use connection::{ConnEvent, ConnWaker, Connection};
pub use connector::Connector;
pub use error::{Cause, ConnError, RejectReason, Rejection, Step, Via};
pub use listener::{Incoming, Listener};
pub(in crate::verbs) use resolve::resolve_device;
#[cfg(feature = "capi")]
pub(crate) use {
    channel::{Event, EventChannel, EventError},
    id::{CmId, Handshake},
    info::AddressInfo,
    shape::{Granted, QpShape, attempts},
};
