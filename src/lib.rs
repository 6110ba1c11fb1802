//! Atomic 8-byte remote writes over RDMA.
//!
//! A storage engine writes a record into another machine's memory, flushes it,
//! and then publishes one word: a log tail, an epoch, a lock. `farword` is the
//! part of that path that the processor pays for. A [`Ring`] stages work
//! requests that were built in advance, posts all of them with one
//! [doorbell](Ring::doorbell), and polls completions, without a lock, an
//! allocation or a system call of its own.
//!
//! Start with [`Ring`]; [`log::Log`] is the commonest use of it, ready-made.
//! Values that a caller passes are checked when they are made:
//! [`AlignedOffset`], [`RemoteRegion`], [`Target`].
//!
//! # Words
//! The terms are those of the verbs manual: work request, completion, send
//! queue, queue pair, inline, signaled, fence, rkey. A *provider* is what
//! executes posted requests: the [software device](soft), a real queue pair, or
//! [either of them made to fail](fault).

#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "std")]
extern crate std;

#[cfg(not(all(target_pointer_width = "64", target_has_atomic = "64")))]
compile_error!(
    "farword needs a 64-bit machine with 64-bit atomics: the verbs ABI it speaks is one"
);

mod batch;
#[cfg(feature = "capi")]
#[cfg_attr(docsrs, doc(cfg(feature = "capi")))]
pub mod capi;
mod error;
pub mod fault;
pub mod flight;
pub mod log;
mod offset;
mod op;
mod provider;
mod region;
mod ring;
#[cfg(feature = "sim")]
#[cfg_attr(docsrs, doc(cfg(feature = "sim")))]
pub mod sim;
mod slots;
pub mod soft;
#[cfg(feature = "verbs")]
pub mod verbs;
pub mod wr;

pub use batch::{Chain, Request};
pub use error::{DeviceFault, Errno, Error, Invalid, Remedy, WcStatus, Why};
pub use offset::{__private, ALIGNMENT, AlignedOffset};
pub use op::{FlushKind, Notify, Op, OpContext, Ticket, Word};
pub use provider::{Capabilities, FlushSupport, PostError, Provider};
pub use region::{LocalSlice, RemoteRegion, Span, Target, Usage};
#[cfg(feature = "std")]
pub use ring::Deadline;
pub use ring::{
    Completion, Counters, Forever, Outcome, Patience, Polls, Ring, RingConfig, RingStorage,
    WaitError,
};

/// The README's example is a test.
#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../README.md")]
struct Readme;
