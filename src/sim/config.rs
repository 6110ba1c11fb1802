//! What a simulated fabric can do, which faults it has, and how it can be broken.

use core::fmt;

use crate::region::Usage;

/// How a [`SimFabric`](crate::sim::SimFabric) behaves.
///
/// ```
/// use farword::sim::{Faults, SimConfig};
/// let config = SimConfig::new(1024).with_native(true, true).with_faults(Faults::NONE);
/// assert_eq!(config.memory, 1024);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SimConfig {
    /// How many bytes of memory the remote node has, all in one region.
    pub memory: u32,
    /// What the region is registered for.
    pub usage: Usage,
    /// Whether queue pairs have the ATOMIC WRITE operation.
    pub native_atomic_write: bool,
    /// Whether queue pairs have the FLUSH operation; without it a flush is an
    /// RDMA READ.
    pub native_flush: bool,
    /// Whether what has landed before a READ was answered is durable: direct
    /// write to persistent memory.
    pub direct_to_persistence: bool,
    /// Whether writes of one queue pair may land in any order. What a target
    /// must not be registered with.
    pub relaxed_ordering: bool,
    /// How often things go wrong.
    pub faults: Faults,
    /// What is deliberately wrong with it.
    pub mutant: Option<Mutant>,
}

impl SimConfig {
    /// A node with so many bytes of memory, registered for everything, strictly
    /// ordered and written to persistence directly; nothing native; the usual
    /// faults.
    #[must_use]
    pub const fn new(memory: u32) -> Self {
        SimConfig {
            memory,
            usage: Usage::from_bits(0xff),
            native_atomic_write: false,
            native_flush: false,
            direct_to_persistence: true,
            relaxed_ordering: false,
            faults: Faults::USUAL,
            mutant: None,
        }
    }

    /// With the ATOMIC WRITE and FLUSH operations, or without.
    #[must_use]
    pub const fn with_native(mut self, atomic_write: bool, flush: bool) -> Self {
        self.native_atomic_write = atomic_write;
        self.native_flush = flush;
        self
    }

    /// With these faults.
    #[must_use]
    pub const fn with_faults(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }

    /// Broken in this way.
    #[must_use]
    pub const fn with_mutant(mut self, mutant: Mutant) -> Self {
        self.mutant = Some(mutant);
        self
    }
}

/// How often things go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Faults {
    /// Of 1024 posts, how many are refused at some request.
    pub refuse: u32,
    /// Of 1024 posts, how many fail without a word on how much was taken.
    pub unknown: u32,
    /// Of 1024 requests, how many the responder rejects.
    pub reject: u32,
    /// In 65536 steps, how often a queue pair fails.
    pub fail: u32,
    /// In 65536 steps, how often a device dies.
    pub device: u32,
    /// In 65536 steps, how often power is lost.
    pub power: u32,
}

impl Faults {
    /// None.
    pub const NONE: Faults =
        Faults { refuse: 0, unknown: 0, reject: 0, fail: 0, device: 0, power: 0 };

    /// A few in every short run.
    pub const USUAL: Faults =
        Faults { refuse: 60, unknown: 8, reject: 4, fail: 160, device: 40, power: 160 };
}

/// A deliberate break of the protocol below the kernel. Each must be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mutant {
    /// No request is fenced.
    NoFence,
    /// A flush is answered and has no effect.
    NoFlush,
    /// Only one request in four queues' length is signaled.
    SignalWindow,
    /// After a partly refused post, the whole chain is posted again.
    RetryFromHead,
    /// The target is registered with relaxed ordering.
    RelaxedOrdering,
    /// A completion names the request behind the one that completed.
    RetireOneTooMany,
    /// A request completes before it was carried out.
    EarlyCompletion,
    /// The 8 bytes of an atomic write land in pieces.
    TornWord,
}

impl Mutant {
    /// Its name, as a command line has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Mutant::NoFence => "no-fence",
            Mutant::NoFlush => "no-flush",
            Mutant::SignalWindow => "signal-window",
            Mutant::RetryFromHead => "retry-from-head",
            Mutant::RelaxedOrdering => "relaxed-ordering",
            Mutant::RetireOneTooMany => "retire-one-too-many",
            Mutant::EarlyCompletion => "early-completion",
            Mutant::TornWord => "torn-word",
        }
    }

    /// All of them.
    pub const ALL: [Mutant; 8] = [
        Mutant::NoFence,
        Mutant::NoFlush,
        Mutant::SignalWindow,
        Mutant::RetryFromHead,
        Mutant::RelaxedOrdering,
        Mutant::RetireOneTooMany,
        Mutant::EarlyCompletion,
        Mutant::TornWord,
    ];
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mutant::NoFence => "fence left out",
            Mutant::NoFlush => "flush left out",
            Mutant::SignalWindow => "signal window too wide",
            Mutant::RetryFromHead => "retry from the head of a chain",
            Mutant::RelaxedOrdering => "relaxed ordering on",
            Mutant::RetireOneTooMany => "retire one slot too many",
            Mutant::EarlyCompletion => "completion claimed early",
            Mutant::TornWord => "torn word",
        })
    }
}
