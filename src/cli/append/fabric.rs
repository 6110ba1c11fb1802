//! Appending to a peer's log.

use anyhow::bail;
use farword::log::Announcement;
use farword::verbs::Mr;
use farword::{DeviceFault, Why};

use super::*;
use crate::cli::fabric::{Chosen, explain};

/// How many requests a doorbell may carry: a commit takes six.
const RING_BATCH: u32 = 32;

/// Appends to the log that the peer tells of, and reads it back over the same
/// connection.
pub(super) fn append(
    args: &Args,
    peer: Chosen<'_>,
    inputs: &mut Inputs,
    progress: &Progress,
) -> anyhow::Result<ExitCode> {
    if args.log_size.is_some() {
        bail!("the log is the peer's, of the size that it has: leave --log-size out");
    }
    let mut connection = peer.connect(RingConfig::default().depth)?;
    let told = Announcement::from_bytes(connection.private_data())
        .context("the peer does not tell of a log: is it `farword serve`?")?;
    if told.native_flush != Some(true) {
        // librpma's server, for one, is older than the operation.
        connection.emulate_flush();
    }
    let pd = connection.pd().clone();
    let staging = Mr::alloc(&pd, STAGING as usize, Usage::WRITE_SRC | Usage::READ_DST)?;
    let readback = Mr::alloc(&pd, READBACK as usize, Usage::READ_DST)?;
    let place = Place {
        region: told.region,
        used_offset: told.used_offset,
        staging: (staging.words(), staging.local()),
        readback: (readback.words(), readback.local()),
    };
    let flush = connection.capabilities().flush;
    let ran_on = RanOn::fabric(&connection).with_flush(flush);

    progress.appending(inputs.known_len());
    let config = RingConfig::new(connection.ring_depth(), RING_BATCH)
        .with_persistent_peer(told.persistent == Some(true));
    let mut log = place.open(connection.ring_with(config)?)?;
    let first = log.durable().get();
    let mut done = Done::new(first)?;
    let batch = args.batch as usize;
    if let Err(error) = job::run(&mut log, inputs, batch, progress, &mut done) {
        progress.clear();
        let error = explain(error, &connection, log.ring().failure());
        return Err(error.context(format!("{} records are in the log, then", done.records)));
    }
    let ring = log.into_ring();
    let report = match place.verify(args, inputs, progress, ran_on, ring, first, &done) {
        Ok(report) => report,
        Err(error) => {
            progress.clear();
            let why = connection.has_ended().then_some(Why::Device(DeviceFault::Connection));
            let error = explain(error, &connection, why);
            let confirmed =
                format!("{} records were confirmed, and not all read back", done.records);
            return Err(error.context(confirmed));
        }
    };
    connection.disconnect()?;
    report.print(args.json)
}
