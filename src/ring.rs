//! The per-thread submission ring: stage, ring the doorbell, poll.

use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU32, Ordering};

use arrayvec::ArrayVec;

use crate::batch::Batch;
use crate::error::{Errno, Error, Invalid, WcStatus, Why};
use crate::flight::Flight;
use crate::op::{Notify, Op, OpContext, Ticket};
use crate::provider::{Capabilities, PostError, Provider};
use crate::slots::{LINE, MAX_SLOTS, Slots};
use crate::wr::Wc;

mod completion;
#[cfg(all(test, feature = "std"))]
mod late;
mod staging;
mod storage;
#[cfg(all(test, feature = "std"))]
mod tests;
mod wait;

pub use completion::{Completion, Outcome};
use storage::Record;
pub use storage::RingStorage;
#[cfg(feature = "std")]
pub use wait::Deadline;
pub use wait::{Forever, Patience, Polls, WaitError};

/// How deep a ring is.
///
/// ```
/// use farword::RingConfig;
/// let config = RingConfig::new(256, 64);
/// assert_eq!((config.depth, config.batch), (256, 64));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RingConfig {
    /// How many requests may be staged or in flight: a power of two, at most
    /// the provider's send-queue depth.
    pub depth: u32,
    /// How many requests may be staged for one doorbell: a power of two, at
    /// most `depth`. Each takes 128 bytes, which should stay in the L1 cache.
    pub batch: u32,
    /// Whether the peer's configuration says that what is written goes straight
    /// to persistent memory. Without it a flush to persistence is refused.
    pub peer_is_persistent: bool,
    /// The number of the ring's first request. For tests of the counters' wrap.
    #[doc(hidden)]
    pub first: u64,
}

impl RingConfig {
    /// A ring of `depth` requests, at most `batch` of them staged.
    #[must_use]
    pub const fn new(depth: u32, batch: u32) -> Self {
        RingConfig { depth, batch, peer_is_persistent: false, first: 0 }
    }

    /// Says that the peer's configuration promises direct write to persistent
    /// memory.
    #[must_use]
    pub const fn with_persistent_peer(mut self, persistent: bool) -> Self {
        self.peer_is_persistent = persistent;
        self
    }
}

impl Default for RingConfig {
    /// 128 requests, 32 to a doorbell.
    fn default() -> Self {
        RingConfig::new(128, 32)
    }
}

/// What a ring has done since it was built.
///
/// Reading them costs the hot path nothing: most are the numbers by which the
/// ring works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Requests staged.
    pub staged: u64,
    /// Requests that the provider took.
    pub posted: u64,
    /// Requests retired: confirmed, failed or given back.
    pub retired: u64,
    /// Posts, one doorbell each.
    pub doorbells: u64,
    /// Completions polled, those that the ring swallowed included.
    pub completions: u64,
    /// Requests staged signaled, by the caller's wish or the ring's.
    pub signaled: u64,
    /// Requests refused for want of room.
    pub full: u64,
    /// Posts of which the provider took only a part, or nothing.
    pub refused: u64,
    /// Completions dropped because no request in flight had their number.
    pub stale: u64,
}

/// Whether a ring takes work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Live,
    /// Dead; flush completions are still to come.
    Draining(Why),
    /// Dead; nothing more completes.
    Dead(Why),
}

/// A submission ring over one [`Provider`]: it alone owns that queue pair's send
/// side and its completion queue.
///
/// One thread uses a ring at a time: it is `Send`, not `Sync`, and takes no
/// lock. Staging, [`doorbell`](Self::doorbell) and polling never allocate and
/// make no system call of their own.
///
/// ```
/// use core::sync::atomic::{AtomicU64, Ordering};
/// use farword::{AlignedOffset, Notify, OpContext, Ring, RingConfig, Usage, Word};
/// use farword::soft::{InlineQp, QpConfig, SoftDevice};
///
/// let memory = [const { AtomicU64::new(0) }; 8];
/// let mut device = SoftDevice::new();
/// let region = device.register(&memory, Usage::WRITE_DST)?.remote();
///
/// let qp = InlineQp::boxed(&device, QpConfig::default())?;
/// let mut ring = Ring::boxed(qp, RingConfig::default())?;
/// let tail = region.target(AlignedOffset::literal::<8>())?;
///
/// ring.atomic_write(tail, Word::le(16), Notify::OnError, OpContext::new(1))?;
/// ring.atomic_write(tail, Word::le(24), Notify::Always, OpContext::new(2))?;
/// ring.doorbell()?;
///
/// let mut contexts = Vec::new();
/// ring.poll_with(|completion| contexts.push(completion.context.get()))?;
/// assert_eq!(contexts, [2]);
/// assert_eq!(u64::from_le(memory[1].load(Ordering::Acquire)), 24);
/// # Ok::<(), farword::Error>(())
/// ```
///
/// ```compile_fail
/// # use farword::{Ring, soft::InlineQp};
/// fn shared<T: Sync>() {}
/// shared::<Ring<'static, InlineQp<'static>>>();
/// ```
// Aligned, so that rings side by side in memory, used by different threads, share
// no cache line.
#[repr(align(128))]
pub struct Ring<'m, P> {
    flight: Flight,
    /// What the number of a request, which is its `wr_id`, is more than its
    /// ticket. It differs from ring to ring.
    base: u64,
    /// A quarter of the depth, less one: requests whose number has these bits
    /// set are signaled.
    window: u32,
    batch: Batch<'m>,
    records: Slots<'m, Record>,
    signaled: u64,
    /// One past the number of the last flush that a fence waits for.
    fence_to: u64,
    /// Everything below succeeded.
    confirmed: u64,
    /// Everything below has been told of to the caller.
    reported: u64,
    state: State,
    /// Whether a request has completed with an error.
    errored: bool,
    /// Behind the failure: one past the last request that has completed. The
    /// requests below it are told of as there is room for them.
    flushed: u64,
    doorbells: u64,
    /// Completions polled, stale ones included.
    polled: u64,
    full: u64,
    refused: u64,
    stale: u64,
    /// Requests given back that were never posted.
    unposted: u64,
    first: u64,
    peer_is_persistent: bool,
    capabilities: Capabilities,
    wcs: Slots<'m, WcBatch>,
    provider: P,
    /// `Send`, not `Sync`.
    one_thread: PhantomData<Cell<()>>,
}

/// Where the numbers of a ring start, so that a completion of another ring, or
/// of an earlier ring over a queue pair whose number came back, is not taken for
/// one of this ring's. The starts lie spread over the upper half of a `wr_id`
/// (an odd factor gives 2^32 different ones), far from one another however many
/// requests a ring makes.
fn numbers_base() -> u64 {
    static GENERATION: AtomicU32 = AtomicU32::new(1);
    let generation = GENERATION.fetch_add(1, Ordering::Relaxed);
    u64::from(generation.wrapping_mul(0x9e37_79b1)) << 32
}

/// How many completions one call of the provider's poll may take.
pub(crate) const POLL_BATCH: usize = 16;

/// Where the provider puts them.
pub(crate) type WcBatch = [Wc; POLL_BATCH];

impl<'m, P: Provider> Ring<'m, P> {
    /// A ring over memory that the caller lends; its lengths are the ring's
    /// depth and batch.
    ///
    /// ```
    /// use farword::{Ring, RingConfig, RingStorage};
    /// use farword::soft::{InlineQp, QpConfig, QpStorage, SoftDevice};
    ///
    /// let device = SoftDevice::new();
    /// let mut queues = QpStorage::<64>::new();
    /// let qp = InlineQp::new(&device, QpConfig::default(), &mut queues)?;
    /// let mut storage = RingStorage::<64, 16>::new();
    /// let ring = Ring::new(qp, RingConfig::default(), &mut storage)?;
    /// assert_eq!(ring.room(), 16);
    /// # Ok::<(), farword::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Invalid::SqTooDeep`] if the provider's send queue is shallower than the
    /// ring, [`Invalid::CqTooSmall`] if its completion queue is,
    /// [`Invalid::InlineTooSmall`] if it carries less than 8 bytes inline and
    /// has no native atomic write.
    pub fn new<const DEPTH: usize, const BATCH: usize>(
        provider: P,
        config: RingConfig,
        storage: &'m mut RingStorage<DEPTH, BATCH>,
    ) -> Result<Self, Error> {
        let config = RingConfig { depth: DEPTH as u32, batch: BATCH as u32, ..config };
        let parts = storage.lend()?;
        Self::build(provider, config, parts)
    }

    /// A ring over memory of its own, allocated here and never again.
    ///
    /// # Errors
    /// As [`new`](Self::new), and [`Invalid::Depth`] if `config.depth` or
    /// `config.batch` is not a power of two, or the batch exceeds the depth.
    #[cfg(feature = "std")]
    pub fn boxed(provider: P, config: RingConfig) -> Result<Self, Error> {
        let parts = storage::Parts::boxed(config)?;
        Self::build(provider, config, parts)
    }

    fn build(provider: P, config: RingConfig, parts: storage::Parts<'m>) -> Result<Self, Error> {
        let capabilities = provider.capabilities();
        check_config(&config, &capabilities)?;
        let batch = Batch::new(parts.wrs, capabilities.native_atomic_write);
        let base = numbers_base();
        let first = base.wrapping_add(config.first);
        Ok(Ring {
            flight: Flight::new(config.depth, config.batch, first),
            base,
            window: (config.depth / 4).max(1) - 1,
            batch,
            records: parts.records,
            signaled: 0,
            fence_to: first,
            confirmed: first,
            reported: first,
            state: State::Live,
            errored: false,
            flushed: first,
            doorbells: 0,
            polled: 0,
            full: 0,
            refused: 0,
            stale: 0,
            unposted: 0,
            first,
            peer_is_persistent: config.peer_is_persistent,
            capabilities,
            wcs: parts.wcs,
            provider,
            one_thread: PhantomData,
        })
    }

    /// Posts everything that is staged as one chain, and says how many requests
    /// that was; 0 when nothing is staged.
    ///
    /// # Errors
    /// When the provider refuses a part, what it took is in flight and the rest
    /// stays staged, to be posted by the next doorbell; nothing is posted twice.
    /// [`Error::Full`] then means that it had no room and polling will make
    /// some, [`Error::Provider`] carries any other errno. [`Error::Failed`]:
    /// the ring is dead, or has just died of a post that failed without saying
    /// how much was taken.
    #[inline(always)]
    pub fn doorbell(&mut self) -> Result<u32, Error> {
        let (head, end) = (self.flight.posted(), self.flight.next());
        if head == end || self.state != State::Live {
            return self.nothing_to_post();
        }
        if head ^ end > u64::from(self.window) {
            self.signal_quarters();
        }
        let count = self.flight.unposted();
        let result = self.batch.post(head, count, |chain| self.provider.post(chain));
        self.doorbells += 1;
        match result {
            Ok(()) => {
                if self.batch.is_dirty() {
                    self.batch.restore(self.flight.posted(), count, count);
                }
                Ok(self.flight.post_all())
            }
            Err(refused) => Err(self.post_refused(refused)),
        }
    }

    /// Moves completions into `out` until it is full or there are none left,
    /// and says how many were moved.
    ///
    /// # Errors
    /// [`Error::Failed`] once the ring is dead and every context that it held
    /// has been given back, room or no room in `out`.
    pub fn poll<const N: usize>(
        &mut self,
        out: &mut ArrayVec<Completion, N>,
    ) -> Result<usize, Error> {
        let room = out.remaining_capacity();
        self.poll_up_to::<false>(Some(room), &mut |completion| {
            // Never more than `room`, so this is never refused.
            let _ = out.try_push(completion);
        })
    }

    /// Gives every completion that is there to `each`, and says how many there
    /// were.
    ///
    /// # Errors
    /// As [`poll`](Self::poll).
    #[inline]
    pub fn poll_with(&mut self, mut each: impl FnMut(Completion)) -> Result<usize, Error> {
        self.poll_up_to::<false>(None, &mut each)
    }

    /// Like [`poll_with`](Self::poll_with), but tells of every request that was
    /// retired, each exactly once: those too whose success
    /// [`Notify::OnError`] keeps silent.
    ///
    /// # Errors
    /// As [`poll`](Self::poll).
    pub fn poll_retired(&mut self, mut each: impl FnMut(Completion)) -> Result<usize, Error> {
        self.poll_up_to::<true>(None, &mut each)
    }

    /// Gives up: the queue pair is put into the error state and nothing more is
    /// waited for. The next polls give back what was in flight as
    /// [`Outcome::Unknown`] and what was staged as [`Outcome::Unposted`].
    pub fn abandon(&mut self) {
        self.provider.abort();
        self.fail(State::Dead(self.failure().unwrap_or(Why::Abandoned)));
    }

    /// How many requests could be staged now.
    #[inline]
    #[must_use]
    pub fn room(&self) -> u32 {
        self.flight.room()
    }

    /// How many requests are staged and not posted.
    #[inline]
    #[must_use]
    pub fn staged(&self) -> u32 {
        self.flight.unposted()
    }

    /// How many requests are posted and not retired.
    #[inline]
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.flight.in_flight()
    }

    /// Whether nothing is staged and nothing in flight.
    #[inline]
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.flight.occupied() == 0
    }

    /// Whether an operation is known to have succeeded. It costs one
    /// comparison: a success on a ring confirms everything before it.
    #[inline]
    #[must_use]
    pub fn is_confirmed(&self, ticket: Ticket) -> bool {
        (self.confirmed.wrapping_sub(self.number(ticket)) as i64) > 0
    }

    /// The ticket below which every operation is known to have succeeded.
    #[inline]
    #[must_use]
    pub fn confirmed(&self) -> Ticket {
        self.ticket(self.confirmed)
    }

    /// What killed the ring, if it is dead.
    #[must_use]
    pub fn failure(&self) -> Option<Why> {
        match self.state {
            State::Live => None,
            State::Draining(why) | State::Dead(why) => Some(why),
        }
    }

    /// What the ring has done so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters {
            staged: self.flight.next().wrapping_sub(self.first),
            // The flight counts a request as posted once it is given back.
            posted: self.flight.posted().wrapping_sub(self.first) - self.unposted,
            retired: self.flight.retired().wrapping_sub(self.first),
            doorbells: self.doorbells,
            completions: self.polled - self.stale,
            signaled: self.signaled,
            full: self.full,
            refused: self.refused,
            stale: self.stale,
        }
    }

    /// What the provider can do.
    #[must_use]
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// The provider.
    #[must_use]
    pub fn provider(&self) -> &P {
        &self.provider
    }

    /// The provider, to be set up. Posting or polling behind the ring's back
    /// makes its counts wrong, though never its memory.
    #[must_use]
    pub fn provider_mut(&mut self) -> &mut P {
        &mut self.provider
    }

    #[inline]
    fn ticket(&self, number: u64) -> Ticket {
        Ticket(number.wrapping_sub(self.base))
    }

    #[inline]
    fn number(&self, ticket: Ticket) -> u64 {
        ticket.0.wrapping_add(self.base)
    }

    /// Signals the requests of a chain that end a quarter of the queue, so that
    /// a full queue always holds one and slots always come back.
    #[inline(never)]
    fn signal_quarters(&mut self) {
        let (head, count) = (self.flight.posted(), self.flight.unposted());
        let window = u64::from(self.window);
        let mut number = head | window;
        while number.wrapping_sub(head) < u64::from(count) {
            self.signaled += u64::from(self.batch.signal(number));
            number = number.wrapping_add(window + 1);
        }
    }

    /// How many requests may be staged for one doorbell.
    pub(crate) fn batch_len(&self) -> u32 {
        self.batch.len()
    }

    #[cold]
    fn no_room(&mut self) -> Error {
        match self.failure() {
            Some(why) => Error::Failed { why },
            None => {
                self.full += 1;
                Error::Full { remedy: self.flight.remedy() }
            }
        }
    }

    #[cold]
    fn nothing_to_post(&self) -> Result<u32, Error> {
        match self.failure() {
            Some(why) => Err(Error::Failed { why }),
            None => Ok(0),
        }
    }

    #[cold]
    fn post_refused(&mut self, refused: PostError) -> Error {
        let (head, count) = (self.flight.posted(), self.flight.unposted());
        self.refused += 1;
        match refused {
            PostError::Refused { taken, errno } => {
                let taken = taken.min(count);
                self.batch.restore(head, count, taken);
                self.flight.post(taken);
                let no_room = matches!(errno, Errno::ENOMEM | Errno::ENOSPC | Errno::EAGAIN);
                if no_room && self.flight.in_flight() > 0 {
                    self.full += 1;
                    let (occupied, depth) = (self.flight.occupied(), self.flight.depth());
                    return Error::Full { remedy: crate::Remedy::Poll { occupied, depth } };
                }
                Error::Provider(errno)
            }
            PostError::Unknown { errno } => {
                self.batch.restore(head, count, count);
                // Any of them may be in flight, so all of them count as such.
                self.flight.post(count);
                self.provider.abort();
                let why = Why::PostUnknown(errno);
                self.fail(State::Draining(why));
                Error::Failed { why }
            }
        }
    }

    /// Enters a failed state. The first reason stays; `Dead` outranks
    /// `Draining`.
    #[cold]
    fn fail(&mut self, next: State) {
        self.state = match (self.state, next) {
            (State::Live, next) => next,
            (State::Draining(why), State::Dead(_)) => State::Dead(why),
            (state, _) => state,
        };
        self.flight.close();
    }
}

impl<P: fmt::Debug> fmt::Debug for Ring<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("flight", &self.flight)
            .field("state", &self.state)
            .field("batch", &self.batch)
            .field("provider", &self.provider)
            .finish_non_exhaustive()
    }
}

const _: () = {
    assert!(align_of::<Ring<'_, &mut crate::soft::InlineQp<'_>>>().is_multiple_of(LINE));
    assert!(align_of::<RingStorage<16, 16>>().is_multiple_of(LINE));
};

/// Every limit that a ring has to keep, checked when it is built.
fn check_config(config: &RingConfig, capabilities: &Capabilities) -> Result<(), Invalid> {
    let max = MAX_SLOTS;
    if !config.depth.is_power_of_two() || u64::from(config.depth) > max {
        return Err(Invalid::Depth { got: config.depth.into(), min: 1, max });
    }
    if !config.batch.is_power_of_two() || config.batch > config.depth {
        let max = config.depth.into();
        return Err(Invalid::Depth { got: config.batch.into(), min: 1, max });
    }
    if config.depth > capabilities.sq_depth {
        let (asked, granted) = (config.depth, capabilities.sq_depth);
        return Err(Invalid::SqTooDeep { asked, granted });
    }
    if capabilities.cq_depth < config.depth {
        return Err(Invalid::CqTooSmall { cq: capabilities.cq_depth, sq: config.depth });
    }
    if !capabilities.native_atomic_write && capabilities.max_inline < 8 {
        return Err(Invalid::InlineTooSmall { granted: capabilities.max_inline });
    }
    Ok(())
}
