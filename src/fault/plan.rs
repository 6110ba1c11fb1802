//! What goes wrong, and when.

use core::fmt;

use arrayvec::ArrayVec;

use crate::error::{DeviceFault, Errno, WcStatus};
use crate::fault::dice::{Dice, Purpose};

/// How many faults a plan can set for a given moment.
pub const MAX_PLANNED: usize = 16;

/// What goes wrong, and when.
///
/// Faults are set for a given request or poll, or left to chance by
/// [`Rates`]; the same seed gives the same faults. Requests are counted from 0
/// by how many the provider has *taken* before, over all posts; a request that
/// was refused and comes again still has its number. Polls are counted from 0
/// too.
///
/// ```
/// use farword::fault::{FaultPlan, Rates};
/// use farword::{Errno, WcStatus};
///
/// // Room for five; the tenth request fails at the peer.
/// let plan = FaultPlan::new(1)
///     .refuse_at(5, Errno::ENOMEM)
///     .fail_at(9, WcStatus::REM_ACCESS_ERR)
///     .with_garbage();
/// // Any post may be cut short, and completions dawdle for up to 3 polls.
/// let chance = FaultPlan::new(2).with_rates(Rates {
///     refuse_per_1024: 64,
///     delay_per_1024: 512,
///     max_delay: 3,
///     ..Rates::NONE
/// });
/// assert_ne!(plan.seed(), chance.seed());
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct FaultPlan {
    seed: u64,
    dice: Dice,
    rates: Rates,
    garbage: bool,
    planned: ArrayVec<Planned, MAX_PLANNED>,
    /// The first call that asked for what cannot be; told of when the plan is
    /// used.
    broken: Option<PlanError>,
}

/// What is wrong with a plan, or with the provider it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanError {
    /// The provider's send queue is deeper than the ledger of what is in flight.
    TooDeep {
        /// The provider's depth.
        sq_depth: u32,
        /// The ledger's.
        max: usize,
    },
    /// More faults for given moments than a plan holds.
    TooManyFaults {
        /// How many it holds.
        max: usize,
    },
    /// A request cannot fail with success.
    Success {
        /// The request.
        request: u64,
    },
    /// A request that completes with this status was not carried out, so it
    /// cannot be that only its acknowledgement was lost.
    NotExecuted {
        /// The request.
        request: u64,
        /// The status.
        status: WcStatus,
    },
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            PlanError::TooDeep { sq_depth, max } => {
                write!(f, "a send queue of {sq_depth} requests: this fault provider follows {max}")
            }
            PlanError::TooManyFaults { max } => {
                write!(f, "more than {max} planned faults: use rates for more")
            }
            PlanError::Success { request } => {
                write!(f, "request {request} cannot fail with success")
            }
            PlanError::NotExecuted { request, status } => write!(
                f,
                "request {request} cannot be carried out and complete with {status}, \
                 which says that it was not"
            ),
        }
    }
}

impl core::error::Error for PlanError {}

/// How often each fault comes by chance, in 1024 cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Rates {
    /// A request is refused, with a random errno; a later post may take it.
    pub refuse_per_1024: u16,
    /// A request fails, with a random status.
    pub error_per_1024: u16,
    /// A post of a random prefix is answered with
    /// [`PostError::Unknown`](crate::PostError::Unknown).
    pub unknown_per_1024: u16,
    /// A completion is held back.
    pub delay_per_1024: u16,
    /// For how many polls it is held back at most.
    pub max_delay: u16,
    /// A poll gives a completion of another generation.
    pub stale_per_1024: u16,
    /// A poll fails, and every later one.
    pub device_fault_per_1024: u16,
}

impl Rates {
    /// Nothing by chance.
    pub const NONE: Rates = Rates {
        refuse_per_1024: 0,
        error_per_1024: 0,
        unknown_per_1024: 0,
        delay_per_1024: 0,
        max_delay: 0,
        stale_per_1024: 0,
        device_fault_per_1024: 0,
    };
}

/// One fault at its moment.
#[derive(Clone, Copy, Debug)]
struct Planned {
    at: u64,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Refuse { errno: Errno, times: u32 },
    Fail(Fate),
    Unknown { errno: Errno, taken: u32 },
    Delay { polls: u32 },
    Stale,
    DeviceFault(DeviceFault),
    Spent,
}

/// The end of the one request that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fate {
    pub(super) status: WcStatus,
    /// Whether it is carried out all the same: the acknowledgement was lost.
    pub(super) executed: bool,
}

impl FaultPlan {
    /// Nothing goes wrong, unless it is added.
    pub const fn new(seed: u64) -> Self {
        FaultPlan {
            seed,
            dice: Dice::new(seed),
            rates: Rates::NONE,
            garbage: false,
            planned: ArrayVec::new_const(),
            broken: None,
        }
    }

    /// The post that reaches request `request` takes those before it and
    /// refuses the rest. Once: the next post takes it.
    pub fn refuse_at(self, request: u64, errno: Errno) -> Self {
        self.refuse_times(request, errno, 1)
    }

    /// The same for so many posts; `u32::MAX` is for ever.
    pub fn refuse_times(self, request: u64, errno: Errno, times: u32) -> Self {
        self.with(request, What::Refuse { errno, times })
    }

    /// The post that holds request `request` takes its first `taken` requests
    /// (all of them, if there are fewer) and says that it does not know. Once.
    pub fn unknown_at(self, request: u64, taken: u32, errno: Errno) -> Self {
        self.with(request, What::Unknown { errno, taken })
    }

    /// Request `request` is not carried out and completes with `status`; those
    /// before it are carried out, and those behind it are flushed. The queue
    /// pair is in error from then on, so only the first such request counts.
    pub fn fail_at(self, request: u64, status: WcStatus) -> Self {
        self.refusing_success(request, status)
            .with(request, What::Fail(Fate { status, executed: false }))
    }

    /// Request `request` is carried out and completes with `status` all the
    /// same: the request arrived, its acknowledgement did not. Otherwise as
    /// [`fail_at`](Self::fail_at).
    pub fn lose_ack_at(mut self, request: u64, status: WcStatus) -> Self {
        if !status.may_have_executed() {
            self.broken = self.broken.or(Some(PlanError::NotExecuted { request, status }));
        }
        self.refusing_success(request, status)
            .with(request, What::Fail(Fate { status, executed: true }))
    }

    /// The completion of request `request`, if it gives one, is held back for
    /// so many polls, and those behind it with it.
    pub fn delay_at(self, request: u64, polls: u32) -> Self {
        self.with(request, What::Delay { polls })
    }

    /// Poll `poll` gives a completion of another generation: its number is that
    /// of the oldest request in flight, its upper half is not. No two polls in a
    /// row do that, so that whoever polls until nothing comes gets there.
    pub fn stale_at(self, poll: u64) -> Self {
        self.with(poll, What::Stale)
    }

    /// Poll `poll` fails, and every later one.
    pub fn device_fault_at(self, poll: u64, fault: DeviceFault) -> Self {
        self.with(poll, What::DeviceFault(fault))
    }

    /// Every error completion has garbage in the fields that the verbs manual
    /// leaves undefined: all but `wr_id`, `status`, `vendor_err` and `qp_num`.
    pub fn with_garbage(mut self) -> Self {
        self.garbage = true;
        self
    }

    /// With faults by chance.
    pub fn with_rates(mut self, rates: Rates) -> Self {
        self.rates = rates;
        self
    }

    /// The seed.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    fn with(mut self, at: u64, what: What) -> Self {
        if self.planned.try_push(Planned { at, what }).is_err() {
            self.broken = self.broken.or(Some(PlanError::TooManyFaults { max: MAX_PLANNED }));
        }
        self
    }

    fn refusing_success(mut self, request: u64, status: WcStatus) -> Self {
        if status == WcStatus::SUCCESS {
            self.broken = self.broken.or(Some(PlanError::Success { request }));
        }
        self
    }

    /// Whether all that was asked for can be.
    pub(super) fn check(&self) -> Result<(), PlanError> {
        self.broken.map_or(Ok(()), Err)
    }

    /// How request `number` fails, if it does. It always answers the same, so
    /// that what comes can be known when the request before it is posted.
    pub(super) fn fate(&self, number: u64) -> Option<Fate> {
        let planned = self.planned_at(number).find_map(|what| match what {
            What::Fail(fate) => Some(*fate),
            _ => None,
        });
        planned.or_else(|| {
            let bits = self.dice.chance(Purpose::Fail, number, self.rates.error_per_1024)?;
            let status = STATUSES[bits as usize % STATUSES.len()];
            Some(Fate { status, executed: status.may_have_executed() && bits >> 32 & 1 == 1 })
        })
    }

    /// Whether request `number` is refused at this, the `attempt`-th, look at
    /// any request.
    pub(super) fn refuses(&mut self, number: u64, attempt: u64) -> Option<Errno> {
        for planned in self.planned.iter_mut().filter(|planned| planned.at == number) {
            if let What::Refuse { errno, times } = &mut planned.what
                && *times > 0
            {
                *times = if *times == u32::MAX { *times } else { *times - 1 };
                return Some(*errno);
            }
        }
        let bits = self.dice.chance(Purpose::Refuse, attempt, self.rates.refuse_per_1024)?;
        Some(ERRNOS[bits as usize % ERRNOS.len()])
    }

    /// Whether this, the `post`-th, post of `count` requests from `first` on is
    /// answered with `Unknown`, and how many of them are taken.
    pub(super) fn unknown(&mut self, first: u64, count: u32, post: u64) -> Option<(u32, Errno)> {
        for planned in &mut self.planned {
            if let What::Unknown { errno, taken } = planned.what
                && planned.at.wrapping_sub(first) < u64::from(count)
            {
                planned.what = What::Spent;
                return Some((taken.min(count), errno));
            }
        }
        let bits = self.dice.chance(Purpose::Unknown, post, self.rates.unknown_per_1024)?;
        let taken = (bits % (u64::from(count) + 1)) as u32;
        Some((taken, ERRNOS[(bits >> 32) as usize % ERRNOS.len()]))
    }

    /// For how many polls the completion of request `number` is held back.
    pub(super) fn delay(&self, number: u64) -> u64 {
        let planned: u64 = self
            .planned_at(number)
            .map(|what| if let What::Delay { polls } = what { u64::from(*polls) } else { 0 })
            .sum();
        let chance = self.dice.chance(Purpose::Delay, number, self.rates.delay_per_1024);
        planned + chance.map_or(0, |bits| bits % (u64::from(self.rates.max_delay) + 1))
    }

    /// Whether this poll gives a stale completion, and random bits for it.
    pub(super) fn stale(&self, poll: u64) -> Option<u64> {
        if self.planned_at(poll).any(|what| matches!(what, What::Stale)) {
            return Some(self.dice.throw(Purpose::Stale, poll));
        }
        self.dice.chance(Purpose::Stale, poll, self.rates.stale_per_1024)
    }

    /// Whether this poll fails for good.
    pub(super) fn device_fault(&self, poll: u64) -> Option<DeviceFault> {
        let planned = self.planned_at(poll).find_map(|what| match what {
            What::DeviceFault(fault) => Some(*fault),
            _ => None,
        });
        let rate = self.rates.device_fault_per_1024;
        planned.or_else(|| {
            let bits = self.dice.chance(Purpose::DeviceFault, poll, rate)?;
            Some(DEVICE_FAULTS[bits as usize % DEVICE_FAULTS.len()])
        })
    }

    /// Random bits for the `count`-th garbled completion, if there are any.
    pub(super) fn garbage(&self, count: u64) -> Option<u64> {
        self.garbage.then(|| self.dice.throw(Purpose::Garbage, count))
    }

    fn planned_at(&self, at: u64) -> impl Iterator<Item = &What> {
        self.planned.iter().filter(move |planned| planned.at == at).map(|planned| &planned.what)
    }
}

/// The errnos of posts that fail by chance: of a full queue, and others.
const ERRNOS: [Errno; 5] = [Errno::ENOMEM, Errno::EAGAIN, Errno::ENOSPC, Errno::EIO, Errno::EINVAL];

/// The statuses of requests that fail by chance.
const STATUSES: [WcStatus; 8] = [
    WcStatus::RETRY_EXC_ERR,
    WcStatus::REM_ACCESS_ERR,
    WcStatus::RNR_RETRY_EXC_ERR,
    WcStatus::REM_OP_ERR,
    WcStatus::REM_INV_REQ_ERR,
    WcStatus::LOC_PROT_ERR,
    WcStatus::LOC_QP_OP_ERR,
    WcStatus::GENERAL_ERR,
];

const DEVICE_FAULTS: [DeviceFault; 6] = [
    DeviceFault::Poll(Errno::EIO),
    DeviceFault::CompletionQueue,
    DeviceFault::QueuePair,
    DeviceFault::Device,
    DeviceFault::Port,
    DeviceFault::Connection,
];
