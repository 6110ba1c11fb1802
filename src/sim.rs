//! A simulated fabric: everything that RC verbs permit, and nothing else.
//!
//! A [`SimFabric`] is one remote node and the queue pairs to it, moved by a
//! seed. [`SimQp`] is a [`Provider`](crate::Provider), so a ring, a log or an
//! engine's own protocol runs over it unchanged; a [`Watch`] holds the remote
//! memory against the engine's rules at every change.
//!
//! # What may happen
//! - A request is carried out any time after it was posted, in the order of its
//!   queue pair. A READ or a FLUSH may be answered late, and later writes may
//!   overtake it, unless they are fenced; an ATOMIC WRITE does not overtake the
//!   FLUSH operation.
//! - The bytes of a write land in any order and in steps, but the aligned 8
//!   bytes of an atomic write as one. A write begins to land when those before
//!   it on the same queue pair have landed, unless
//!   [`relaxed_ordering`](SimConfig::relaxed_ordering) is on.
//! - A request can complete before its bytes are visible, and visible bytes are
//!   not durable. The answer of a READ forces every earlier write of its queue
//!   pair to land, and, with direct write to persistence, to be durable; the
//!   FLUSH operation does so for its range.
//! - Visible bytes may become durable by themselves at any time, 8 aligned
//!   bytes at once, as caches evict.
//! - Completions of one queue pair come in order, across queue pairs in any.
//! - A post may be refused at any request, or fail without a word on how much
//!   was taken. A queue pair may fail at any point with any status, after which
//!   the rest is flushed, though what is on the wire may still arrive.
//! - Power may be lost at any step: durable bytes survive, and what was only
//!   visible survives or not, each 8 aligned bytes by themselves.
//!
//! # Runs
//! [`campaign`] runs the built-in workloads over a range of seeds, [`replay`]
//! tells the story of one, and [`shorten`] cuts the story of one that broke a
//! rule. A [`Mutant`] breaks the protocol on purpose, to see that it is noticed.

mod campaign;
mod choices;
mod config;
mod count;
mod event;
mod fabric;
mod fault;
mod memory;
mod qp;
mod respond;
mod shrink;
mod work;
mod world;

pub use campaign::{Found, MAX_FOUND, Report, campaign, replay, shorten};
pub use config::{Faults, Mutant, SimConfig};
pub use count::Coverage;
pub use event::{Story, Violation};
pub use fabric::{QpId, SimFabric, SimQp};
pub use memory::{Memory, Watch};
pub use qp::Fate;
pub use shrink::Shrunk;
pub use work::{RunConfig, Scenario};
