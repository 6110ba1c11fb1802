//! One write at a time: from staging to completion.

use core::time::Duration;
use std::time::Instant;

use farword::{Notify, OpContext, Provider, Ring, Target, Word};
use serde::Serialize;

use super::{LatencyArgs, Stall, WORDS, write};
use crate::cli::device::RanOn;
use crate::cli::latency::Latencies;
use crate::cli::output::{count, print as print_text, print_json, table};
use crate::cli::stop;

#[derive(Debug)]
pub(super) struct Done {
    pub(super) writes: u64,
    elapsed: Duration,
    /// One per iteration.
    latencies: Latencies,
    /// What one reading of the clock takes; it is in every latency.
    clock_ns: u64,
}

impl Done {
    /// Takes in what another queue pair did at the same time.
    #[cfg(feature = "verbs")]
    pub(super) fn merge(&mut self, other: &Done) -> anyhow::Result<()> {
        self.writes += other.writes;
        self.elapsed = self.elapsed.max(other.elapsed);
        self.latencies.merge(&other.latencies)
    }
}

/// Writes `batch` words, waits for all, and again, until `duration` is over.
pub(super) fn run<P: Provider>(
    ring: &mut Ring<'_, P>,
    targets: &[Target; WORDS],
    batch: u32,
    duration: Duration,
) -> anyhow::Result<Done> {
    let mut latencies = Latencies::new()?;
    let clock_ns = clock_cost()?;
    let mut writes = 0;
    let begin = Instant::now();
    loop {
        let start = Instant::now();
        for _ in 1..batch {
            stage(ring, targets, writes, Notify::OnError)?;
            writes += 1;
        }
        let last = stage(ring, targets, writes, Notify::Always)?;
        writes += 1;
        ring.wait(last, Stall::default(), |_| {})?;
        let end = Instant::now();
        latencies.record(end.duration_since(start));
        let elapsed = end.duration_since(begin);
        if elapsed >= duration || stop::requested() {
            return Ok(Done { writes, elapsed, latencies, clock_ns });
        }
    }
}

#[inline]
fn stage<P: Provider>(
    ring: &mut Ring<'_, P>,
    targets: &[Target; WORDS],
    n: u64,
    notify: Notify,
) -> Result<farword::Ticket, farword::Error> {
    let (target, value) = write(targets, n);
    ring.atomic_write(target, Word::ne(value), notify, OpContext::new(n))
}

/// The median time between two readings of the clock.
fn clock_cost() -> anyhow::Result<u64> {
    let mut between = Latencies::new()?;
    for _ in 0..10_000 {
        let first = Instant::now();
        between.record(first.elapsed());
    }
    Ok(between.summary().p50)
}

#[derive(Debug, Serialize)]
struct Report {
    iterations: u64,
    writes: u64,
    seconds: f64,
    latency_ns: Latency,
    clock_ns: u64,
    verified: bool,
    #[serde(flatten)]
    ran_on: RanOn,
    batch: u32,
}

#[derive(Debug, Serialize)]
struct Latency {
    min: u64,
    p50: u64,
    avg: f64,
    stdev: f64,
    p99: u64,
    p999: u64,
    max: u64,
}

pub(super) fn print(
    done: &Done,
    args: &LatencyArgs,
    ran_on: RanOn,
    verified: bool,
) -> anyhow::Result<()> {
    let latency = done.latencies.summary();
    let report = Report {
        iterations: done.latencies.count(),
        writes: done.writes,
        seconds: done.elapsed.as_secs_f64(),
        latency_ns: Latency {
            min: latency.min,
            p50: latency.p50,
            avg: latency.mean,
            stdev: latency.stdev,
            p99: latency.p99,
            p999: latency.p999,
            max: latency.max,
        },
        clock_ns: done.clock_ns,
        verified,
        ran_on,
        batch: args.batch,
    };
    if args.common.json { print_json(&report) } else { print_text(&report.table()) }
}

impl Report {
    fn table(&self) -> String {
        let ns = &self.latency_ns;
        // As perftest has it, in the unit that suits.
        let (unit, scale, digits) =
            if ns.p50 < 10_000 { ("nsec", 1.0, 0) } else { ("usec", 1e3, 2) };
        let show = |value: f64| format!("{:.digits$}", value / scale);
        let mut rows = table(&[
            "#bytes",
            "#iterations",
            "t_min",
            "t_max",
            "t_typical",
            "t_avg",
            "t_stdev",
            "99%",
            "99.9%",
        ]);
        rows.add_row([
            (8 * u64::from(self.batch)).to_string(),
            self.iterations.to_string(),
            show(ns.min as f64),
            show(ns.max as f64),
            show(ns.p50 as f64),
            show(ns.avg),
            show(ns.stdev),
            show(ns.p99 as f64),
            show(ns.p999 as f64),
        ]);
        let what = match self.batch {
            1 => "one atomic write".to_string(),
            batch => format!("{} atomic writes with one doorbell", count(batch.into())),
        };
        format!(
            "Latency of {what}, staging to completion, in {unit}\n\
             {}\n{rows}\n\
             Each time includes one reading of the clock, about {} ns.\n{}",
            self.ran_on.title(),
            self.clock_ns,
            self.ran_on.caveat(),
        )
    }
}
