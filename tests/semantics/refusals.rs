//! What is refused before anything is posted, and why.

use farword::{
    AlignedOffset, Error, FlushKind, Invalid, Notify, Provider, RemoteRegion, Ring, RingConfig,
    Usage, Word,
};

use crate::support::{Fabric, ctx, patience, ring};

fn assert_untouched<P: Provider>(ring: &Ring<'_, P>) {
    let counters = ring.counters();
    assert_eq!((counters.staged, counters.doorbells, ring.failure()), (0, 0, None));
    assert!(ring.is_idle());
}

/// CASES 1.
pub fn an_aligned_offset_on_an_unaligned_base_is_refused(fabric: &impl Fabric) {
    let whole = fabric.remote();
    for skew in 1..8 {
        let base = whole.base() + skew;
        let skewed = RemoteRegion::new(base, whole.size() - 8, whole.rkey(), whole.usage());
        assert_eq!(
            skewed.target(AlignedOffset::literal::<16>()),
            Err(Invalid::UnalignedAddress { base, offset: 16 })
        );
        let descriptor = RemoteRegion::from_descriptor(&skewed.to_descriptor()).unwrap();
        assert!(descriptor.target(AlignedOffset::ZERO).is_err(), "nor as it comes by wire");
        assert!(skewed.span(3, 5).is_ok(), "plain bytes may lie anywhere");
    }
}

/// CASES 6.
pub fn a_completion_queue_smaller_than_the_ring_is_refused(fabric: &impl Fabric) {
    let refused = Ring::boxed(fabric.qp(16, 8), RingConfig::new(16, 4)).map(|_| ());
    assert_eq!(refused, Err(Invalid::CqTooSmall { cq: 8, sq: 16 }.into()));
    assert!(Ring::boxed(fabric.qp(16, 8), RingConfig::new(8, 4)).is_ok(), "a shallower ring fits");
}

pub fn a_ring_deeper_than_the_send_queue_is_refused(fabric: &impl Fabric) {
    let refused = Ring::boxed(fabric.qp(8, 64), RingConfig::new(16, 4)).map(|_| ());
    assert_eq!(refused, Err(Invalid::SqTooDeep { asked: 16, granted: 8 }.into()));
}

pub fn missing_usage_bits_are_refused_before_posting(fabric: &impl Fabric) {
    let mut ring = fabric.ring(8, 8);
    let usage = |needs, has| Err(Error::from(Invalid::UsageMissing { needs, has }));
    let whole = fabric.remote();
    let with = |usage| RemoteRegion::new(whole.base(), whole.size(), whole.rkey(), usage);
    let local = fabric.local().slice(0, 8).unwrap();

    let has = Usage::READ_SRC;
    let span = with(has).span(0, 8).unwrap();
    assert_eq!(
        with(has).target(AlignedOffset::ZERO),
        Err(Invalid::UsageMissing { needs: Usage::WRITE_DST, has })
    );
    assert_eq!(ring.write(local, span, Notify::Always, ctx(0)), usage(Usage::WRITE_DST, has));
    assert_eq!(
        ring.flush(span, FlushKind::Visibility, Notify::Always, ctx(0)),
        usage(Usage::FLUSH_VISIBILITY, has)
    );
    let has = Usage::WRITE_DST;
    let span = with(has).span(0, 8).unwrap();
    assert_eq!(ring.read(local, span, Notify::Always, ctx(0)), usage(Usage::READ_SRC, has));
    assert_untouched(&ring);
}

pub fn unequal_lengths_are_refused(fabric: &impl Fabric) {
    let mut ring = fabric.ring(8, 8);
    let refused = Err(Invalid::LengthMismatch { local: 16, remote: 8 }.into());
    let (local, remote) = (fabric.local().slice(0, 16).unwrap(), fabric.remote().span(0, 8));
    assert_eq!(ring.write(local, remote.unwrap(), Notify::Always, ctx(0)), refused);
    assert_eq!(ring.read(local, remote.unwrap(), Notify::Always, ctx(0)), refused);
    assert_untouched(&ring);
}

pub fn an_empty_flush_is_refused(fabric: &impl Fabric) {
    let mut ring = fabric.ring(8, 8);
    let empty = fabric.remote().span(8, 0).unwrap();
    assert_eq!(
        ring.flush(empty, FlushKind::Visibility, Notify::Always, ctx(0)),
        Err(Invalid::EmptyRange.into())
    );
    assert_untouched(&ring);
}

pub fn a_persistent_flush_needs_a_persistent_peer(fabric: &impl Fabric) {
    let mut ring = fabric.ring(8, 8);
    let span = fabric.remote().span(0, 8).unwrap();
    assert_eq!(
        ring.flush(span, FlushKind::Persistent, Notify::Always, ctx(0)),
        Err(Invalid::PeerNotPersistent.into())
    );
    assert_untouched(&ring);
}

pub fn a_persistent_peer_takes_a_persistent_flush(fabric: &impl Fabric) {
    let config = RingConfig::new(8, 8).with_persistent_peer(true);
    let mut persistent = Ring::boxed(fabric.qp(8, 8), config).unwrap();
    let span = fabric.remote().span(0, 8).unwrap();
    let word = Word::ne(5);
    persistent.atomic_write(fabric.word(0), word, Notify::OnError, ctx(0)).unwrap();
    let flush = persistent.flush(span, FlushKind::Persistent, Notify::OnError, ctx(1)).unwrap();
    persistent.wait(flush, patience(), |_| {}).unwrap();
    assert_eq!(fabric.seen(0), 5);
    // The setting is the ring's own: another one over the fabric lacks it.
    let mut plain = ring(fabric.qp(8, 8), 8, 8);
    assert!(plain.flush(span, FlushKind::Persistent, Notify::OnError, ctx(1)).is_err());
}
