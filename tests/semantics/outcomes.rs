//! What the caller is told: every context once, with its true outcome.

use core::cell::RefCell;
use std::rc::Rc;

use arrayvec::ArrayVec;
use farword::{
    Completion, Error, Notify, Op, OpContext, Outcome, Provider, RemoteRegion, Ring, Target,
    WaitError, WcStatus, Why, Word,
};

use crate::support::wrap::Reused;
use crate::support::{
    Fabric, Told, ctx, drained, patience, poll_until, polled, retired, ring, told,
};

/// A target that the peer's device refuses.
fn bad(fabric: &impl Fabric) -> Target {
    let whole = fabric.remote();
    let forged = RemoteRegion::new(whole.base(), whole.size(), !whole.rkey(), whole.usage());
    forged.target(farword::AlignedOffset::ZERO).unwrap()
}

fn stage<P: Provider>(ring: &mut Ring<'_, P>, target: Target, at: u64, notify: Notify) {
    ring.atomic_write(target, Word::ne(at + 1), notify, ctx(at)).unwrap();
}

pub fn contexts_may_repeat_be_zero_and_be_pointers(fabric: &impl Fabric) {
    let mut ring = fabric.ring(16, 16);
    let transaction = String::from("a transaction");
    let contexts = [
        OpContext::new(0),
        OpContext::new(0),
        OpContext::from_ptr(&raw const transaction),
        OpContext::new(u64::MAX),
        OpContext::from_ptr(&raw const transaction),
        OpContext::new(7),
        OpContext::new(7),
    ];
    for context in contexts {
        ring.atomic_write(fabric.word(0), Word::ne(1), Notify::Always, context).unwrap();
    }
    ring.doorbell().unwrap();
    let all = polled(&mut ring, contexts.len());
    assert_eq!(all.iter().map(|completion| completion.context).collect::<Vec<_>>(), contexts);
    assert_eq!(all[2].context.as_ptr::<String>(), &raw const transaction);
    assert!(all.iter().all(|completion| completion.op == Op::AtomicWrite));
    let tickets: Vec<_> = all.iter().map(|completion| completion.ticket.get()).collect();
    assert_eq!(tickets, (0..7).collect::<Vec<_>>());
}

/// CASES 5, the success: 7 unsignaled and 1 signaled.
pub fn one_completion_confirms_eight(fabric: &impl Fabric) {
    let mut ring = fabric.ring(64, 16);
    let tickets: Vec<_> = (0..8)
        .map(|at| {
            let notify = if at == 7 { Notify::Always } else { Notify::OnError };
            let word = Word::ne(u64::from(at) + 1);
            ring.atomic_write(fabric.word(at), word, notify, ctx(at.into())).unwrap()
        })
        .collect();
    ring.doorbell().unwrap();
    let all = polled(&mut ring, 1);
    assert_eq!((all[0].context, all[0].confirms), (ctx(7), 8));
    assert!(tickets.iter().all(|ticket| ring.is_confirmed(*ticket)));
    assert_eq!((ring.counters().completions, ring.confirmed().get()), (1, 8));
}

/// The ring's own write, which a wait may post, is none of the caller's.
pub fn confirms_counts_what_the_caller_staged_and_nothing_else(fabric: &impl Fabric) {
    let mut ring = fabric.ring(64, 16);
    let word = Word::ne(1);
    let silent = ring.atomic_write(fabric.word(0), word, Notify::OnError, ctx(0)).unwrap();
    ring.doorbell().unwrap();
    ring.wait(silent, patience(), |_| panic!("it is silent")).unwrap();
    assert_eq!(ring.counters().posted, 2, "the ring posted one of its own");
    stage(&mut ring, fabric.word(1), 1, Notify::Always);
    ring.doorbell().unwrap();
    assert_eq!(polled(&mut ring, 1)[0].confirms, 2, "the silent one, and itself");
    stage(&mut ring, fabric.word(1), 2, Notify::Always);
    ring.doorbell().unwrap();
    assert_eq!(polled(&mut ring, 1)[0].confirms, 1);
}

pub fn each_retired_request_confirms_itself(fabric: &impl Fabric) {
    let mut ring = fabric.ring(64, 16);
    for at in 0..8 {
        let notify = if at == 7 { Notify::Always } else { Notify::OnError };
        stage(&mut ring, fabric.word(0), at, notify);
    }
    ring.doorbell().unwrap();
    let mut all: Vec<Completion> = Vec::new();
    poll_until(&mut ring, |ring| {
        ring.poll_retired(|completion| all.push(completion))?;
        Ok(all.len() == 8)
    });
    for (at, completion) in all.iter().enumerate() {
        assert_eq!((completion.context, completion.confirms), (ctx(at as u64), 1));
    }
}

/// CASES 5, the failure: 1 and 2 confirmed, 3 failed, the rest flushed.
pub fn the_third_of_eight_fails(fabric: &impl Fabric) {
    let mut ring = fabric.ring(64, 16);
    for at in 0..8 {
        let target = if at == 2 { bad(fabric) } else { fabric.word(at) };
        stage(&mut ring, target, at.into(), Notify::OnError);
    }
    ring.doorbell().unwrap();
    let mut expected = told(0..2, Outcome::Confirmed);
    expected.push(Told(2, Outcome::Failed(WcStatus::REM_ACCESS_ERR)));
    expected.extend(told(3..8, Outcome::Unknown));
    assert_eq!(retired(&mut ring, 8), expected);
    assert_eq!(ring.confirmed().get(), 2);
    let seen: Vec<_> = (0..8).map(|at| fabric.seen(at)).collect();
    assert_eq!(seen, [1, 2, 0, 0, 0, 0, 0, 0]);
    let why = Why::Completion { status: WcStatus::REM_ACCESS_ERR, vendor_err: 0 };
    match (ring.failure(), ring.poll_with(|_| {})) {
        (Some(Why::Completion { status, .. }), Err(Error::Failed { .. })) => {
            assert_eq!(status, WcStatus::REM_ACCESS_ERR);
        }
        other => panic!("{other:?} where {why:?} was due"),
    }
}

const COUNT: u64 = 12;
const FAILS_AT: u64 = 5;

/// Twelve requests, the sixth of which fails, and two that stay staged.
fn failing<F: Fabric>(fabric: &F) -> Ring<'_, F::Qp> {
    let mut ring = fabric.ring(64, 16);
    for at in 0..COUNT {
        let target = if at == FAILS_AT { bad(fabric) } else { fabric.word(at as u32) };
        let notify = if at % 3 == 0 { Notify::Always } else { Notify::OnError };
        stage(&mut ring, target, at, notify);
    }
    ring.doorbell().unwrap();
    for at in COUNT..COUNT + 2 {
        stage(&mut ring, fabric.word(at as u32), at, Notify::OnError);
    }
    ring
}

/// What is told of them; before the failure, silent successes only if `all`.
fn expected_of_failing(all: bool) -> Vec<Told> {
    let heard = |told: &Told| all || told.0.is_multiple_of(3);
    let mut expected: Vec<_> =
        told(0..FAILS_AT, Outcome::Confirmed).into_iter().filter(heard).collect();
    expected.push(Told(FAILS_AT, Outcome::Failed(WcStatus::REM_ACCESS_ERR)));
    expected.extend(told(FAILS_AT + 1..COUNT, Outcome::Unknown));
    expected.extend(told(COUNT..COUNT + 2, Outcome::Unposted));
    expected
}

pub fn a_failure_gives_each_context_back_once_through_poll(fabric: &impl Fabric) {
    let mut ring = failing(fabric);
    let mut all: Vec<Completion> = Vec::new();
    let mut few = ArrayVec::<Completion, 3>::new();
    poll_until(&mut ring, |ring| {
        let count = ring.poll(&mut few)?;
        assert_eq!(count, few.len());
        all.extend(few.drain(..));
        Ok(ring.is_idle())
    });
    assert_eq!(all.iter().copied().map(Told::from).collect::<Vec<_>>(), expected_of_failing(false));
    let confirms: u64 = all.iter().map(|completion| completion.confirms).sum();
    assert_eq!(confirms, FAILS_AT, "the silent ones before the failure are confirmed too");
    assert!(matches!(ring.poll(&mut few), Err(Error::Failed { .. })));
}

/// A poll that has room for nothing takes nothing, and says so of a dead ring as
/// any other poll does: once all has been given back, and not before.
pub fn a_poll_without_room_fails_when_any_other_would(fabric: &impl Fabric) {
    let mut ring = failing(fabric);
    let mut full = ArrayVec::<Completion, 0>::new();
    assert_eq!(ring.poll(&mut full), Ok(0), "alive, for all that it knows");
    poll_until(&mut ring, |ring| {
        let mut one = ArrayVec::<Completion, 1>::new();
        if ring.poll(&mut one)? == 1 && !ring.is_idle() {
            assert_eq!(ring.poll(&mut one), Ok(0), "{} are still to come", ring.in_flight());
        }
        Ok(ring.is_idle())
    });
    assert!(matches!(ring.poll(&mut full), Err(Error::Failed { .. })));
}

pub fn a_failure_gives_each_context_back_once_through_poll_retired(fabric: &impl Fabric) {
    let mut ring = failing(fabric);
    assert_eq!(retired(&mut ring, COUNT as usize + 2), expected_of_failing(true));
    assert!(matches!(ring.poll_retired(|_| {}), Err(Error::Failed { .. })));
}

pub fn a_failure_gives_each_context_back_once_through_drain(fabric: &impl Fabric) {
    let mut ring = failing(fabric);
    // The failure may be known before the drain begins or not: then the two
    // that stayed staged are posted by it, and flushed.
    poll_until(&mut ring, |ring| Ok(fabric.seen(4) == 5 && ring.in_flight() > 0));
    let mut first = ArrayVec::<Completion, 3>::new();
    let mut all = Vec::new();
    poll_until(&mut ring, |ring| {
        ring.poll(&mut first)?;
        all.extend(first.drain(..).map(Told::from));
        Ok(ring.failure().is_some())
    });
    let (rest, end) = drained(&mut ring);
    all.extend(rest);
    assert_eq!(all, expected_of_failing(false));
    assert!(matches!(end, Err(WaitError::Ring(Error::Failed { .. }))));
    assert_eq!(drained(&mut ring), (vec![], Ok(())).max_end(end), "and nothing twice");
}

/// The end of a drain that gave nothing.
trait MaxEnd {
    fn max_end(self, end: Result<(), WaitError>) -> Self;
}

impl MaxEnd for (Vec<Told>, Result<(), WaitError>) {
    fn max_end(self, end: Result<(), WaitError>) -> Self {
        (self.0, end)
    }
}

pub fn staged_and_never_posted_is_reported_so(fabric: &impl Fabric) {
    let mut ring = fabric.ring(16, 8);
    stage(&mut ring, bad(fabric), 0, Notify::OnError);
    ring.doorbell().unwrap();
    for at in 1..4 {
        stage(&mut ring, fabric.word(at as u32), at, Notify::Always);
    }
    let mut expected = vec![Told(0, Outcome::Failed(WcStatus::REM_ACCESS_ERR))];
    expected.extend(told(1..4, Outcome::Unposted));
    assert_eq!(polled(&mut ring, 4).into_iter().map(Told::from).collect::<Vec<_>>(), expected);
    assert_eq!((1..4).map(|at| fabric.seen(at)).sum::<u64>(), 0, "and was not carried out");
}

/// Guarantee 3.
pub fn an_always_completion_means_that_all_before_it_succeeded(fabric: &impl Fabric) {
    let mut ring = fabric.ring(32, 8);
    for round in 0..20u64 {
        for at in 0..7 {
            let word = Word::ne(100 * round + at);
            ring.atomic_write(fabric.word(at as u32), word, Notify::OnError, ctx(at)).unwrap();
        }
        stage(&mut ring, fabric.word(7), round, Notify::Always);
        ring.doorbell().unwrap();
        polled(&mut ring, 1);
        for at in 0..7 {
            assert_eq!(fabric.seen(at as usize), 100 * round + at, "round {round}");
        }
    }
}

/// CASES 9: a queue pair's number comes back, and with it what was not polled.
pub fn a_stale_completion_of_an_earlier_ring_is_dropped(fabric: &impl Fabric) {
    let shared = Reused(Rc::new(RefCell::new(fabric.qp(32, 32))));
    let mut earlier = ring(shared.clone(), 8, 8);
    for at in 0..3 {
        stage(&mut earlier, fabric.word(at as u32), at, Notify::Always);
    }
    earlier.doorbell().unwrap();
    drop(earlier);
    let mut later = ring(shared, 8, 8);
    for at in 10..13 {
        stage(&mut later, fabric.word(at as u32), at, Notify::Always);
    }
    later.doorbell().unwrap();
    // The earlier ring's completions come first, and tell this one nothing.
    let mut all = Vec::new();
    poll_until(&mut later, |later| {
        later.poll_with(|completion| all.push(Told::from(completion)))?;
        let stale = later.counters().stale;
        assert!(stale == 3 || (all.is_empty() && later.in_flight() == 3), "{stale}: {all:?}");
        Ok(all.len() == 3)
    });
    assert_eq!(all, told(10..13, Outcome::Confirmed));
    assert_eq!((later.counters().stale, later.counters().completions), (3, 3));
    assert!(later.is_idle());
}
