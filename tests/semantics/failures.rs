//! What the device refuses, and what becomes of a dead ring.

use farword::{
    AlignedOffset, DeviceFault, Errno, Error, LocalSlice, Notify, Outcome, Polls, Provider,
    RemoteRegion, Ring, Target, WaitError, WcStatus, Why, Word,
};

use crate::support::wrap::{Disturb, Tap};
use crate::support::{Fabric, Told, ctx, drained, poll_until, ring, told};

fn stage<P: Provider>(ring: &mut Ring<'_, P>, target: Target, at: u64, notify: Notify) {
    ring.atomic_write(target, Word::ne(at + 1), notify, ctx(at)).unwrap();
}

/// One good write, one that fails with `status`, three behind it.
fn assert_refused<F: Fabric>(
    fabric: &F,
    status: WcStatus,
    refused: impl FnOnce(&mut Ring<'_, F::Qp>),
) {
    let mut ring = fabric.ring(32, 8);
    stage(&mut ring, fabric.word(0), 0, Notify::Always);
    refused(&mut ring);
    for at in 2..5 {
        stage(&mut ring, fabric.word(at as u32), at, Notify::OnError);
    }
    ring.doorbell().unwrap();
    let mut expected = told(0..1, Outcome::Confirmed);
    expected.push(Told(1, Outcome::Failed(status)));
    expected.extend(told(2..5, Outcome::Unknown));
    let (all, end) = drained(&mut ring);
    assert_eq!(all, expected);
    match end {
        Err(WaitError::Ring(Error::Failed { why: Why::Completion { status: first, .. } })) => {
            assert_eq!(first, status);
        }
        end => panic!("{end:?}"),
    }
    let written: Vec<_> =
        (0..fabric.remote_memory().len()).filter(|at| fabric.seen(*at) != 0).collect();
    assert_eq!(written, [0], "what was before is there, and nothing else");
}

fn refused_word<F: Fabric>(fabric: &F, region: RemoteRegion, offset: u64) {
    let target = region.target(AlignedOffset::new(offset).unwrap()).unwrap();
    assert_refused(fabric, WcStatus::REM_ACCESS_ERR, |ring| {
        stage(ring, target, 1, Notify::OnError);
    });
}

/// A region as a peer may lie about it.
fn forged(region: RemoteRegion, size: u64, rkey: u32) -> RemoteRegion {
    RemoteRegion::new(region.base(), size, rkey, farword::Usage::from_bits(0xff))
}

pub fn a_wrong_rkey_fails_and_flushes_what_follows(fabric: &impl Fabric) {
    let whole = fabric.remote();
    refused_word(fabric, forged(whole, whole.size(), !whole.rkey()), 8);
}

pub fn a_write_past_the_region_fails_whole(fabric: &impl Fabric) {
    let whole = fabric.remote();
    let larger = forged(whole, whole.size() + 64, whole.rkey());
    refused_word(fabric, larger, whole.size());
    // Sixteen bytes, of which eight are in: not one of them is written.
    let span = larger.span(whole.size() - 8, 16).unwrap();
    let local = fabric.local().slice(0, 16).unwrap();
    for word in &fabric.local_memory()[..2] {
        word.store(u64::MAX, core::sync::atomic::Ordering::Release);
    }
    assert_refused(fabric, WcStatus::REM_ACCESS_ERR, |ring| {
        ring.write(local, span, Notify::OnError, ctx(1)).unwrap();
    });
}

pub fn a_region_without_write_rights_refuses_the_write(fabric: &impl Fabric) {
    let region = fabric.read_only();
    refused_word(fabric, forged(region, region.size(), region.rkey()), 8);
}

pub fn a_deregistered_region_refuses_and_keeps_its_words(fabric: &impl Fabric) {
    let target = fabric.doomed().target(AlignedOffset::literal::<8>()).unwrap();
    {
        let mut ring = fabric.ring(8, 8);
        stage(&mut ring, target, 1, Notify::Always);
        assert_eq!(drained(&mut ring), (told(1..2, Outcome::Confirmed), Ok(())));
    }
    assert_eq!(fabric.seen(1), 2, "while it was registered");
    fabric.remote_memory()[1].store(0, core::sync::atomic::Ordering::Release);
    fabric.deregister_doomed();
    refused_word(fabric, fabric.doomed(), 8);
}

pub fn a_wrong_lkey_is_a_local_error(fabric: &impl Fabric) {
    let local = fabric.local();
    let forged = LocalSlice::new(local.address(), 8, !local.lkey());
    let span = fabric.remote().span(8, 8).unwrap();
    assert_refused(fabric, WcStatus::LOC_PROT_ERR, |ring| {
        ring.write(forged, span, Notify::OnError, ctx(1)).unwrap();
    });
}

pub fn a_dead_ring_refuses_work_and_says_why(fabric: &impl Fabric) {
    let mut ring = fabric.ring(8, 8);
    let whole = fabric.remote();
    let region = forged(whole, whole.size(), !whole.rkey());
    stage(&mut ring, region.target(AlignedOffset::ZERO).unwrap(), 0, Notify::OnError);
    ring.doorbell().unwrap();
    poll_until(&mut ring, |ring| ring.poll_with(|_| {}).map(|_| ring.failure().is_some()));
    let failed = |result: Result<(), Error>| match result {
        Err(Error::Failed { why: Why::Completion { status, .. } }) => {
            assert_eq!(status, WcStatus::REM_ACCESS_ERR);
        }
        other => panic!("{other:?}"),
    };
    let (local, span) = (fabric.local().slice(0, 8).unwrap(), whole.span(0, 8).unwrap());
    let (target, always) = (fabric.word(0), Notify::Always);
    failed(ring.atomic_write(target, Word::ne(1), always, ctx(1)).map(drop));
    failed(ring.write(local, span, always, ctx(1)).map(drop));
    failed(ring.read(local, span, always, ctx(1)).map(drop));
    let visibility = farword::FlushKind::Visibility;
    failed(ring.flush(span, visibility, always, ctx(1)).map(drop));
    failed(ring.doorbell().map(drop));
    failed(ring.poll_with(|_| panic!("nothing is left to tell")).map(drop));
    assert_eq!((ring.room(), ring.counters().full), (0, 0), "dead is not full");
}

pub fn an_abandoned_ring_gives_everything_back(fabric: &impl Fabric) {
    let mut ring = fabric.ring(32, 8);
    for at in 0..4 {
        stage(&mut ring, fabric.word(at as u32), at, Notify::OnError);
    }
    ring.doorbell().unwrap();
    stage(&mut ring, fabric.word(4), 4, Notify::Always);
    ring.abandon();
    let mut expected = told(0..4, Outcome::Unknown);
    expected.push(Told(4, Outcome::Unposted));
    let failed = Err(WaitError::Ring(Error::Failed { why: Why::Abandoned }));
    assert_eq!(drained(&mut ring), (expected, failed));
    assert_eq!(fabric.seen(4), 0);
}

/// CASES 4. Which of the five the peer has seen nobody knows.
pub fn a_post_of_unknown_extent_fails_the_ring_and_ends(fabric: &impl Fabric) {
    for taken in [0, 3, 5] {
        let plan = [Disturb::LoseCount(taken, Errno::EIO)];
        let mut ring = ring(Tap::with_plan(fabric.qp(32, 32), plan), 32, 8);
        for at in 0..5 {
            stage(&mut ring, fabric.word(at as u32), at, Notify::OnError);
        }
        let why = Why::PostUnknown(Errno::EIO);
        assert_eq!(ring.doorbell(), Err(Error::Failed { why }));
        assert_eq!((ring.failure(), ring.staged()), (Some(why), 0), "nothing may be posted again");
        let mut all = Vec::new();
        let end = ring.drain(Polls(1000), |completion| all.push(Told::from(completion)));
        assert_eq!(end, Err(WaitError::Ring(Error::Failed { why })));
        // An engine with a thread of its own may have been through some before
        // the queue pair was put into error; those succeeded, and silently.
        let silent = ring.confirmed().get();
        assert!(silent <= taken.into(), "{silent} confirmed, {taken} taken");
        assert_eq!(all, told(silent..5, Outcome::Unknown), "{taken} were taken");
        assert_eq!(ring.provider().chains, 1);
    }
}

/// Those that completed all the same may be confirmed; none is told twice.
pub fn a_post_of_unknown_extent_gives_each_context_back_once(fabric: &impl Fabric) {
    let plan = [Disturb::Pass, Disturb::LoseCount(3, Errno::EIO)];
    let mut ring = ring(Tap::with_plan(fabric.qp(32, 32), plan), 32, 8);
    for at in 0..8 {
        stage(&mut ring, fabric.word(at as u32), at, Notify::Always);
        if at == 1 {
            ring.doorbell().unwrap();
        }
    }
    assert!(matches!(ring.doorbell(), Err(Error::Failed { why: Why::PostUnknown(Errno::EIO) })));
    let mut all = Vec::new();
    let end = ring.drain(Polls(1000), |completion| all.push(Told::from(completion)));
    assert!(matches!(end, Err(WaitError::Ring(Error::Failed { .. }))));
    assert_eq!(all.iter().map(|told| told.0).collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
    for Told(at, outcome) in all {
        match outcome {
            Outcome::Confirmed => assert_eq!(fabric.seen(at as usize), at + 1),
            outcome => assert_eq!(outcome, Outcome::Unknown),
        }
        assert!(at < 5 || outcome == Outcome::Unknown, "{at} was never taken");
    }
}

/// CASES 7, as far as polling can tell.
pub fn a_device_fault_gives_back_what_was_pending(fabric: &impl Fabric) {
    let mut ring = ring(Tap::new(fabric.qp(32, 32)), 32, 8);
    for at in 0..3 {
        stage(&mut ring, fabric.word(at as u32), at, Notify::OnError);
    }
    ring.doorbell().unwrap();
    stage(&mut ring, fabric.word(3), 3, Notify::OnError);
    ring.provider_mut().fault = Some(DeviceFault::CompletionQueue);
    let mut expected = told(0..3, Outcome::Unknown);
    expected.push(Told(3, Outcome::Unposted));
    let mut all = Vec::new();
    assert_eq!(ring.poll_with(|completion| all.push(Told::from(completion))), Ok(4));
    assert_eq!(all, expected);
    let why = Why::Device(DeviceFault::CompletionQueue);
    assert_eq!(ring.failure(), Some(why));
    assert_eq!(ring.poll_with(|_| {}), Err(Error::Failed { why }));
    assert_eq!(drained(&mut ring).1, Err(WaitError::Ring(Error::Failed { why })));
}
