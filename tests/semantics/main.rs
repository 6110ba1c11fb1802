//! One semantics suite, run on every provider and engine.
//!
//! Each case is a function over a [`Fabric`], written once; `suite!` makes it a
//! test on each fabric. A new case is added to the list in `suite.rs`, a new fabric
//! is one more line at the end. The same cases over real queue pairs are in
//! `tests/semantics_rdma.rs`.

#![allow(unreachable_pub, reason = "cases are called by the tests that the macro makes")]

#[path = "../support/mod.rs"]
mod support;

#[macro_use]
mod suite;

mod failures;
mod order;
mod outcomes;
mod refusals;
mod scripted;
mod slots;
mod soft_device;
mod writes;

suite!(soft_inline_emulated, crate::support::soft::with_inline, farword::soft::Mode::Emulated);
suite!(soft_inline_native, crate::support::soft::with_inline, farword::soft::Mode::Native);
suite!(soft_threaded_emulated, crate::support::soft::with_threaded, farword::soft::Mode::Emulated);
suite!(soft_threaded_native, crate::support::soft::with_threaded, farword::soft::Mode::Native);
suite!(late_completions_inline, crate::support::faulty::with_inline, farword::soft::Mode::Emulated);
suite!(
    late_completions_threaded,
    crate::support::faulty::with_threaded,
    farword::soft::Mode::Native
);

#[cfg(feature = "verbs")]
suite!(nic_post_send, crate::support::nic::with_nic, farword::verbs::Path::PostSend);
#[cfg(feature = "verbs")]
suite!(nic_wr_calls, crate::support::nic::with_nic, farword::verbs::Path::WrCalls);
#[cfg(feature = "verbs")]
suite!(nic_native, crate::support::nic::with_nic, farword::verbs::Path::Native);
#[cfg(feature = "verbs")]
suite!(nic_native_without_flush, crate::support::nic::with_half_native_nic, ());
