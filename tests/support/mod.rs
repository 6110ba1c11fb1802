//! What the suites share: the fabric that a case runs on, and providers that
//! record or disturb what passes between a ring and its queue pair.

#![allow(dead_code, unreachable_pub, reason = "each suite uses a part of it")]

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use farword::{
    AlignedOffset, Completion, Deadline, Error, LocalSlice, OpContext, Outcome, Provider,
    RemoteRegion, Ring, RingConfig, Target, WaitError,
};

pub mod faulty;
#[cfg(feature = "verbs")]
pub mod nic;
#[cfg(feature = "verbs")]
pub mod real;
pub mod soft;
pub mod wrap;

/// How many words each side's memory has, at the least.
pub const WORDS: usize = 512;

/// The memories of two sides that can reach each other, and what they told each
/// other of them.
pub trait Sides {
    /// The peer's memory as its own processor sees it, at least [`WORDS`] long
    /// and 8-aligned.
    fn remote_memory(&self) -> &[AtomicU64];

    /// The whole of it, registered for every use.
    fn remote(&self) -> RemoteRegion;

    /// The whole of it, registered as the source of reads only.
    fn read_only(&self) -> RemoteRegion;

    /// The whole of it, registered for every use until
    /// [`deregister_doomed`](Self::deregister_doomed).
    fn doomed(&self) -> RemoteRegion;

    /// Ends the registration that [`doomed`](Self::doomed) names.
    fn deregister_doomed(&self);

    /// Memory on the ring's side, at least [`WORDS`] long.
    fn local_memory(&self) -> &[AtomicU64];

    /// The whole of it, registered as source and destination.
    fn local(&self) -> LocalSlice;
}

/// Two sides and queue pairs between them: what every semantic case runs on.
///
/// A fabric is made afresh for each case; both memories start as zeros.
pub trait Fabric {
    /// A queue pair's send side and its completion queue.
    type Qp: Provider;

    /// A new connected queue pair whose queues hold exactly this much.
    fn qp(&self, sq_depth: u32, cq_depth: u32) -> Self::Qp;

    /// The two sides.
    fn sides(&self) -> &dyn Sides;

    /// [`Sides::remote_memory`].
    fn remote_memory(&self) -> &[AtomicU64] {
        self.sides().remote_memory()
    }

    /// [`Sides::remote`].
    fn remote(&self) -> RemoteRegion {
        self.sides().remote()
    }

    /// [`Sides::read_only`].
    fn read_only(&self) -> RemoteRegion {
        self.sides().read_only()
    }

    /// [`Sides::doomed`].
    fn doomed(&self) -> RemoteRegion {
        self.sides().doomed()
    }

    /// [`Sides::deregister_doomed`].
    fn deregister_doomed(&self) {
        self.sides().deregister_doomed();
    }

    /// [`Sides::local_memory`].
    fn local_memory(&self) -> &[AtomicU64] {
        self.sides().local_memory()
    }

    /// [`Sides::local`].
    fn local(&self) -> LocalSlice {
        self.sides().local()
    }

    /// A ring over a queue pair of its own.
    fn ring(&self, depth: u32, batch: u32) -> Ring<'_, Self::Qp> {
        ring(self.qp(depth, depth), depth, batch)
    }

    /// The target of word `index` of the remote memory.
    fn word(&self, index: u32) -> Target {
        self.remote().target(AlignedOffset::of_word(index)).expect("it lies in the region")
    }

    /// What word `index` of the remote memory holds now.
    fn seen(&self, index: usize) -> u64 {
        self.remote_memory()[index].load(Ordering::Acquire)
    }
}

/// A ring with memory of its own.
pub fn ring<'m, P: Provider>(qp: P, depth: u32, batch: u32) -> Ring<'m, P> {
    Ring::boxed(qp, RingConfig::new(depth, batch)).expect("the queue pair is as deep as the ring")
}

/// A guard against hanging; no case is about how long it takes.
pub fn patience() -> Deadline {
    Deadline::after(Duration::from_secs(20))
}

/// Context number `n`.
pub fn ctx(n: u64) -> OpContext {
    OpContext::new(n)
}

/// What a drain gave: contexts and outcomes, in order, and how it ended.
pub fn drained<P: Provider>(ring: &mut Ring<'_, P>) -> (Vec<Told>, Result<(), WaitError>) {
    let mut told = Vec::new();
    let end = ring.drain(patience(), |completion| told.push(Told::from(completion)));
    (told, end)
}

/// Polls until so many completions have come.
pub fn polled<P: Provider>(ring: &mut Ring<'_, P>, count: usize) -> Vec<Completion> {
    let mut all = Vec::new();
    poll_until(ring, |ring| {
        ring.poll_with(|completion| all.push(completion))?;
        Ok(all.len() >= count)
    });
    assert_eq!(all.len(), count, "{all:?}");
    all
}

/// Polls with [`Ring::poll_retired`] until so many completions have come.
pub fn retired<P: Provider>(ring: &mut Ring<'_, P>, count: usize) -> Vec<Told> {
    let mut all = Vec::new();
    poll_until(ring, |ring| {
        ring.poll_retired(|completion| all.push(Told::from(completion)))?;
        Ok(all.len() >= count)
    });
    assert_eq!(all.len(), count, "{all:?}");
    all
}

/// Calls `step` until it says that it is done.
pub fn poll_until<'m, P: Provider>(
    ring: &mut Ring<'m, P>,
    mut step: impl FnMut(&mut Ring<'m, P>) -> Result<bool, Error>,
) {
    let mut patience = patience();
    while !step(ring).expect("the ring gives all that it holds before it fails") {
        assert!(
            farword::Patience::more(&mut patience),
            "no completion came: {:?}",
            ring.counters()
        );
    }
}

/// A completion's context and outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told(pub u64, pub Outcome);

impl From<Completion> for Told {
    fn from(completion: Completion) -> Self {
        Told(completion.context.get(), completion.outcome)
    }
}

/// `range`, all with this outcome.
pub fn told(range: core::ops::Range<u64>, outcome: Outcome) -> Vec<Told> {
    range.map(|context| Told(context, outcome)).collect()
}
