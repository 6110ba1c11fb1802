//! The remote log over the software device, both engines and both modes.

use core::sync::atomic::{AtomicU64, Ordering};

use farword::log::{self, Bound, DATA_OFFSET, Log, LogConfig, LogError};
use farword::soft::{Engine, InlineQp, Mode, QpConfig, SoftDevice, load_bytes, store_bytes};
use farword::{FlushKind, Invalid, Provider, Ring, RingConfig, Usage};

const LOG_USAGE: Usage = Usage::WRITE_DST.and(Usage::READ_SRC).and(Usage::FLUSH_VISIBILITY);
const STAGING_USAGE: Usage = Usage::WRITE_SRC.and(Usage::READ_DST);

fn words(bytes: usize) -> Vec<AtomicU64> {
    (0..bytes.div_ceil(8)).map(|_| AtomicU64::new(0)).collect()
}

fn bytes_of(memory: &[AtomicU64], from: u64, to: u64) -> Vec<u8> {
    let mut bytes = vec![0; (to - from) as usize];
    assert_eq!(load_bytes(memory, from, &mut bytes), bytes.len());
    bytes
}

/// Runs `job` on a log of `size` bytes with `staging` bytes, once per engine and
/// mode.
fn on_each(
    size: usize,
    staging: usize,
    job: impl Fn(&mut Log<'_, &mut dyn Provider>, &[AtomicU64]),
) {
    for mode in [Mode::Emulated, Mode::Native] {
        for late in [false, true] {
            let config = QpConfig::default().with_mode(mode).with_late_reads(late);
            with_log(size, staging, |device, open| {
                let mut qp = InlineQp::boxed(device, config).unwrap();
                open(&mut qp, &job);
            });
        }
        with_log(size, staging, |device, open| {
            std::thread::scope(|scope| {
                let engine = Engine::spawn(scope, device);
                let mut qp = engine.qp(QpConfig::default().with_mode(mode)).unwrap();
                open(&mut qp, &job);
            });
        });
    }
}

type Job<'a> = &'a dyn Fn(&mut Log<'_, &mut dyn Provider>, &[AtomicU64]);
type Open<'a> = &'a dyn Fn(&mut dyn Provider, Job<'_>);

fn with_log(size: usize, staging: usize, run: impl FnOnce(&SoftDevice<'_>, Open<'_>)) {
    let remote = words(size);
    log::format(&remote).unwrap();
    let local = words(staging);
    let mut device = SoftDevice::new();
    let region = device.register_part(&remote, 0, size as u64, LOG_USAGE).unwrap().remote();
    let slice = device.register(&local, STAGING_USAGE).unwrap().local();
    let (remote, local) = (&remote, &local);
    run(&device, &|qp, job| {
        let ring = Ring::boxed(qp, RingConfig::new(16, 8)).unwrap();
        let mut log = Log::open(ring, region, local, slice, LogConfig::default()).unwrap();
        job(&mut log, remote);
    });
}

#[test]
fn records_of_every_length_arrive_whole_and_in_order() {
    on_each(64 * 1024, 48, |log, remote| {
        let mut expected = Vec::new();
        for len in (0..130).chain([1000, 5000]) {
            let record: Vec<u8> = (0..len).map(|n| (n * 7 + len) as u8).collect();
            log.append(&record).unwrap();
            expected.extend(&record);
            expected.push(0);
            if len % 3 == 0 {
                log.commit().unwrap();
            }
        }
        let last = log.commit().unwrap();
        log.wait(last).unwrap();
        assert_eq!(log.durable(), last);
        assert_eq!(log::tail(remote).unwrap(), last);
        assert_eq!(bytes_of(remote, DATA_OFFSET, last.get()), expected);

        let mut back = vec![0; expected.len()];
        log.read(DATA_OFFSET, &mut back).unwrap();
        assert_eq!(back, expected);
        assert!(log.ring().is_idle());
    });
}

#[test]
fn a_group_commit_is_one_doorbell() {
    on_each(4096, 1024, |log, _| {
        let before = log.ring().counters();
        for _ in 0..20 {
            log.append(b"a record").unwrap();
        }
        assert_eq!(log.ring().counters().doorbells, before.doorbells);
        let last = log.commit().unwrap();
        log.wait(last).unwrap();
        let after = log.ring().counters();
        assert_eq!(after.doorbells - before.doorbells, 1);
        assert_eq!(after.posted - before.posted, 4, "write, flush, atomic write, flush");
    });
}

#[test]
fn nothing_shows_before_a_commit_and_waiting_commits() {
    on_each(4096, 256, |log, remote| {
        let lsn = log.append(b"unseen").unwrap();
        assert_eq!(log::tail(remote).unwrap().get(), DATA_OFFSET);
        log.wait(lsn).unwrap();
        assert_eq!(log::tail(remote).unwrap(), lsn);
        assert_eq!(log.commit().unwrap(), lsn, "nothing new is nothing to do");
    });
}

#[test]
fn a_full_log_and_a_record_too_large_leave_it_unchanged() {
    on_each(128, 64, |log, remote| {
        let most = 128 - DATA_OFFSET;
        assert_eq!(log.append(&[1; 128]), Err(LogError::TooLarge { len: 129, max: most }));
        log.append(&[2; 60]).unwrap();
        let before = log.appended();
        assert_eq!(log.append(&[3; 60]), Err(LogError::Full { len: 61, free: most - 61 }));
        assert_eq!(log.appended(), before);
        log.append(&[4; 50]).unwrap();
        assert_eq!(log.free(), 0);
        let last = log.commit().unwrap();
        log.wait(last).unwrap();
        assert_eq!(last.get(), 128);
        let mut expected = vec![2; 60];
        expected.push(0);
        expected.extend([4; 50]);
        expected.push(0);
        assert_eq!(bytes_of(remote, DATA_OFFSET, 128), expected);
        assert_eq!(log.append(b""), Err(LogError::Full { len: 1, free: 0 }));
    });
}

fn open_over(remote: &[AtomicU64], usage: Usage, config: LogConfig) -> Result<u64, LogError> {
    let local = words(64);
    let mut device = SoftDevice::new();
    let region = device.register(remote, usage).unwrap().remote();
    let slice = device.register(&local, STAGING_USAGE).unwrap().local();
    let before = bytes_of(remote, 0, size_of_val(remote) as u64);
    let qp = InlineQp::boxed(&device, QpConfig::default()).unwrap();
    let ring = Ring::boxed(qp, RingConfig::default()).unwrap();
    let opened = Log::open(ring, region, &local, slice, config).map(|log| log.durable().get());
    assert_eq!(bytes_of(remote, 0, before.len() as u64), before, "opening changes nothing");
    opened
}

#[test]
fn what_is_not_a_log_is_refused_by_name() {
    let config = LogConfig::default();
    let remote = words(64);
    log::format(&remote).unwrap();
    assert_eq!(open_over(&remote, LOG_USAGE, config), Ok(16));

    for tail in [0, 15, 65, u64::MAX] {
        remote[1].store(tail, Ordering::Release);
        let outside = LogError::TailOutside { tail, first: 16, size: 64 };
        assert_eq!(open_over(&remote, LOG_USAGE, config), Err(outside));
        assert_eq!(log::tail(&remote), Err(outside));
    }
    remote[1].store(64, Ordering::Release);
    assert_eq!(open_over(&remote, LOG_USAGE, config), Ok(64), "a full log is a log");

    store_bytes(&remote, 0, b"PMEMPOOL");
    let foreign = LogError::ForeignSignature { found: *b"PMEMPOOL" };
    assert_eq!(open_over(&remote, LOG_USAGE, config), Err(foreign));
    assert_eq!(open_over(&remote, LOG_USAGE, config.with_any_signature()), Ok(64));
    store_bytes(&remote, 0, &[0; 8]);
    assert_eq!(open_over(&remote, LOG_USAGE, config), Ok(64), "unsigned, as in volatile memory");

    assert_eq!(open_over(&words(8), LOG_USAGE, config), Err(LogError::RegionTooSmall { size: 8 }));
    let no_read = Usage::WRITE_DST | Usage::FLUSH_VISIBILITY;
    assert_eq!(
        open_over(&remote, no_read, config),
        Err(LogError::Invalid(Invalid::UsageMissing { needs: Usage::READ_SRC, has: no_read }))
    );
    assert_eq!(
        open_over(&remote, LOG_USAGE, config.with_flush(FlushKind::Persistent)),
        Err(LogError::Invalid(Invalid::PeerNotPersistent))
    );
}

#[test]
fn a_log_goes_on_from_its_tail() {
    let remote = words(4096);
    let local = words(256);
    log::format(&remote).unwrap();
    let mut device = SoftDevice::new();
    let region = device.register(&remote, LOG_USAGE).unwrap().remote();
    let slice = device.register(&local, STAGING_USAGE).unwrap().local();
    for round in 0..5u8 {
        let qp = InlineQp::boxed(&device, QpConfig::default()).unwrap();
        let ring = Ring::boxed(qp, RingConfig::default()).unwrap();
        let mut log = Log::open(ring, region, &local, slice, LogConfig::default()).unwrap();
        let lsn = log.append(&[b'a' + round; 3]).unwrap();
        log.append(b"never committed").unwrap();
        // Committed by the wait, with everything that was appended by then.
        assert!(log.wait(lsn).is_ok());
    }
    let tail = log::tail(&remote).unwrap();
    let text = bytes_of(&remote, DATA_OFFSET, tail.get());
    let records: Vec<&[u8]> = text.split(|byte| *byte == 0).collect();
    assert_eq!(records[0], b"aaa");
    assert_eq!(records[8], b"eee");
}

#[test]
fn a_dead_region_fails_the_log_and_keeps_what_was_durable() {
    let remote = words(4096);
    let local = words(256);
    log::format(&remote).unwrap();
    let mut device = SoftDevice::new();
    let registered = device.register(&remote, LOG_USAGE).unwrap();
    let slice = device.register(&local, STAGING_USAGE).unwrap().local();
    let qp = InlineQp::boxed(&device, QpConfig::default()).unwrap();
    let ring = Ring::boxed(qp, RingConfig::default()).unwrap();
    let config = LogConfig::default().with_bound(Bound::Polls(100));
    let mut log = Log::open(ring, registered.remote(), &local, slice, config).unwrap();
    let kept = log.append(b"kept").unwrap();
    log.wait(kept).unwrap();
    assert!(device.deregister(&registered));
    let lost = log.append(b"lost").unwrap();
    assert!(matches!(log.wait(lost), Err(LogError::Ring(_))));
    assert_eq!(log.durable(), kept);
    assert!(log.ring().failure().is_some());
    assert!(log.append(&[7; 3000]).is_err(), "a dead log takes no more than it can stage");
    assert_eq!(log::tail(&remote).unwrap(), kept);
}
