//! The semantics suite over real queue pairs, on every path that they have.
//!
//! `cargo test` does not run this program: without an RDMA device every case of
//! it would fail. The VM suite runs it, with Soft-RoCE, and chooses what the
//! kernel and the library there can do:
//!
//! ```text
//! RDMA_ADDRESS=10.9.0.1 semantics_rdma native::
//! ```

#![allow(unreachable_pub, reason = "cases are called by the tests that the macro makes")]

#[path = "support/mod.rs"]
mod support;

#[macro_use]
#[path = "semantics/suite.rs"]
mod suite;

#[path = "semantics/failures.rs"]
mod failures;
#[path = "semantics/order.rs"]
mod order;
#[path = "semantics/outcomes.rs"]
mod outcomes;
#[path = "semantics/refusals.rs"]
mod refusals;
#[path = "semantics/slots.rs"]
mod slots;
#[path = "semantics/writes.rs"]
mod writes;

suite!(post_send, crate::support::real::with_real, crate::support::real::How::POST_SEND);
suite!(wr_calls, crate::support::real::with_real, crate::support::real::How::WR_CALLS);
suite!(native, crate::support::real::with_real, crate::support::real::How::NATIVE);
suite!(
    native_emulated_flush,
    crate::support::real::with_real,
    crate::support::real::How::NATIVE.emulating_flush()
);
