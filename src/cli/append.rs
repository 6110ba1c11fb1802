//! `farword append`: lines become records of a remote log.

use core::sync::atomic::AtomicU64;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use anyhow::Context;
use farword::log::{self, Log, LogConfig, USED_OFFSET};
use farword::soft::{self, InlineQp, QpConfig, SoftDevice};
use farword::{AlignedOffset, Error, LocalSlice, Provider, RemoteRegion, Ring, RingConfig, Usage};

use crate::cli::device::RanOn;
use crate::cli::remote::RingReader;
use crate::cli::soft::{Engine, memory, touch};
use crate::cli::usage;

#[cfg(feature = "verbs")]
mod fabric;
mod input;
mod job;
mod progress;
mod readback;
mod report;

use input::Inputs;
use job::Done;
use progress::Progress;
use readback::Extent;
use report::{Report, Setting};

/// Appends every line of the files to a remote log, and reads the log back.
///
/// The log is one of its own on the software device or, with --connect, that of
/// a peer: `farword serve`, or librpma's example.
///
/// Each line, without its line feed, is one record of any bytes: a carriage
/// return stays, and so do NULs and what is not UTF-8. Records go out in groups.
/// A group is one commit: the bytes, a flush, an atomic write of the log's tail,
/// a flush, all with one doorbell, and it is waited for before the next begins.
///
/// At the end the log is read back from the remote side over a second queue
/// pair, and every byte, and the tail, is compared with the input. The exit code
/// is 0 only if all are equal.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Files of lines; `-` is standard input.
    ///
    /// Regular files are read into memory before the first record is sent, so
    /// that a missing one is found before anything is written. Standard input,
    /// pipes and devices are taken as they come.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// How many records one commit publishes.
    ///
    /// 1 makes every record durable by itself; more of them share one doorbell,
    /// which raises the rate, and a record may wait for the others of its group.
    #[arg(long, value_name = "N", default_value_t = 32,
        value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    batch: u32,

    /// How large the log is, its header of 16 bytes included.
    ///
    /// A record takes one byte more than its length. By default the log is made
    /// to fit the files (4096 bytes at least), with 64M more for each input whose
    /// length is not known: `-`, a pipe. K, M, G and T are taken as units.
    #[arg(long, value_name = "BYTES", value_parser = usage::log_size)]
    log_size: Option<u64>,

    /// Which engine of the software device carries the requests out.
    #[arg(long, value_enum, value_name = "ENGINE", default_value_t)]
    engine: Engine,

    #[cfg(feature = "verbs")]
    #[command(flatten)]
    peer: crate::cli::fabric::Peer,

    /// Print one JSON object instead of the table, and nothing else.
    ///
    /// Its keys: records, bytes (of the records, without line ends),
    /// work_requests, doorbells, verified, device, engine (or, over a fabric,
    /// path, flush and peer), batch, and latency_ns with p50, p99, p999 and max. A
    /// record's latency is the time from its append to the end of the wait that
    /// confirms it. A run that was stopped half-way also has stopped.
    #[arg(long)]
    json: bool,
}

/// The memory that records pass through on their way out.
const STAGING: u64 = 1 << 20;

/// The memory that the log is read back into, piece by piece.
const READBACK: u64 = 256 << 10;

/// Runs the subcommand.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let progress = Progress::reading();
    let mut inputs = Inputs::open(&args.files)?;
    #[cfg(feature = "verbs")]
    if let Some(peer) = args.peer.chosen() {
        return fabric::append(args, peer, &mut inputs, &progress);
    }
    on_soft_device(args, &mut inputs, &progress)?.print(args.json)
}

fn on_soft_device(args: &Args, inputs: &mut Inputs, progress: &Progress) -> anyhow::Result<Report> {
    let size = args.log_size.unwrap_or_else(|| inputs.log_size());
    let remote = memory(size, "a log")?;
    // As much as will be written to, unless there is less of it.
    touch(&remote, inputs.log_size());
    log::format(&remote).context("cannot make the log")?;
    let staging = memory(STAGING, "a staging buffer")?;
    touch(&staging, STAGING);
    let readback = memory(READBACK, "a buffer")?;

    let mut device = SoftDevice::new();
    let region = device.register_part(&remote, 0, size, LOG_USAGE)?.remote();
    let local = device.register(&staging, Usage::WRITE_SRC | Usage::READ_DST)?.local();
    let read_to = device.register(&readback, Usage::READ_DST)?.local();
    let place = Place {
        region,
        used_offset: USED_OFFSET,
        staging: (&staging, local),
        readback: (&readback, read_to),
    };
    let ran_on = RanOn::soft(args.engine);
    match args.engine {
        Engine::Inline => {
            let queue_pair = || InlineQp::boxed(&device, QpConfig::default());
            place.append(args, inputs, progress, ran_on, queue_pair)
        }
        Engine::Threaded => thread::scope(|scope| {
            let engine = soft::Engine::spawn(scope, &device);
            place.append(args, inputs, progress, ran_on, || engine.qp(QpConfig::default()))
        }),
    }
}

const LOG_USAGE: Usage = Usage::WRITE_DST.and(Usage::READ_SRC).and(Usage::FLUSH_VISIBILITY);

/// Where the log lies, and the local memory on this side of it.
struct Place<'m> {
    region: RemoteRegion,
    used_offset: AlignedOffset,
    staging: (&'m [AtomicU64], LocalSlice),
    readback: (&'m [AtomicU64], LocalSlice),
}

impl<'m> Place<'m> {
    /// Appends over one queue pair and reads back over another.
    fn append<P: Provider>(
        &self,
        args: &Args,
        inputs: &mut Inputs,
        progress: &Progress,
        ran_on: RanOn,
        queue_pair: impl Fn() -> Result<P, Error>,
    ) -> anyhow::Result<Report> {
        progress.appending(inputs.known_len());
        let ring = Ring::boxed(queue_pair()?, RingConfig::default())?;
        let mut log = self.open(ring)?;
        let first = log.durable().get();
        let mut done = Done::new(first)?;
        job::run(&mut log, inputs, args.batch as usize, progress, &mut done)?;
        let ring = Ring::boxed(queue_pair()?, RingConfig::default())?;
        self.verify(args, inputs, progress, ran_on, ring, first, &done)
    }

    fn open<P: Provider>(&self, ring: Ring<'m, P>) -> anyhow::Result<Log<'m, P>> {
        let (memory, local) = self.staging;
        let config = LogConfig::default().with_used_offset(self.used_offset);
        Log::open(ring, self.region, memory, local, config).context("cannot open the log")
    }

    /// Reads the log back from `first` on and compares.
    #[allow(clippy::too_many_arguments, reason = "all are what a report is made of")]
    fn verify<P: Provider>(
        &self,
        args: &Args,
        inputs: &Inputs,
        progress: &Progress,
        ran_on: RanOn,
        ring: Ring<'m, P>,
        first: u64,
        done: &Done,
    ) -> anyhow::Result<Report> {
        progress.verifying();
        let (memory, local) = self.readback;
        let mut reader = RingReader::new(ring, self.region, memory, local);
        let extent = Extent { used_offset: self.used_offset.get(), first, tail: done.tail };
        let difference = readback::compare(&mut reader, extent, inputs.records())?;
        progress.clear();
        let setting = Setting { ran_on, batch: args.batch, log_size: self.region.size() };
        Ok(Report::new(setting, done, difference))
    }
}
