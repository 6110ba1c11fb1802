//! What runs on the fabric, and which promises are held against it.

use std::vec::Vec;

use crate::sim::choices::Choices;
use crate::sim::config::{Faults, Mutant, SimConfig};
use crate::sim::event::{Story, Violation};
use crate::sim::fabric::SimFabric;

mod area;
mod journal;
mod log;
mod ring;

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scenario {
    /// Rings that stage, post, poll, wait, fail and reconnect, each over words
    /// and blocks of its own.
    Ring,
    /// Remote logs: appends, group commits, failures, recovery from the tail.
    Log,
}

/// How runs are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RunConfig {
    /// The kind of work; `None` lets the seed choose.
    pub scenario: Option<Scenario>,
    /// What is deliberately wrong.
    pub mutant: Option<Mutant>,
}

impl RunConfig {
    /// With one kind of work alone.
    #[must_use]
    pub const fn with_scenario(mut self, scenario: Scenario) -> Self {
        self.scenario = Some(scenario);
        self
    }

    /// With something deliberately wrong.
    #[must_use]
    pub const fn with_mutant(mut self, mutant: Mutant) -> Self {
        self.mutant = Some(mutant);
        self
    }
}

/// How much remote memory a run has.
const MEMORY: u32 = 384;

/// Makes runs, one after the other, in the same memory.
#[derive(Debug)]
pub(super) struct Runner {
    pub(super) fabric: SimFabric,
    config: RunConfig,
}

impl Runner {
    pub(super) fn new(config: RunConfig) -> Self {
        let fabric = SimFabric::new(0, SimConfig::new(MEMORY));
        Runner { fabric, config }
    }

    /// One run; which rule it broke, if it did.
    pub(super) fn run(&self, choices: Choices) -> Option<Violation> {
        self.start(choices);
        self.work()
    }

    /// One run with its story told and its choices kept.
    pub(super) fn run_told(&self, choices: Choices) -> (Option<Violation>, Story, Vec<u32>) {
        let mut choices = choices;
        choices.keep();
        self.start(choices);
        self.fabric.tell_story();
        let violation = self.work();
        let story = self.fabric.take_story().unwrap_or_default();
        (violation, story, self.fabric.take_choices())
    }

    /// One run with its choices kept and no story.
    pub(super) fn run_kept(&self, choices: Choices) -> (Option<Violation>, Vec<u32>) {
        let mut choices = choices;
        choices.keep();
        self.start(choices);
        let violation = self.work();
        (violation, self.fabric.take_choices())
    }

    fn start(&self, choices: Choices) {
        let mut config = SimConfig::new(MEMORY);
        config.mutant = self.config.mutant;
        self.fabric.restart(choices, config);
    }

    fn work(&self) -> Option<Violation> {
        let fabric = &self.fabric;
        let chosen = fabric.choose(2);
        let scenario =
            self.config.scenario.unwrap_or([Scenario::Log, Scenario::Ring][chosen as usize]);
        let persistent = fabric.choose(4) != 3;
        let (native_write, native_flush) = (fabric.choose(2) == 1, fabric.choose(2) == 1);
        let calm = fabric.choose(8) == 7;
        fabric.configure(|config| {
            *config = config.with_native(native_write, native_flush);
            config.direct_to_persistence = persistent;
            if calm {
                config.faults = Faults::NONE;
            }
            if !persistent {
                // Without persistence the loss of power loses all, lawfully.
                config.faults.power = 0;
            }
        });
        match scenario {
            Scenario::Ring => ring::run(fabric, persistent),
            Scenario::Log => log::run(fabric, persistent),
        }
        fabric.count(|coverage| coverage.runs += 1);
        fabric.violation()
    }
}
