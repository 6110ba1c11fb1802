//! Real RDMA: libibverbs and rdma_cm, through rdma-sys.

mod abi;
mod errno;
mod fault_cell;
#[allow(dead_code, reason = "devices and connections use the rest")]
mod ffi;
