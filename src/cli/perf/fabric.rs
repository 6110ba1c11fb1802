//! Measuring over a fabric: one side serves words, the other writes to them.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::thread;

use anyhow::{Context, anyhow};
use farword::verbs::{ConnConfig, Connection, Incoming, Mr, Pd, VerbsQp};
use farword::{RemoteRegion, Ring, Target, Usage};

use super::{WORDS, What, check, latency, queue_config, rate, require, targets};
use crate::cli::device::RanOn;
use crate::cli::fabric::{Chosen, Peer, explain, listen, next_peer};
use crate::cli::remote::RingReader;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    peer: Peer,

    /// Be the side that is written to: listen there until SIGINT.
    ///
    /// It serves both measurements, any number of queue pairs at a time.
    #[arg(long, value_name = "ADDR:PORT", conflicts_with_all = ["connect", "engine"])]
    serve: Option<String>,

    /// How many queue pairs write at the same time, a thread each.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "connect",
        value_parser = clap::value_parser!(u32).range(1..=1024))]
    qps: u32,
}

/// What is to be done over a fabric.
#[derive(Debug)]
pub(super) enum Job<'a> {
    Serve(&'a str),
    Connect(Chosen<'a>, u32),
}

impl Args {
    /// What to do over a fabric, if anything.
    pub(super) fn job(&self) -> Option<Job<'_>> {
        match &self.serve {
            Some(to) => Some(Job::Serve(to)),
            None => self.peer.chosen().map(|peer| Job::Connect(peer, self.qps)),
        }
    }
}

impl Job<'_> {
    pub(super) fn run(&self, what: &What, batch: u32) -> anyhow::Result<()> {
        match self {
            Job::Serve(to) => serve(to),
            Job::Connect(peer, qps) => connect(*peer, *qps, what, batch),
        }
    }
}

const BYTES: usize = 8 * WORDS;

/// Serves words of its own to each peer, until a stop is requested.
fn serve(to: &str) -> anyhow::Result<()> {
    let (listener, _wake) = listen(to, |_| Ok(()))?;
    let mut served: u64 = 0;
    let mut present = BTreeMap::new();
    while let Some(request) = next_peer(&listener)? {
        match accept(request) {
            Ok(both) => {
                present.insert(served, both);
                served += 1;
            }
            // That peer's loss.
            Err(error) => crate::cli::output::complain(&format!("{error:#}")),
        }
        present.retain(|_, (connection, _)| !connection.has_ended());
    }
    crate::cli::output::print(&format!("Served {served} queue pairs.\n"))
}

fn accept(request: Incoming) -> anyhow::Result<(Connection, Mr)> {
    let pd = Pd::new(&request.device()?)?;
    let words = Mr::alloc(&pd, BYTES, Usage::WRITE_DST | Usage::READ_SRC)?;
    let told = words.remote().to_descriptor();
    Ok((request.accept(&pd, &told, &ConnConfig::default())?, words))
}

/// A queue pair and the words at its other end.
struct Lane {
    connection: Connection,
    region: RemoteRegion,
}

impl Lane {
    fn connect(peer: Chosen<'_>, batch: u32) -> anyhow::Result<Self> {
        let connection = peer.connect(queue_config(batch).0.depth)?;
        let region = RemoteRegion::from_descriptor(connection.private_data())
            .context("the peer does not tell of any words: is it `farword perf ... --serve`?")?;
        Ok(Lane { connection, region })
    }

    /// Measures once all lanes are ready, and checks the words.
    fn measure<D>(
        &mut self,
        batch: u32,
        start: &Barrier,
        run: &impl Fn(&mut Ring<'_, VerbsQp>, &[Target; WORDS]) -> anyhow::Result<D>,
        writes: &impl Fn(&D) -> u64,
    ) -> anyhow::Result<(D, bool)> {
        let prepared = self.prepare(batch);
        // Everybody waits for everybody, also for one whose preparations failed.
        start.wait();
        let (mut ring, readback, targets) = prepared?;
        let done = match run(&mut ring, &targets) {
            Ok(done) => done,
            Err(error) => return Err(explain(error, &self.connection, ring.failure())),
        };
        let (words, local) = (readback.words(), readback.local());
        let mut reader = RingReader::new(ring, self.region, words, local);
        let verified = check(&mut reader, writes(&done))?;
        Ok((done, verified))
    }

    fn prepare(
        &mut self,
        batch: u32,
    ) -> anyhow::Result<(Ring<'static, VerbsQp>, Mr, [Target; WORDS])> {
        let readback = Mr::alloc(self.connection.pd(), BYTES, Usage::READ_DST)?;
        let ring = self.connection.ring(batch.next_power_of_two())?;
        Ok((ring, readback, targets(self.region)?))
    }
}

fn connect(peer: Chosen<'_>, qps: u32, what: &What, batch: u32) -> anyhow::Result<()> {
    let lanes = (0..qps).map(|_| Lane::connect(peer, batch));
    let mut lanes = lanes.collect::<anyhow::Result<Vec<_>>>()?;
    let ran_on = RanOn::fabric(&lanes[0].connection).with_qps(qps);
    match what {
        What::Latency(args) => {
            let duration = args.common.duration;
            let run = |ring: &mut Ring<'_, VerbsQp>, targets: &[Target; WORDS]| {
                latency::run(ring, targets, batch, duration)
            };
            let all = on_all(&mut lanes, batch, run, |done| done.writes)?;
            let (done, verified) = merged(all, latency::Done::merge)?;
            latency::print(&done, args, ran_on, verified)?;
            require(verified)
        }
        What::Rate(args) => {
            let duration = args.common.duration;
            let run = |ring: &mut Ring<'_, VerbsQp>, targets: &[Target; WORDS]| {
                rate::run(ring, targets, batch, duration)
            };
            let all = on_all(&mut lanes, batch, run, |done| done.writes)?;
            let (done, verified) = merged(all, rate::Done::merge)?;
            rate::print(&done, args, ran_on, verified)?;
            require(verified)
        }
    }
}

/// Measures on all lanes at the same time, a thread each.
fn on_all<D: Send>(
    lanes: &mut [Lane],
    batch: u32,
    run: impl Fn(&mut Ring<'_, VerbsQp>, &[Target; WORDS]) -> anyhow::Result<D> + Sync,
    writes: impl Fn(&D) -> u64 + Sync,
) -> anyhow::Result<Vec<(D, bool)>> {
    let start = Barrier::new(lanes.len());
    thread::scope(|scope| {
        let measure = |lane: &mut Lane| lane.measure(batch, &start, &run, &writes);
        let threads: Vec<_> =
            lanes.iter_mut().map(|lane| scope.spawn(move || measure(lane))).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, anyhow::Result<(D, bool)>>| {
            thread.join().unwrap_or_else(|_| Err(anyhow!("a thread panicked")))
        };
        threads.into_iter().map(join).collect()
    })
}

/// All lanes' results as one.
fn merged<D>(
    all: Vec<(D, bool)>,
    merge: impl Fn(&mut D, &D) -> anyhow::Result<()>,
) -> anyhow::Result<(D, bool)> {
    let mut all = all.into_iter();
    let (mut done, mut verified) = all.next().context("there is no queue pair")?;
    for (other, its) in all {
        merge(&mut done, &other)?;
        verified &= its;
    }
    Ok((done, verified))
}
