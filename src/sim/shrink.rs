//! Cuts a run that broke a rule to a short one that breaks it too.

use std::vec::Vec;

use crate::sim::choices::Choices;
use crate::sim::event::{Story, Violation};
use crate::sim::work::Runner;

/// The shortest run found that breaks the same rule.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Shrunk {
    /// The rule.
    pub violation: Violation,
    /// What happens in it.
    pub story: Story,
    /// How many things happened in the run that it was cut from.
    pub from: usize,
}

/// How many runs shrinking may take: about a second's worth.
const TRIES: u32 = 40_000;

/// The choices at a run's start say how many writers there are and how the fabric
/// leans; and how long a block may become superfluous with one of them.
const FIRST_CHOICES: usize = 16;
const LONGEST_BLOCK: usize = 32;

pub(super) fn shrink(runner: &Runner, seed: u64) -> Option<Shrunk> {
    let (violation, story, choices) = runner.run_told(Choices::seeded(seed));
    let rule = violation?.rule;
    let steps = runner.fabric.steps();
    let mut search = Search { runner, rule, best: choices, steps, tries: 0 };
    loop {
        let before = search.best.clone();
        search.cut_blocks();
        search.quieten();
        if search.best == before {
            search.quieten_and_cut();
        }
        if search.best == before || search.tries >= TRIES {
            break;
        }
    }
    let (violation, short, _) = runner.run_told(Choices::replaying(search.best));
    Some(Shrunk { violation: violation?, story: short, from: story.len() })
}

struct Search<'r> {
    runner: &'r Runner,
    rule: &'static str,
    best: Vec<u32>,
    /// How many steps it takes.
    steps: u64,
    tries: u32,
}

impl Search<'_> {
    /// Takes a list of choices if it breaks the rule and is simpler.
    fn try_list(&mut self, list: Vec<u32>) -> bool {
        if self.tries >= TRIES {
            return false;
        }
        self.tries += 1;
        let (violation, mut kept) = self.runner.run_kept(Choices::replaying(list));
        while kept.last() == Some(&0) {
            kept.pop();
        }
        let steps = self.runner.fabric.steps();
        let simpler =
            (steps, kept.len(), sum(&kept)) < (self.steps, self.best.len(), sum(&self.best));
        let better = simpler && violation.is_some_and(|broken| broken.rule == self.rule);
        if better {
            self.best = kept;
            self.steps = steps;
        }
        better
    }

    /// Leaves out blocks of choices, from long ones to single ones. What belongs
    /// together is a few choices, so short blocks are tried at every length.
    fn cut_blocks(&mut self) {
        let mut size = (self.best.len() / 2).max(1);
        while size > 0 {
            let mut at = self.best.len();
            while at > 0 && self.tries < TRIES {
                at = at.min(self.best.len()).saturating_sub(size.div_ceil(2));
                let mut list = self.best.clone();
                list.drain(at..(at + size).min(list.len()));
                self.try_list(list);
            }
            size = if size > 8 { size / 2 } else { size - 1 };
        }
    }

    /// Makes choices quieter: 0, or half of what they were.
    fn quieten(&mut self) {
        let mut at = 0;
        while at < self.best.len() && self.tries < TRIES {
            let value = self.best[at];
            for quieter in [0, value / 2, value.saturating_sub(1)] {
                if quieter < value {
                    let mut list = self.best.clone();
                    list[at] = quieter;
                    if self.try_list(list) {
                        break;
                    }
                }
            }
            at += 1;
        }
    }

    /// Makes one of the first choices 0 and leaves out a block that it made
    /// superfluous: with one writer less, all that this writer did to connect.
    fn quieten_and_cut(&mut self) {
        for first in 0..FIRST_CHOICES.min(self.best.len()) {
            if self.best[first] == 0 {
                continue;
            }
            for at in first + 1..self.best.len() {
                for size in 1..=LONGEST_BLOCK.min(self.best.len() - at) {
                    let mut list = self.best.clone();
                    list[first] = 0;
                    list.drain(at..at + size);
                    if self.try_list(list) || self.tries >= TRIES {
                        return;
                    }
                }
            }
        }
    }
}

fn sum(list: &[u32]) -> u64 {
    list.iter().map(|value| u64::from(*value)).sum()
}
