//! What a log must hold at every moment, and the watch that looks.

use core::cell::RefCell;
use std::rc::Rc;
use std::vec::Vec;

use crate::log::DATA_OFFSET;
use crate::sim::event::Violation;
use crate::sim::memory::{Memory, Watch};

/// The truth about one log: every byte that was meant to be in it, every tail
/// that may be seen, and what was confirmed.
#[derive(Debug)]
pub(super) struct Journal {
    /// Where the log lies in the remote memory.
    base: u64,
    size: u64,
    expected: Vec<u8>,
    /// Tails of commits that were begun, ascending.
    tails: Vec<u64>,
    visible: u64,
    confirmed: u64,
    persistent: bool,
}

const TAIL: u64 = 8;

pub(super) const FOREIGN_TAIL: &str = "a tail shows that no commit wrote";
pub(super) const TAIL_BACK: &str = "the tail went back without a loss of power";
pub(super) const NOT_DURABLE: &str = "the tail points past records that are not durable";
pub(super) const NOT_VISIBLE: &str = "the tail points past records that are not visible";
pub(super) const OVERWRITTEN: &str = "published bytes were overwritten";
pub(super) const LOST: &str = "a confirmed commit is lost";
pub(super) const UNCONFIRMED: &str = "a commit was confirmed and is not yet there";
pub(super) const BROKEN_CRASH: &str = "after a crash the tail points past broken records";

impl Journal {
    pub(super) fn new(base: u64, size: u64, persistent: bool) -> Self {
        Journal {
            base,
            size,
            expected: std::vec![0; size as usize],
            tails: std::vec![DATA_OFFSET],
            visible: DATA_OFFSET,
            confirmed: DATA_OFFSET,
            persistent,
        }
    }

    /// Bytes that are to be in the log from an offset on.
    pub(super) fn expect(&mut self, at: u64, bytes: &[u8]) {
        let into = self.expected.get_mut(at as usize..).unwrap_or_default();
        for (place, byte) in into.iter_mut().zip(bytes) {
            *place = *byte;
        }
    }

    pub(super) fn expected(&self, from: u64, to: u64) -> &[u8] {
        self.expected.get(from as usize..to as usize).unwrap_or_default()
    }

    /// A commit begins whose tail may be seen from now on.
    pub(super) fn intend(&mut self, tail: u64) {
        if self.tails.last().is_none_or(|last| *last < tail) {
            self.tails.push(tail);
        }
    }

    /// What an engine was told is durable must be.
    pub(super) fn confirm(&mut self, tail: u64, memory: &Memory) -> Result<(), Violation> {
        if tail <= self.confirmed {
            return Ok(());
        }
        self.confirmed = tail;
        let layer =
            if self.persistent { memory.durable_word(self.base + TAIL) } else { self.visible };
        if layer < tail {
            return Err(Violation::new(UNCONFIRMED).at(self.base).numbers(layer, tail));
        }
        Ok(())
    }

    /// The log was opened anew and goes on from a tail.
    pub(super) fn recover(&mut self, tail: u64) -> Result<(), Violation> {
        if tail < self.confirmed {
            return Err(Violation::new(LOST).at(self.base).numbers(tail, self.confirmed));
        }
        if !self.tails.contains(&tail) {
            return Err(Violation::new(FOREIGN_TAIL).at(self.base).numbers(tail, 0));
        }
        self.tails.retain(|known| *known <= tail);
        Ok(())
    }

    pub(super) fn confirmed(&self) -> u64 {
        self.confirmed
    }

    fn word_changed(&self, at: u64, len: u64) -> bool {
        let word = self.base + TAIL;
        at < word + 8 && at + len > word
    }

    /// The first byte between two offsets that a layer holds wrong.
    fn wrong(&self, layer: &[u8], from: u64, to: u64) -> Option<Violation> {
        let start = (self.base + from) as usize;
        let held = layer.get(start..(self.base + to) as usize)?;
        let expected = self.expected.get(from as usize..to as usize)?;
        if held == expected {
            return None;
        }
        let at = held.iter().zip(expected).position(|(held, expected)| held != expected)?;
        let numbers = (u64::from(held[at]), u64::from(expected[at]));
        Some(Violation::new("").at(self.base + from + at as u64).numbers(numbers.0, numbers.1))
    }

    fn known(&self, tail: u64) -> Result<(), Violation> {
        if tail <= self.size && self.tails.contains(&tail) {
            return Ok(());
        }
        Err(Violation::new(FOREIGN_TAIL).at(self.base + TAIL).numbers(tail, self.confirmed))
    }

    fn see(&mut self, memory: &Memory, at: u64, len: u64) -> Result<(), Violation> {
        if self.word_changed(at, len) {
            let tail = memory.visible_word(self.base + TAIL);
            self.known(tail)?;
            if tail < self.visible {
                let broken = Violation::new(TAIL_BACK).at(self.base + TAIL);
                return Err(broken.numbers(tail, self.visible));
            }
            if let Some(wrong) = self.wrong(memory.visible(), self.visible, tail) {
                return Err(Violation { rule: NOT_VISIBLE, ..wrong });
            }
            if self.persistent
                && let Some(wrong) = self.wrong(memory.durable(), self.visible, tail)
            {
                return Err(Violation { rule: NOT_DURABLE, ..wrong });
            }
            self.visible = tail;
        }
        // Bytes below the tail, that were right, and must stay so.
        let from = at.max(self.base + DATA_OFFSET) - self.base;
        let to = (at + len).saturating_sub(self.base).min(self.visible);
        if from < to
            && let Some(wrong) = self.wrong(memory.visible(), from, to)
        {
            return Err(Violation { rule: OVERWRITTEN, ..wrong });
        }
        Ok(())
    }

    fn settle(&self, memory: &Memory) -> Result<(), Violation> {
        let tail = memory.durable_word(self.base + TAIL);
        self.known(tail)?;
        if tail < self.confirmed {
            return Err(Violation::new(LOST).at(self.base + TAIL).numbers(tail, self.confirmed));
        }
        match self.wrong(memory.durable(), DATA_OFFSET, tail) {
            Some(wrong) => Err(Violation { rule: BROKEN_CRASH, ..wrong }),
            None => Ok(()),
        }
    }
}

/// Watches over several journals.
#[derive(Debug)]
pub(super) struct Journals(pub(super) Vec<Rc<RefCell<Journal>>>);

impl Journals {
    fn of(&self, at: u64, len: u64) -> impl Iterator<Item = &Rc<RefCell<Journal>>> {
        self.0.iter().filter(move |journal| {
            let journal = journal.borrow();
            at < journal.base + journal.size && at + len > journal.base
        })
    }
}

impl Watch for Journals {
    fn visible(&mut self, memory: &Memory, at: u64, len: u64) -> Result<(), Violation> {
        for journal in self.of(at, len) {
            journal.borrow_mut().see(memory, at, len)?;
        }
        Ok(())
    }

    fn durable(&mut self, memory: &Memory, at: u64, len: u64) -> Result<(), Violation> {
        for journal in self.of(at, len) {
            let journal = journal.borrow();
            // As after a crash right now, of which the tail alone survived.
            if journal.persistent && journal.word_changed(at, len) {
                journal.settle(memory)?;
            }
        }
        Ok(())
    }

    fn power_lost(&mut self, memory: &Memory) -> Result<(), Violation> {
        for journal in &self.0 {
            let mut journal = journal.borrow_mut();
            journal.settle(memory)?;
            journal.visible = memory.durable_word(journal.base + TAIL);
        }
        Ok(())
    }
}
