//! Rate and latency against batch size, over the verbs provider on the software
//! NIC, or over the software device in a build without it.
//!
//! For each batch size: so many writes to a doorbell, either the last of them
//! signaled or all, then polling until all are confirmed. What a batch takes from
//! the first write staged to the last one confirmed is the latency, as far as it
//! is the processor's; a network's share comes on top.

use std::process::ExitCode;

use farword::{Notify, OpContext, Provider, Ring, RingConfig, Target, Word};
use serde_json::{Value, json};

use crate::args::Args;
use crate::measure::{self, Found};
use crate::plot::{self, Curve};
use crate::row::{Memory, Row, Seen, WORDS};

const BATCHES: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];

/// What is signaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signaled {
    Last,
    All,
}

impl Signaled {
    const BOTH: [(Signaled, &'static str); 2] = [(Signaled::Last, "last"), (Signaled::All, "all")];
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let shapes = || BATCHES.into_iter().flat_map(|batch| Signaled::BOTH.map(|kind| (batch, kind)));
    let mut rows: Vec<Box<dyn Row>> =
        shapes().map(|(batch, (signaled, _))| make(batch, signaled)).collect();
    let found = measure::time(&mut rows, args.rounds);
    let points: Vec<Point> = shapes()
        .zip(&found)
        .map(|((batch, (_, signaled)), found)| Point::new(batch, signaled, found))
        .collect();
    if args.json {
        println!("{}", Value::Array(points.iter().map(Point::json).collect()));
    } else {
        print(&points);
    }
    let Some(path) = &args.svg else {
        return ExitCode::SUCCESS;
    };
    match plot::draw(path, &curves(&points)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("compare: {}: {why}", path.display());
            ExitCode::FAILURE
        }
    }
}

struct Point {
    batch: u64,
    signaled: &'static str,
    ns_per_write: f64,
}

impl Point {
    fn new(batch: u64, signaled: &'static str, found: &Found) -> Self {
        Point { batch, signaled, ns_per_write: found.ns() }
    }

    fn million_writes_per_second(&self) -> f64 {
        1000.0 / self.ns_per_write
    }

    fn ns_to_confirmed(&self) -> f64 {
        self.ns_per_write * self.batch as f64
    }

    fn json(&self) -> Value {
        let rounded = |figure: f64| (figure * 100.0).round() / 100.0;
        json!({
            "batch": self.batch,
            "signaled": self.signaled,
            "ns_per_write": rounded(self.ns_per_write),
            "million_writes_per_second": rounded(self.million_writes_per_second()),
            "ns_to_confirmed": rounded(self.ns_to_confirmed()),
        })
    }
}

fn print(points: &[Point]) {
    println!(
        "{:>6}{:>10}{:>12}{:>12}{:>18}",
        "batch", "signaled", "ns/write", "Mwrites/s", "ns to confirmed"
    );
    for point in points {
        println!(
            "{:>6}{:>10}{:>12.2}{:>12.1}{:>18.1}",
            point.batch,
            point.signaled,
            point.ns_per_write,
            point.million_writes_per_second(),
            point.ns_to_confirmed(),
        );
    }
}

fn curves(points: &[Point]) -> [Vec<Curve>; 2] {
    let curve = |signaled: &'static str, name: &'static str, value: fn(&Point) -> f64| Curve {
        name,
        points: points
            .iter()
            .filter(|point| point.signaled == signaled)
            .map(|point| (point.batch as f64, value(point)))
            .collect(),
    };
    let both = |value: fn(&Point) -> f64| {
        vec![
            curve("last", "the last of each batch signaled", value),
            curve("all", "every write signaled", value),
        ]
    };
    [both(Point::million_writes_per_second), both(Point::ns_to_confirmed)]
}

#[cfg(feature = "verbs")]
fn make(batch: u64, signaled: Signaled) -> Box<dyn Row> {
    let fabric = crate::nic::Fabric::new(false);
    let provider = fabric.qp(farword::verbs::Path::PostSend).into_provider().expect("a path");
    let targets = crate::row::targets(&fabric.words);
    Box::new(SweepRow::new(provider, batch, signaled, targets, fabric.carried_out()))
}

#[cfg(not(feature = "verbs"))]
fn make(batch: u64, signaled: Signaled) -> Box<dyn Row> {
    use farword::soft::{InlineQp, QpConfig, SoftDevice};

    let memory = Memory::leak();
    let mut device = SoftDevice::new();
    let usage = farword::Usage::WRITE_DST;
    let region = device.register(&memory.0, usage).expect("one region").remote();
    let device = Box::leak(Box::new(device));
    let provider = InlineQp::boxed(device, QpConfig::default()).expect("a queue pair");
    Box::new(SweepRow::new(provider, batch, signaled, crate::row::targets(&region), Some(memory)))
}

/// A ring, and a batch size that is known at run time.
struct SweepRow<P> {
    ring: Ring<'static, P>,
    batch: u64,
    signaled: Signaled,
    targets: [Target; WORDS as usize],
    memory: Option<&'static Memory>,
    next: u64,
}

impl<P: Provider> SweepRow<P> {
    fn new(
        provider: P,
        batch: u64,
        signaled: Signaled,
        targets: [Target; WORDS as usize],
        memory: Option<&'static Memory>,
    ) -> Self {
        let ring = Ring::boxed(provider, RingConfig::new(128, 64)).expect("a ring");
        SweepRow { ring, batch, signaled, targets, memory, next: 0 }
    }
}

impl<P: Provider> Row for SweepRow<P> {
    fn name(&self) -> &'static str {
        "sweep"
    }

    fn run(&mut self, operations: u64) -> Option<u64> {
        let before = self.ring.counters().doorbells;
        let others = if self.signaled == Signaled::All { Notify::Always } else { Notify::OnError };
        let due = if self.signaled == Signaled::All { self.batch } else { 1 };
        let mut seen = Seen::default();
        let (mut next, end) = (self.next, self.next + operations);
        while next < end {
            for ahead in 0..self.batch {
                let notify = if ahead + 1 == self.batch { Notify::Always } else { others };
                let target = self.targets[(next % WORDS) as usize];
                let (word, context) = (Word::ne(next), OpContext::new(next));
                self.ring.atomic_write(target, word, notify, context).expect("room");
                next += 1;
            }
            self.ring.doorbell().expect("posted");
            let mut there = 0;
            while there < due {
                let found = self.ring.poll_with(|done| seen.see(done.context.get()));
                there += found.expect("alive") as u64;
            }
        }
        self.next = end;
        seen.verify(self.name(), operations / self.batch * due, end - 1);
        assert!(self.ring.is_idle(), "every write is retired");
        Some(self.ring.counters().doorbells - before)
    }

    fn verify(&self) {
        assert_eq!(self.ring.counters().posted, self.next);
        if let Some(memory) = self.memory {
            memory.verify(self.name(), self.next);
        }
    }
}
