//! The kernel's own latencies, on the software device. Each bench first shows
//! that its work is really done, then times it.
//!
//! Software-device numbers are not NIC numbers: they are what the processor
//! spends on staging, posting, carrying out and polling.

use core::hint::black_box;
use core::sync::atomic::{AtomicU64, Ordering};

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use farword::soft::{Engine, InlineQp, QpConfig, SoftDevice};
use farword::{
    AlignedOffset, FlushKind, Forever, LocalSlice, Notify, OpContext, Provider, RemoteRegion, Ring,
    RingConfig, Span, Target, Usage, Word,
};

const USAGE: Usage = Usage::from_bits(0xff);
const DEPTH: u32 = 256;
const BATCH: u32 = 64;

/// Memory on both sides, and the checked places in it.
struct Places {
    target: Target,
    record: Span,
    tail: Span,
    local: LocalSlice,
}

impl Places {
    fn new(remote: RemoteRegion, local: LocalSlice) -> Self {
        Places {
            target: remote.target(AlignedOffset::ZERO).unwrap(),
            record: remote.span(64, 64).unwrap(),
            tail: remote.span(0, 8).unwrap(),
            local: local.slice(0, 64).unwrap(),
        }
    }
}

fn memory() -> Vec<AtomicU64> {
    (0..64).map(|_| AtomicU64::new(0)).collect()
}

fn stage(ring: &mut Ring<'_, impl Provider>, places: &Places, count: u32, word: u64) {
    for n in 0..u64::from(count) {
        let word = Word::ne(word + n);
        ring.atomic_write(places.target, word, Notify::OnError, OpContext::new(n)).unwrap();
    }
}

fn empty(ring: &mut Ring<'_, impl Provider>) {
    ring.drain(Forever, |_| {}).unwrap();
}

/// Write, flush, atomic write, flush: one doorbell, one completion.
fn commit(ring: &mut Ring<'_, impl Provider>, places: &Places, word: u64) {
    let quiet = OpContext::new(0);
    let kind = FlushKind::Visibility;
    ring.write(places.local, places.record, Notify::OnError, quiet).unwrap();
    ring.flush(places.record, kind, Notify::OnError, quiet).unwrap();
    ring.atomic_write(places.target, Word::ne(word), Notify::OnError, quiet).unwrap();
    let last = ring.flush(places.tail, kind, Notify::Always, quiet).unwrap();
    ring.wait(last, Forever, |_| {}).unwrap();
}

fn inline_engine(c: &mut Criterion) {
    let (remote, local) = (memory(), memory());
    let mut device = SoftDevice::new();
    let region = device.register(&remote, USAGE).unwrap().remote();
    let slice = device.register(&local, USAGE).unwrap().local();
    let places = Places::new(region, slice);
    let config = QpConfig::default().with_depths(DEPTH, DEPTH);
    let qp = InlineQp::boxed(&device, config).unwrap();
    let mut ring = Ring::boxed(qp, RingConfig::new(DEPTH, BATCH)).unwrap();

    let mut group = c.benchmark_group("inline");
    group.throughput(Throughput::Elements(1));
    stage(&mut ring, &places, 1, 5);
    assert_eq!(ring.staged(), 1);
    empty(&mut ring);
    assert_eq!(remote[0].load(Ordering::Acquire), 5);
    group.bench_function("stage", |b| {
        b.iter_custom(|iterations| {
            // Only staging is on the clock; a full batch is emptied off it.
            let mut time = core::time::Duration::ZERO;
            let mut left = iterations;
            while left > 0 {
                let count = left.min(u64::from(BATCH)) as u32;
                let start = std::time::Instant::now();
                stage(&mut ring, black_box(&places), count, 0);
                time += start.elapsed();
                assert_eq!(ring.staged(), count);
                empty(&mut ring);
                left -= u64::from(count);
            }
            time
        });
    });

    for count in [1, 4, 16, 32] {
        group.throughput(Throughput::Elements(u64::from(count)));
        let mut word = 0;
        let mut round = |ring: &mut Ring<'_, InlineQp<'_>>| {
            word += 100;
            stage(ring, &places, count, word);
            ring.doorbell().unwrap();
            ring.poll_with(|_| {}).unwrap();
            word + u64::from(count) - 1
        };
        let before = ring.counters();
        let last = round(&mut ring);
        assert_eq!(ring.counters().doorbells - before.doorbells, 1);
        assert_eq!(ring.counters().posted - before.posted, u64::from(count));
        assert_eq!(remote[0].load(Ordering::Acquire), last);
        group.bench_function(format!("doorbell/{count}"), |b| b.iter(|| round(&mut ring)));
    }

    empty(&mut ring);
    group.throughput(Throughput::Elements(1));
    assert_eq!(ring.poll_with(|_| {}), Ok(0));
    group.bench_function("empty poll", |b| b.iter(|| ring.poll_with(|_| {}).unwrap()));

    let mut word = 0;
    commit(&mut ring, &places, 77);
    assert_eq!(remote[0].load(Ordering::Acquire), 77);
    group.bench_function("commit chain", |b| {
        b.iter_batched(
            || {
                word += 1;
                word
            },
            |word| commit(&mut ring, &places, word),
            BatchSize::SmallInput,
        );
    });
    assert_eq!(remote[0].load(Ordering::Acquire), word, "the last one was published");
    group.finish();
}

fn round_trip(ring: &mut Ring<'_, impl Provider>, places: &Places, word: u64) {
    let word = Word::ne(word);
    let last = ring.atomic_write(places.target, word, Notify::Always, OpContext::new(1)).unwrap();
    ring.wait(last, Forever, |_| {}).unwrap();
}

fn round_trips(c: &mut Criterion) {
    let (remote, local) = (memory(), memory());
    let mut device = SoftDevice::new();
    let region = device.register(&remote, USAGE).unwrap().remote();
    let slice = device.register(&local, USAGE).unwrap().local();
    let places = Places::new(region, slice);
    let mut group = c.benchmark_group("round trip");

    let qp = InlineQp::boxed(&device, QpConfig::default()).unwrap();
    let mut ring = Ring::boxed(qp, RingConfig::default()).unwrap();
    round_trip(&mut ring, &places, 3);
    assert_eq!(remote[0].load(Ordering::Acquire), 3);
    group.bench_function("inline", |b| b.iter(|| round_trip(&mut ring, &places, 4)));

    std::thread::scope(|scope| {
        let engine = Engine::spawn(scope, &device);
        let qp = engine.qp(QpConfig::default()).unwrap();
        let mut ring = Ring::boxed(qp, RingConfig::default()).unwrap();
        round_trip(&mut ring, &places, 5);
        assert_eq!(remote[0].load(Ordering::Acquire), 5);
        group.bench_function("threaded", |b| b.iter(|| round_trip(&mut ring, &places, 6)));
        commit(&mut ring, &places, 8);
        assert_eq!(remote[0].load(Ordering::Acquire), 8);
        group.bench_function("threaded commit chain", |b| b.iter(|| commit(&mut ring, &places, 9)));
    });
    group.finish();
}

criterion_group!(benches, inline_engine, round_trips);
criterion_main!(benches);
