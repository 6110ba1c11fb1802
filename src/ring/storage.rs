//! The memory of a ring, lent or boxed.

use core::fmt;

use crate::error::Invalid;
use crate::op::{Notify, Op, OpContext};
#[cfg(feature = "std")]
use crate::ring::RingConfig;
use crate::ring::{POLL_BATCH, WcBatch};
use crate::slots::Slots;
use crate::wr::{SendWr, Wc};

/// What a ring keeps of one request while it is in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    pub(crate) context: OpContext,
    pub(crate) op: Op,
    pub(crate) notify: Notify,
    /// Staged by the ring itself; the caller never hears of it.
    pub(crate) own: bool,
    /// Signaled after it was staged, for a wait.
    pub(crate) forced: bool,
}

impl Record {
    pub(crate) const EMPTY: Record = Record::new(OpContext::new(0), Op::Write, Notify::OnError);

    #[inline]
    pub(crate) const fn new(context: OpContext, op: Op, notify: Notify) -> Self {
        Record { context, op, notify, own: false, forced: false }
    }
}

/// The memory that [`Ring::new`](crate::Ring::new) borrows: `DEPTH` requests in
/// flight, of which `BATCH` staged. Both must be powers of two, `BATCH` at most
/// `DEPTH`; the compiler refuses others.
///
/// It lives where the caller puts it: on the stack, in a static, in a box.
///
/// ```
/// use farword::RingStorage;
/// let storage = RingStorage::<128, 32>::new();
/// assert!(size_of_val(&storage) < 12 * 1024);
/// ```
///
/// ```compile_fail
/// let storage = farword::RingStorage::<100, 32>::new();
/// ```
// As `Ring`: two in a row share no cache line.
#[repr(align(128))]
pub struct RingStorage<const DEPTH: usize, const BATCH: usize> {
    wrs: [SendWr; BATCH],
    records: [Record; DEPTH],
    wcs: [WcBatch; 1],
}

impl<const DEPTH: usize, const BATCH: usize> RingStorage<DEPTH, BATCH> {
    /// Empty memory for a ring.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "12 KiB by value is better asked for by name")]
    pub const fn new() -> Self {
        const {
            assert!(DEPTH.is_power_of_two(), "a ring's depth must be a power of two");
            assert!(BATCH.is_power_of_two(), "a ring's batch must be a power of two");
            assert!(BATCH <= DEPTH, "a ring's batch must not exceed its depth");
            assert!(DEPTH <= 1 << 20, "a ring's depth must be at most 2^20");
        }
        RingStorage {
            wrs: [SendWr::ZERO; BATCH],
            records: [Record::EMPTY; DEPTH],
            wcs: [[Wc::ZERO; POLL_BATCH]],
        }
    }

    pub(crate) fn lend(&mut self) -> Result<Parts<'_>, Invalid> {
        Ok(Parts {
            wrs: Slots::lent(&mut self.wrs)?,
            records: Slots::lent(&mut self.records)?,
            wcs: Slots::lent(&mut self.wcs)?,
        })
    }
}

impl<const DEPTH: usize, const BATCH: usize> fmt::Debug for RingStorage<DEPTH, BATCH> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RingStorage<{DEPTH}, {BATCH}>")
    }
}

/// The same, its sizes forgotten.
#[derive(Debug)]
pub(crate) struct Parts<'m> {
    pub(crate) wrs: Slots<'m, SendWr>,
    pub(crate) records: Slots<'m, Record>,
    pub(crate) wcs: Slots<'m, WcBatch>,
}

impl Parts<'_> {
    #[cfg(feature = "std")]
    pub(crate) fn boxed(config: RingConfig) -> Result<Self, Invalid> {
        let max = crate::slots::MAX_SLOTS.min(config.depth.into());
        if u64::from(config.batch) > max {
            return Err(Invalid::Depth { got: config.batch.into(), min: 1, max });
        }
        Ok(Parts {
            records: Slots::boxed(config.depth, || Record::EMPTY)?,
            wrs: Slots::boxed(config.batch, || SendWr::ZERO)?,
            wcs: Slots::boxed(1, || [Wc::ZERO; POLL_BATCH])?,
        })
    }
}
