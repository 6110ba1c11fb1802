//! What the semantics suite, which has no provider of this kind, leaves open.

use super::late::Late;
use super::*;
use crate::{AlignedOffset, RemoteRegion, Usage, Word};

/// Stages so many silent writes.
fn stage(ring: &mut Ring<'static, Late>, count: u64) {
    let region = RemoteRegion::new(4096, 4096, 1, Usage::WRITE_DST);
    let target = region.target(AlignedOffset::ZERO).expect("within the region");
    for number in 0..count {
        let context = OpContext::new(number);
        ring.atomic_write(target, Word::ne(1), Notify::OnError, context).expect("room");
    }
}

#[test]
fn the_quarter_that_begins_behind_a_chain_is_not_signaled_with_it() {
    let mut ring = Late::ring(0, RingConfig::new(16, 16));
    stage(&mut ring, 2);
    ring.doorbell().expect("posted");
    assert_eq!(ring.counters().signaled, 0);
    // Requests 2 to 6: the first quarter ends with 3, the second with 7.
    stage(&mut ring, 5);
    ring.doorbell().expect("posted");
    assert_eq!(ring.counters().signaled, 1);
}

#[test]
fn what_was_never_posted_is_not_counted_as_posted() {
    let mut ring = Late::ring(1000, RingConfig::new(16, 16));
    stage(&mut ring, 3);
    ring.doorbell().expect("posted");
    stage(&mut ring, 2);
    ring.abandon();
    let mut told = std::vec::Vec::new();
    let drained = ring.drain(Polls(10), |done| told.push(done.outcome));
    assert!(matches!(drained, Err(WaitError::Ring(Error::Failed { .. }))), "{drained:?}");
    let (unknown, unposted) = (Outcome::Unknown, Outcome::Unposted);
    assert_eq!(told, [unknown, unknown, unknown, unposted, unposted]);
    let counters = ring.counters();
    assert_eq!((counters.staged, counters.posted, counters.retired), (5, 3, 5));
}

#[test]
fn a_batch_is_as_long_as_it_was_asked_to_be() {
    assert_eq!(Late::ring(0, RingConfig::new(16, 8)).batch_len(), 8);
}

#[test]
fn a_poll_says_how_many_it_gave() {
    let mut ring = Late::ring(0, RingConfig::new(16, 16));
    stage(&mut ring, 3);
    let last = ring.confirmed();
    ring.doorbell().expect("posted");
    let wr_id = ring.provider().posted[2];
    ring.provider_mut().complete(wr_id, WcStatus::SUCCESS);
    let mut given = 0;
    assert_eq!(ring.poll_retired(|_| given += 1), Ok(3));
    assert_eq!((given, ring.is_idle(), ring.confirmed().get() - last.get()), (3, true, 3));
}

#[test]
fn stale_failures_are_counted_and_change_nothing() {
    let mut ring = Late::ring(1000, RingConfig::new(16, 16));
    stage(&mut ring, 2);
    ring.doorbell().expect("posted");
    let first = ring.provider().posted[0];
    let mut poll_after = |wr_id: u64, status| {
        ring.provider_mut().complete(wr_id, status);
        let given = ring.poll_with(|_| {});
        (given, ring.counters().stale, ring.failure().is_some(), ring.in_flight())
    };
    let failed = WcStatus::REM_ACCESS_ERR;
    assert_eq!(poll_after(first.wrapping_sub(1), failed), (Ok(0), 1, false, 2));
    assert_eq!(poll_after(first, failed), (Ok(1), 1, true, 1));
    assert_eq!(poll_after(first, WcStatus::WR_FLUSH_ERR), (Ok(0), 2, true, 1));
    assert_eq!(poll_after(first.wrapping_sub(1), failed), (Ok(0), 3, true, 1));
    assert_eq!(poll_after(first.wrapping_add(7), WcStatus::WR_FLUSH_ERR), (Ok(0), 4, true, 1));
    assert_eq!(poll_after(first.wrapping_add(1), WcStatus::WR_FLUSH_ERR), (Ok(1), 4, true, 0));
}

#[test]
fn what_is_waited_for_is_signaled_once() {
    // Unposted: it is signaled itself. Posted in silence: one of the ring's own is.
    // Signaled: nothing more.
    for (post_first, signaled, posted) in [(false, 1, 1), (true, 1, 2)] {
        let mut ring = Late::ring(0, RingConfig::new(16, 16));
        stage(&mut ring, 1);
        if post_first {
            ring.doorbell().expect("posted");
        }
        ring.drain(Polls(10), |_| {}).expect("confirmed");
        assert_eq!((ring.counters().signaled, ring.counters().posted), (signaled, posted));
    }
    let mut ring = Late::ring(3, RingConfig::new(16, 16));
    let region = RemoteRegion::new(4096, 4096, 1, Usage::WRITE_DST);
    let target = region.target(AlignedOffset::ZERO).expect("within the region");
    ring.atomic_write(target, Word::ne(1), Notify::Always, OpContext::new(7)).expect("room");
    ring.doorbell().expect("posted");
    ring.drain(Polls(10), |_| {}).expect("confirmed");
    assert_eq!((ring.counters().signaled, ring.counters().posted), (1, 1));
}

#[test]
fn what_succeeded_before_a_failure_is_given_with_it() {
    let mut ring = Late::ring(1000, RingConfig::new(16, 16));
    stage(&mut ring, 3);
    ring.doorbell().expect("posted");
    let last = ring.provider().posted[2];
    ring.provider_mut().complete(last, WcStatus::REM_ACCESS_ERR);
    let mut told = std::vec::Vec::new();
    assert_eq!(ring.poll_retired(|done| told.push(done.outcome)), Ok(3));
    let failed = Outcome::Failed(WcStatus::REM_ACCESS_ERR);
    assert_eq!(told, [Outcome::Confirmed, Outcome::Confirmed, failed]);
}

#[test]
fn after_a_lost_post_a_silent_success_is_told_of_to_who_asks_for_all() {
    let mut ring = Late::ring(1000, RingConfig::new(16, 16));
    ring.provider_mut().is_lost = true;
    stage(&mut ring, 2);
    ring.doorbell().expect_err("lost");
    let (first, second) = (ring.provider().posted[0], ring.provider().posted[1]);
    ring.provider_mut().complete(first, WcStatus::SUCCESS);
    assert_eq!(ring.poll_with(|done| panic!("it is silent: {done:?}")), Ok(0));
    ring.provider_mut().complete(second, WcStatus::SUCCESS);
    let mut told = std::vec::Vec::new();
    assert_eq!(ring.poll_retired(|done| told.push((done.context.get(), done.outcome))), Ok(1));
    assert_eq!((told, ring.confirmed().get()), (std::vec![(1, Outcome::Confirmed)], 2));
}

#[test]
fn every_limit_of_a_ring_is_checked_by_itself() {
    let capabilities = Capabilities::new(64, 64);
    let check = |depth, batch| check_config(&RingConfig::new(depth, batch), &capabilities);
    assert_eq!(check(64, 64), Ok(()));
    let depth = |got, max| Err(Invalid::Depth { got, min: 1, max });
    assert_eq!(check(12, 4), depth(12, MAX_SLOTS));
    assert_eq!(check(16, 6), depth(6, 16));
    assert_eq!(check(16, 32), depth(32, 16));
    assert_eq!(check(128, 4), Err(Invalid::SqTooDeep { asked: 128, granted: 64 }));
    // As deep as a ring may be, and twice that.
    let most = MAX_SLOTS as u32;
    let deep = Capabilities::new(u32::MAX, u32::MAX);
    assert_eq!(check_config(&RingConfig::new(most, 4), &deep), Ok(()));
    if let Some(more) = most.checked_mul(2) {
        let refused = check_config(&RingConfig::new(more, 4), &deep);
        assert_eq!(refused, depth(more.into(), MAX_SLOTS));
    }
    let mut little = capabilities;
    little.max_inline = 7;
    let refused = check_config(&RingConfig::new(16, 4), &little);
    assert_eq!(refused, Err(Invalid::InlineTooSmall { granted: 7 }));
    little.native_atomic_write = true;
    assert_eq!(check_config(&RingConfig::new(16, 4), &little), Ok(()));
    little.max_inline = 8;
    little.native_atomic_write = false;
    assert_eq!(check_config(&RingConfig::new(16, 4), &little), Ok(()));
}

#[test]
fn a_provider_that_is_full_is_counted_as_that() {
    let mut ring = Late::ring(1000, RingConfig::new(16, 16));
    stage(&mut ring, 1);
    ring.doorbell().expect("posted");
    ring.provider_mut().refuses = Some(Errno::ENOMEM);
    stage(&mut ring, 1);
    assert!(matches!(ring.doorbell(), Err(Error::Full { .. })));
    assert_eq!((ring.counters().full, ring.counters().refused), (1, 1));
    ring.provider_mut().refuses = Some(Errno::EIO);
    assert_eq!(ring.doorbell(), Err(Error::Provider(Errno::EIO)));
    assert_eq!((ring.counters().full, ring.counters().refused, ring.staged()), (1, 2, 1));
}
