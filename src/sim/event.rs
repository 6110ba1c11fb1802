//! What happened in a run, and which rule it broke, told in words.

use core::fmt;
use std::string::String;
use std::vec::Vec;

use crate::error::{DeviceFault, Errno, WcStatus};
use crate::sim::qp::{Kind, Wqe};

/// A rule that a run broke, with the numbers that broke it.
///
/// ```
/// use farword::sim::Violation;
/// let broken = Violation::new("the tail points past durable bytes").at(24).numbers(3, 0);
/// assert_eq!(broken.to_string(), "the tail points past durable bytes (at 24: found 3, wanted 0)");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The rule, as it was broken.
    pub rule: &'static str,
    /// Where: an offset in memory, or the number of an operation.
    pub at: u64,
    /// What was found there.
    pub found: u64,
    /// What should have been.
    pub wanted: u64,
}

impl Violation {
    /// Of this rule.
    #[must_use]
    pub const fn new(rule: &'static str) -> Self {
        Violation { rule, at: 0, found: 0, wanted: 0 }
    }

    /// At this offset in memory, or at the operation of this number.
    #[must_use]
    pub const fn at(mut self, at: u64) -> Self {
        self.at = at;
        self
    }

    /// With what was found and what was wanted.
    #[must_use]
    pub const fn numbers(mut self, found: u64, wanted: u64) -> Self {
        self.found = found;
        self.wanted = wanted;
        self
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Violation { rule, at, found, wanted } = self;
        write!(f, "{rule} (at {at}: found {found}, wanted {wanted})")
    }
}

impl core::error::Error for Violation {}

/// One thing that happened.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Posted { qp: u32, request: u32, wqe: Wqe },
    Refused { qp: u32, taken: u32, of: u32, errno: Errno },
    PostUnknown { qp: u32, taken: u32, of: u32, errno: Errno },
    Arrived { qp: u32, request: u32, kind: Kind, overtakes: u32 },
    Rejected { qp: u32, request: u32, status: WcStatus },
    Answered { qp: u32, request: u32, kind: Kind },
    Landed { qp: u32, request: u32, from: u32, to: u32, left: u32 },
    Durable { from: u32, to: u32, evicted: bool },
    Completed { qp: u32, request: u32, status: WcStatus },
    Faulted { qp: u32, fault: DeviceFault },
    Aborted { qp: u32 },
    TornDown { qp: u32 },
    PowerLost { saved: u32, lost: u32 },
    Said(String),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Posted { qp, request, wqe } => write!(f, "qp {qp} takes {wqe} #{request}"),
            Event::Refused { qp, taken, of, errno } => {
                write!(f, "qp {qp} takes {taken} of {of} requests and refuses the rest: {errno}")
            }
            Event::PostUnknown { qp, taken, of, errno } => {
                write!(f, "qp {qp} takes {taken} of {of} requests, but says only {errno}")
            }
            Event::Arrived { qp, request, kind, overtakes: 0 } => {
                write!(f, "qp {qp}: {kind} #{request} arrives")
            }
            Event::Arrived { qp, request, kind, overtakes } => {
                write!(f, "qp {qp}: {kind} #{request} arrives, overtaking {overtakes} unanswered")
            }
            Event::Rejected { qp, request, status } => {
                write!(f, "qp {qp}: request #{request} is rejected: {status}")
            }
            Event::Answered { qp, request, kind } => {
                write!(f, "qp {qp}: {kind} #{request} is answered")
            }
            Event::Landed { qp, request, from, to, left } => {
                write!(f, "qp {qp}: write #{request} lands bytes {from}..{to}")?;
                if *left > 0 { write!(f, ", {left} pieces to go") } else { Ok(()) }
            }
            Event::Durable { from, to, evicted: false } => {
                write!(f, "bytes {from}..{to} become durable")
            }
            Event::Durable { from, to, .. } => {
                write!(f, "bytes {from}..{to} become durable by themselves")
            }
            Event::Completed { qp, request, status } => {
                write!(f, "qp {qp}: request #{request} completes: {status}")
            }
            Event::Faulted { qp, fault } => write!(f, "qp {qp}: {fault}"),
            Event::Aborted { qp } => write!(f, "qp {qp} is put into the error state by its owner"),
            Event::TornDown { qp } => write!(f, "qp {qp} is torn down"),
            Event::PowerLost { saved, lost } => write!(
                f,
                "power is lost: of {} words on their way, {saved} are saved",
                saved + lost
            ),
            Event::Said(text) => f.write_str(text),
        }
    }
}

/// The story of a run: what happened, step by step.
#[derive(Clone, Debug, Default)]
pub struct Story {
    pub(super) events: Vec<(u64, Event)>,
}

impl Story {
    /// How many things happened.
    #[must_use]
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether nothing did.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (step, event) in &self.events {
            writeln!(f, "step {step:>4}: {event}")?;
        }
        Ok(())
    }
}
