//! `farword perf`: how fast one word gets to the other side.

use core::sync::atomic::AtomicU64;
use core::time::Duration;
use std::thread;
use std::time::Instant;

use anyhow::bail;
use clap::Subcommand;
use farword::soft::{self, InlineQp, QpConfig, SoftDevice, SoftRegion};
use farword::{
    AlignedOffset, Error, Patience, Provider, RemoteRegion, Ring, RingConfig, Target, Usage,
};

use crate::cli::device::RanOn;
use crate::cli::remote::{ReadBack, RingReader};
use crate::cli::soft::{Engine, memory};
use crate::cli::usage;

#[cfg(feature = "verbs")]
mod fabric;
mod latency;
mod rate;

/// Measures atomic writes of 8 bytes, in the manner of perftest.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// How long a write takes, from staging to completion, one at a time.
    ///
    /// The table has perftest's columns: the least, the most, the median
    /// (t_typical), the mean, the standard deviation and two percentiles. The
    /// keys of the JSON object: iterations, writes, seconds, latency_ns with min,
    /// p50, avg, stdev, p99, p999 and max, clock_ns (one reading of the clock,
    /// part of every latency), verified, device, engine (or, over a fabric, path,
    /// peer and qps), batch.
    Latency(LatencyArgs),
    /// How many writes a second go through, many to a doorbell.
    ///
    /// The writes go round 64 words; at the end every word is read back over a
    /// second queue pair and must hold the last value that was written to it.
    /// The keys of the JSON object: writes_per_sec, ns_per_write, writes,
    /// doorbells, seconds, verified, device, engine (or, over a fabric, path,
    /// peer and qps), batch.
    Rate(RateArgs),
}

#[derive(Debug, clap::Args)]
struct LatencyArgs {
    /// How many writes share a doorbell; the time is that until all are
    /// confirmed.
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=4096))]
    batch: u32,

    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
struct RateArgs {
    /// How many writes share a doorbell.
    #[arg(long, value_name = "N", default_value_t = 32,
        value_parser = clap::value_parser!(u32).range(1..=4096))]
    batch: u32,

    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
struct Common {
    /// For how many seconds to measure; fractions are taken.
    #[arg(long, value_name = "S", default_value = "2", value_parser = usage::seconds)]
    duration: Duration,

    /// Which engine of the software device carries the writes out.
    #[arg(long, value_enum, value_name = "ENGINE", default_value_t)]
    engine: Engine,

    #[cfg(feature = "verbs")]
    #[command(flatten)]
    fabric: fabric::Args,

    /// Print one JSON object instead of the table, and nothing else.
    #[arg(long)]
    json: bool,
}

/// How many words are written to, in turn: a power of two, 8 cache lines.
const WORDS: usize = 64;

/// Runs the subcommand.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let (batch, common) = match &args.what {
        What::Latency(args) => (args.batch, &args.common),
        What::Rate(args) => (args.batch, &args.common),
    };
    #[cfg(feature = "verbs")]
    if let Some(job) = common.fabric.job() {
        return job.run(&args.what, batch);
    }
    let words = memory(8 * WORDS as u64, "the words")?;
    let readback = memory(8 * WORDS as u64, "a buffer")?;
    let mut device = SoftDevice::new();
    let bench = Bench {
        words: device.register(&words, Usage::WRITE_DST | Usage::READ_SRC)?,
        local: device.register(&readback, Usage::READ_DST)?,
        readback: &readback,
        batch,
        config: queue_config(batch),
    };
    let (config, what) = (bench.config.queue_pair(), &args.what);
    match common.engine {
        Engine::Inline => bench.measure(what, || InlineQp::boxed(&device, config)),
        Engine::Threaded => thread::scope(|scope| {
            let engine = soft::Engine::spawn(scope, &device);
            bench.measure(what, || engine.qp(config))
        }),
    }
}

/// A ring that takes `batch` writes to a doorbell, and four such in flight.
fn queue_config(batch: u32) -> Queues {
    let batch = batch.next_power_of_two();
    Queues(RingConfig::new((4 * batch).max(128), batch))
}

struct Queues(RingConfig);

impl Queues {
    fn queue_pair(&self) -> QpConfig {
        QpConfig::default().with_depths(self.0.depth, self.0.depth)
    }
}

/// What is written to, and what it is read back with.
struct Bench<'m> {
    words: SoftRegion,
    local: SoftRegion,
    readback: &'m [AtomicU64],
    batch: u32,
    config: Queues,
}

impl Bench<'_> {
    fn measure<P: Provider>(
        &self,
        what: &What,
        queue_pair: impl Fn() -> Result<P, Error>,
    ) -> anyhow::Result<()> {
        let region = self.words.remote();
        let targets = targets(region)?;
        let mut ring = Ring::boxed(queue_pair()?, self.config.0)?;
        let mut reader = RingReader::new(
            Ring::boxed(queue_pair()?, self.config.0)?,
            region,
            self.readback,
            self.local.local(),
        );
        match what {
            What::Latency(args) => {
                let done = latency::run(&mut ring, &targets, self.batch, args.common.duration)?;
                let verified = check(&mut reader, done.writes)?;
                latency::print(&done, args, RanOn::soft(args.common.engine), verified)?;
                require(verified)
            }
            What::Rate(args) => {
                let done = rate::run(&mut ring, &targets, self.batch, args.common.duration)?;
                let verified = check(&mut reader, done.writes)?;
                rate::print(&done, args, RanOn::soft(args.common.engine), verified)?;
                require(verified)
            }
        }
    }
}

/// The words, in order.
fn targets(region: RemoteRegion) -> anyhow::Result<[Target; WORDS]> {
    let mut targets = [region.target(AlignedOffset::ZERO)?; WORDS];
    for (index, target) in (0..).zip(&mut targets) {
        *target = region.target(AlignedOffset::of_word(index))?;
    }
    Ok(targets)
}

/// What write number `n` stores, and where. No two writes store the same.
#[inline]
fn write(targets: &[Target; WORDS], n: u64) -> (Target, u64) {
    (targets[n as usize % WORDS], n + 1)
}

/// What the word at `index` must hold after `writes` writes: the value of the
/// last that went there, or 0 if none did.
fn last_value(index: u64, writes: u64) -> u64 {
    let words = WORDS as u64;
    if writes <= index { 0 } else { (writes - 1 - index) / words * words + index + 1 }
}

/// Whether every word holds the last value that was written to it.
fn check(remote: &mut impl ReadBack, writes: u64) -> anyhow::Result<bool> {
    let mut bytes = [0; 8 * WORDS];
    remote.read(0, &mut bytes)?;
    let (words, _) = bytes.as_chunks::<8>();
    Ok((0..).zip(words).all(|(index, word)| u64::from_ne_bytes(*word) == last_value(index, writes)))
}

fn require(verified: bool) -> anyhow::Result<()> {
    if !verified {
        bail!("a word does not hold the last value that was written to it");
    }
    Ok(())
}

/// Gives up when nothing has completed for ten seconds. It reads the clock only
/// when it has been asked often, and lets other threads run then.
#[derive(Debug, Default)]
struct Stall {
    polls: u32,
    since: Option<Instant>,
}

impl Patience for Stall {
    #[inline]
    fn more(&mut self) -> bool {
        self.polls = self.polls.wrapping_add(1);
        core::hint::spin_loop();
        if !self.polls.is_multiple_of(1024) {
            return true;
        }
        thread::yield_now();
        self.since.get_or_insert_with(Instant::now).elapsed() < Duration::from_secs(10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_value_of_a_word_is_that_of_the_last_write_to_it() {
        for writes in 0..4 * WORDS as u64 + 3 {
            let mut words = [0; WORDS];
            for n in 0..writes {
                words[n as usize % WORDS] = n + 1;
            }
            for (index, word) in (0..).zip(words) {
                assert_eq!(last_value(index, writes), word, "word {index} after {writes}");
            }
        }
    }

    #[test]
    fn a_word_that_was_lost_is_found() {
        struct Words(Vec<u8>);
        impl ReadBack for Words {
            fn read(&mut self, _: u64, into: &mut [u8]) -> anyhow::Result<()> {
                into.copy_from_slice(&self.0);
                Ok(())
            }
        }
        let writes = 1000;
        let bytes = (0..WORDS as u64).flat_map(|index| last_value(index, writes).to_ne_bytes());
        let mut words = Words(bytes.collect());
        assert!(check(&mut words, writes).expect("readable"));
        assert!(!check(&mut words, writes + 1).expect("readable"), "one write too few");
        for byte in 0..words.0.len() {
            words.0[byte] ^= 1;
            assert!(!check(&mut words, writes).expect("readable"), "{byte}");
            words.0[byte] ^= 1;
        }
    }

    #[test]
    fn every_batch_has_a_ring_that_takes_it() {
        for batch in 1..=4096 {
            let config = queue_config(batch).0;
            assert!(config.batch >= batch && config.depth >= 4 * config.batch, "{batch}");
        }
    }
}
