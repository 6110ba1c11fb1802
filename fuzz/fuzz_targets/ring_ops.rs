//! Sequences of ring operations over a software device that is made to fail,
//! against a naive model.
//!
//! Each write stores to a cell of its own. Cells that were written are counted
//! and emptied after every step, so that what was carried out, how often, is
//! known without asking the ring.

#![no_main]

use arbitrary::Arbitrary;
use arrayvec::ArrayVec;
use core::sync::atomic::{AtomicU64, Ordering};
use farword::fault::{Fault, FaultPlan, Rates};
use farword::soft::{InlineQp, Mode, QpConfig, SoftDevice, SoftRegion};
use farword::{
    AlignedOffset, Completion, DeviceFault, Errno, Error, FlushKind, Notify, OpContext, Outcome,
    Polls, RemoteRegion, Ring, RingConfig, Ticket, Usage, WcStatus, Why, Word,
};
use libfuzzer_sys::fuzz_target;

const CELLS: usize = 256;
/// More than all delays and refusals that a plan here can add up to.
const ROUNDS: usize = 1_200;
/// More polls than all delays of a plan can hold a completion back for.
const DELAYS: usize = 17 * 31 + 1;

#[derive(Arbitrary, Debug)]
struct Input {
    setup: Setup,
    faults: Vec<Planned>,
    rates: [u16; 6],
    seed: u64,
    steps: Vec<Step>,
}

#[derive(Arbitrary, Debug)]
struct Setup {
    depth: u8,
    batch: u8,
    native: bool,
    late_reads: bool,
    garbage: bool,
    persistent: bool,
    /// Whether polls are such that tell of every request.
    each: bool,
    first: First,
}

/// Where the ring's numbers begin.
#[derive(Arbitrary, Debug)]
enum First {
    Zero,
    NearHalf(u8),
    NearEnd(u8),
}

#[derive(Arbitrary, Debug)]
enum Planned {
    Refuse { at: u8, errno: u8, times: u8 },
    Unknown { at: u8, taken: u8 },
    Fail { at: u8, status: u8 },
    LoseAck { at: u8 },
    Delay { at: u8, polls: u8 },
    Stale { poll: u8 },
    DeviceFault { poll: u8 },
}

#[derive(Arbitrary, Debug)]
enum Step {
    AtomicWrite {
        always: bool,
        context: u8,
    },
    Write {
        always: bool,
        context: u8,
    },
    Read {
        always: bool,
        context: u8,
    },
    Flush {
        always: bool,
        context: u8,
        persistent: bool,
    },
    /// A write that the device refuses.
    Bad {
        always: bool,
        context: u8,
        local: bool,
    },
    /// One that the ring refuses.
    Invalid,
    Doorbell,
    Poll,
    PollFew,
    Wait {
        back: u8,
    },
    Abandon,
}

fuzz_target!(|input: Input| {
    let memory: Vec<AtomicU64> = (0..CELLS).map(|_| AtomicU64::new(0)).collect();
    let local: Vec<AtomicU64> = (0..4).map(|_| AtomicU64::new(u64::MAX)).collect();
    let mut device = SoftDevice::new();
    let remote = device.register(&memory, Usage::from_bits(0xff)).expect("room for a region");
    let source = device.register(&local, Usage::from_bits(0xff)).expect("room for a region");
    let Some(ring) = build(&device, &input) else {
        return;
    };
    let model = Model::new(&input);
    let mut run = Run { model, ring, memory: &memory, remote, source };
    for step in &input.steps {
        run.step(step);
        run.check();
    }
    run.finish();
});

type FaultyRing<'d> = Ring<'d, Fault<InlineQp<'d>, 64>>;

impl Setup {
    fn depth(&self) -> u32 {
        1 << (self.depth % 7)
    }

    fn batch(&self) -> u32 {
        (1 << (self.batch % 7)).min(self.depth())
    }

    fn first(&self) -> u64 {
        match self.first {
            First::Zero => 0,
            First::NearHalf(back) => u64::from(u32::MAX) - u64::from(back),
            First::NearEnd(back) => u64::MAX - u64::from(back),
        }
    }
}

/// `None` for a plan that cannot be.
fn build<'d>(device: &'d SoftDevice<'d>, input: &Input) -> Option<FaultyRing<'d>> {
    let setup = &input.setup;
    let mode = if setup.native { Mode::Native } else { Mode::Emulated };
    let qp = QpConfig::default()
        .with_depths(setup.depth(), setup.depth())
        .with_mode(mode)
        .with_late_reads(setup.late_reads);
    let qp = InlineQp::boxed(device, qp).expect("a power of two");
    let fault = Fault::with_capacity(qp, plan(input)).ok()?;
    let mut config = RingConfig::new(setup.depth(), setup.batch());
    config.peer_is_persistent = setup.persistent;
    config.first = setup.first();
    Some(Ring::boxed(fault, config).expect("the shape is right"))
}

fn plan(input: &Input) -> FaultPlan {
    // Most runs are spared most kinds of fault, else none would get far.
    let rate = |kind: usize, below: u16| match input.rates[kind] {
        rate if rate % 4 == 0 => rate / 4 % below,
        _ => 0,
    };
    let mut plan = FaultPlan::new(input.seed).with_rates(Rates {
        // A post gets through in the end.
        refuse_per_1024: rate(0, 600),
        error_per_1024: rate(1, 64),
        unknown_per_1024: rate(2, 32),
        delay_per_1024: rate(3, 1025),
        max_delay: 31,
        stale_per_1024: rate(4, 1025),
        device_fault_per_1024: rate(5, 16),
    });
    for fault in &input.faults {
        plan = match *fault {
            Planned::Refuse { at, errno, times } => {
                let errno = [Errno::ENOMEM, Errno::EAGAIN, Errno::EIO][usize::from(errno) % 3];
                plan.refuse_times(at.into(), errno, (times % 32).into())
            }
            Planned::Unknown { at, taken } => plan.unknown_at(at.into(), taken.into(), Errno::EIO),
            Planned::Fail { at, status } => plan.fail_at(at.into(), WcStatus(status.into())),
            Planned::LoseAck { at } => plan.lose_ack_at(at.into(), WcStatus::RETRY_EXC_ERR),
            Planned::Delay { at, polls } => plan.delay_at(at.into(), (polls % 32).into()),
            Planned::Stale { poll } => plan.stale_at(poll.into()),
            Planned::DeviceFault { poll } => {
                plan.device_fault_at(poll.into(), DeviceFault::QueuePair)
            }
        };
    }
    if input.setup.garbage { plan.with_garbage() } else { plan }
}

/// One operation that the ring took.
struct Staged {
    context: u64,
    notify: Notify,
    /// Whether it stores, and whether the device lets it.
    stores: bool,
    bad: bool,
    ticket: Ticket,
    told: Option<Outcome>,
}

/// What is known of all operations, without the ring.
struct Model {
    staged: Vec<Staged>,
    first: u64,
    batch: u32,
    each: bool,
    /// Of the last operation that was told of: its place among `staged`.
    last_told: Option<usize>,
    /// The sum of what completions said they confirm.
    confirms: u64,
    stores: [u32; CELLS],
    full: u64,
    refused: u64,
}

impl Model {
    fn new(input: &Input) -> Self {
        Model {
            staged: Vec::new(),
            first: input.setup.first(),
            batch: input.setup.batch(),
            each: input.setup.each,
            last_told: None,
            confirms: 0,
            stores: [0; CELLS],
            full: 0,
            refused: 0,
        }
    }

    fn take(&mut self, completion: Completion) {
        let place = |staged: &Staged| staged.ticket == completion.ticket;
        let place = self.staged.iter().position(place).expect("a ticket that was given out");
        let staged = &mut self.staged[place];
        assert_eq!(staged.told, None, "told twice");
        assert_eq!(staged.context, completion.context.get());
        staged.told = Some(completion.outcome);
        let before = self.last_told.replace(place).map(|last| {
            assert!(last < place, "in the order in which they were staged");
            rank(self.staged[last].told)
        });
        let rank = rank(Some(completion.outcome));
        // One fails at most; what is confirmed stands before it.
        assert!(before.is_none_or(|before| before < rank || before == rank && rank != 1));
        self.confirms += completion.confirms;
        // Requests of the ring's own have tickets, and count for nothing here.
        let before = place as u64;
        match completion.outcome {
            Outcome::Confirmed => assert_eq!(self.confirms, before + 1, "all before it and itself"),
            Outcome::Failed(_) => assert_eq!(self.confirms, before, "all before it"),
            _ => assert!(self.confirms <= before, "it does not confirm itself"),
        }
    }

    fn legal(&self, place: usize) -> bool {
        let staged = &self.staged[place];
        let stores = self.stores[place];
        let exactly = u32::from(staged.stores);
        match staged.told {
            Some(Outcome::Confirmed) => !staged.bad && stores == exactly,
            Some(Outcome::Failed(status)) if !status.may_have_executed() => stores == 0,
            Some(Outcome::Failed(_)) => stores <= exactly,
            Some(Outcome::Unknown) => stores <= exactly,
            Some(Outcome::Unposted) => stores == 0,
            None => stores <= exactly,
            Some(outcome) => panic!("{outcome} is new here"),
        }
    }
}

fn rank(outcome: Option<Outcome>) -> u8 {
    match outcome {
        Some(Outcome::Confirmed) | None => 0,
        Some(Outcome::Failed(_)) => 1,
        Some(Outcome::Unknown) => 2,
        Some(Outcome::Unposted) => 3,
        Some(outcome) => panic!("{outcome} is new here"),
    }
}

struct Run<'d> {
    ring: FaultyRing<'d>,
    model: Model,
    memory: &'d [AtomicU64],
    remote: SoftRegion,
    source: SoftRegion,
}

impl Run<'_> {
    fn step(&mut self, step: &Step) {
        match *step {
            Step::AtomicWrite { always, context } => {
                self.stage(always, context, true, false, |run, cell, notify, context| {
                    let offset = AlignedOffset::of_word(cell);
                    let target = run.remote.remote().target(offset).expect("a cell");
                    run.ring.atomic_write(target, Word::ne(1), notify, context)
                });
            }
            Step::Write { always, context } => {
                self.stage(always, context, true, false, |run, cell, notify, context| {
                    let span = run.remote.remote().span(u64::from(cell) * 8, 8).expect("a cell");
                    let local = run.source.local().slice(8, 8).expect("a word");
                    run.ring.write(local, span, notify, context)
                });
            }
            Step::Read { always, context } => {
                self.stage(always, context, false, false, |run, cell, notify, context| {
                    let span = run.remote.remote().span(u64::from(cell) * 8, 8).expect("a cell");
                    let local = run.source.local().slice(16, 8).expect("a word");
                    run.ring.read(local, span, notify, context)
                });
            }
            Step::Flush { always, context, persistent } => {
                let kind = if persistent { FlushKind::Persistent } else { FlushKind::Visibility };
                self.stage(always, context, false, false, |run, _, notify, context| {
                    let span = run.remote.remote().span(0, 64).expect("cells");
                    run.ring.flush(span, kind, notify, context)
                });
            }
            Step::Bad { always, context, local } => self.bad(always, context, local),
            Step::Invalid => self.invalid(),
            Step::Doorbell => self.doorbell(),
            Step::Poll => self.poll(),
            Step::PollFew => self.poll_few(),
            Step::Wait { back } => self.wait(back),
            Step::Abandon => self.ring.abandon(),
        }
    }

    fn stage(
        &mut self,
        always: bool,
        context: u8,
        stores: bool,
        bad: bool,
        make: impl FnOnce(&mut Self, u32, Notify, OpContext) -> Result<Ticket, Error>,
    ) {
        let place = self.model.staged.len();
        if place == CELLS {
            return;
        }
        let notify = if always { Notify::Always } else { Notify::OnError };
        let context = u64::from(context) << 56 | u64::from(context);
        let (room, dead) = (self.ring.room(), self.ring.failure());
        match make(self, place as u32, notify, OpContext::new(context)) {
            Ok(ticket) => {
                assert!(room > 0 && dead.is_none());
                assert_eq!(self.ring.room(), room - 1);
                let told = None;
                self.model.staged.push(Staged { context, notify, stores, bad, ticket, told });
            }
            Err(Error::Full { .. }) => {
                assert!(room == 0 && dead.is_none());
                self.model.full += 1;
            }
            Err(Error::Failed { why }) => assert_eq!(dead, Some(why)),
            // A flush to persistence that the peer does not promise.
            Err(Error::Invalid { .. }) => assert_eq!(self.ring.room(), room),
            Err(error) => panic!("staging asks no provider: {error}"),
        }
    }

    fn bad(&mut self, always: bool, context: u8, local: bool) {
        self.stage(always, context, false, true, |run, cell, notify, context| {
            let good = run.remote.remote();
            if local {
                let span = good.span(u64::from(cell) * 8, 8).expect("a cell");
                let made_up = farword::LocalSlice::new(0x1000, 8, 0xbad);
                return run.ring.write(made_up, span, notify, context);
            }
            // The descriptor promises more than there is.
            let lie = RemoteRegion::new(good.base(), 1 << 40, good.rkey(), good.usage());
            let beyond = AlignedOffset::new(CELLS as u64 * 8).expect("a multiple of 8");
            let target = lie.target(beyond).expect("within the lie");
            run.ring.atomic_write(target, Word::ne(1), notify, context)
        });
    }

    fn invalid(&mut self) {
        let (room, counters) = (self.ring.room(), self.ring.counters());
        let span = self.remote.remote().span(0, 16).expect("cells");
        let short = self.source.local().slice(0, 8).expect("a word");
        let refused = self.ring.write(short, span, Notify::Always, OpContext::new(0));
        assert!(matches!(refused, Err(Error::Invalid { .. })));
        assert_eq!((self.ring.room(), self.ring.counters()), (room, counters));
    }

    fn doorbell(&mut self) {
        let (staged, in_flight) = (self.ring.staged(), self.ring.in_flight());
        let dead = self.ring.failure();
        match self.ring.doorbell() {
            Ok(count) => {
                assert_eq!((count, self.ring.staged()), (staged, 0));
                assert_eq!(self.ring.in_flight(), in_flight + staged);
            }
            Err(Error::Full { .. }) => {
                self.model.full += 1;
                self.model.refused += 1;
                assert!(self.ring.in_flight() > 0, "polling could not help");
            }
            Err(Error::Provider(_)) => self.model.refused += 1,
            Err(Error::Failed { why }) if dead.is_none() => {
                assert_eq!(why, Why::PostUnknown(errno_of(why)));
                self.model.refused += 1;
            }
            Err(Error::Failed { why }) => assert_eq!(dead, Some(why)),
            Err(error) => panic!("a doorbell takes no arguments: {error}"),
        }
        let total = self.ring.staged() + self.ring.in_flight();
        assert_eq!(total, staged + in_flight, "nothing is lost by a doorbell");
        self.harvest();
    }

    fn poll(&mut self) {
        let model = &mut self.model;
        let mut count = 0;
        let each = model.each;
        let take = |completion| {
            count += 1;
            model.take(completion);
        };
        let polled = if each { self.ring.poll_retired(take) } else { self.ring.poll_with(take) };
        match polled {
            Ok(given) => assert_eq!(given, count),
            Err(Error::Failed { .. }) => {
                assert_eq!(count, 0);
                assert!(self.ring.is_idle(), "every context has come back");
            }
            Err(error) => panic!("polling asks for nothing: {error}"),
        }
        self.harvest();
    }

    fn poll_few(&mut self) {
        if self.model.each {
            return self.poll();
        }
        let mut few = ArrayVec::<Completion, 3>::new();
        if let Ok(given) = self.ring.poll(&mut few) {
            assert_eq!(given, few.len(), "no completion is lost for want of room");
        }
        for completion in few {
            self.model.take(completion);
        }
        self.harvest();
    }

    fn wait(&mut self, back: u8) {
        let count = self.model.staged.len();
        let Some(place) = count.checked_sub(1 + usize::from(back) % CELLS) else {
            return;
        };
        if self.model.each {
            self.doorbell();
            return self.poll();
        }
        let ticket = self.model.staged[place].ticket;
        let model = &mut self.model;
        let before = self.ring.counters();
        let waited = self.ring.wait(ticket, Polls(40), |completion| model.take(completion));
        assert_eq!(waited.is_ok(), self.ring.is_confirmed(ticket));
        // The doorbells of a wait are not seen here one by one.
        let after = self.ring.counters();
        self.model.refused += after.refused - before.refused;
        self.model.full += after.full - before.full;
        self.harvest();
    }

    fn harvest(&mut self) {
        let staged = self.model.staged.len();
        for (cell, count) in self.memory.iter().zip(&mut self.model.stores).take(staged) {
            if cell.load(Ordering::Relaxed) != 0 {
                cell.store(0, Ordering::Relaxed);
                *count += 1;
            }
        }
    }

    /// What holds after every step.
    fn check(&self) {
        let (counters, model) = (self.ring.counters(), &self.model);
        let own = counters.staged - model.staged.len() as u64;
        assert!(!model.each || own == 0, "only waits stage requests of their own");
        assert!(counters.retired <= counters.staged && counters.posted <= counters.staged);
        assert!(counters.signaled <= counters.staged);
        if self.ring.failure().is_none() {
            assert_eq!(u64::from(self.ring.in_flight()), counters.posted - counters.retired);
        }
        assert_eq!((counters.full, counters.refused), (model.full, model.refused));
        let confirmed = self.ring.confirmed().get().wrapping_sub(model.first);
        assert!(model.confirms <= confirmed && confirmed <= counters.retired);
        for (place, staged) in model.staged.iter().enumerate() {
            assert!(model.legal(place), "{:?} after {} stores", staged.told, model.stores[place]);
            if self.ring.is_confirmed(staged.ticket) {
                assert!(!staged.bad && matches!(staged.told, None | Some(Outcome::Confirmed)));
                assert_eq!(model.stores[place], u32::from(staged.stores), "confirmed, not done");
            } else {
                assert!(!matches!(staged.told, Some(Outcome::Confirmed)));
            }
        }
        let injected = self.ring.provider().injected();
        assert_eq!(injected.duplicates, 0, "something was posted twice");
        if injected.unknowns == 0 {
            assert_eq!(counters.posted, self.ring.provider().taken());
        }
        assert_eq!(counters.stale, injected.stale);
    }

    /// Everything comes back, in a bounded number of rounds.
    fn finish(mut self) {
        for _ in 0..ROUNDS {
            if self.ring.is_idle() || matches!(self.ring.failure(), Some(Why::PostUnknown(_))) {
                break;
            }
            if self.ring.staged() > 0 {
                self.doorbell();
            } else if self.ring.failure().is_none() && self.needs_a_nudge() {
                self.nudge();
            }
            self.poll();
        }
        if matches!(self.ring.failure(), Some(Why::PostUnknown(_))) {
            // How much of the post was taken cannot be known, so what it left
            // in flight may never complete.
            for _ in 0..DELAYS {
                self.poll();
            }
            self.ring.abandon();
            self.poll();
        }
        self.check();
        assert!(self.ring.is_idle(), "requests that never come back");
        self.finished();
    }

    /// Whether all that is in flight is silent: nothing would ever tell of it.
    fn needs_a_nudge(&self) -> bool {
        self.ring.in_flight() > 0 && self.ring.room() > 0
    }

    /// A wait posts a signaled request of its own; the model knows of it by the
    /// counters alone.
    fn nudge(&mut self) {
        let Some(last) = self.model.staged.last() else {
            return;
        };
        if self.model.each {
            if self.model.staged.len() < CELLS {
                self.step(&Step::AtomicWrite { always: true, context: 0 });
                self.doorbell();
            } else {
                self.ring.abandon();
            }
            return;
        }
        let ticket = last.ticket;
        let before = self.ring.counters();
        let model = &mut self.model;
        let _ = self.ring.wait(ticket, Polls(1), |completion| model.take(completion));
        let after = self.ring.counters();
        self.model.refused += after.refused - before.refused;
        self.model.full += after.full - before.full;
        self.harvest();
    }

    fn finished(&mut self) {
        let counters = self.ring.counters();
        assert_eq!(counters.staged, counters.retired);
        assert!(self.memory.iter().all(|cell| cell.load(Ordering::Relaxed) == 0), "a stray store");
        for staged in &self.model.staged {
            let silent = !self.model.each && staged.notify == Notify::OnError;
            let kept_back = silent && self.ring.is_confirmed(staged.ticket);
            assert!(staged.told.is_some() || kept_back, "a context that never came back");
        }
        match self.ring.failure() {
            None => assert_eq!(self.ring.room(), self.model.batch, "room that is gone"),
            Some(why) => {
                assert_eq!(self.ring.poll_with(|_| {}), Err(Error::Failed { why }));
                assert_eq!(self.ring.doorbell(), Err(Error::Failed { why }));
            }
        }
    }
}

fn errno_of(why: Why) -> Errno {
    match why {
        Why::PostUnknown(errno) => errno,
        why => panic!("no doorbell fails like that: {why}"),
    }
}
