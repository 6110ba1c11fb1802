//! The remote log over a device that fails.

use core::sync::atomic::AtomicU64;

use farword::fault::{Fault, FaultPlan};
use farword::log::{self, Bound, DATA_OFFSET, Log, LogConfig, LogError};
use farword::soft::{InlineQp, QpConfig, SoftDevice, load_bytes};
use farword::{Errno, Error, Ring, RingConfig, Usage};

/// A log of 256 bytes over a provider with this plan; opening it takes requests
/// 0 and 1.
fn with_log(
    plan: FaultPlan,
    job: impl FnOnce(&mut Log<'_, Fault<InlineQp<'_>>>, &dyn Fn(u64, u64) -> Vec<u8>),
) {
    let remote: Vec<AtomicU64> = (0..32).map(|_| AtomicU64::new(0)).collect();
    let staging: Vec<AtomicU64> = (0..8).map(|_| AtomicU64::new(0)).collect();
    log::format(&remote).unwrap();
    let mut device = SoftDevice::new();
    let usage = Usage::WRITE_DST | Usage::READ_SRC | Usage::FLUSH_VISIBILITY;
    let region = device.register(&remote, usage).unwrap().remote();
    let local = device.register(&staging, Usage::WRITE_SRC | Usage::READ_DST).unwrap().local();
    let qp = InlineQp::boxed(&device, QpConfig::default()).unwrap();
    let ring = Ring::boxed(Fault::new(qp, plan).unwrap(), RingConfig::new(16, 8)).unwrap();
    let config = LogConfig::default().with_bound(Bound::Polls(20));
    let mut log = Log::open(ring, region, &staging, local, config).unwrap();
    job(&mut log, &|from, to| {
        let mut bytes = vec![0; (to - from) as usize];
        load_bytes(&remote, from, &mut bytes);
        bytes
    });
}

/// Found by fuzzing: the refused read went out with the next commit's chain, in
/// front of the write, and put the log's old bytes in place of the record.
#[test]
fn a_read_whose_post_was_refused_does_not_overwrite_the_next_record() {
    with_log(FaultPlan::new(0).refuse_at(2, Errno::EIO), |log, bytes| {
        let refused = Err(LogError::Ring(Error::Provider(Errno::EIO)));
        assert_eq!(log.read(DATA_OFFSET, &mut [0; 8]), refused);
        let end = log.append(b"a record").unwrap();
        log.wait(end).unwrap();
        assert_eq!(bytes(DATA_OFFSET, end.get()), b"a record\0");
    });
}

#[test]
fn a_read_that_timed_out_holds_the_staging_memory_until_it_answers() {
    with_log(FaultPlan::new(0).delay_at(2, 50), |log, bytes| {
        assert_eq!(log.read(DATA_OFFSET, &mut [0; 8]), Err(LogError::TimedOut));
        let before = log.appended();
        assert_eq!(log.append(b"a record"), Err(LogError::TimedOut));
        assert_eq!(log.appended(), before, "the log is unchanged");
        let end = (0..5).find_map(|_| log.append(b"a record").ok()).expect("it answers at last");
        log.wait(end).unwrap();
        assert_eq!(bytes(DATA_OFFSET, end.get()), b"a record\0");
    });
}

/// The first record's bytes are in a write that is staged still when the third
/// record wants their place in the staging memory.
#[test]
fn a_refused_write_holds_its_place_in_the_staging_memory() {
    with_log(FaultPlan::new(0).refuse_at(2, Errno::EIO), |log, bytes| {
        log.append(b"first").unwrap();
        let refused = Err(LogError::Ring(Error::Provider(Errno::EIO)));
        assert_eq!(log.append(&[b'x'; 100]), refused, "it does not fit the staging memory");
        let end = log.append(b"third").unwrap();
        log.wait(end).unwrap();
        assert_eq!(bytes(DATA_OFFSET, end.get()), b"first\0third\0");
    });
}
