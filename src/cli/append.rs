//! `farword append`: lines become records of a remote log.

use core::sync::atomic::AtomicU64;
use std::path::PathBuf;
use std::thread;

use anyhow::Context;
use farword::log::{self, Log, LogConfig};
use farword::soft::{self, InlineQp, QpConfig, SoftDevice, SoftRegion};
use farword::{Error, Provider, Ring, RingConfig, Usage};

use crate::cli::remote::RingReader;
use crate::cli::soft::{Engine, memory, touch};
use crate::cli::usage;

mod input;
mod job;
mod progress;
mod readback;
mod report;

use input::Inputs;
use progress::Progress;
use report::{Report, Setting};

/// Appends every line of the files to a remote log, and reads the log back.
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

    /// Print one JSON object instead of the table, and nothing else.
    ///
    /// Its keys: records, bytes (of the records, without line ends),
    /// work_requests, doorbells, verified, device, engine, batch, and
    /// latency_ns with p50, p99, p999 and max. A record's latency is the time
    /// from its append to the end of the wait that confirms it.
    #[arg(long)]
    json: bool,
}

/// The memory that records pass through on their way out.
const STAGING: u64 = 1 << 20;

/// The memory that the log is read back into, piece by piece.
const READBACK: u64 = 256 << 10;

/// Runs the subcommand on the software device.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let progress = Progress::reading();
    let mut inputs = Inputs::open(&args.files)?;
    let size = args.log_size.unwrap_or_else(|| inputs.log_size());
    let remote = memory(size, "a log")?;
    // As much as will be written to, unless there is less of it.
    touch(&remote, inputs.log_size());
    log::format(&remote).context("cannot make the log")?;
    let staging = memory(STAGING, "a staging buffer")?;
    touch(&staging, STAGING);
    let readback = memory(READBACK, "a buffer")?;

    let mut device = SoftDevice::new();
    let usage = Usage::WRITE_DST | Usage::READ_SRC | Usage::FLUSH_VISIBILITY;
    let regions = Regions {
        log: device.register_part(&remote, 0, size, usage)?,
        staging: device.register(&staging, Usage::WRITE_SRC | Usage::READ_DST)?,
        readback: device.register(&readback, Usage::READ_DST)?,
    };
    let place = Place { regions, staging: &staging, readback: &readback, progress };
    let report = match args.engine {
        Engine::Inline => {
            place.append(args, &mut inputs, || InlineQp::boxed(&device, QpConfig::default()))
        }
        Engine::Threaded => thread::scope(|scope| {
            let engine = soft::Engine::spawn(scope, &device);
            place.append(args, &mut inputs, || engine.qp(QpConfig::default()))
        }),
    }?;
    report.print(args.json)
}

struct Regions {
    log: SoftRegion,
    staging: SoftRegion,
    readback: SoftRegion,
}

/// Where the log lies, and the local memory on this side of it.
struct Place<'m> {
    regions: Regions,
    staging: &'m [AtomicU64],
    readback: &'m [AtomicU64],
    progress: Progress,
}

impl Place<'_> {
    /// Appends over one queue pair and reads back over another.
    fn append<P: Provider>(
        &self,
        args: &Args,
        inputs: &mut Inputs,
        queue_pair: impl Fn() -> Result<P, Error>,
    ) -> anyhow::Result<Report> {
        let region = self.regions.log.remote();
        self.progress.appending(inputs.known_len());
        let ring = Ring::boxed(queue_pair()?, RingConfig::default())?;
        let staging = self.regions.staging.local();
        let mut log = Log::open(ring, region, self.staging, staging, LogConfig::default())
            .context("cannot open the log")?;
        let first = log.durable().get();
        let done = job::run(&mut log, inputs, args.batch as usize, &self.progress)?;

        self.progress.verifying();
        let ring = Ring::boxed(queue_pair()?, RingConfig::default())?;
        let local = self.regions.readback.local();
        let mut reader = RingReader::new(ring, region, self.readback, local);
        let difference = readback::compare(&mut reader, first, done.tail, inputs.records())?;
        self.progress.clear();
        let setting = Setting { engine: args.engine, batch: args.batch, log_size: region.size() };
        Ok(Report::new(setting, &done, difference))
    }
}
