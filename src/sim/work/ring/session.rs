//! One ring, from its connection to its end, and the books kept on it.

use std::vec::Vec;

use arrayvec::ArrayVec;

use crate::error::Error;
use crate::sim::event::Violation;
use crate::sim::fabric::{QpId, SimFabric, SimQp};
use crate::sim::work::ring::{index_of, is_expected};
use crate::{
    Completion, Notify, Op, OpContext, Outcome, Polls, Ring, RingConfig, Ticket, WaitError,
};

const TWICE: &str = "a context came back twice";
const FOREIGN: &str = "a completion names no operation of its ring";
const CHANGED: &str = "a context came back changed";
const LOST: &str = "a context never came back";
const LIE_CONFIRMED: &str = "an operation was confirmed and was not carried out";
const LIE_FAILED: &str = "an operation was said not to be carried out and was";
const LIE_UNPOSTED: &str = "an operation was said not to be posted and was";
const SILENT: &str = "a success that was to be silent was told of";
const MISCOUNT: &str = "a completion confirms another number of operations";
const REPOSTED: &str = "a request was posted twice, or out of order";
const DEADLOCK: &str = "nothing is under way and the ring is not idle";
const SLOTS: &str = "a slot or a credit did not come back";
const OVERFULL: &str = "the ring posted more than the queue has slots";
const REFUSED: &str = "the ring refused what it must take";

/// What a confirmed operation promised of the memory.
#[derive(Clone, Copy, Debug)]
pub(super) enum Promise {
    None,
    /// The word at a place in local memory is at least this.
    Read {
        place: u64,
        least: u8,
    },
    Flushed {
        persistent: bool,
        word: u8,
        block: u8,
    },
}

/// What is known of one operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meta {
    op: Op,
    pub(super) notify: Notify,
    pub(super) context: OpContext,
    pub(super) promise: Promise,
    told: bool,
}

impl Meta {
    pub(super) fn new(op: Op, notify: Notify, context: OpContext) -> Self {
        Meta { op, notify, context, promise: Promise::None, told: false }
    }
}

/// One ring and its books.
pub(super) struct Session<'a> {
    fabric: &'a SimFabric,
    pub(super) ring: Ring<'a, SimQp>,
    pub(super) id: QpId,
    config: RingConfig,
    /// Whether every retired operation is to be told of.
    each: bool,
    /// By index; the ring's own requests have none.
    metas: Vec<Option<Meta>>,
    /// The sum of what completions said they confirm.
    confirms: u64,
    /// How many requests are known to be confirmed.
    confirmed: u64,
    /// Promises of operations confirmed since they were last looked at.
    pub(super) due: Vec<Promise>,
    inbox: Vec<Completion>,
    /// The last numbers staged on this ring, the block that is flushed, and the
    /// block that is visible if none was staged on this ring yet.
    pub(super) word: u8,
    pub(super) block: u8,
    pub(super) flushed: u8,
    pub(super) inherited: u8,
}

impl<'a> Session<'a> {
    pub(super) fn connect(
        fabric: &'a SimFabric,
        persistent: bool,
        oldest: u8,
    ) -> Option<Session<'a>> {
        let depth = [8, 4, 16, 2][fabric.choose(4) as usize];
        let qp = fabric.connect(depth, depth);
        let id = qp.id();
        let batch = depth >> fabric.choose(2);
        let mut config = RingConfig::new(depth, batch).with_persistent_peer(persistent);
        config.first = [0, u64::from(u32::MAX) - 7, u64::MAX - 7][fabric.choose(3) as usize];
        let each = fabric.choose(2) == 1;
        let ring = Ring::boxed(qp, config).ok()?;
        Some(Session {
            fabric,
            ring,
            id,
            config,
            each,
            metas: Vec::new(),
            confirms: 0,
            confirmed: 0,
            due: Vec::new(),
            inbox: Vec::new(),
            word: 0,
            block: 0,
            flushed: 0,
            inherited: oldest,
        })
    }

    /// Books a staged operation, or looks at why it was refused. Says whether it
    /// was staged.
    pub(super) fn staged(&mut self, result: Result<Ticket, Error>, meta: Meta) -> bool {
        match result {
            Ok(ticket) => {
                let index = index_of(ticket, self.config.first) as usize;
                if index < self.metas.len() {
                    self.violate(Violation::new(FOREIGN).at(index as u64));
                    return false;
                }
                self.metas.resize(index, None);
                self.fabric.say(|| {
                    let Meta { op, notify, .. } = meta;
                    std::format!("qp {:?} stages {op} #{index}, {notify:?}", self.id)
                });
                self.metas.push(Some(meta));
                self.fabric.count(|coverage| coverage.operations += 1);
                true
            }
            Err(error) => {
                let must = self.ring.failure().is_none() && self.ring.room() > 0;
                if must || !is_expected(&error) {
                    self.violate(Violation::new(REFUSED).at(self.metas.len() as u64));
                }
                false
            }
        }
    }

    pub(super) fn doorbell(&mut self) {
        if let Err(error) = self.ring.doorbell()
            && !is_expected(&error)
        {
            self.violate(Violation::new(REFUSED));
        }
    }

    pub(super) fn poll(&mut self) {
        let inbox = &mut self.inbox;
        let result = if self.each {
            self.ring.poll_retired(|completion| inbox.push(completion))
        } else if self.fabric.choose(2) == 1 {
            let mut few = ArrayVec::<Completion, 2>::new();
            let result = self.ring.poll(&mut few);
            inbox.extend(few);
            result
        } else {
            self.ring.poll_with(|completion| inbox.push(completion))
        };
        if result.is_ok_and(|given| given != self.inbox.len()) {
            self.violate(Violation::new(MISCOUNT).numbers(self.inbox.len() as u64, 0));
        }
        self.read_inbox();
    }

    /// Waits for some operation, for a while.
    pub(super) fn wait(&mut self) {
        if self.each || self.metas.is_empty() {
            return self.poll();
        }
        let back = u64::from(self.fabric.choose((self.metas.len() as u32).min(8)));
        let index = self.metas.len() as u64 - 1 - back;
        let polls = 1 + u64::from(self.fabric.choose(12));
        self.wait_for(index, polls);
    }

    fn wait_for(&mut self, index: u64, polls: u64) {
        let ticket = Ticket(self.config.first.wrapping_add(index));
        let patience = Polls(polls);
        let inbox = &mut self.inbox;
        let waited = self.ring.wait(ticket, patience, |completion| inbox.push(completion));
        self.read_inbox();
        if waited.is_ok() && !self.ring.is_confirmed(ticket) {
            self.violate(Violation::new(LIE_CONFIRMED).at(index));
        }
    }

    /// Waits for what was staged last, for a while.
    pub(super) fn wait_for_last(&mut self) {
        if self.each {
            self.doorbell();
            return self.poll();
        }
        if let Some(last) = (self.metas.len() as u64).checked_sub(1) {
            self.wait_for(last, 40);
        }
    }

    pub(super) fn abandon(&mut self) {
        self.fabric.say(|| std::format!("{:?} is abandoned", self.id));
        self.ring.abandon();
    }

    /// Gets everything back, from a ring that lives or one that is dead.
    pub(super) fn finish(&mut self) {
        if self.each {
            self.finish_each();
        } else {
            self.finish_silently();
        }
        if self.fabric.violation().is_none() {
            self.close_books();
        }
    }

    fn finish_silently(&mut self) {
        let (fabric, id) = (self.fabric, self.id);
        // A refused post ends a drain on a ring that lives; it is tried again.
        for _ in 0..64 {
            // A refused post is tried again while nothing is under way.
            let (mut polls, mut idle) = (0, 0);
            let patience = || {
                polls += 1;
                idle = if fabric.is_idle(id) { idle + 1 } else { 0 };
                polls < 4000 && idle < 16
            };
            let inbox = &mut self.inbox;
            let drained = self.ring.drain(patience, |completion| inbox.push(completion));
            self.read_inbox();
            match drained {
                Err(WaitError::Ring(Error::Provider(_))) => {}
                Err(WaitError::TimedOut) => return self.violate(Violation::new(DEADLOCK)),
                _ => return,
            }
        }
        self.violate(Violation::new(DEADLOCK));
    }

    /// As `drain`, for a caller that wants to hear of every operation: with a
    /// last one that completes always.
    fn finish_each(&mut self) {
        let mut last = false;
        for _ in 0..4000 {
            if self.ring.failure().is_none() {
                if !last && self.ring.room() > 0 {
                    last = self.stage_last();
                }
                self.doorbell();
            }
            self.poll();
            let dead = self.ring.failure().is_some();
            if self.ring.is_idle() && (last || dead) || self.fabric.violation().is_some() {
                return;
            }
            if self.fabric.is_idle(self.id) && self.ring.staged() == 0 && (last || dead) {
                if !dead {
                    break;
                }
                self.ring.abandon();
            }
        }
        self.violate(Violation::new(DEADLOCK));
    }

    fn stage_last(&mut self) -> bool {
        let Ok(target) = self.fabric.region().target(crate::AlignedOffset::literal::<376>()) else {
            return false;
        };
        let meta = Meta::new(Op::AtomicWrite, Notify::Always, OpContext::new(9));
        let word = crate::Word::ne(1);
        let staged = self.ring.atomic_write(target, word, meta.notify, meta.context);
        self.staged(staged, meta)
    }

    fn read_inbox(&mut self) {
        self.see_confirmed();
        let mut inbox = core::mem::take(&mut self.inbox);
        for completion in inbox.drain(..) {
            if let Err(broken) = self.check(&completion) {
                self.violate(broken);
            }
        }
        self.inbox = inbox;
        if self.each && self.confirms != self.operations_below(self.confirmed) {
            let wanted = self.operations_below(self.confirmed);
            self.violate(Violation::new(MISCOUNT).numbers(self.confirms, wanted));
        }
    }

    /// Everything below the ring's mark must have been carried out.
    fn see_confirmed(&mut self) {
        let confirmed = index_of(self.ring.confirmed(), self.config.first);
        for index in self.confirmed..confirmed {
            if self.fabric.fate(self.id, index).is_none_or(|fate| fate.executed == 0) {
                return self.violate(Violation::new(LIE_CONFIRMED).at(index));
            }
            if let Some(Some(meta)) = self.metas.get(index as usize) {
                self.due.push(meta.promise);
            }
        }
        self.confirmed = self.confirmed.max(confirmed);
    }

    /// How many operations of the caller's have an index below this.
    fn operations_below(&self, index: u64) -> u64 {
        self.metas.iter().take(index as usize).flatten().count() as u64
    }

    fn check(&mut self, completion: &Completion) -> Result<(), Violation> {
        let index = index_of(completion.ticket, self.config.first);
        let each = self.each;
        let Some(Some(meta)) = self.metas.get_mut(index as usize) else {
            return Err(Violation::new(FOREIGN).at(index));
        };
        if meta.told {
            return Err(Violation::new(TWICE).at(index));
        }
        meta.told = true;
        if meta.context != completion.context || meta.op != completion.op {
            return Err(Violation::new(CHANGED).at(index));
        }
        if !each && completion.outcome.is_confirmed() && meta.notify == Notify::OnError {
            return Err(Violation::new(SILENT).at(index));
        }
        let fate = self.fabric.fate(self.id, index);
        let executed = fate.is_some_and(|fate| fate.executed > 0);
        let truth = match completion.outcome {
            Outcome::Confirmed if !executed => Err(LIE_CONFIRMED),
            Outcome::Failed(status) if !status.may_have_executed() && executed => Err(LIE_FAILED),
            Outcome::Unposted if fate.is_some() => Err(LIE_UNPOSTED),
            _ => Ok(()),
        };
        truth.map_err(|rule| Violation::new(rule).at(index))?;
        self.confirms += completion.confirms;
        if each {
            return Ok(());
        }
        let below = match completion.outcome {
            Outcome::Confirmed => index + 1,
            Outcome::Failed(_) => index,
            _ => return Ok(()),
        };
        let wanted = self.operations_below(below);
        if self.confirms != wanted {
            return Err(Violation::new(MISCOUNT).at(index).numbers(self.confirms, wanted));
        }
        Ok(())
    }

    /// At the end nothing may be open.
    fn close_books(&self) {
        let confirmed = self.confirmed as usize;
        for (index, meta) in self.metas.iter().enumerate() {
            let Some(meta) = meta else { continue };
            let silent = !self.each && meta.notify == Notify::OnError && index < confirmed;
            if !meta.told && !silent {
                return self.violate(Violation::new(LOST).at(index as u64));
            }
            let fate = self.fabric.fate(self.id, index as u64);
            let wr_id = self.config.first.wrapping_add(index as u64) as u32;
            if fate.is_some_and(|fate| fate.wr_id as u32 != wr_id || fate.executed > 1) {
                return self.violate(Violation::new(REPOSTED).at(index as u64));
            }
        }
        let counters = self.ring.counters();
        let taken = self.fabric.taken(self.id);
        if taken > counters.staged {
            return self.violate(Violation::new(REPOSTED).numbers(taken, counters.staged));
        }
        if self.fabric.coverage().overfull > 0 {
            return self.violate(Violation::new(OVERFULL));
        }
        if self.ring.failure().is_some() {
            return;
        }
        let room = self.config.depth.min(self.config.batch);
        let books = [counters.staged, counters.posted, taken];
        let slots = self.fabric.slots_taken(self.id);
        if books.iter().any(|count| *count != counters.retired) || slots > 0 {
            return self.violate(Violation::new(SLOTS).numbers(counters.retired, counters.staged));
        }
        if self.ring.room() != room {
            self.violate(Violation::new(SLOTS).numbers(self.ring.room().into(), room.into()));
        }
    }

    fn violate(&self, broken: Violation) {
        self.fabric.violate(broken);
    }
}
