//! A provider that wraps any other and makes it fail.
//!
//! What a storage engine does when the fabric misbehaves should be tested
//! before the fabric does. [`Fault`] stands between a [`Ring`](crate::Ring) and
//! its provider and, by a [`FaultPlan`], refuses posts halfway, leaves them in
//! doubt, fails requests, loses acknowledgements, holds completions back,
//! invents stale ones and takes the device away. All of it is deterministic and
//! stays within the contract of [`Provider`]: what a ring tells of its requests
//! must be true in spite of it.
//!
//! ```
//! use core::sync::atomic::{AtomicU64, Ordering};
//! use farword::fault::{Fault, FaultPlan};
//! use farword::soft::{InlineQp, QpConfig, SoftDevice};
//! use farword::{
//!     AlignedOffset, Errno, Error, Notify, OpContext, Outcome, Ring, RingConfig, Usage,
//!     WcStatus, Word,
//! };
//!
//! let memory = [const { AtomicU64::new(0) }; 8];
//! let mut device = SoftDevice::new();
//! let region = device.register(&memory, Usage::WRITE_DST)?.remote();
//! let qp = InlineQp::boxed(&device, QpConfig::default())?;
//!
//! // The send queue has room for five of eight, and the seventh fails.
//! let plan = FaultPlan::new(1)
//!     .refuse_at(5, Errno::ENOMEM)
//!     .fail_at(6, WcStatus::RETRY_EXC_ERR);
//! let fault = Fault::new(qp, plan).expect("a queue of 256 can be followed");
//! let mut ring = Ring::boxed(fault, RingConfig::default())?;
//!
//! for n in 0..8 {
//!     let target = region.target(AlignedOffset::of_word(n))?;
//!     ring.atomic_write(target, Word::ne(1), Notify::Always, OpContext::new(n.into()))?;
//! }
//! assert!(matches!(ring.doorbell(), Err(Error::Full { .. })));
//! assert_eq!((ring.in_flight(), ring.staged()), (5, 3));
//! assert_eq!(ring.doorbell(), Ok(3));
//!
//! let mut outcomes = Vec::new();
//! ring.poll_with(|completion| outcomes.push(completion.outcome))?;
//! assert_eq!(outcomes[..6], [Outcome::Confirmed; 6]);
//! assert_eq!(outcomes[6..], [Outcome::Failed(WcStatus::RETRY_EXC_ERR), Outcome::Unknown]);
//! assert_eq!(memory[6].load(Ordering::Relaxed), 0, "it was not carried out");
//! assert_eq!(ring.provider().injected().refusals, 1);
//! # Ok::<(), farword::Error>(())
//! ```

use crate::batch::Chain;
use crate::error::{DeviceFault, Errno, WcStatus};
use crate::provider::{Capabilities, PostError, Provider};
use crate::wr::Wc;

mod dice;
mod fifo;
mod plan;
#[cfg(all(test, feature = "std"))]
mod tests;

use fifo::Fifo;
use plan::Fate;
pub use plan::{FaultPlan, MAX_PLANNED, PlanError, Rates};

/// The `vendor_err` of the request that a plan made fail.
pub const VENDOR_ERR: u32 = 0xfa17;

/// A provider that makes another one fail, as a [`FaultPlan`] has it.
///
/// It follows up to `N` requests in flight, in memory of its own (88 bytes for
/// each), and keeps the books that the plan needs: a request's slot is free
/// when its completion, or that of a later request, has been polled from *this*
/// provider, and a request whose `wr_id` is still in flight is refused with
/// `EINVAL` and counted, so that nothing is posted twice unseen.
#[derive(Clone, Debug)]
pub struct Fault<P, const N: usize = 256> {
    inner: P,
    plan: FaultPlan,
    sq_depth: u32,
    /// What was taken and not retired, in order. The oldest has the number
    /// `retired`.
    ledger: Fifo<Entry, N>,
    /// Completions that have not been polled yet, in order.
    held: Fifo<Held, N>,
    /// `retired <= heard <= taken`, and those from `inner_taken` on are not
    /// given to the inner provider.
    retired: u64,
    /// Of every request below, it is known how it ended.
    heard: u64,
    inner_taken: u64,
    /// How the first request from `inner_taken` on fails; the inner provider
    /// takes no more.
    doomed: Option<Fate>,
    /// Whether the queue pair is in error: no later request is the first to
    /// fail.
    errored: bool,
    dead: Option<DeviceFault>,
    posts: u64,
    attempts: u64,
    polls: u64,
    last_wr_id: u64,
    /// Whether the last poll made a completion up.
    was_stale: bool,
    qp_num: u32,
    injected: Injected,
}

/// What was made to go wrong, and what the books noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Injected {
    /// Posts refused by the plan.
    pub refusals: u64,
    /// Posts answered with [`PostError::Unknown`].
    pub unknowns: u64,
    /// Requests made to fail: 0 or 1, since the first one breaks the queue pair.
    pub errors: u64,
    /// Requests flushed behind it.
    pub flushed: u64,
    /// Completions held back for at least one poll.
    pub delayed: u64,
    /// Error completions given with garbage in them.
    pub garbled: u64,
    /// Stale completions made up.
    pub stale: u64,
    /// Device faults: 0 or 1, since it is for good.
    pub device_faults: u64,
    /// Posts refused because a request of theirs was in flight already. A ring
    /// that posts everything once leaves this at 0.
    pub duplicates: u64,
    /// Completions that were asked for only to know that the requests before a
    /// failing one were done, and kept from the caller.
    pub swallowed: u64,
}

/// A request that was taken.
#[derive(Clone, Copy, Debug)]
struct Entry {
    wr_id: u64,
    mark: Mark,
}

#[derive(Clone, Copy, Debug)]
enum Mark {
    None,
    /// Its success was not asked for; it is heard and kept back.
    Swallow,
    /// It is carried out, and its success is turned into this.
    Fail(WcStatus),
}

/// A completion that waits to be polled.
#[derive(Clone, Copy, Debug)]
struct Held {
    wc: Wc,
    /// The request that it retires; none for a stale one of the inner provider.
    number: Option<u64>,
    /// The first poll that may give it.
    ready: u64,
}

impl<P: Provider> Fault<P> {
    /// Makes `inner` fail; it may have up to 256 requests in flight.
    ///
    /// # Errors
    /// [`PlanError::TooDeep`] if its send queue is deeper; the others for a
    /// plan that cannot be carried out.
    pub fn new(inner: P, plan: FaultPlan) -> Result<Self, PlanError> {
        Self::with_capacity(inner, plan)
    }
}

impl<P: Provider, const N: usize> Fault<P, N> {
    /// Makes `inner` fail; it may have up to `N` requests in flight.
    ///
    /// # Errors
    /// As [`new`](Fault::new).
    pub fn with_capacity(inner: P, plan: FaultPlan) -> Result<Self, PlanError> {
        plan.check()?;
        let sq_depth = inner.capabilities().sq_depth;
        if sq_depth as usize > N {
            return Err(PlanError::TooDeep { sq_depth, max: N });
        }
        Ok(Fault {
            inner,
            plan,
            sq_depth,
            ledger: Fifo::new(Entry { wr_id: 0, mark: Mark::None }),
            held: Fifo::new(Held { wc: Wc::ZERO, number: None, ready: 0 }),
            retired: 0,
            heard: 0,
            inner_taken: 0,
            doomed: None,
            errored: false,
            dead: None,
            posts: 0,
            attempts: 0,
            polls: 0,
            last_wr_id: 0,
            was_stale: false,
            qp_num: 0,
            injected: Injected::default(),
        })
    }

    /// What has gone wrong so far.
    #[must_use]
    pub fn injected(&self) -> Injected {
        self.injected
    }

    /// How many requests were taken: the number that the next one has in the
    /// plan.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.retired + self.ledger.len() as u64
    }

    /// How many polls there were: the number that the next one has in the plan.
    #[must_use]
    pub fn polls(&self) -> u64 {
        self.polls
    }

    /// The provider within.
    #[must_use]
    pub fn inner(&self) -> &P {
        &self.inner
    }

    /// The provider within, to be set up.
    #[must_use]
    pub fn inner_mut(&mut self) -> &mut P {
        &mut self.inner
    }

    /// Gives the provider within back.
    #[must_use]
    pub fn into_inner(self) -> P {
        self.inner
    }

    /// How many requests of the chain are to be taken, and what is answered.
    fn examine(&mut self, chain: &Chain<'_>) -> (u32, Result<(), PostError>) {
        let first = self.taken();
        let room = self.sq_depth - self.ledger.len() as u32;
        let refused = |taken, errno| (taken, Err(PostError::Refused { taken, errno }));
        let (limit, answer) = match self.first_duplicate(chain) {
            Some(index) if index < room => {
                self.injected.duplicates += 1;
                refused(index, Errno::EINVAL)
            }
            _ if chain.len() > room => refused(room, Errno::ENOMEM),
            _ => (chain.len(), Ok(())),
        };
        if let Some((taken, errno)) = self.plan.unknown(first, chain.len(), self.posts) {
            self.injected.unknowns += 1;
            return (taken.min(limit), Err(PostError::Unknown { errno }));
        }
        for index in 0..limit {
            self.attempts += 1;
            if let Some(errno) = self.plan.refuses(first + u64::from(index), self.attempts) {
                self.injected.refusals += 1;
                return refused(index, errno);
            }
        }
        (limit, answer)
    }

    /// The first request of the chain that is in flight, or earlier in the
    /// chain, already.
    fn first_duplicate(&self, chain: &Chain<'_>) -> Option<u32> {
        let requests = chain.requests().enumerate();
        let mut numbered = requests.map(|(index, request)| (index, request.wr().wr_id));
        let duplicate = numbered.find(|(index, wr_id)| {
            self.ledger.iter().any(|entry| entry.wr_id == *wr_id)
                || chain.requests().take(*index).any(|earlier| earlier.wr().wr_id == *wr_id)
        });
        duplicate.map(|(index, _)| index as u32)
    }

    /// Takes the first `count` requests of the chain.
    fn take(&mut self, chain: &mut Chain<'_>, count: u32) -> Result<(), PostError> {
        let first = self.taken();
        let fate = self.first_fate(first, count);
        let healthy = match fate {
            _ if self.doomed.is_some() => 0,
            Some((index, fate)) => index + u32::from(fate.executed),
            None => count,
        };
        if healthy > 0 {
            self.pass_on(chain, healthy)?;
        }
        if self.doomed.is_none() {
            self.doomed = fate.map(|(_, fate)| fate);
        }
        for request in chain.requests().take(count as usize).skip(healthy as usize) {
            self.ledger.push(Entry { wr_id: request.wr().wr_id, mark: Mark::None });
        }
        Ok(())
    }

    /// The first of `count` requests that fails, and how.
    fn first_fate(&self, first: u64, count: u32) -> Option<(u32, Fate)> {
        if self.errored {
            return None;
        }
        (0..count).find_map(|index| Some((index, self.plan.fate(first + u64::from(index))?)))
    }

    /// Has the inner provider take the first `count` requests, the last of them
    /// signaled if the fate of it or of the next hangs on knowing when it is
    /// done.
    fn pass_on(&mut self, chain: &mut Chain<'_>, count: u32) -> Result<(), PostError> {
        let next = self.taken() + u64::from(count);
        let last_fate = self.first_fate(next - 1, 1).map(|(_, fate)| fate);
        let next_fails = self.first_fate(next, 1).is_some_and(|(_, fate)| !fate.executed);
        let signal = last_fate.is_some() || next_fails;
        let answer = chain.with_prefix(count, signal, |prefix| self.inner.post(prefix));
        let taken = match answer {
            Err(PostError::Refused { taken, .. }) => taken.min(count),
            // Which of them were taken will be seen by their completions.
            Ok(()) | Err(PostError::Unknown { .. }) => count,
        };
        for (index, request) in (1..=taken).zip(chain.requests()) {
            let wr = request.wr();
            let mark = match last_fate {
                Some(fate) if index == count => Mark::Fail(fate.status),
                None if index == count && signal && !wr.is_signaled() => Mark::Swallow,
                _ => Mark::None,
            };
            self.ledger.push(Entry { wr_id: wr.wr_id, mark });
        }
        self.inner_taken += u64::from(taken);
        answer
    }

    /// Takes in what the inner provider has completed, as far as there is room.
    fn hear(&mut self) -> Result<(), DeviceFault> {
        let mut wcs = [Wc::ZERO; 16];
        loop {
            let want = self.held.room().min(wcs.len());
            let got = self.inner.poll(&mut wcs[..want])?.min(want);
            for wc in &wcs[..got] {
                self.hear_one(*wc);
            }
            if got < want || want == 0 {
                return Ok(());
            }
        }
    }

    fn hear_one(&mut self, mut wc: Wc) {
        self.qp_num = wc.qp_num;
        let Some((number, mark)) = self.find_outstanding(wc.wr_id) else {
            self.hold(wc, None);
            return;
        };
        self.heard = number + 1;
        let ok = wc.status == WcStatus::SUCCESS;
        match mark {
            Mark::Swallow if ok => {
                self.injected.swallowed += 1;
                return;
            }
            Mark::Fail(status) if ok => wc = self.fail(wc.wr_id, status),
            _ => self.errored |= !ok,
        }
        self.hold(wc, Some(number));
    }

    /// The request at the inner provider that has this `wr_id` and has not been
    /// heard of.
    fn find_outstanding(&self, wr_id: u64) -> Option<(u64, Mark)> {
        (self.heard..self.inner_taken).find_map(|number| {
            let entry = self.ledger.get((number - self.retired) as usize)?;
            (entry.wr_id == wr_id).then_some((number, entry.mark))
        })
    }

    /// Completes what is doomed, once everything before it is done.
    fn flush_doomed(&mut self) {
        while self.heard >= self.inner_taken && self.heard < self.taken() && self.held.room() > 0 {
            let (Some(fate), Some(entry)) =
                (self.doomed, self.ledger.get((self.heard - self.retired) as usize))
            else {
                return;
            };
            let wc = self.fail(entry.wr_id, fate.status);
            self.hold(wc, Some(self.heard));
            self.heard += 1;
        }
    }

    /// The completion of a request that the plan has fail: its own, or that of
    /// a queue pair which was in error before.
    fn fail(&mut self, wr_id: u64, status: WcStatus) -> Wc {
        let (status, vendor_err) = if self.errored {
            self.injected.flushed += 1;
            (WcStatus::WR_FLUSH_ERR, 0)
        } else {
            self.injected.errors += 1;
            (status, VENDOR_ERR)
        };
        self.errored = true;
        Wc { wr_id, status, vendor_err, qp_num: self.qp_num, ..Wc::ZERO }
    }

    /// Puts a completion behind those that wait. There is room: a request gives
    /// one completion at most, and `hear` asks for no more than fit.
    fn hold(&mut self, wc: Wc, number: Option<u64>) {
        let delay = number.map_or(0, |number| self.plan.delay(number));
        self.injected.delayed += u64::from(delay > 0);
        let ready = self.polls.saturating_add(delay);
        let wc = self.garble(wc);
        let held = self.held.push(Held { wc, number, ready });
        debug_assert!(held, "room was made sure of");
    }

    /// Garbage where an error completion means nothing.
    fn garble(&mut self, wc: Wc) -> Wc {
        if wc.status == WcStatus::SUCCESS {
            return wc;
        }
        let Some(bits) = self.plan.garbage(self.injected.garbled) else {
            return wc;
        };
        self.injected.garbled += 1;
        Wc {
            wr_id: wc.wr_id,
            status: wc.status,
            vendor_err: wc.vendor_err,
            qp_num: wc.qp_num,
            opcode: bits as u32,
            byte_len: (bits >> 8) as u32,
            imm_data: (bits >> 16) as u32,
            src_qp: (bits >> 24) as u32,
            wc_flags: (bits >> 32) as u32,
            pkey_index: (bits >> 40) as u16,
            slid: (bits >> 48) as u16,
            sl: (bits >> 52) as u8,
            dlid_path_bits: (bits >> 56) as u8,
        }
    }

    /// Gives the oldest completion, if its time has come.
    fn give(&mut self) -> Option<Wc> {
        if self.held.get(0)?.ready > self.polls {
            return None;
        }
        let held = self.held.pop()?;
        if let Some(number) = held.number {
            while self.retired <= number && self.ledger.pop().is_some() {
                self.retired += 1;
            }
            self.last_wr_id = held.wc.wr_id;
        }
        Some(held.wc)
    }

    /// A completion that no request of this generation can have.
    fn stale(&self, bits: u64) -> Wc {
        let near = self.ledger.get(0).map_or(self.last_wr_id, |entry| entry.wr_id);
        // Another upper half, whatever the bits are.
        let other = ((bits >> 32) | 1) << 32;
        let status = if bits & 1 == 0 { WcStatus::SUCCESS } else { WcStatus::WR_FLUSH_ERR };
        Wc::new(near ^ other, status, 0, 0, self.qp_num)
    }
}

impl<P: Provider, const N: usize> Provider for Fault<P, N> {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn post(&mut self, mut chain: Chain<'_>) -> Result<(), PostError> {
        if self.dead.is_some() {
            return Err(PostError::Refused { taken: 0, errno: Errno::EIO });
        }
        let (count, answer) = self.examine(&chain);
        self.posts += 1;
        if count > 0 {
            self.take(&mut chain, count)?;
        }
        answer
    }

    fn poll(&mut self, into: &mut [Wc]) -> Result<usize, DeviceFault> {
        if let Some(fault) = self.dead {
            return Err(fault);
        }
        if let Some(fault) = self.plan.device_fault(self.polls) {
            self.dead = Some(fault);
            self.injected.device_faults += 1;
            return Err(fault);
        }
        let heard = self.hear();
        self.flush_doomed();
        let mut count = 0;
        let mut slots = into.iter_mut();
        let was_stale = core::mem::take(&mut self.was_stale);
        if let Some(bits) = self.plan.stale(self.polls)
            && !was_stale
            && let Some(slot) = slots.next()
        {
            self.was_stale = true;
            self.injected.stale += 1;
            *slot = self.stale(bits);
            count += 1;
        }
        for slot in slots {
            let Some(wc) = self.give() else {
                break;
            };
            *slot = wc;
            count += 1;
        }
        self.polls += 1;
        match heard {
            // What was heard before the fault comes first.
            Err(fault) if count == 0 && self.held.len() == 0 => {
                self.dead = Some(fault);
                Err(fault)
            }
            _ => Ok(count),
        }
    }

    fn abort(&mut self) {
        self.errored = true;
        self.inner.abort();
    }
}
