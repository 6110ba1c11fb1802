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
