//! The state of a run, and the scheduler that moves it one step.

use core::sync::atomic::AtomicU64;
use std::boxed::Box;
use std::rc::Rc;
use std::vec::Vec;

use crate::sim::choices::Choices;
use crate::sim::config::{Mutant, SimConfig};
use crate::sim::count::{Coverage, Sketch};
use crate::sim::event::{Event, Story, Violation};
use crate::sim::memory::{Memory, Watch};
use crate::sim::qp::Qp;

/// Where the remote node's memory starts in its address space.
pub(super) const REMOTE_BASE: u64 = 0x7f00_0000_0000;
pub(super) const RKEY: u32 = 1 << 8 | 0x52;
pub(super) const LKEY_TAG: u32 = 0x4c;
pub(super) const SCRATCH_LKEY: u32 = u32::MAX;

/// What can happen next.
#[derive(Clone, Copy, Debug)]
enum Move {
    Arrive(usize),
    Answer(usize),
    Land(usize),
    Ack(usize),
    Evict,
}

pub(super) struct World {
    pub(super) config: SimConfig,
    pub(super) choices: Choices,
    pub(super) memory: Memory,
    /// Registered local memory.
    pub(super) local: Vec<Rc<[AtomicU64]>>,
    /// Queue pairs of this run, and behind them those of earlier runs.
    pub(super) qps: Vec<Qp>,
    pub(super) used: usize,
    /// Every queue pair before this one is over.
    first_active: usize,
    pub(super) steps: u64,
    /// How likely each kind of move is in this run.
    weights: [u32; 5],
    /// How many steps pass in one poll, at most.
    pub(super) pace: u32,
    /// Whether nothing goes wrong any more.
    pub(super) calm: bool,
    pub(super) watch: Option<Box<dyn Watch>>,
    pub(super) violation: Option<Violation>,
    pub(super) story: Option<Story>,
    pub(super) coverage: Coverage,
    pub(super) sketch: Option<Sketch>,
    moves: Vec<(Move, u32)>,
}

impl World {
    pub(super) fn new(choices: Choices, config: SimConfig) -> Self {
        let mut world = World {
            config,
            choices,
            memory: Memory::default(),
            local: Vec::new(),
            qps: Vec::new(),
            used: 0,
            first_active: 0,
            steps: 0,
            weights: [8; 5],
            pace: 4,
            calm: false,
            watch: None,
            violation: None,
            story: None,
            coverage: Coverage::default(),
            sketch: None,
            moves: Vec::new(),
        };
        world.begin();
        world
    }

    /// Starts another run in the same memory. Coverage goes on counting.
    pub(super) fn restart(&mut self, choices: Choices, config: SimConfig) {
        self.choices = choices;
        self.config = config;
        self.local.clear();
        self.used = 0;
        self.first_active = 0;
        self.steps = 0;
        self.calm = false;
        self.watch = None;
        self.violation = None;
        self.story = None;
        self.begin();
    }

    fn begin(&mut self) {
        self.config.relaxed_ordering |= self.config.mutant == Some(Mutant::RelaxedOrdering);
        self.memory.clear(self.config.memory as usize);
        // Each run leans another way: with reads late, with landing slow, ...
        for weight in &mut self.weights {
            *weight = [8, 2, 24, 1][self.choices.below(4) as usize];
        }
        self.weights[4] = [1, 2, 0, 0][self.choices.below(4) as usize];
        self.pace = 1 + self.choices.below(8);
    }

    #[inline]
    pub(super) fn note(&mut self, event: impl FnOnce() -> Event) {
        // A story ends where the first rule is broken.
        if self.violation.is_none()
            && let Some(story) = &mut self.story
        {
            story.events.push((self.steps, event()));
        }
    }

    pub(super) fn violate(&mut self, violation: Violation) {
        if self.violation.is_none() {
            self.note(|| Event::Said(std::format!("BROKEN: {violation}")));
            self.violation = Some(violation);
        }
    }

    /// Lets one thing happen. `false` when nothing but an eviction could.
    pub(super) fn step(&mut self) -> bool {
        self.steps += 1;
        self.coverage.steps += 1;
        if !self.calm {
            self.maybe_fail();
        }
        let progress = self.gather();
        let total = self.moves.iter().map(|(_, weight)| weight).sum();
        let mut pick = self.choices.below(total);
        let chosen = self.moves.iter().find(|(_, weight)| {
            let here = pick < *weight;
            pick = pick.saturating_sub(*weight);
            here
        });
        match chosen.map(|(chosen, _)| *chosen) {
            Some(Move::Arrive(qp)) => self.arrive(qp),
            Some(Move::Answer(qp)) => self.answer(qp),
            Some(Move::Land(qp)) => self.land(qp),
            Some(Move::Ack(qp)) => self.ack(qp),
            Some(Move::Evict) => self.evict(),
            None => {}
        }
        if let Some(mut sketch) = self.sketch.take() {
            sketch.add(self.print());
            self.sketch = Some(sketch);
        }
        progress
    }

    /// Lists what can happen, and says whether any of it moves work on.
    fn gather(&mut self) -> bool {
        self.moves.clear();
        let early = self.config.mutant == Some(Mutant::EarlyCompletion);
        let [arrive, answer, land, ack, evict] = self.weights;
        for index in self.first_active..self.used {
            let qp = &self.qps[index];
            if qp.can_arrive() {
                self.moves.push((Move::Arrive(index), arrive));
            }
            if qp.can_answer() {
                self.moves.push((Move::Answer(index), answer));
            }
            if !qp.pieces.is_empty() {
                self.moves.push((Move::Land(index), land));
            }
            if qp.can_ack() || qp.must_fail() || early && qp.can_complete_early() {
                self.moves.push((Move::Ack(index), ack));
            }
        }
        let progress = !self.moves.is_empty();
        if self.memory.dirty_units() > 0 {
            self.moves.push((Move::Evict, evict));
        }
        progress
    }

    /// Whether nothing is under way, and a queue pair has no completions left.
    pub(super) fn is_idle(&mut self, index: usize) -> bool {
        let polled = self.qps.get(index).is_none_or(|qp| qp.cq.is_empty());
        polled && !self.gather()
    }

    fn print(&self) -> u64 {
        let mut print = self.memory.print();
        for qp in &self.qps[self.first_active..self.used] {
            print = (print ^ qp.print()).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
        }
        print
    }

    /// Runs a store past the watch.
    pub(super) fn store(&mut self, at: usize, bytes: &[u8]) {
        self.memory.store(at, bytes);
        if let Some(watch) = &mut self.watch
            && let Err(broken) = watch.visible(&self.memory, at as u64, bytes.len() as u64)
        {
            self.violate(broken);
        }
    }

    /// Makes a range durable and runs it past the watch.
    pub(super) fn persist(&mut self, at: usize, len: usize) {
        let World { memory, watch, .. } = self;
        let mut broken = None;
        let mut touched = false;
        memory.persist(at, len, |memory, at, len| {
            touched = true;
            if let Some(watch) = watch
                && let Err(violation) = watch.durable(memory, at as u64, len as u64)
            {
                broken.get_or_insert(violation);
            }
        });
        if touched {
            let (from, to) = (at as u32, (at + len) as u32);
            self.note(|| Event::Durable { from, to, evicted: false });
        }
        if let Some(violation) = broken {
            self.violate(violation);
        }
    }

    fn evict(&mut self) {
        let index = self.choices.below(self.memory.dirty_units());
        let Some(unit) = self.memory.dirty_unit(index) else {
            return;
        };
        let (at, len) = self.memory.persist_unit(unit);
        self.coverage.evictions += 1;
        self.note(|| Event::Durable { from: at as u32, to: (at + len) as u32, evicted: true });
        if let Some(watch) = &mut self.watch
            && let Err(broken) = watch.durable(&self.memory, at as u64, len as u64)
        {
            self.violate(broken);
        }
    }

    /// A new queue pair; its number.
    pub(super) fn connect(&mut self, sq_depth: u32, cq_depth: u32) -> usize {
        if self.used == self.qps.len() {
            self.qps.push(Qp::new());
        }
        let index = self.used;
        self.qps[index].reuse(sq_depth, cq_depth);
        self.used += 1;
        index
    }

    /// Forgets queue pairs that are over when it looks for what can happen.
    pub(super) fn skip_finished(&mut self) {
        while self.first_active < self.used && self.qps[self.first_active].is_over() {
            self.first_active += 1;
        }
    }
}
