//! The work itself: records into a log, group by group, over any provider.

use std::time::Instant;

use anyhow::anyhow;
use farword::Provider;
use farword::log::{Log, LogError};

use super::input::{Inputs, Place};
use super::progress::Progress;
use crate::cli::latency::Latencies;
use crate::cli::stop;

/// What was done.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) records: u64,
    /// Of the records alone, without the NULs behind them.
    pub(super) bytes: u64,
    pub(super) work_requests: u64,
    pub(super) doorbells: u64,
    /// From a record's append to the end of the wait that confirms it.
    pub(super) latencies: Latencies,
    /// Where the log must end now.
    pub(super) tail: u64,
    /// Whether a stop was requested before the inputs were at their end.
    pub(super) stopped: bool,
}

impl Done {
    /// Nothing yet, in a log that ends at `tail`.
    pub(super) fn new(tail: u64) -> anyhow::Result<Self> {
        Ok(Done {
            records: 0,
            bytes: 0,
            work_requests: 0,
            doorbells: 0,
            latencies: Latencies::new()?,
            tail,
            stopped: false,
        })
    }
}

/// Appends every record of the inputs, `batch` to a commit, each group durable
/// before the next begins, and counts in `done` what is.
///
/// # Errors
/// In words that name the record. What was appended before it is durable.
pub(super) fn run<P: Provider>(
    log: &mut Log<'_, P>,
    inputs: &mut Inputs,
    batch: usize,
    progress: &Progress,
    done: &mut Done,
) -> anyhow::Result<()> {
    let before = log.ring().counters();
    let mut group = Vec::new();
    let mut starts = Vec::new();
    loop {
        let gathered = gather(inputs, batch, log, &mut group);
        if !group.is_empty() {
            append_group(log, inputs, &group, &mut starts, done)?;
            progress.at(inputs.consumed());
        }
        // A group that was cut short by an error is in the log all the same.
        if !gathered? {
            break;
        }
    }
    let after = log.ring().counters();
    done.work_requests = after.posted - before.posted;
    done.doorbells = after.doorbells - before.doorbells;
    done.stopped = stop::requested();
    Ok(())
}

/// Takes the next records, up to `batch` of them, so that a slow input costs no
/// record time between its append and its commit. Says whether there may be
/// more.
fn gather<P: Provider>(
    inputs: &mut Inputs,
    batch: usize,
    log: &Log<'_, P>,
    group: &mut Vec<Place>,
) -> anyhow::Result<bool> {
    group.clear();
    if stop::requested() {
        return Ok(false);
    }
    let longest = log.capacity();
    let free = log.free();
    let mut taken = 0;
    // What does not fit the log ends a group, so that an endless input cannot
    // fill the memory: its append says that the log is full.
    while group.len() < batch && taken <= free {
        let Some(place) = inputs.next(longest.saturating_sub(1))? else {
            return Ok(false);
        };
        taken += place.len() + 1;
        group.push(place);
    }
    Ok(true)
}

/// One commit.
fn append_group<P: Provider>(
    log: &mut Log<'_, P>,
    inputs: &Inputs,
    group: &[Place],
    starts: &mut Vec<Instant>,
    done: &mut Done,
) -> anyhow::Result<()> {
    starts.clear();
    let mut refused = None;
    let mut bytes = 0;
    for place in group {
        let record = inputs.record(place);
        let start = Instant::now();
        match log.append(record.bytes) {
            Ok(_) => starts.push(start),
            Err(error) => {
                refused = Some(anyhow!("{record}: {}", advice(error)));
                break;
            }
        }
        bytes += record.bytes.len() as u64;
    }
    let committed = log.commit().and_then(|last| log.wait(last).map(|()| last));
    let end = Instant::now();
    let last = match (committed, refused) {
        (_, Some(refused)) => return Err(refused),
        (Err(error), None) => {
            let first = group.first().map(|place| inputs.record(place).to_string());
            let first = first.unwrap_or_default();
            return Err(anyhow!("the commit that begins with {first}: {error}"));
        }
        (Ok(last), None) => last,
    };
    for start in starts.iter() {
        done.latencies.record(end.duration_since(*start));
    }
    done.records += starts.len() as u64;
    done.bytes += bytes;
    done.tail = last.get();
    Ok(())
}

fn advice(error: LogError) -> String {
    match error {
        LogError::Full { .. } | LogError::TooLarge { .. } => {
            format!("{error}: give a larger --log-size")
        }
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicU64, Ordering};

    use farword::fault::{Fault, FaultPlan};
    use farword::log::{self, DATA_OFFSET, LogConfig};
    use farword::soft::{InlineQp, QpConfig, SoftDevice};
    use farword::{Ring, RingConfig, Usage, WcStatus};

    use super::*;
    use crate::cli::append::input::tests::inputs;
    use crate::cli::append::readback::{self, Extent};
    use crate::cli::remote::RingReader;

    const SIZE: usize = 512;

    /// Appends the lines of `text` to a log of 512 bytes under a plan of faults,
    /// and says how that went, where the log ends then, and, once a byte of it
    /// was changed, whether the comparison notices.
    struct Run {
        result: anyhow::Result<Done>,
        tail: u64,
        equal: bool,
        equal_when_changed: bool,
    }

    fn run_with(plan: FaultPlan, text: &[u8], batch: usize, changed: usize) -> Run {
        let remote: Vec<AtomicU64> = (0..SIZE / 8).map(|_| AtomicU64::new(0)).collect();
        let local: Vec<AtomicU64> = (0..8).map(|_| AtomicU64::new(0)).collect();
        log::format(&remote).expect("a header fits");
        let mut device = SoftDevice::new();
        let usage = Usage::WRITE_DST | Usage::READ_SRC | Usage::FLUSH_VISIBILITY;
        let region = device.register(&remote, usage).expect("a place is free").remote();
        let usage = Usage::WRITE_SRC | Usage::READ_DST;
        let staging = device.register(&local, usage).expect("a place is free").local();
        let qp = || InlineQp::boxed(&device, QpConfig::default()).expect("sound depths");
        let fault = Fault::<_, 256>::new(qp(), plan).expect("it can be followed");
        let ring = Ring::boxed(fault, RingConfig::default()).expect("sound depths");
        let mut log = Log::open(ring, region, &local, staging, LogConfig::default())
            .expect("the plan spares the opening");

        let mut inputs = inputs(&[text], false);
        let mut done = Done::new(DATA_OFFSET).expect("its bounds are sound");
        let progress = Progress::reading();
        let result = run(&mut log, &mut inputs, batch, &progress, &mut done).map(|()| done);
        let tail = log::tail(&remote).expect("it is a log").get();
        let ring = Ring::boxed(qp(), RingConfig::default()).expect("sound depths");
        let mut reader = RingReader::new(ring, region, &local, staging);
        let mut equal = |tail| {
            let difference = readback::compare(&mut reader, Extent::usual(tail), inputs.records());
            difference.expect("it can be read").is_none()
        };
        let before = equal(tail);
        remote[changed / 8].fetch_xor(1 << (8 * (changed % 8)), Ordering::Relaxed);
        Run { result, tail, equal: before, equal_when_changed: equal(tail) }
    }

    #[test]
    fn what_was_appended_is_found_equal_and_any_change_in_it_is_noticed() {
        let text =
            b"the first\n\nthe third, which is longer than the staging memory of 64 bytes\nx";
        for changed in 8..DATA_OFFSET as usize + text.len() + 1 {
            let run = run_with(FaultPlan::new(1), text, 2, changed);
            let done = run.result.expect("nothing fails");
            assert_eq!((done.records, done.bytes), (4, text.len() as u64 - 3));
            assert_eq!(done.latencies.count(), 4);
            assert_eq!(done.tail, run.tail);
            assert!(run.equal && !run.equal_when_changed, "byte {changed}");
        }
    }

    #[test]
    fn a_commit_that_fails_is_an_error_that_names_its_first_record() {
        // Two requests open the log, four make each commit.
        for (request, first, tail) in [(2, "line 1", 16), (5, "line 1", 20), (7, "line 3", 20)] {
            let plan = FaultPlan::new(1).fail_at(request, WcStatus::REM_ACCESS_ERR);
            let run = run_with(plan, b"a\nb\nc\nd\n", 2, 8);
            let error = run.result.expect_err("a request fails").to_string();
            assert!(error.contains(&format!("begins with text, {first}:")), "{error}");
            assert!(error.contains("remote access error"), "{error}");
            assert_eq!(run.tail, tail, "request {request}");
        }
    }

    #[test]
    fn a_log_that_is_full_keeps_what_went_before() {
        // Room for 496 bytes: 49 records of 10, the NUL included.
        let text = b"123456789\n".repeat(60);
        for batch in [1, 7, 1000] {
            let run = run_with(FaultPlan::new(1), &text, batch, 8);
            let error = run.result.expect_err("it is full").to_string();
            assert!(error.starts_with("text, line 50: the log is full"), "{error}");
            assert_eq!(run.tail, 16 + 490, "all of the 49, in groups of {batch}");
        }
    }
}
