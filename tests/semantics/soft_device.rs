//! What is the software device's own: late reads, keys, the end of an engine.

use farword::soft::{Engine, InlineQp, Mode, QpConfig, QpStorage, SoftDevice, ThreadedQp};
use farword::{
    DeviceFault, Error, FlushKind, Notify, OpContext, Outcome, Provider, RemoteRegion, Ring,
    RingConfig, RingStorage, WaitError, WcStatus, Why, Word,
};

use crate::support::soft::{Inline, with_inline, with_threaded};
use crate::support::{Fabric, Told, ctx, drained, patience, ring, told};

fn late<'d>(fabric: &Inline<'d>) -> Ring<'d, InlineQp<'d>> {
    let config = fabric.0.config(16, 16).with_late_reads(true);
    ring(InlineQp::boxed(fabric.0.device, config).unwrap(), 16, 16)
}

/// CASES 10: the flush's read answers late, and the atomic write waits for it.
#[test]
fn a_late_flush_holds_the_atomic_write_back() {
    with_inline(Mode::Emulated, |fabric| {
        let mut ring = late(fabric);
        let span = fabric.remote().span(40, 8).unwrap();
        ring.atomic_write(fabric.word(5), Word::ne(1), Notify::OnError, ctx(0)).unwrap();
        ring.flush(span, FlushKind::Visibility, Notify::OnError, ctx(1)).unwrap();
        ring.atomic_write(fabric.word(5), Word::ne(2), Notify::OnError, ctx(2)).unwrap();
        ring.doorbell().unwrap();
        ring.drain(patience(), |_| {}).unwrap();
        assert_eq!(ring.provider().scratch(), 1, "the flush read what stood before the write");
        assert_eq!(fabric.seen(5), 2);
    });
}

/// The control of the test above: without a fence the read is overtaken.
#[test]
fn a_late_flush_is_overtaken_by_a_write_without_fence() {
    with_inline(Mode::Emulated, |fabric| {
        let mut ring = late(fabric);
        let span = fabric.remote().span(40, 8).unwrap();
        fabric.local_memory()[0].store(2, core::sync::atomic::Ordering::Release);
        let local = fabric.local().slice(0, 8).unwrap();
        ring.atomic_write(fabric.word(5), Word::ne(1), Notify::OnError, ctx(0)).unwrap();
        ring.flush(span, FlushKind::Visibility, Notify::OnError, ctx(1)).unwrap();
        ring.write(local, span, Notify::OnError, ctx(2)).unwrap();
        ring.doorbell().unwrap();
        ring.drain(patience(), |_| {}).unwrap();
        assert_eq!(ring.provider().scratch(), 2, "the read was late");
    });
}

/// More late reads than a queue pair holds, each behind a write of its word.
#[test]
fn late_reads_keep_the_order_of_completions() {
    with_inline(Mode::Emulated, |fabric| {
        let config = fabric.0.config(64, 64).with_late_reads(true);
        let mut ring = ring(InlineQp::boxed(fabric.0.device, config).unwrap(), 64, 64);
        for at in 0..20u64 {
            let span = fabric.remote().span(8 * at, 8).unwrap();
            let local = fabric.local().slice(8 * at, 8).unwrap();
            let word = Word::ne(at + 1);
            ring.atomic_write(fabric.word(at as u32), word, Notify::Always, ctx(2 * at)).unwrap();
            ring.read(local, span, Notify::Always, ctx(2 * at + 1)).unwrap();
        }
        assert_eq!(drained(&mut ring), (told(0..40, Outcome::Confirmed), Ok(())));
        for at in 0..20 {
            let back = fabric.local_memory()[at].load(core::sync::atomic::Ordering::Acquire);
            assert_eq!(back, at as u64 + 1);
        }
    });
}

/// CASES 23: the keys differ, so that one cannot pass for the other.
#[test]
fn the_lkey_sent_for_the_rkey_is_refused() {
    with_inline(Mode::Native, |fabric| {
        let (local, mut ring) = (fabric.local(), fabric.ring(8, 8));
        let usage = fabric.remote().usage();
        let mistaken = RemoteRegion::new(local.address(), local.len(), local.lkey(), usage);
        let target = mistaken.target(farword::AlignedOffset::ZERO).unwrap();
        ring.atomic_write(target, Word::ne(1), Notify::OnError, ctx(0)).unwrap();
        let failed = Told(0, Outcome::Failed(WcStatus::REM_ACCESS_ERR));
        assert_eq!(drained(&mut ring).0, [failed]);
    });
    with_inline(Mode::Emulated, |fabric| {
        let (whole, mut ring) = (fabric.remote(), fabric.ring(8, 8));
        let local = farword::LocalSlice::new(whole.base(), 8, whole.rkey());
        let span = whole.span(8, 8).unwrap();
        ring.write(local, span, Notify::OnError, ctx(0)).unwrap();
        let failed = Told(0, Outcome::Failed(WcStatus::LOC_PROT_ERR));
        assert_eq!(drained(&mut ring).0, [failed], "nor the other way round");
    });
}

/// CASES 6: what a completion queue that overflows does to a ring
/// whose provider promised more than it has.
#[test]
fn an_overrun_completion_queue_fails_the_ring() {
    #[derive(Debug)]
    struct Boastful<P>(P);
    impl<P: Provider> Provider for Boastful<P> {
        fn capabilities(&self) -> farword::Capabilities {
            let mut capabilities = self.0.capabilities();
            capabilities.cq_depth = 64;
            capabilities
        }
        fn post(&mut self, chain: farword::Chain<'_>) -> Result<(), farword::PostError> {
            self.0.post(chain)
        }
        fn poll(&mut self, into: &mut [farword::wr::Wc]) -> Result<usize, DeviceFault> {
            self.0.poll(into)
        }
    }
    with_inline(Mode::Emulated, |fabric| {
        let mut ring = ring(Boastful(fabric.qp(16, 4)), 16, 16);
        for at in 0..8 {
            ring.atomic_write(fabric.word(0), Word::ne(at), Notify::Always, ctx(at)).unwrap();
        }
        let why = Why::Device(DeviceFault::CompletionQueue);
        let mut expected = told(0..4, Outcome::Confirmed);
        expected.extend(told(4..8, Outcome::Unknown));
        let failed = Err(WaitError::Ring(Error::Failed { why }));
        assert_eq!(drained(&mut ring), (expected, failed));
    });
}

/// CASES 16: an engine may go before its queue pairs and rings.
#[test]
fn an_engine_dropped_before_its_ring_fails_it() {
    let memory = [const { core::sync::atomic::AtomicU64::new(0) }; 8];
    let mut device = SoftDevice::new();
    let region = device.register(&memory, farword::Usage::WRITE_DST).unwrap().remote();
    let target = region.target(farword::AlignedOffset::ZERO).unwrap();
    std::thread::scope(|scope| {
        let engine = Engine::spawn(scope, &device);
        let mut served = ring(engine.qp(QpConfig::default()).unwrap(), 32, 8);
        served.atomic_write(target, Word::ne(1), Notify::Always, ctx(0)).unwrap();
        assert_eq!(drained(&mut served).0, told(0..1, Outcome::Confirmed));
        drop(engine);
        served.atomic_write(target, Word::ne(2), Notify::OnError, ctx(1)).unwrap();
        served.doorbell().unwrap();
        let mut all = Vec::new();
        let why = Why::Device(DeviceFault::Device);
        let end = served.wait(farword::Ring::confirmed(&served), patience(), |completion| {
            all.push(Told::from(completion));
        });
        assert!(end.is_err() || all.is_empty(), "{end:?}");
        all.extend(drained(&mut served).0);
        // Whether the thread saw it before it ended decides which it is.
        assert!(all.is_empty() || all == [Told(1, Outcome::Unknown)], "{all:?}");
        assert!(served.failure().is_none_or(|failure| failure == why));
    });
}

/// CASES 16: every order that compiles is clean, with work staged and in flight.
#[test]
fn rings_queue_pairs_and_engines_drop_in_any_order() {
    fn busy<P: Provider>(ring: &mut Ring<'_, P>, target: farword::Target) {
        for at in 0..4 {
            ring.atomic_write(target, Word::ne(at), Notify::Always, ctx(at)).unwrap();
        }
        ring.doorbell().unwrap();
        ring.atomic_write(target, Word::ne(9), Notify::Always, ctx(9)).unwrap();
    }
    for order in 0..6 {
        with_threaded(Mode::Emulated, |fabric| {
            let mut rings: Vec<Ring<'_, ThreadedQp>> = (0..3).map(|_| fabric.ring(8, 8)).collect();
            for ring in &mut rings {
                busy(ring, fabric.word(0));
            }
            drop(rings.swap_remove(order % 3));
            drop(rings.swap_remove(order % 2));
            // The last ring goes with the closure, before the engine.
        });
    }
    // A ring in lent memory goes first, then its queue pair's memory.
    with_inline(Mode::Native, |fabric| {
        let mut queue = QpStorage::<16>::new();
        let mut storage = RingStorage::<16, 8>::new();
        for _ in 0..2 {
            let mut queue_again = QpStorage::<16>::new();
            let config = QpConfig::default().with_mode(Mode::Native);
            let qp = InlineQp::new(fabric.0.device, config, &mut queue_again).unwrap();
            let mut ring = Ring::new(qp, RingConfig::default(), &mut storage).unwrap();
            busy(&mut ring, fabric.word(0));
        }
        let qp = InlineQp::new(fabric.0.device, QpConfig::default(), &mut queue).unwrap();
        let mut ring = Ring::new(qp, RingConfig::default(), &mut storage).unwrap();
        busy(&mut ring, fabric.word(1));
        assert_eq!(drained(&mut ring).0.len(), 5, "storage is as good as new");
    });
}

/// Compiles only while no ring is `Sync`: else the `_` below could be read in
/// two ways.
const _RINGS_ARE_NOT_SYNC: () = {
    trait OnlyOne<Which> {
        const WAY: () = ();
    }
    impl<T: ?Sized> OnlyOne<()> for T {}
    impl<T: ?Sized + Sync> OnlyOne<u8> for T {}
    let () = <Ring<'static, InlineQp<'static>> as OnlyOne<_>>::WAY;
    let () = <Ring<'static, ThreadedQp> as OnlyOne<_>>::WAY;
};

/// A ring may go to another thread, and its memory with it.
#[test]
fn a_ring_goes_to_another_thread_between_staging_and_doorbell() {
    with_inline(Mode::Emulated, |fabric| {
        let mut ring = fabric.ring(8, 8);
        let context = OpContext::new(1);
        ring.atomic_write(fabric.word(0), Word::ne(1), Notify::Always, context).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                assert_eq!(drained(&mut ring), (told(1..2, Outcome::Confirmed), Ok(())));
            });
        });
        assert_eq!(fabric.seen(0), 1);
    });
}
