//! The hot path never allocates: an allocator that counts says so.
//!
//! One test in one binary, so that no other test allocates beside it. The
//! counter is per thread: the threaded engine's own thread is not the caller's.

#![allow(unsafe_code, reason = "a global allocator is an unsafe trait")]

use core::alloc::GlobalAlloc;
use core::alloc::Layout;
use core::cell::Cell;
use core::sync::atomic::AtomicU64;
use std::alloc::System;

use arrayvec::ArrayVec;
use farword::fault::{Fault, FaultPlan};
use farword::soft::{Engine, InlineQp, Mode, QpConfig, QpStorage, SoftDevice};
use farword::{
    AlignedOffset, Completion, Errno, Error, FlushKind, Forever, Notify, OpContext, Outcome, Polls,
    Provider, Ring, RingConfig, RingStorage, Usage, WaitError, WcStatus, Word,
};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is handed to the system's allocator as it is; counting
// touches a thread-local cell that needs no allocation and no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps `alloc`'s contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above; the pointer came from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocations_of(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

/// Stages, posts and polls everything that a ring can do, many times over.
fn everything(ring: &mut Ring<'_, impl Provider>, rig: &Rig) {
    let mut out = ArrayVec::<Completion, 8>::new();
    for round in 0..50 {
        let context = OpContext::new(round);
        for _ in 0..3 {
            ring.atomic_write(rig.target, Word::le(round), Notify::OnError, context).unwrap();
        }
        ring.write(rig.local, rig.remote, Notify::OnError, context).unwrap();
        ring.flush(rig.remote, FlushKind::Visibility, Notify::OnError, context).unwrap();
        ring.read(rig.local, rig.remote, Notify::OnError, context).unwrap();
        ring.atomic_write(rig.target, Word::le(round), Notify::Always, context).unwrap();
        ring.doorbell().unwrap();
        out.clear();
        while out.is_empty() {
            ring.poll(&mut out).unwrap();
        }
        let last = ring.atomic_write(rig.target, Word::be(1), Notify::OnError, context).unwrap();
        ring.wait(last, Forever, |_| {}).unwrap();
        ring.atomic_write(rig.target, Word::be(2), Notify::Always, context).unwrap();
        ring.doorbell().unwrap();
        let mut retired = 0;
        while retired == 0 {
            retired = ring.poll_retired(|_| {}).unwrap();
        }
        ring.drain(Forever, |_| {}).unwrap();
    }
    // A full ring refuses without allocating either.
    while ring.atomic_write(rig.target, Word::le(0), Notify::OnError, OpContext::new(0)).is_ok() {}
    ring.drain(Forever, |_| {}).unwrap();
    let counters = ring.counters();
    assert_eq!(counters.staged, counters.retired, "all of it was done");
    assert!(counters.full > 0);
}

struct Rig {
    target: farword::Target,
    remote: farword::Span,
    local: farword::LocalSlice,
}

#[test]
fn staging_doorbell_and_poll_never_allocate() {
    assert_eq!(allocations_of(|| drop(core::hint::black_box(Box::new(1)))), 1, "it counts");

    let memory: Vec<AtomicU64> = (0..64).map(|_| AtomicU64::new(0)).collect();
    let usage = Usage::from_bits(0xff);
    let mut device = SoftDevice::new();
    let region = device.register(&memory[..32], usage).unwrap();
    let staging = device.register(&memory[32..], usage).unwrap();
    let rig = Rig {
        target: region.remote().target(AlignedOffset::ZERO).unwrap(),
        remote: region.remote().span(64, 60).unwrap(),
        local: staging.local().slice(3, 60).unwrap(),
    };
    for mode in [Mode::Emulated, Mode::Native] {
        let config = QpConfig::default().with_mode(mode);
        let qp = InlineQp::boxed(&device, config).unwrap();
        let mut ring = Ring::boxed(qp, RingConfig::new(32, 16)).unwrap();
        assert_eq!(allocations_of(|| everything(&mut ring, &rig)), 0, "inline, {mode:?}");

        std::thread::scope(|scope| {
            let engine = Engine::spawn(scope, &device);
            let qp = engine.qp(config).unwrap();
            let mut ring = Ring::boxed(qp, RingConfig::new(32, 16)).unwrap();
            assert_eq!(allocations_of(|| everything(&mut ring, &rig)), 0, "threaded, {mode:?}");
        });
    }
    lent_memory_is_enough(&device, &rig);
    a_failing_ring_never_allocates(&device, &rig);
    #[cfg(feature = "verbs")]
    verbs_never_allocates(&device, &rig);
}

/// In memory that the caller lends, building and dropping allocate nothing
/// either.
fn lent_memory_is_enough(device: &SoftDevice<'_>, rig: &Rig) {
    let mut queues = QpStorage::<64>::new();
    let mut storage = RingStorage::<32, 16>::new();
    for mode in [Mode::Emulated, Mode::Native] {
        let allocations = allocations_of(|| {
            let config = QpConfig::default().with_mode(mode).with_depths(64, 64);
            let qp = InlineQp::new(device, config, &mut queues).unwrap();
            let mut ring = Ring::new(qp, RingConfig::default(), &mut storage).unwrap();
            everything(&mut ring, rig);
        });
        assert_eq!(allocations, 0, "lent, {mode:?}");
    }
}

/// A ring that is refused a part of a chain, then fails, tells what it holds, and
/// refuses work: all of it without memory of the heap's.
fn a_failing_ring_never_allocates(device: &SoftDevice<'_>, rig: &Rig) {
    let plan = FaultPlan::new(1)
        .refuse_at(3, Errno::ENOMEM)
        .delay_at(0, 3)
        .fail_at(6, WcStatus::REM_ACCESS_ERR)
        .with_garbage();
    for give_up in [false, true] {
        let qp = InlineQp::boxed(device, QpConfig::default()).unwrap();
        let fault = Fault::new(qp, plan.clone()).unwrap();
        let mut ring = Ring::boxed(fault, RingConfig::new(32, 16)).unwrap();
        let (mut told, mut failed) = (0, 0);
        let allocations = allocations_of(|| {
            let context = OpContext::new(7);
            for at in 0..10 {
                ring.atomic_write(rig.target, Word::le(at), Notify::Always, context).unwrap();
            }
            assert!(matches!(ring.doorbell(), Err(Error::Full { .. })), "three are taken");
            if give_up {
                ring.abandon();
            }
            let end = ring.drain(Polls(100), |completion| {
                told += 1;
                failed += u64::from(matches!(completion.outcome, Outcome::Failed(_)));
            });
            assert!(matches!(end, Err(WaitError::Ring(Error::Failed { .. }))));
            let refused = ring.atomic_write(rig.target, Word::le(0), Notify::Always, context);
            assert!(matches!(refused, Err(Error::Failed { .. })));
            assert!(ring.poll_retired(|_| {}).is_err() && ring.doorbell().is_err());
        });
        assert_eq!((allocations, told, failed), (0, 10, u64::from(!give_up)));
    }
}

/// The code that drives real queue pairs, on each path, waiting for its
/// completion queue too.
#[cfg(feature = "verbs")]
fn verbs_never_allocates(device: &SoftDevice<'_>, rig: &Rig) {
    use farword::verbs::Path;
    use farword::verbs::nic::{NicConfig, NicQp};

    for path in [Path::PostSend, Path::WrCalls, Path::Native] {
        let config = NicConfig::default().with_path(path).with_channel(true);
        let qp = NicQp::new(device, config).unwrap().into_provider().unwrap();
        let mut ring = Ring::boxed(qp, RingConfig::new(32, 16)).unwrap();
        assert_eq!(allocations_of(|| everything(&mut ring, rig)), 0, "{path:?}");
        let waiting = || {
            ring.provider_mut().events().unwrap().arm().unwrap();
            let context = OpContext::new(0);
            ring.atomic_write(rig.target, Word::le(0), Notify::Always, context).unwrap();
            let told = ring.poll_or_sleep(core::time::Duration::from_secs(60), |_| {}).unwrap();
            let events = ring.provider_mut().events().unwrap().take().unwrap();
            assert_eq!((told, events), (1, 1));
        };
        assert_eq!(allocations_of(waiting), 0, "waiting, {path:?}");
    }
}
