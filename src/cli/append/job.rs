//! The work itself: records into a log, group by group, over any provider.

use std::time::Instant;

use anyhow::anyhow;
use farword::Provider;
use farword::log::{DATA_OFFSET, Log, LogError};

use super::input::{Inputs, Place};
use super::progress::Progress;
use crate::cli::latency::Latencies;

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
}

/// Appends every record of the inputs, `batch` to a commit, each group durable
/// before the next begins.
///
/// # Errors
/// In words that name the record. What was appended before it is durable.
pub(super) fn run<P: Provider>(
    log: &mut Log<'_, P>,
    inputs: &mut Inputs,
    batch: usize,
    progress: &Progress,
) -> anyhow::Result<Done> {
    let before = log.ring().counters();
    let mut done = Done {
        records: 0,
        bytes: 0,
        work_requests: 0,
        doorbells: 0,
        latencies: Latencies::new()?,
        tail: log.durable().get(),
    };
    let mut group = Vec::new();
    let mut starts = Vec::new();
    loop {
        let gathered = gather(inputs, batch, log, &mut group);
        if !group.is_empty() {
            append_group(log, inputs, &group, &mut starts, &mut done)?;
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
    Ok(done)
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
    let longest = log.region().size() - DATA_OFFSET;
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
