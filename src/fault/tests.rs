//! Each fault alone over the inline engine, and all of them by chance.
//!
//! Every request writes a cell of its own. A cell that has been written is
//! counted and emptied after every doorbell, so a request that is carried out
//! twice is seen by its second store.

extern crate std;

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering};
use std::vec;
use std::vec::Vec;

use super::*;
use crate::error::{Error, Why};
use crate::op::{Notify, OpContext, Word};
use crate::region::{RemoteRegion, Usage};
use crate::ring::{Completion, Outcome, Polls, Ring, RingConfig, WaitError};
use crate::soft::{InlineQp, QpConfig, SoftDevice};
use crate::{AlignedOffset, Remedy};

const CELLS: usize = 512;
const DEPTH: u32 = 32;

type FaultyRing<'d> = Ring<'static, Fault<InlineQp<'d>, 32>>;

struct Rig<'d> {
    ring: FaultyRing<'d>,
    region: RemoteRegion,
    memory: &'d [AtomicU64],
    stores: Vec<u32>,
    outcomes: Vec<(u64, Outcome)>,
}

fn with_rig<R>(plan: FaultPlan, test: impl FnOnce(Rig<'_>) -> R) -> R {
    let memory: Vec<AtomicU64> = (0..CELLS).map(|_| AtomicU64::new(0)).collect();
    let mut device = SoftDevice::new();
    let region = device.register(&memory, Usage::WRITE_DST).unwrap().remote();
    let qp = InlineQp::boxed(&device, QpConfig::default().with_depths(DEPTH, DEPTH)).unwrap();
    let fault = Fault::with_capacity(qp, plan).unwrap();
    let ring = Ring::boxed(fault, RingConfig::new(DEPTH, DEPTH)).unwrap();
    let stores = vec![0; CELLS];
    test(Rig { ring, region, memory: &memory, stores, outcomes: Vec::new() })
}

impl Rig<'_> {
    /// Stages a write to the cell that its context names.
    fn stage(&mut self, cell: u32, notify: Notify) -> Result<(), Error> {
        let target = self.region.target(AlignedOffset::of_word(cell)).unwrap();
        self.ring.atomic_write(target, Word::ne(1), notify, OpContext::new(cell.into()))?;
        Ok(())
    }

    fn stage_all(&mut self, cells: core::ops::Range<u32>, notify: Notify) {
        for cell in cells {
            self.stage(cell, notify).expect("room");
        }
    }

    fn doorbell(&mut self) -> Result<u32, Error> {
        let answer = self.ring.doorbell();
        self.harvest();
        answer
    }

    fn harvest(&mut self) {
        for (cell, count) in self.memory.iter().zip(&mut self.stores) {
            *count += u32::from(cell.swap(0, Ordering::Relaxed) != 0);
        }
    }

    fn poll(&mut self) -> Result<usize, Error> {
        let outcomes = &mut self.outcomes;
        self.ring.poll_retired(|completion| outcomes.push(seen(completion)))
    }

    /// Polls until the ring is idle, in a bounded number of polls.
    fn finish(&mut self) {
        for _ in 0..10_000 {
            if self.ring.is_idle() {
                break;
            }
            let _ = self.poll();
        }
        assert!(self.ring.is_idle(), "requests that never come back: {:?}", self.ring);
        self.harvest();
    }

    fn outcome(&self, cell: u64) -> Outcome {
        let of_cell: Vec<_> =
            self.outcomes.iter().filter(|(context, _)| *context == cell).collect();
        assert_eq!(of_cell.len(), 1, "cell {cell} came back {} times", of_cell.len());
        of_cell[0].1
    }

    fn injected(&self) -> Injected {
        self.ring.provider().injected()
    }
}

fn seen(completion: Completion) -> (u64, Outcome) {
    (completion.context.get(), completion.outcome)
}

#[test]
fn with_an_empty_plan_the_inner_provider_shows_through() {
    with_rig(FaultPlan::new(0), |mut rig| {
        for round in 0..8 {
            rig.stage_all(round * 32..(round + 1) * 32, Notify::OnError);
            assert_eq!(rig.doorbell(), Ok(32));
            rig.finish();
        }
        assert_eq!(rig.stores[..256], [1; 256]);
        assert!((0..256).all(|cell| rig.outcome(cell) == Outcome::Confirmed));
        assert_eq!(rig.injected(), Injected::default());
        assert_eq!(rig.ring.provider().taken(), 256);
    });
}

#[test]
fn room_for_five_of_eight_is_posted_as_five_and_three() {
    with_rig(FaultPlan::new(0).refuse_at(5, Errno::ENOMEM), |mut rig| {
        rig.stage_all(0..8, Notify::Always);
        let full = Error::Full { remedy: Remedy::Poll { occupied: 8, depth: DEPTH } };
        assert_eq!(rig.doorbell(), Err(full));
        assert_eq!((rig.ring.in_flight(), rig.ring.staged()), (5, 3));
        assert_eq!(rig.stores[..9], [1, 1, 1, 1, 1, 0, 0, 0, 0]);
        assert_eq!(rig.doorbell(), Ok(3), "once");
        rig.finish();
        assert_eq!(rig.stores[..9], [1, 1, 1, 1, 1, 1, 1, 1, 0]);
        assert!((0..8).all(|cell| rig.outcome(cell) == Outcome::Confirmed));
        assert_eq!((rig.injected().refusals, rig.injected().duplicates), (1, 0));
    });
}

#[test]
fn a_refusal_repeats_as_often_as_planned_and_counts_over_posts() {
    with_rig(FaultPlan::new(0).refuse_times(6, Errno::EIO, 3), |mut rig| {
        rig.stage_all(0..4, Notify::OnError);
        assert_eq!(rig.doorbell(), Ok(4));
        rig.stage_all(4..8, Notify::Always);
        for _ in 0..3 {
            assert_eq!(rig.doorbell(), Err(Error::Provider(Errno::EIO)));
            assert_eq!((rig.ring.in_flight(), rig.ring.staged()), (6, 2));
        }
        assert_eq!(rig.doorbell(), Ok(2));
        rig.finish();
        assert_eq!(rig.stores[..9], [1, 1, 1, 1, 1, 1, 1, 1, 0]);
        assert_eq!(rig.injected().refusals, 3);
    });
}

#[test]
fn an_endless_refusal_never_ends() {
    with_rig(FaultPlan::new(0).refuse_times(0, Errno::ENOMEM, u32::MAX), |mut rig| {
        rig.stage_all(0..2, Notify::Always);
        for _ in 0..100 {
            // Nothing is in flight, so polling would not help.
            assert_eq!(rig.doorbell(), Err(Error::Provider(Errno::ENOMEM)));
        }
        assert_eq!(rig.stores[..2], [0, 0]);
        rig.ring.abandon();
        rig.finish();
        assert!((0..2).all(|cell| rig.outcome(cell) == Outcome::Unposted));
        let counters = rig.ring.counters();
        assert_eq!((counters.staged, counters.posted, counters.retired), (2, 0, 2));
    });
}

#[test]
fn a_post_in_doubt_kills_the_ring_and_its_prefix_was_carried_out() {
    with_rig(FaultPlan::new(0).unknown_at(4, 3, Errno::EIO), |mut rig| {
        rig.stage_all(0..8, Notify::Always);
        let why = Why::PostUnknown(Errno::EIO);
        assert_eq!(rig.doorbell(), Err(Error::Failed { why }));
        let outcomes = &mut rig.outcomes;
        let drained = rig.ring.drain(Polls(10), |completion| outcomes.push(seen(completion)));
        assert_eq!(drained, Err(WaitError::Ring(Error::Failed { why })));
        assert_eq!(rig.stores[..8], [1, 1, 1, 0, 0, 0, 0, 0]);
        for cell in 0..8 {
            let expected = if cell < 3 { Outcome::Confirmed } else { Outcome::Unknown };
            assert_eq!(rig.outcome(cell), expected, "{cell}");
        }
        assert_eq!(rig.injected().unknowns, 1);
    });
}

/// At every place in a chain, and at the border of two chains, where only a
/// completion that nobody asked for tells that the first chain is done.
#[test]
fn the_failing_request_and_those_behind_it_are_not_carried_out() {
    for at in 0..8u32 {
        let plan = FaultPlan::new(0).fail_at(at.into(), WcStatus::REM_ACCESS_ERR);
        with_rig(plan, |mut rig| {
            rig.stage_all(0..4, Notify::OnError);
            assert_eq!(rig.doorbell(), Ok(4));
            rig.stage_all(4..8, Notify::OnError);
            assert_eq!(rig.doorbell(), Ok(4));
            rig.finish();
            for cell in 0..8 {
                let (stores, outcome) = match cell {
                    _ if cell < at => (1, Outcome::Confirmed),
                    _ if cell == at => (0, Outcome::Failed(WcStatus::REM_ACCESS_ERR)),
                    _ => (0, Outcome::Unknown),
                };
                assert_eq!(rig.stores[cell as usize], stores, "stores to {cell}, {at} fails");
                assert_eq!(rig.outcome(cell.into()), outcome, "{cell}, {at} fails");
            }
            let status = WcStatus::REM_ACCESS_ERR;
            let why = Why::Completion { status, vendor_err: VENDOR_ERR };
            assert_eq!(rig.ring.failure(), Some(why));
            let injected = rig.injected();
            assert_eq!((injected.errors, injected.flushed), (1, u64::from(7 - at)));
            // Request 7 is signaled by the ring; of the others, none.
            assert_eq!(injected.swallowed, u64::from(at > 0), "{at} fails");
        });
    }
}

#[test]
fn what_is_posted_behind_a_failure_is_flushed() {
    // Straight to the provider: a ring posts nothing once it has failed.
    let plan = FaultPlan::new(0).fail_at(1, WcStatus::REM_OP_ERR).delay_at(1, 3);
    with_rig(plan, |mut rig| {
        rig.stage_all(0..2, Notify::Always);
        assert_eq!(rig.doorbell(), Ok(2));
        rig.stage_all(2..4, Notify::Always);
        assert_eq!(rig.doorbell(), Ok(2), "the error has not been polled yet");
        assert_eq!(rig.poll(), Ok(1));
        rig.finish();
        assert_eq!(rig.stores[..4], [1, 0, 0, 0]);
        assert_eq!(rig.outcome(1), Outcome::Failed(WcStatus::REM_OP_ERR));
        assert_eq!((rig.outcome(2), rig.outcome(3)), (Outcome::Unknown, Outcome::Unknown));
    });
}

#[test]
fn a_lost_acknowledgement_fails_a_request_that_was_carried_out() {
    for at in [0, 3, 4, 7] {
        let plan = FaultPlan::new(0).lose_ack_at(at, WcStatus::RETRY_EXC_ERR);
        with_rig(plan, |mut rig| {
            rig.stage_all(0..4, Notify::OnError);
            assert_eq!(rig.doorbell(), Ok(4));
            rig.stage_all(4..8, Notify::OnError);
            assert_eq!(rig.doorbell(), Ok(4));
            rig.finish();
            for cell in 0..8 {
                assert_eq!(rig.stores[cell as usize], u32::from(cell <= at), "{cell}");
                let outcome = rig.outcome(cell);
                match cell {
                    _ if cell < at => assert_eq!(outcome, Outcome::Confirmed),
                    _ if cell > at => assert_eq!(outcome, Outcome::Unknown),
                    _ => assert_eq!(outcome, Outcome::Failed(WcStatus::RETRY_EXC_ERR)),
                }
            }
        });
    }
}

#[test]
fn an_error_of_the_inner_provider_comes_before_a_planned_one() {
    with_rig(FaultPlan::new(0).fail_at(3, WcStatus::REM_OP_ERR), |mut rig| {
        rig.stage_all(0..1, Notify::OnError);
        let foreign = RemoteRegion::new(0x1000, 64, 0xbad, Usage::WRITE_DST);
        let target = foreign.target(AlignedOffset::ZERO).unwrap();
        rig.ring.atomic_write(target, Word::ne(1), Notify::OnError, OpContext::new(1)).unwrap();
        rig.stage_all(2..5, Notify::OnError);
        assert_eq!(rig.doorbell(), Ok(5));
        rig.finish();
        assert_eq!(rig.outcome(1), Outcome::Failed(WcStatus::REM_ACCESS_ERR));
        assert!((2..5).all(|cell| rig.outcome(cell) == Outcome::Unknown));
        assert_eq!((rig.injected().errors, rig.injected().flushed), (0, 2));
    });
}

#[test]
fn a_delayed_completion_holds_those_behind_it_back() {
    with_rig(FaultPlan::new(0).delay_at(1, 3), |mut rig| {
        rig.stage_all(0..3, Notify::Always);
        assert_eq!(rig.doorbell(), Ok(3));
        assert_eq!(rig.poll(), Ok(1));
        assert_eq!((rig.poll(), rig.poll()), (Ok(0), Ok(0)));
        assert_eq!(rig.poll(), Ok(2));
        assert_eq!(rig.outcomes.iter().map(|(cell, _)| *cell).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(rig.injected().delayed, 1);
    });
}

#[test]
fn a_slot_is_taken_until_its_completion_has_been_polled() {
    // The ring asks for no completion here but those of its own signals; what
    // the fault provider hears for itself must free no slot.
    let plan = FaultPlan::new(0).fail_at(8, WcStatus::REM_OP_ERR).delay_at(7, 5);
    with_rig(plan, |mut rig| {
        rig.stage_all(0..8, Notify::OnError);
        assert_eq!(rig.doorbell(), Ok(8));
        for _ in 0..5 {
            assert_eq!(rig.poll(), Ok(0));
        }
        rig.stage_all(8..32, Notify::OnError);
        assert_eq!(rig.doorbell(), Ok(24));
        assert_eq!(rig.ring.room(), 0);
        assert_eq!(rig.ring.provider().ledger.len(), 32);
        rig.finish();
        assert_eq!(rig.ring.provider().ledger.len(), 0);
    });
}

/// Lets every chain pass twice: what a sender does that retries from the head.
struct Twice<P> {
    inner: P,
    second: Cell<Option<PostError>>,
}

impl<P: Provider> Provider for Twice<P> {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn post(&mut self, mut chain: Chain<'_>) -> Result<(), PostError> {
        let first = chain.with_prefix(chain.len(), false, |all| self.inner.post(all));
        self.second.set(self.inner.post(chain).err());
        first
    }

    fn poll(&mut self, into: &mut [Wc]) -> Result<usize, DeviceFault> {
        self.inner.poll(into)
    }
}

#[test]
fn a_request_in_flight_is_refused_and_counted_and_not_carried_out_again() {
    let memory = [const { AtomicU64::new(0) }; 4];
    let mut device = SoftDevice::new();
    let region = device.register(&memory, Usage::WRITE_DST).unwrap().remote();
    let qp = InlineQp::boxed(&device, QpConfig::default().with_depths(8, 8)).unwrap();
    let fault = Fault::<_, 8>::with_capacity(qp, FaultPlan::new(0).refuse_at(2, Errno::EAGAIN));
    let twice = Twice { inner: fault.unwrap(), second: Cell::new(None) };
    let mut ring = Ring::boxed(twice, RingConfig::new(8, 8)).unwrap();
    for cell in 0..4 {
        let target = region.target(AlignedOffset::of_word(cell)).unwrap();
        ring.atomic_write(target, Word::ne(1), Notify::Always, OpContext::new(0)).unwrap();
    }
    assert!(matches!(ring.doorbell(), Err(Error::Full { .. })));
    let twice = ring.provider();
    assert_eq!(
        twice.second.get(),
        Some(PostError::Refused { taken: 0, errno: Errno::EINVAL }),
        "the head of the chain again"
    );
    assert_eq!((twice.inner.injected().duplicates, twice.inner.taken()), (1, 2));
    assert_eq!(memory.each_ref().map(|cell| cell.load(Ordering::Relaxed)), [1, 1, 0, 0]);
}

#[test]
fn garbage_fills_what_an_error_completion_leaves_undefined() {
    let plan = FaultPlan::new(9).fail_at(1, WcStatus::REM_OP_ERR).with_garbage();
    with_rig(plan, |mut rig| {
        rig.stage_all(0..3, Notify::Always);
        assert_eq!(rig.doorbell(), Ok(3));
        let mut wcs = [Wc::ZERO; 3];
        assert_eq!(rig.ring.provider_mut().poll(&mut wcs), Ok(3));
        let [good, failed, flushed] = wcs;
        assert_eq!((good.status, good.byte_len, good.imm_data), (WcStatus::SUCCESS, 8, 0));
        assert_eq!((failed.status, failed.vendor_err), (WcStatus::REM_OP_ERR, VENDOR_ERR));
        assert_eq!((flushed.status, flushed.vendor_err), (WcStatus::WR_FLUSH_ERR, 0));
        for wc in [failed, flushed] {
            assert_eq!((wc.wr_id >> 32, wc.qp_num), (good.wr_id >> 32, good.qp_num));
            let fields =
                [wc.opcode, wc.byte_len, wc.imm_data, wc.src_qp, wc.wc_flags, wc.slid.into()];
            assert!(fields.iter().all(|field| *field != 0), "{wc:?}");
        }
        assert_ne!(failed.opcode, flushed.opcode);
        assert_eq!(rig.injected().garbled, 2);
    });
}

#[test]
fn a_ring_reads_nothing_of_an_error_completion_that_is_undefined() {
    let outcomes = |plan: FaultPlan| {
        with_rig(plan.fail_at(2, WcStatus::REM_OP_ERR), |mut rig| {
            rig.stage_all(0..6, Notify::Always);
            assert_eq!(rig.doorbell(), Ok(6));
            rig.finish();
            (rig.outcomes, rig.ring.failure(), rig.ring.counters())
        })
    };
    assert_eq!(outcomes(FaultPlan::new(1)), outcomes(FaultPlan::new(1).with_garbage()));
}

#[test]
fn a_stale_completion_retires_nothing() {
    with_rig(FaultPlan::new(3).stale_at(0).stale_at(1).stale_at(3), |mut rig| {
        rig.stage_all(0..2, Notify::OnError);
        assert_eq!(rig.doorbell(), Ok(2));
        assert_eq!(rig.poll(), Ok(0));
        assert_eq!((rig.ring.in_flight(), rig.ring.counters().stale), (2, 1));
        assert_eq!(rig.poll(), Ok(0));
        assert_eq!(rig.injected().stale, 1, "not twice in a row");
        rig.stage_all(2..3, Notify::Always);
        assert_eq!(rig.doorbell(), Ok(1));
        assert_eq!((rig.poll(), rig.poll()), (Ok(3), Ok(0)));
        assert_eq!((rig.injected().stale, rig.ring.counters().stale), (2, 2));
        assert_eq!(rig.ring.failure(), None);
    });
}

#[test]
fn a_device_fault_gives_everything_back_as_unknown() {
    let plan = FaultPlan::new(0).device_fault_at(1, DeviceFault::Port);
    with_rig(plan, |mut rig| {
        rig.stage_all(0..2, Notify::Always);
        assert_eq!(rig.doorbell(), Ok(2));
        assert_eq!(rig.poll(), Ok(2));
        rig.stage_all(2..4, Notify::Always);
        assert_eq!(rig.doorbell(), Ok(2));
        rig.stage_all(4..5, Notify::Always);
        rig.finish();
        assert_eq!(rig.ring.failure(), Some(Why::Device(DeviceFault::Port)));
        assert_eq!((rig.outcome(0), rig.outcome(1)), (Outcome::Confirmed, Outcome::Confirmed));
        assert_eq!((rig.outcome(2), rig.outcome(3)), (Outcome::Unknown, Outcome::Unknown));
        assert_eq!(rig.outcome(4), Outcome::Unposted);
        assert_eq!(rig.injected().device_faults, 1);
        let mut wcs = [Wc::ZERO; 4];
        assert_eq!(rig.ring.provider_mut().poll(&mut wcs), Err(DeviceFault::Port), "for good");
    });
}

#[test]
fn construction_refuses_what_cannot_be() {
    let device = SoftDevice::new();
    let build = |depth, plan| {
        let qp = InlineQp::boxed(&device, QpConfig::default().with_depths(depth, 64)).unwrap();
        Fault::<_, 32>::with_capacity(qp, plan).map(|_| ())
    };
    let none = FaultPlan::new(0);
    assert_eq!(build(32, none.clone()), Ok(()));
    assert_eq!(build(33, none.clone()), Err(PlanError::TooDeep { sq_depth: 33, max: 32 }));
    let mut many = none.clone();
    for poll in 0..MAX_PLANNED as u64 {
        many = many.stale_at(poll);
    }
    assert_eq!(build(32, many.clone()), Ok(()));
    let surplus = PlanError::TooManyFaults { max: MAX_PLANNED };
    assert_eq!(build(32, many.stale_at(99)), Err(surplus));
    let success = none.clone().fail_at(3, WcStatus::SUCCESS);
    assert_eq!(build(32, success), Err(PlanError::Success { request: 3 }));
    let status = WcStatus::REM_ACCESS_ERR;
    assert_eq!(
        build(32, none.lose_ack_at(4, status)),
        Err(PlanError::NotExecuted { request: 4, status })
    );
}

/// One run under chance: what came back of each request, and what went wrong.
fn run_by_chance(seed: u64, rates: Rates) -> (Vec<(u64, Outcome)>, Injected) {
    with_rig(FaultPlan::new(seed).with_rates(rates).with_garbage(), |mut rig| {
        let mut staged = 0;
        for step in 0..300u64 {
            for _ in 0..seed.wrapping_add(step * 7) % 5 {
                let notify = if staged % 3 == 0 { Notify::Always } else { Notify::OnError };
                if (staged as usize) < CELLS && rig.stage(staged, notify).is_ok() {
                    staged += 1;
                }
            }
            let _ = rig.doorbell();
            let _ = rig.poll();
        }
        // A success at the end confirms all; else the ring is given up.
        for _ in 0..200 {
            if rig.ring.is_idle() {
                break;
            }
            if (staged as usize) < CELLS && rig.stage(staged, Notify::Always).is_ok() {
                staged += 1;
            }
            let _ = rig.doorbell();
            let _ = rig.poll();
        }
        if !rig.ring.is_idle() {
            rig.ring.abandon();
            let _ = rig.poll();
        }
        assert!(rig.ring.is_idle(), "seed {seed}: {:?}", rig.ring);
        rig.harvest();
        check_by_chance(&rig, seed, staged);
        let injected = rig.injected();
        (rig.outcomes, injected)
    })
}

fn check_by_chance(rig: &Rig<'_>, seed: u64, staged: u32) {
    let mut told: Vec<_> = rig.outcomes.iter().map(|(context, _)| *context).collect();
    told.sort_unstable();
    assert!(told.iter().copied().eq(0..staged.into()), "seed {seed}: not each once: {told:?}");
    for (context, outcome) in &rig.outcomes {
        let stores = rig.stores[*context as usize];
        let legal = match outcome {
            Outcome::Confirmed => stores == 1,
            Outcome::Failed(status) if !status.may_have_executed() => stores == 0,
            Outcome::Unposted => stores == 0,
            _ => stores <= 1,
        };
        assert!(legal, "seed {seed}: {context} is {outcome:?} after {stores} stores");
    }
    let injected = rig.injected();
    assert_eq!(injected.duplicates, 0, "seed {seed}: something was posted twice");
    assert_eq!(injected.stale, rig.ring.counters().stale, "seed {seed}");
    assert_eq!(rig.ring.counters().staged, rig.ring.counters().retired, "seed {seed}");
}

#[test]
fn under_every_fault_by_chance_each_context_comes_back_once_and_true() {
    let mut total = Injected::default();
    for seed in 0..400 {
        let rates = Rates {
            refuse_per_1024: [0, 30, 300][seed as usize % 3],
            error_per_1024: [0, 4][seed as usize / 3 % 2],
            unknown_per_1024: [0, 0, 8][seed as usize / 5 % 3],
            delay_per_1024: [0, 200][seed as usize / 2 % 2],
            max_delay: 20,
            stale_per_1024: [0, 100, 1024][seed as usize / 7 % 3],
            device_fault_per_1024: [0, 0, 0, 6][seed as usize / 11 % 4],
        };
        let (_, injected) = run_by_chance(seed, rates);
        total.refusals += injected.refusals;
        total.errors += injected.errors;
        total.unknowns += injected.unknowns;
        total.delayed += injected.delayed;
        total.stale += injected.stale;
        total.device_faults += injected.device_faults;
        total.garbled += injected.garbled;
        total.swallowed += injected.swallowed;
    }
    let each = [
        total.refusals,
        total.errors,
        total.unknowns,
        total.delayed,
        total.stale,
        total.device_faults,
        total.garbled,
        total.swallowed,
    ];
    assert!(each.iter().all(|count| *count > 10), "hardly tested: {total:?}");
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_one_another() {
    let rates = Rates { refuse_per_1024: 50, error_per_1024: 3, ..Rates::NONE };
    assert_eq!(run_by_chance(5, rates), run_by_chance(5, rates));
    assert_ne!(run_by_chance(5, rates), run_by_chance(6, rates));
}
