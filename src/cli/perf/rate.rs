//! As many writes as go through: a batch to a doorbell, several in flight.

use core::time::Duration;
use std::time::Instant;

use anyhow::bail;
use farword::{Error, Notify, OpContext, Patience, Provider, Ring, Target, Word};
use serde::Serialize;

use super::{RateArgs, Stall, WORDS, write};
use crate::cli::device::RanOn;
use crate::cli::output::{print as print_text, print_json, table};
use crate::cli::stop;

#[derive(Debug)]
pub(super) struct Done {
    /// All of them confirmed.
    pub(super) writes: u64,
    doorbells: u64,
    /// From the first one staged to the last one confirmed.
    elapsed: Duration,
}

impl Done {
    /// Takes in what another queue pair did at the same time.
    #[cfg(feature = "verbs")]
    pub(super) fn merge(&mut self, other: &Done) -> anyhow::Result<()> {
        self.writes += other.writes;
        self.doorbells += other.doorbells;
        self.elapsed = self.elapsed.max(other.elapsed);
        Ok(())
    }
}

/// How many batches go between two looks at the clock.
const BATCHES_PER_LOOK: u32 = 64;

/// Writes until `duration` is over, and waits for what is then in flight.
pub(super) fn run<P: Provider>(
    ring: &mut Ring<'_, P>,
    targets: &[Target; WORDS],
    batch: u32,
    duration: Duration,
) -> anyhow::Result<Done> {
    let before = ring.counters();
    let mut writes = 0;
    let begin = Instant::now();
    loop {
        for _ in 0..BATCHES_PER_LOOK {
            one_batch(ring, targets, batch, writes)?;
            writes += u64::from(batch);
        }
        if begin.elapsed() >= duration || stop::requested() {
            break;
        }
    }
    ring.drain(Stall::default(), |_| {})?;
    let elapsed = begin.elapsed();
    let after = ring.counters();
    // The ring may have added an empty request of its own, to learn of the end.
    let (posted, retired) = (after.posted - before.posted, after.retired - before.retired);
    if posted < writes || posted != retired {
        bail!("{writes} writes were staged, {posted} requests posted and {retired} retired");
    }
    Ok(Done { writes, doorbells: after.doorbells - before.doorbells, elapsed })
}

#[inline]
fn one_batch<P: Provider>(
    ring: &mut Ring<'_, P>,
    targets: &[Target; WORDS],
    batch: u32,
    first: u64,
) -> anyhow::Result<()> {
    if ring.room() < batch {
        make_room(ring, batch)?;
    }
    for n in first..first + u64::from(batch) {
        let (target, value) = write(targets, n);
        ring.atomic_write(target, Word::ne(value), Notify::OnError, OpContext::new(n))?;
    }
    match ring.doorbell() {
        // What did not go stays staged; making room posts it.
        Ok(_) | Err(Error::Full { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    ring.poll_with(|_| {})?;
    Ok(())
}

#[cold]
fn make_room<P: Provider>(ring: &mut Ring<'_, P>, batch: u32) -> anyhow::Result<()> {
    let mut stall = Stall::default();
    loop {
        match ring.doorbell() {
            Ok(_) | Err(Error::Full { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        ring.poll_with(|_| {})?;
        if ring.room() >= batch {
            return Ok(());
        }
        if !stall.more() {
            bail!("nothing has completed for ten seconds, with {} in flight", ring.in_flight());
        }
    }
}

#[derive(Debug, Serialize)]
struct Report {
    writes_per_sec: u64,
    ns_per_write: f64,
    writes: u64,
    doorbells: u64,
    seconds: f64,
    verified: bool,
    #[serde(flatten)]
    ran_on: RanOn,
    batch: u32,
}

pub(super) fn print(
    done: &Done,
    args: &RateArgs,
    ran_on: RanOn,
    verified: bool,
) -> anyhow::Result<()> {
    let seconds = done.elapsed.as_secs_f64();
    let report = Report {
        writes_per_sec: (done.writes as f64 / seconds).round() as u64,
        ns_per_write: (seconds * 1e12 / done.writes as f64).round() / 1e3,
        writes: done.writes,
        doorbells: done.doorbells,
        seconds,
        verified,
        ran_on,
        batch: args.batch,
    };
    if args.common.json { print_json(&report) } else { print_text(&report.table()) }
}

impl Report {
    fn table(&self) -> String {
        let header =
            ["#bytes", "#batch", "#writes", "#doorbells", "seconds", "ns/write", "Mwrites/s"];
        let mut rows = table(&header);
        rows.add_row([
            "8".to_string(),
            self.batch.to_string(),
            self.writes.to_string(),
            self.doorbells.to_string(),
            format!("{:.2}", self.seconds),
            format!("{:.2}", self.ns_per_write),
            format!("{:.2}", self.writes_per_sec as f64 / 1e6),
        ]);
        format!(
            "Rate of atomic writes, one doorbell for each batch\n\
             {}\n{rows}\n\
             Every write was confirmed, and every word {} its last value.\n{}",
            self.ran_on.title(),
            if self.verified { "holds" } else { "DOES NOT HOLD" },
            self.ran_on.caveat(),
        )
    }
}
