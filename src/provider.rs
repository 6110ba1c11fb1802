//! What executes posted work requests.

use crate::batch::Chain;
use crate::error::{DeviceFault, Errno};
use crate::region::LocalSlice;
use crate::wr::Wc;

/// A queue pair's send side and its completion queue, owned by one ring.
///
/// The contract, which the ring's guarantees rest on:
///
/// - Requests are carried out in the order of the chain, as a reliable
///   connected queue pair does: reads may be overtaken by later requests that
///   are not fenced, nothing else may.
/// - Completions come in the order of the requests. A success comes for
///   signaled requests alone, and only when everything before it succeeded; an
///   error comes for any.
/// - After an error, every later request completes with
///   [`WR_FLUSH_ERR`](crate::WcStatus::WR_FLUSH_ERR), posted before it or after.
/// - A request's slot is free again when its own completion, or that of a later
///   request, has been polled.
///
/// The trait is safe to implement: the ring stays memory-safe, and counts
/// right, whatever a provider answers. Break the contract and what the ring
/// reports is as wrong as what it was told.
pub trait Provider {
    /// What the queue pair can do. It is asked once, when a ring is built.
    fn capabilities(&self) -> Capabilities;

    /// Posts a chain.
    ///
    /// # Errors
    /// [`PostError::Refused`] says how many requests of the chain's head were
    /// taken all the same; [`PostError::Unknown`] that nobody can say.
    fn post(&mut self, chain: Chain<'_>) -> Result<(), PostError>;

    /// Moves completions into `into`, from its start, and says how many; 0 when
    /// there are none now.
    ///
    /// # Errors
    /// A fault after which nothing completes any more.
    fn poll(&mut self, into: &mut [Wc]) -> Result<usize, DeviceFault>;

    /// Puts the queue pair into the error state, so that what is outstanding is
    /// flushed. Called when the ring fails for a reason that the queue pair may
    /// not know of.
    fn abort(&mut self) {}
}

/// Why a post was not taken whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostError {
    /// The first `taken` requests were taken, the others were not.
    Refused {
        /// How many were taken.
        taken: u32,
        /// Why no more.
        errno: Errno,
    },
    /// It failed, and the provider did not say where.
    Unknown {
        /// Why.
        errno: Errno,
    },
}

/// How a provider flushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum FlushSupport {
    /// Not at all.
    #[default]
    None,
    /// By reading 8 bytes of the range back into this private buffer: the
    /// answer cannot come before the earlier writes have landed.
    Emulated(LocalSlice),
    /// By the FLUSH operation.
    Native,
}

/// What a queue pair can do.
///
/// ```
/// use farword::Capabilities;
/// let capabilities = Capabilities::new(64, 128).with_max_inline(16);
/// assert_eq!(capabilities.sq_depth, 64);
/// assert!(!capabilities.native_atomic_write);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// How many requests the send queue holds.
    pub sq_depth: u32,
    /// How many completions the completion queue holds.
    pub cq_depth: u32,
    /// How many bytes of inline data a request may carry.
    pub max_inline: u32,
    /// How many bytes one request may move.
    pub max_message: u64,
    /// Whether it has the ATOMIC WRITE operation. Without it, an atomic write
    /// is an inline RDMA WRITE of 8 aligned bytes.
    pub native_atomic_write: bool,
    /// How it flushes.
    pub flush: FlushSupport,
}

impl Capabilities {
    /// Queues of these depths; 8 bytes inline, messages of at most 1 GiB,
    /// nothing native, no flush.
    #[must_use]
    pub const fn new(sq_depth: u32, cq_depth: u32) -> Self {
        Capabilities {
            sq_depth,
            cq_depth,
            max_inline: 8,
            max_message: 1 << 30,
            native_atomic_write: false,
            flush: FlushSupport::None,
        }
    }

    /// With another limit for inline data.
    #[must_use]
    pub const fn with_max_inline(mut self, bytes: u32) -> Self {
        self.max_inline = bytes;
        self
    }

    /// With another limit for what one request moves.
    #[must_use]
    pub const fn with_max_message(mut self, bytes: u64) -> Self {
        self.max_message = bytes;
        self
    }

    /// With the ATOMIC WRITE operation, or without.
    #[must_use]
    pub const fn with_native_atomic_write(mut self, native: bool) -> Self {
        self.native_atomic_write = native;
        self
    }

    /// With this way to flush.
    #[must_use]
    pub const fn with_flush(mut self, flush: FlushSupport) -> Self {
        self.flush = flush;
        self
    }
}

impl<P: Provider + ?Sized> Provider for &mut P {
    fn capabilities(&self) -> Capabilities {
        (**self).capabilities()
    }

    #[inline]
    fn post(&mut self, chain: Chain<'_>) -> Result<(), PostError> {
        (**self).post(chain)
    }

    #[inline]
    fn poll(&mut self, into: &mut [Wc]) -> Result<usize, DeviceFault> {
        (**self).poll(into)
    }

    fn abort(&mut self) {
        (**self).abort();
    }
}
