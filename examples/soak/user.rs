//! One user of rings: makes one, works on it, audits it, makes the next.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use farword::fault::{Fault, FaultPlan};
use farword::soft::{Engine, InlineQp, Mode, QpConfig, SoftDevice, SoftRegion, ThreadedQp};
use farword::{
    AlignedOffset, Capabilities, Chain, Completion, Deadline, DeviceFault, Error, FlushKind,
    Notify, OpContext, Outcome, Patience, PostError, Provider, Ring, RingConfig, Ticket, WaitError,
    Word, wr::Wc,
};

use crate::books::Books;
use crate::rates::LEVELS;
use crate::word;

/// How many words a user's rings write, one ring after the other: a word is not
/// written again while an old queue pair may still be at work.
pub(crate) const WORDS: usize = 64;
/// Those, and a block of 7 words and its source.
pub(crate) const WORDS_OF_A_USER: usize = WORDS + 14;
const BLOCK: u64 = 8 * WORDS as u64;
const SOURCE: u64 = BLOCK + 56;
/// How many operations a ring lives for.
const LIFE: usize = 4000;
/// How far before 2^32 and 2^64 numbers begin.
const BEFORE: u64 = 300;
/// How long a ring may take to give everything back.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a dead ring may take, before it is given up.
const WHILE_DEAD: Duration = Duration::from_millis(5);

/// The engine that executes a ring's requests.
#[derive(Debug)]
enum Qp<'d> {
    Inline(Box<InlineQp<'d>>),
    Threaded(ThreadedQp),
}

impl Provider for Qp<'_> {
    fn capabilities(&self) -> Capabilities {
        match self {
            Qp::Inline(qp) => qp.capabilities(),
            Qp::Threaded(qp) => qp.capabilities(),
        }
    }

    fn post(&mut self, chain: Chain<'_>) -> Result<(), PostError> {
        match self {
            Qp::Inline(qp) => qp.post(chain),
            Qp::Threaded(qp) => qp.post(chain),
        }
    }

    fn poll(&mut self, into: &mut [Wc]) -> Result<usize, DeviceFault> {
        match self {
            Qp::Inline(qp) => qp.poll(into),
            Qp::Threaded(qp) => qp.poll(into),
        }
    }

    fn abort(&mut self) {
        match self {
            Qp::Inline(qp) => qp.abort(),
            Qp::Threaded(qp) => qp.abort(),
        }
    }
}

/// One operation of a ring: its context, and how far it is.
#[derive(Clone, Copy, Debug)]
struct Staged {
    ticket: Ticket,
    context: u64,
    always: bool,
    told: bool,
}

/// One ring and what was staged on it, by ticket; the ring's own requests have
/// no entry.
struct Session<'d> {
    ring: Ring<'static, Fault<Qp<'d>>>,
    first: u64,
    /// Whether every retired operation is told of, or those alone that ask.
    each: bool,
    staged: Vec<Option<Staged>>,
    /// The words staged, by ticket, to hold the memory against.
    words: Vec<(Ticket, u32)>,
    place: usize,
}

/// A user, its memory, and the books on all its rings.
pub(crate) struct User<'d> {
    random: u64,
    number: usize,
    rings: u64,
    device: &'d SoftDevice<'d>,
    engine: &'d Engine,
    region: SoftRegion,
    memory: &'d [AtomicU64],
    count: u32,
    session: Option<Session<'d>>,
    inbox: Vec<Completion>,
    books: Books,
}

impl<'d> User<'d> {
    pub(crate) fn new(
        seed: u64,
        number: usize,
        device: &'d SoftDevice<'d>,
        engine: &'d Engine,
        region: SoftRegion,
        memory: &'d [AtomicU64],
    ) -> Self {
        User {
            random: seed ^ (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            number,
            rings: 0,
            device,
            engine,
            region,
            memory,
            count: 0,
            session: None,
            inbox: Vec::new(),
            books: Books::default(),
        }
    }

    /// Some operations, a doorbell, a poll; a new ring where there is none.
    pub(crate) fn turn(&mut self) {
        let Some(mut session) = self.session.take().or_else(|| self.connect()) else {
            return;
        };
        for _ in 0..1 + self.below(12) {
            self.stage(&mut session);
        }
        if self.below(8) > 0 {
            let rung = session.ring.doorbell();
            self.allow(rung.err());
        }
        for _ in 0..self.below(4) {
            self.poll(&mut session);
        }
        if self.below(64) == 0 {
            self.wait(&mut session);
        }
        let over = session.staged.len() >= LIFE || session.ring.failure().is_some();
        if over || self.below(4096) == 0 {
            self.close(session);
        } else {
            self.session = Some(session);
        }
    }

    /// Closes the last ring; the books on all of them.
    pub(crate) fn finish(mut self) -> Books {
        if let Some(session) = self.session.take() {
            self.close(session);
        }
        self.books
    }

    /// A number below `count` (xorshift; the standard library has none).
    fn below(&mut self, count: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 16) % count
    }

    fn connect(&mut self) -> Option<Session<'d>> {
        let depth = [4, 16, 64][self.below(3) as usize];
        let mode = [Mode::Emulated, Mode::Native][self.below(2) as usize];
        let config = QpConfig::default().with_mode(mode).with_depths(depth, depth);
        let qp = if self.below(2) == 0 {
            Qp::Inline(Box::new(InlineQp::boxed(self.device, config).ok()?))
        } else {
            Qp::Threaded(self.engine.qp(config).ok()?)
        };
        let rates = LEVELS[self.number % LEVELS.len()];
        let plan = FaultPlan::new(self.below(u64::MAX)).with_rates(rates).with_garbage();
        let mut config = RingConfig::new(depth, depth >> self.below(2));
        config.first = [0, (1 << 32) - BEFORE, 0u64.wrapping_sub(BEFORE)][self.below(3) as usize];
        let ring = Ring::boxed(Fault::new(qp, plan).ok()?, config).ok();
        self.books.stuck += u64::from(ring.is_none());
        let place = self.rings as usize % WORDS;
        self.rings += 1;
        self.memory[self.number * WORDS_OF_A_USER + place].store(0, Ordering::Release);
        Some(Session {
            ring: ring?,
            first: config.first,
            each: self.below(2) == 0,
            staged: Vec::new(),
            words: Vec::new(),
            place,
        })
    }

    fn stage(&mut self, session: &mut Session<'d>) {
        let always = self.below(4) == 0;
        let notify = if always { Notify::Always } else { Notify::OnError };
        let context = self.below(1 << 40);
        let given = OpContext::new(context);
        let start = 8 * (self.number * WORDS_OF_A_USER) as u64;
        let remote = self.region.remote();
        let staged = match self.below(8) {
            0 => self.block(start).and_then(|(local, span)| {
                session.ring.write(local, span, notify, given).map(|ticket| (ticket, None))
            }),
            1 => self.block(start).and_then(|(local, span)| {
                session.ring.read(local, span, notify, given).map(|ticket| (ticket, None))
            }),
            2 => self.block(start).and_then(|(_, span)| {
                let kind = FlushKind::Visibility;
                session.ring.flush(span, kind, notify, given).map(|ticket| (ticket, None))
            }),
            _ => {
                let count = self.count + 1;
                let word = Word::ne(word::of(count));
                AlignedOffset::new(start + 8 * session.place as u64)
                    .and_then(|offset| remote.target(offset))
                    .map_err(Error::from)
                    .and_then(|target| session.ring.atomic_write(target, word, notify, given))
                    .map(|ticket| (ticket, Some(count)))
            }
        };
        match staged {
            Ok((ticket, count)) => {
                session.book(Staged { ticket, context, always, told: false });
                if let Some(count) = count {
                    self.count = count;
                    session.words.push((ticket, count));
                }
                self.books.staged += 1;
            }
            Err(error) => self.allow(Some(error)),
        }
    }

    /// The user's block, on both sides.
    fn block(&self, start: u64) -> Result<(farword::LocalSlice, farword::Span), Error> {
        let local = self.region.local().slice(start + SOURCE, 56)?;
        Ok((local, self.region.remote().span(start + BLOCK, 56)?))
    }

    fn poll(&mut self, session: &mut Session<'d>) {
        let inbox = &mut self.inbox;
        let polled = if session.each {
            session.ring.poll_retired(|completion| inbox.push(completion))
        } else {
            session.ring.poll_with(|completion| inbox.push(completion))
        };
        self.allow(polled.err());
        self.read(session);
    }

    /// Waits for the last operation, on a ring that tells of some alone.
    fn wait(&mut self, session: &mut Session<'d>) {
        let Some(Staged { ticket, .. }) = session.staged.last().copied().flatten() else { return };
        if session.each {
            return;
        }
        let inbox = &mut self.inbox;
        let patience = Deadline::after(PATIENCE);
        let waited = session.ring.wait(ticket, patience, |completion| inbox.push(completion));
        self.allow_wait(waited);
        self.read(session);
    }

    /// Takes in what the ring told.
    fn read(&mut self, session: &mut Session<'d>) {
        for completion in self.inbox.drain(..) {
            match completion.outcome {
                Outcome::Confirmed => self.books.confirmed += 1,
                Outcome::Failed(_) => self.books.failed += 1,
                Outcome::Unknown => self.books.unknown += 1,
                Outcome::Unposted => self.books.unposted += 1,
                // Nothing else is known to this program.
                _ => self.books.foreign += 1,
            }
            self.books.foreign += u64::from(!session.tell(&completion));
        }
    }

    /// An error that is none of those that a sound ring gives is a finding.
    fn allow(&mut self, error: Option<Error>) {
        let lawful = error.is_none_or(|error| {
            matches!(error, Error::Full { .. } | Error::Failed { .. } | Error::Provider(_))
        });
        self.books.stuck += u64::from(!lawful);
    }

    fn allow_wait(&mut self, waited: Result<(), WaitError>) {
        match waited {
            Ok(()) => {}
            Err(WaitError::Ring(error)) => self.allow(Some(error)),
            Err(_) => self.books.stuck += 1,
        }
    }

    /// Gets everything back from a ring, and audits it.
    fn close(&mut self, mut session: Session<'d>) {
        self.drain(&mut session);
        self.read(&mut session);
        let ring = &session.ring;
        let (counters, injected) = (ring.counters(), ring.provider().injected());
        self.books.rings += 1;
        self.books.failed_rings += u64::from(ring.failure().is_some());
        let end = session.first.wrapping_add(session.staged.len() as u64);
        let crossed = |mark: u64| session.first < mark && end >= mark;
        let wrapped = crossed(1 << 32) || end < session.first;
        self.books.wraps += u64::from(wrapped);
        self.books.doorbells += counters.doorbells;
        self.books.stale += counters.stale;
        self.books.refusals += injected.refusals;
        self.books.unknown_posts += injected.unknowns;
        self.books.delayed += injected.delayed;
        self.books.device_faults += injected.device_faults;
        self.books.duplicates += injected.duplicates;
        self.books.slots += counters.staged - counters.retired;
        self.books.slots += u64::from(ring.staged() + ring.in_flight());
        // After a post of unknown extent the ring's count is an upper bound.
        if injected.unknowns == 0 {
            self.books.unbooked += counters.posted.abs_diff(ring.provider().taken());
        }
        for staged in session.staged.iter().flatten().filter(|staged| !staged.told) {
            let silent = !session.each && !staged.always;
            if silent && ring.is_confirmed(staged.ticket) {
                self.books.confirmed += 1;
            } else {
                self.books.open += 1;
            }
        }
        self.books.wrong += u64::from(!self.holds_what_was_confirmed(&session));
        // An old queue pair of the threaded engine does no more work.
        session.ring.abandon();
    }

    /// Polls until the ring is idle. A refused post is tried again; a dead ring
    /// is given up after a while, as its last completions may never come.
    fn drain(&mut self, session: &mut Session<'d>) {
        let mut patience = Deadline::after(PATIENCE);
        while !session.ring.is_idle() {
            if !session.each {
                self.drain_once(session);
            } else if session.ring.failure().is_none() {
                self.push_silent_out(session);
                self.poll(session);
            } else {
                self.poll_dead(session);
            }
            if !patience.more() {
                self.books.stuck += 1;
                session.ring.abandon();
                self.poll(session);
                return;
            }
        }
    }

    fn drain_once(&mut self, session: &mut Session<'d>) {
        let inbox = &mut self.inbox;
        let while_dead = Deadline::after(WHILE_DEAD);
        match session.ring.drain(while_dead, |completion| inbox.push(completion)) {
            // On a live ring: it is tried again.
            Err(WaitError::TimedOut) => {}
            drained => self.allow_wait(drained),
        }
        self.read(session);
    }

    fn poll_dead(&mut self, session: &mut Session<'d>) {
        let mut while_dead = Deadline::after(WHILE_DEAD);
        while !session.ring.is_idle() && while_dead.more() {
            self.poll(session);
        }
        session.ring.abandon();
        self.poll(session);
    }

    /// On a ring that tells of everything: a last operation that completes, so
    /// that the silent ones before it are known, and a doorbell.
    fn push_silent_out(&mut self, session: &mut Session<'d>) {
        let remote = self.region.remote();
        let at = 8 * (self.number * WORDS_OF_A_USER + session.place) as u64;
        let count = self.count + 1;
        let last = AlignedOffset::new(at).and_then(|offset| remote.target(offset));
        let staged = session.staged.last().copied().flatten();
        if staged.is_none_or(|staged| !staged.always)
            && let Ok(target) = last
            && let Ok(ticket) = session.ring.atomic_write(
                target,
                Word::ne(word::of(count)),
                Notify::Always,
                OpContext::new(0),
            )
        {
            self.count = count;
            self.books.staged += 1;
            session.book(Staged { ticket, context: 0, always: true, told: false });
            session.words.push((ticket, count));
        }
        let rung = session.ring.doorbell();
        self.allow(rung.err());
    }

    /// Whether the session's word is the last one that was confirmed, or one of
    /// those behind it that may have been carried out.
    fn holds_what_was_confirmed(&self, session: &Session<'d>) -> bool {
        let place = self.number * WORDS_OF_A_USER + session.place;
        let held = self.memory[place].load(Ordering::Acquire);
        let ring = &session.ring;
        let confirmed = session.words.iter().rev().find(|(ticket, _)| ring.is_confirmed(*ticket));
        let least = confirmed.map_or(0, |(_, count)| *count);
        let most = match ring.failure() {
            Some(_) => session.words.last().map_or(0, |(_, count)| *count),
            None => least,
        };
        word::is_whole(held) && (least..=most).contains(&word::count(held))
    }
}

impl Session<'_> {
    /// Books an operation under its ticket.
    fn book(&mut self, staged: Staged) {
        let index = staged.ticket.get().wrapping_sub(self.first) as usize;
        self.staged.resize(index, None);
        self.staged.push(Some(staged));
    }

    /// Marks an operation as told of. Says whether it was staged, not told of
    /// before, and told with its own context.
    fn tell(&mut self, completion: &Completion) -> bool {
        let index = completion.ticket.get().wrapping_sub(self.first);
        let Some(Some(staged)) = self.staged.get_mut(index as usize) else {
            return false;
        };
        let right = !staged.told && staged.context == completion.context.get();
        staged.told = true;
        right
    }
}
