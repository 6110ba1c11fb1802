//! CASES 10: a fence exactly where an emulated flush may be outstanding.

use farword::{FlushKind, FlushSupport, Notify, Provider, Ring, Word};

use crate::support::wrap::Tap;
use crate::support::{Fabric, ctx, patience, polled, ring};

/// Stages an atomic write of word 0.
fn stage<P: Provider>(ring: &mut Ring<'_, P>, fabric: &impl Fabric, notify: Notify) {
    ring.atomic_write(fabric.word(0), Word::ne(1), notify, ctx(0)).unwrap();
}

fn stage_flush<P: Provider>(ring: &mut Ring<'_, P>, fabric: &impl Fabric, notify: Notify) {
    let span = fabric.remote().span(0, 8).unwrap();
    ring.flush(span, FlushKind::Visibility, notify, ctx(0)).unwrap();
}

/// Which of the requests that were posted carried a fence.
fn fences<P: Provider>(ring: &Ring<'_, Tap<P>>) -> Vec<bool> {
    ring.provider().taken.iter().map(|wr| wr.is_fenced()).collect()
}

fn emulated<P: Provider>(ring: &Ring<'_, P>) -> bool {
    matches!(ring.capabilities().flush, FlushSupport::Emulated(_))
}

pub fn a_chain_of_writes_alone_carries_no_fence(fabric: &impl Fabric) {
    let mut ring = ring(Tap::new(fabric.qp(16, 16)), 16, 16);
    let (local, remote) = (fabric.local().slice(0, 64), fabric.remote().span(64, 64));
    for _ in 0..4 {
        ring.write(local.unwrap(), remote.unwrap(), Notify::OnError, ctx(0)).unwrap();
        stage(&mut ring, fabric, Notify::OnError);
    }
    ring.drain(patience(), |_| {}).unwrap();
    assert_eq!(fences(&ring), [false; 8]);
}

pub fn an_atomic_write_is_fenced_behind_an_outstanding_emulated_flush(fabric: &impl Fabric) {
    let mut ring = ring(Tap::new(fabric.qp(16, 16)), 16, 16);
    stage(&mut ring, fabric, Notify::OnError);
    stage_flush(&mut ring, fabric, Notify::OnError);
    stage(&mut ring, fabric, Notify::OnError);
    stage(&mut ring, fabric, Notify::Always);
    ring.doorbell().unwrap();
    polled(&mut ring, 1);
    // The second write behind the flush cannot pass the first, which waits.
    assert_eq!(fences(&ring), [false, false, emulated(&ring), false]);
}

pub fn a_fence_is_dropped_once_the_flush_is_confirmed(fabric: &impl Fabric) {
    let mut ring = ring(Tap::new(fabric.qp(16, 16)), 16, 16);
    stage_flush(&mut ring, fabric, Notify::Always);
    ring.doorbell().unwrap();
    polled(&mut ring, 1);
    stage(&mut ring, fabric, Notify::Always);
    ring.doorbell().unwrap();
    polled(&mut ring, 1);
    assert_eq!(fences(&ring), [false, false]);
}

pub fn a_fence_outlives_the_doorbell_between(fabric: &impl Fabric) {
    let mut ring = ring(Tap::new(fabric.qp(16, 16)), 16, 16);
    // A flush that was confirmed, and one behind it that was not.
    stage_flush(&mut ring, fabric, Notify::Always);
    stage_flush(&mut ring, fabric, Notify::OnError);
    ring.doorbell().unwrap();
    polled(&mut ring, 1);
    stage(&mut ring, fabric, Notify::Always);
    ring.doorbell().unwrap();
    polled(&mut ring, 1);
    assert_eq!(fences(&ring), [false, false, emulated(&ring)]);
}
