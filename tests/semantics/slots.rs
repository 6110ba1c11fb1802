//! Slots: taken once, given back, never used up.

use std::collections::HashSet;

use farword::{Errno, Error, FlushKind, Notify, Outcome, Provider, Remedy, Ring, Ticket, Word};

use crate::support::wrap::{Disturb, Tap};
use crate::support::{
    Fabric, Told, ctx, drained, patience, poll_until, polled, retired, ring, told,
};

fn stage<P: Provider>(
    ring: &mut Ring<'_, P>,
    fabric: &impl Fabric,
    at: u64,
    notify: Notify,
) -> Result<Ticket, Error> {
    ring.atomic_write(fabric.word(at as u32), Word::ne(at + 1), notify, ctx(at))
}

/// Does what a full ring asks for, until it takes the request.
fn stage_by_remedy<P: Provider>(
    ring: &mut Ring<'_, P>,
    fabric: &impl Fabric,
    at: u64,
    notify: Notify,
) -> Ticket {
    for _ in 0..4 {
        match stage(ring, fabric, at, notify) {
            Ok(ticket) => return ticket,
            Err(Error::Full { remedy: Remedy::Doorbell { staged } }) => {
                assert_eq!(ring.doorbell(), Ok(staged));
            }
            Err(Error::Full { remedy: Remedy::Poll { .. } }) => {
                // Nothing but polling: that must be enough.
                poll_until(ring, |ring| ring.poll_with(|_| {}).map(|_| ring.room() > 0));
            }
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the remedies made no room: {ring:?}", ring = ring.counters());
}

/// CASES 2.
pub fn on_error_writes_in_a_row_never_use_up_the_queue(fabric: &impl Fabric) {
    for (depth, batch) in [(1, 1), (2, 2), (4, 1), (16, 4), (16, 16)] {
        let mut ring = fabric.ring(depth, batch);
        let count = u64::from(depth) * 12 + 1;
        let mut last = None;
        for at in 0..count {
            last = Some(stage_by_remedy(&mut ring, fabric, at % 100, Notify::OnError));
        }
        ring.wait(last.unwrap(), patience(), |_| panic!("a silent write was told of")).unwrap();
        let counters = ring.counters();
        assert!(counters.full > 0 && counters.staged >= count, "{counters:?}");
        assert!(ring.confirmed().get() >= count);
    }
}

/// Whatever was staged and posted before, each remedy leads on.
pub fn full_names_the_remedy_that_makes_room(fabric: &impl Fabric) {
    for depth in [4u32, 8, 16] {
        for posted in 0..=depth {
            let mut ring = fabric.ring(depth, depth);
            for at in 0..u64::from(posted) {
                stage(&mut ring, fabric, at, Notify::OnError).unwrap();
            }
            ring.doorbell().unwrap();
            while ring.room() > 0 {
                stage(&mut ring, fabric, 0, Notify::OnError).unwrap();
            }
            let full = stage(&mut ring, fabric, 0, Notify::OnError).unwrap_err();
            if posted == 0 {
                assert_eq!(full, Error::Full { remedy: Remedy::Doorbell { staged: depth } });
            }
            if posted == depth {
                let remedy = Remedy::Poll { occupied: depth, depth };
                assert_eq!(full, Error::Full { remedy });
            }
            let before = ring.counters();
            assert_eq!((before.staged, before.full), (u64::from(depth), 1), "nothing was staged");
            stage_by_remedy(&mut ring, fabric, 0, Notify::OnError);
        }
    }
}

/// CASES 8.
pub fn slots_are_freed_by_own_completions_not_by_what_the_peer_sees(fabric: &impl Fabric) {
    let mut ring = fabric.ring(4, 4);
    for at in 0..4 {
        stage(&mut ring, fabric, at, Notify::Always).unwrap();
    }
    ring.doorbell().unwrap();
    poll_until(&mut ring, |_| Ok(fabric.seen(3) == 4));
    assert_eq!((ring.room(), ring.in_flight(), ring.confirmed().get()), (0, 4, 0));
    let full = stage(&mut ring, fabric, 0, Notify::Always).unwrap_err();
    assert_eq!(full, Error::Full { remedy: Remedy::Poll { occupied: 4, depth: 4 } });
    polled(&mut ring, 4);
    assert_eq!((ring.room(), ring.in_flight(), ring.confirmed().get()), (4, 0, 4));
}

/// CASES 3: room for 5 of 8.
pub fn a_partly_refused_chain_is_posted_once(fabric: &impl Fabric) {
    for taken in 0..=8u32 {
        let plan = [Disturb::Pass, Disturb::Refuse(taken, Errno::ENOMEM)];
        let mut ring = ring(Tap::with_plan(fabric.qp(32, 32), plan), 32, 16);
        stage(&mut ring, fabric, 100, Notify::OnError).unwrap();
        ring.doorbell().unwrap();
        for at in 0..8 {
            stage(&mut ring, fabric, at, Notify::Always).unwrap();
        }
        let remedy = Remedy::Poll { occupied: 9, depth: 32 };
        assert_eq!(ring.doorbell(), Err(Error::Full { remedy }));
        assert_eq!((ring.staged(), ring.in_flight()), (8 - taken, 1 + taken));
        assert_eq!(ring.doorbell(), Ok(8 - taken));

        let contexts: Vec<_> = retired(&mut ring, 9).iter().map(|told| told.0).collect();
        assert_eq!(contexts, [100, 0, 1, 2, 3, 4, 5, 6, 7]);
        let ids: Vec<_> = ring.provider().taken.iter().map(|wr| wr.wr_id as u32).collect();
        assert_eq!(ids, (0..9).collect::<Vec<_>>(), "each once, in order");
        assert_eq!(
            (0..8).map(|at| fabric.seen(at)).collect::<Vec<_>>(),
            (1..9).collect::<Vec<_>>()
        );
        let counters = ring.counters();
        assert_eq!((counters.posted, counters.retired, counters.refused), (9, 9, 1));
    }
}

/// Every doorbell gets one request through; the chain mixes all kinds.
pub fn a_chain_refused_again_and_again_is_posted_once(fabric: &impl Fabric) {
    let plan = core::iter::repeat_n(Disturb::Refuse(1, Errno::ENOSPC), 64);
    let mut ring = ring(Tap::with_plan(fabric.qp(16, 16), plan), 16, 8);
    let local = fabric.local().slice(0, 8).unwrap();
    let scrap = fabric.local().slice(8, 8).unwrap();
    fabric.local_memory()[0].store(500, core::sync::atomic::Ordering::Release);
    for round in 0..4u64 {
        let span = fabric.remote().span(8 * (100 + round), 8).unwrap();
        stage(&mut ring, fabric, 8 * round, Notify::OnError).unwrap();
        ring.write(local, span, Notify::Always, ctx(1)).unwrap();
        ring.flush(span, FlushKind::Visibility, Notify::OnError, ctx(2)).unwrap();
        stage(&mut ring, fabric, 8 * round + 1, Notify::OnError).unwrap();
        ring.read(scrap, span, Notify::OnError, ctx(3)).unwrap();
        stage(&mut ring, fabric, 8 * round + 2, Notify::Always).unwrap();
        for left in (0..6).rev() {
            assert!(matches!(ring.doorbell(), Err(Error::Full { .. })));
            assert_eq!(ring.staged(), left);
        }
        assert_eq!(ring.doorbell(), Ok(0), "nothing is left to post");
        assert_eq!(retired(&mut ring, 6).len(), 6);
        for at in 0..3 {
            assert_eq!(fabric.seen((8 * round + at) as usize), 8 * round + at + 1);
        }
        assert_eq!(fabric.seen(100 + round as usize), 500);
    }
    let ids: HashSet<_> = ring.provider().taken.iter().map(|wr| wr.wr_id).collect();
    assert_eq!((ids.len(), ring.provider().taken.len()), (24, 24));
    assert_eq!(fabric.local_memory()[1].load(core::sync::atomic::Ordering::Acquire), 500);
}

/// With nothing in flight polling makes no room, so the errno is the answer.
pub fn a_refusal_with_nothing_in_flight_keeps_everything_staged(fabric: &impl Fabric) {
    let plan = [Errno::ENOMEM, Errno::EINVAL].map(|errno| Disturb::Refuse(0, errno));
    let mut ring = ring(Tap::with_plan(fabric.qp(8, 8), plan), 8, 8);
    for at in 0..3 {
        stage(&mut ring, fabric, at, Notify::Always).unwrap();
    }
    for errno in [Errno::ENOMEM, Errno::EINVAL] {
        assert_eq!(ring.doorbell(), Err(Error::Provider(errno)));
        assert_eq!((ring.staged(), ring.in_flight(), ring.failure()), (3, 0, None));
    }
    assert_eq!(drained(&mut ring), (told(0..3, Outcome::Confirmed), Ok(())));
}

/// CASES 19.
pub fn waiting_with_staged_work_rings_first(fabric: &impl Fabric) {
    for notify in [Notify::OnError, Notify::Always] {
        let mut ring = fabric.ring(16, 4);
        let first = stage(&mut ring, fabric, 0, notify).unwrap();
        let second = stage(&mut ring, fabric, 1, Notify::OnError).unwrap();
        let mut told = Vec::new();
        ring.wait(first, patience(), |completion| told.push(Told::from(completion))).unwrap();
        let heard = notify == Notify::Always;
        assert_eq!(told, if heard { vec![Told(0, Outcome::Confirmed)] } else { vec![] });
        assert_eq!(ring.staged(), 0, "the doorbell took all that was staged");
        ring.wait(second, patience(), |_| {}).unwrap();
        assert_eq!((fabric.seen(0), fabric.seen(1)), (1, 2));
    }
}

pub fn draining_with_staged_work_rings_first(fabric: &impl Fabric) {
    let mut ring = fabric.ring(16, 4);
    for at in 0..3 {
        stage(&mut ring, fabric, at, Notify::OnError).unwrap();
    }
    assert_eq!(drained(&mut ring), (vec![], Ok(())), "silent successes stay silent");
    assert!(ring.is_idle());
    assert_eq!((ring.counters().posted, fabric.seen(2)), (3, 3), "the last one was signaled");
    assert_eq!(drained(&mut ring), (vec![], Ok(())), "an idle ring drains at once");
}

/// Nothing in flight would ever tell of it: the ring asks by itself.
pub fn waiting_for_a_silent_write_in_flight_ends(fabric: &impl Fabric) {
    let mut ring = fabric.ring(16, 4);
    let ticket = stage(&mut ring, fabric, 0, Notify::OnError).unwrap();
    ring.doorbell().unwrap();
    assert!(!ring.is_confirmed(ticket));
    ring.wait(ticket, patience(), |_| panic!("a silent write was told of")).unwrap();
    assert!(ring.is_confirmed(ticket) && ring.is_idle());
    assert_eq!(ring.counters().posted, 2, "one of the caller's and one of the ring's");
}

pub fn counters_return_to_balance(fabric: &impl Fabric) {
    let mut ring = fabric.ring(16, 8);
    for at in 0..500u64 {
        let notify = if at % 5 == 0 { Notify::Always } else { Notify::OnError };
        stage_by_remedy(&mut ring, fabric, at % 64, notify);
        if at % 3 == 0 {
            ring.doorbell().unwrap();
        }
        if at % 7 == 0 {
            ring.poll_with(|_| {}).unwrap();
        }
    }
    ring.drain(patience(), |_| {}).unwrap();
    let counters = ring.counters();
    assert_eq!((counters.staged, counters.posted), (counters.retired, counters.retired));
    assert_eq!(ring.confirmed().get(), counters.staged);
    assert_eq!(counters.completions, counters.signaled, "each signaled request completed once");
    assert_eq!((ring.room(), ring.in_flight(), ring.staged()), (8, 0, 0));
    assert_eq!((counters.refused, counters.stale), (0, 0));
}
