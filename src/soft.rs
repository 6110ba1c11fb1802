//! The software device: RDMA within one process, in safe Rust.
//!
//! Not a mock. A [`SoftDevice`] holds registered regions with remote and local
//! keys (never equal), bounds and access rights; a queue pair over it has a send
//! queue and a completion queue of fixed depth, gives the completion statuses
//! that a real responder gives, and flushes what is outstanding after an error.
//! A send-queue slot is free again only when a completion for it, or for a later
//! request, has been polled: missing signaling is punished here as hardware
//! punishes it.
//!
//! Memory is a slice of [`AtomicU64`]: 8 aligned bytes are stored as one, so
//! that a concurrent reader never sees a torn word.
//!
//! Two engines execute what is posted: [`InlineQp`] at the doorbell, on the
//! caller's thread, deterministic and `no_std`; [`ThreadedQp`] (`std`) on a
//! thread of its own, as a NIC does.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use arrayvec::ArrayVec;

use crate::error::Invalid;
use crate::op::FlushKind;
use crate::provider::{Capabilities, FlushSupport};
use crate::region::{LocalSlice, RemoteRegion, Usage};

mod execute;
mod inline;
mod memory;
#[cfg(feature = "std")]
mod queue;
/// The atomics of [`queue`].
#[cfg(feature = "std")]
mod sync {
    pub(super) use core::sync::atomic::{AtomicU64, Ordering};

    /// A word that one side writes and the other reads, never at once: the
    /// atomics about it see to that, so relaxed accesses do.
    pub(super) type SharedWord = AtomicU64;
}
#[cfg(feature = "std")]
mod threaded;
#[cfg(feature = "verbs")]
mod wire;

pub use inline::{InlineQp, QpStorage};
pub use memory::{load_bytes, store_bytes};
#[cfg(feature = "std")]
pub use threaded::{Engine, ThreadedQp};
#[cfg(feature = "verbs")]
pub(crate) use wire::{SCRATCH, Wire, fresh_qp_num};

/// How many regions a device holds.
pub const MAX_REGIONS: usize = 64;

/// How many reads may be outstanding on one queue pair.
pub const MAX_READS: usize = 16;

/// A device: the regions that its queue pairs reach, on both sides.
///
/// ```
/// use core::sync::atomic::AtomicU64;
/// use farword::Usage;
/// use farword::soft::SoftDevice;
///
/// let memory = [const { AtomicU64::new(0) }; 512];
/// let mut device = SoftDevice::new();
/// let region = device.register(&memory, Usage::WRITE_DST | Usage::READ_SRC)?;
/// assert_eq!(region.remote().size(), 4096);
/// assert_ne!(region.remote().rkey(), region.local().lkey());
/// # Ok::<(), farword::Invalid>(())
/// ```
#[derive(Debug, Default)]
pub struct SoftDevice<'m> {
    regions: ArrayVec<Registration<'m>, MAX_REGIONS>,
}

/// One registered region. Cache lines of its own, so that its place in the
/// table is a shift away.
#[derive(Debug)]
#[repr(align(64))]
struct Registration<'m> {
    /// The whole aligned words of the region.
    words: &'m [AtomicU64],
    /// The address of the first of them.
    words_base: u64,
    /// `rkey` where the usage allows to write, else no key of 32 bits.
    write_key: AtomicU64,
    memory: &'m [AtomicU64],
    /// The address of the memory's first word: a multiple of 8.
    origin: u64,
    /// The address of the region's first byte.
    base: u64,
    size: u64,
    usage: Usage,
    /// [`NO_KEY`] once deregistered.
    rkey: AtomicU32,
    lkey: AtomicU32,
}

/// What [`SoftDevice::register`] gives: the two sides of one region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoftRegion {
    remote: RemoteRegion,
    local: LocalSlice,
}

impl SoftRegion {
    /// As a peer sees it.
    #[must_use]
    pub const fn remote(&self) -> RemoteRegion {
        self.remote
    }

    /// As the source of writes and the destination of reads.
    #[must_use]
    pub const fn local(&self) -> LocalSlice {
        self.local
    }
}

const RKEY_TAG: u32 = 0x52;
const LKEY_TAG: u32 = 0x4c;
/// The key of no region: it leads outside of the table.
const NO_KEY: u32 = u32::MAX;

impl<'m> SoftDevice<'m> {
    /// A device with no regions.
    #[must_use]
    pub const fn new() -> Self {
        SoftDevice { regions: ArrayVec::new_const() }
    }

    /// Registers the whole of `memory`.
    ///
    /// # Errors
    /// [`Invalid::ZeroUsage`], [`Invalid::EmptyRange`],
    /// [`Invalid::TooManyRegions`].
    pub fn register(
        &mut self,
        memory: &'m [AtomicU64],
        usage: Usage,
    ) -> Result<SoftRegion, Invalid> {
        self.register_part(memory, 0, size_of_val(memory) as u64, usage)
    }

    /// Registers `len` bytes of `memory` from byte `start` on, which need not
    /// be aligned.
    ///
    /// # Errors
    /// As [`register`](Self::register), and [`Invalid::OutsideMemory`].
    pub fn register_part(
        &mut self,
        memory: &'m [AtomicU64],
        start: u64,
        len: u64,
        usage: Usage,
    ) -> Result<SoftRegion, Invalid> {
        if usage == Usage::NONE {
            return Err(Invalid::ZeroUsage);
        }
        if len == 0 {
            return Err(Invalid::EmptyRange);
        }
        let size = size_of_val(memory) as u64;
        if start.checked_add(len).is_none_or(|end| end > size) {
            return Err(Invalid::OutsideMemory { start, len, size });
        }
        let number = self.regions.len() as u32;
        let (rkey, lkey) = (number << 8 | RKEY_TAG, number << 8 | LKEY_TAG);
        let origin = memory.as_ptr().addr() as u64;
        let base = origin + start;
        let first = start.div_ceil(8) as usize;
        let end = ((start + len) / 8) as usize;
        let words = memory.get(first..end).unwrap_or_default();
        let writable = usage.contains(Usage::WRITE_DST);
        let registration = Registration {
            words,
            words_base: origin + 8 * first as u64,
            write_key: AtomicU64::new(if writable { rkey.into() } else { u64::MAX }),
            memory,
            origin,
            base,
            size: len,
            usage,
            rkey: AtomicU32::new(rkey),
            lkey: AtomicU32::new(lkey),
        };
        self.regions
            .try_push(registration)
            .map_err(|_| Invalid::TooManyRegions { max: MAX_REGIONS })?;
        Ok(SoftRegion {
            remote: RemoteRegion::new(base, len, rkey, usage),
            local: LocalSlice::new(base, len, lkey),
        })
    }

    /// Deregisters a region: from now on its keys are refused. Whoever uses it
    /// still gets an error completion, as from a real device; the memory stays
    /// borrowed. Says whether the region was registered.
    pub fn deregister(&self, region: &SoftRegion) -> bool {
        let Some(registration) = self.by_key(region.remote.rkey()) else {
            return false;
        };
        registration.lkey.store(NO_KEY, Ordering::Release);
        registration.write_key.store(u64::MAX, Ordering::Release);
        registration.rkey.swap(NO_KEY, Ordering::AcqRel) == region.remote.rkey()
    }

    #[inline]
    fn by_key(&self, key: u32) -> Option<&Registration<'m>> {
        self.regions.get((key >> 8) as usize)
    }
}

/// How a queue pair writes its 8 bytes and flushes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// An inline RDMA WRITE, and an RDMA READ to flush: what any device has.
    #[default]
    Emulated,
    /// The ATOMIC WRITE and FLUSH operations.
    Native,
}

/// What a software queue pair is made with.
///
/// ```
/// use farword::soft::{Mode, QpConfig};
/// let config = QpConfig::default().with_mode(Mode::Native).with_depths(64, 64);
/// assert_eq!(config.sq_depth, 64);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QpConfig {
    /// How many requests the send queue holds.
    pub sq_depth: u32,
    /// How many completions the completion queue holds: a power of two.
    pub cq_depth: u32,
    /// How it writes and flushes.
    pub mode: Mode,
    /// Whether a read answers as late as the rules of RDMA allow: after every
    /// later request up to the next fenced one, or up to the next poll.
    pub late_reads: bool,
    /// How many bytes of inline data it grants.
    pub max_inline: u32,
}

impl Default for QpConfig {
    /// Queues of 256, emulated, prompt reads, 16 bytes inline.
    fn default() -> Self {
        QpConfig {
            sq_depth: 256,
            cq_depth: 256,
            mode: Mode::Emulated,
            late_reads: false,
            max_inline: 16,
        }
    }
}

impl QpConfig {
    /// With queues of these depths.
    #[must_use]
    pub const fn with_depths(mut self, sq: u32, cq: u32) -> Self {
        self.sq_depth = sq;
        self.cq_depth = cq;
        self
    }

    /// In another mode.
    #[must_use]
    pub const fn with_mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// With late reads, or without. Only the inline engine heeds it.
    #[must_use]
    pub const fn with_late_reads(mut self, late: bool) -> Self {
        self.late_reads = late;
        self
    }

    /// With another grant of inline data.
    #[must_use]
    pub const fn with_max_inline(mut self, bytes: u32) -> Self {
        self.max_inline = bytes;
        self
    }

    fn capabilities(&self) -> Capabilities {
        let native = self.mode == Mode::Native;
        let flush = if native {
            FlushSupport::Native
        } else {
            FlushSupport::Emulated(LocalSlice::new(0, 8, execute::SCRATCH_LKEY))
        };
        Capabilities::new(self.sq_depth, self.cq_depth)
            .with_max_inline(self.max_inline)
            .with_native_atomic_write(native)
            .with_flush(flush)
    }
}

/// Numbers for queue pairs, never 0.
fn next_qp_num() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed) & 0x00ff_ffff | 1 << 8
}

/// The usage bits any of which lets a peer read.
const REMOTE_READ: u8 =
    Usage::READ_SRC.and(Usage::FLUSH_VISIBILITY).and(Usage::FLUSH_PERSISTENT).bits();

fn flush_usage(kind: u32) -> Usage {
    Usage::for_flush(if kind == FlushKind::Persistent as u32 {
        FlushKind::Persistent
    } else {
        FlushKind::Visibility
    })
}
