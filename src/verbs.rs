//! Real RDMA: libibverbs and rdma_cm, through rdma-sys.

mod abi;
mod cq;
mod errno;
#[allow(dead_code, reason = "devices and connections use the rest")]
mod events;
mod fault_cell;
#[allow(dead_code, reason = "devices and connections use the rest")]
mod ffi;
mod library;
pub mod nic;
mod qp;
#[allow(dead_code, reason = "connections use it")]
mod thread_domain;

pub use cq::CqEvents;
pub use qp::{Path, PathUnavailable, RawQp, VerbsQp};
