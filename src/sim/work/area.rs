//! A few words and a block of remote memory that one ring after another writes,
//! and what may be seen of them.

use core::cell::RefCell;
use std::rc::Rc;
use std::vec::Vec;

use crate::sim::event::Violation;
use crate::sim::memory::{Memory, Watch};

/// How many bytes an area has.
pub(super) const AREA: u64 = 64;
/// A word that counts up with every atomic write to it.
pub(super) const WORD: u64 = 0;
/// A word that says which block was flushed before it was written.
pub(super) const PUBLISHED: u64 = 8;
/// The block: not aligned, so that its ends share their words with nothing.
pub(super) const BLOCK: u64 = 17;
pub(super) const BLOCK_LEN: u64 = 21;

pub(super) const TORN: &str = "a torn word is visible";
pub(super) const UNKNOWN_WORD: &str = "a word is visible that was never staged";
pub(super) const WENT_BACK: &str = "an older write landed on a newer one";
pub(super) const OVERTOOK: &str = "a word overtook the block written before it";
pub(super) const UNFLUSHED: &str = "a word is published before the flush in front of it";

/// The number that all 8 bytes of a word repeat, so that a torn one shows.
pub(super) fn word_of(number: u8) -> u64 {
    u64::from_ne_bytes([number; 8])
}

/// The truth about one area.
#[derive(Debug)]
pub(super) struct Area {
    pub(super) base: u64,
    persistent: bool,
    /// The last number staged to [`WORD`], and to the block.
    pub(super) word: u8,
    pub(super) block: u8,
    /// For each number of [`WORD`], the block that was written before it.
    block_before: Vec<u8>,
    seen_word: u8,
    seen_block: [u8; BLOCK_LEN as usize],
}

impl Area {
    pub(super) fn new(base: u64, persistent: bool) -> Self {
        Area {
            base,
            persistent,
            word: 0,
            block: 0,
            block_before: std::vec![0],
            seen_word: 0,
            seen_block: [0; BLOCK_LEN as usize],
        }
    }

    /// The next number for [`WORD`], staged behind a block.
    pub(super) fn next_word(&mut self, block: u8) -> u8 {
        self.word += 1;
        self.block_before.push(block);
        self.word
    }

    /// A number that a word holds in a layer.
    pub(super) fn number(&self, layer: &[u8], word: u64) -> Result<u8, Violation> {
        let at = self.base + word;
        let bytes = layer.get(at as usize..(at + 8) as usize).unwrap_or(&[0]);
        let first = bytes[0];
        match bytes.iter().find(|byte| **byte != first) {
            Some(other) => Err(Violation::new(TORN).at(at).numbers((*other).into(), first.into())),
            None => Ok(first),
        }
    }

    /// The oldest number that a byte of the block holds in a layer.
    pub(super) fn oldest(&self, layer: &[u8]) -> u8 {
        self.block_in(layer).iter().min().copied().unwrap_or(0)
    }

    fn block_in<'l>(&self, layer: &'l [u8]) -> &'l [u8] {
        let at = (self.base + BLOCK) as usize;
        layer.get(at..at + BLOCK_LEN as usize).unwrap_or_default()
    }

    fn see(&mut self, memory: &Memory, at: u64, len: u64) -> Result<(), Violation> {
        let (from, to) = (at.saturating_sub(self.base), at + len - self.base);
        if from < BLOCK + BLOCK_LEN && to > BLOCK {
            let block = self.block_in(memory.visible());
            for (seen, byte) in self.seen_block.iter_mut().zip(block) {
                if byte < seen {
                    let broken = Violation::new(WENT_BACK).at(self.base + BLOCK);
                    return Err(broken.numbers((*byte).into(), (*seen).into()));
                }
                *seen = *byte;
            }
        }
        if from < WORD + 8 && to > WORD {
            self.see_word(memory)?;
        }
        if from < PUBLISHED + 8 && to > PUBLISHED {
            let layer = if self.persistent { memory.durable() } else { memory.visible() };
            let number = self.number(memory.visible(), PUBLISHED)?;
            self.check_published(number, layer)?;
        }
        Ok(())
    }

    fn see_word(&mut self, memory: &Memory) -> Result<(), Violation> {
        let at = self.base + WORD;
        let number = self.number(memory.visible(), WORD)?;
        if number > self.word {
            let broken = Violation::new(UNKNOWN_WORD).at(at);
            return Err(broken.numbers(number.into(), self.word.into()));
        }
        if number < self.seen_word {
            let broken = Violation::new(WENT_BACK).at(at);
            return Err(broken.numbers(number.into(), self.seen_word.into()));
        }
        self.seen_word = number;
        let before = self.block_before.get(usize::from(number)).copied().unwrap_or(0);
        let oldest = self.oldest(memory.visible());
        if oldest < before {
            return Err(Violation::new(OVERTOOK).at(at).numbers(oldest.into(), before.into()));
        }
        Ok(())
    }

    fn check_published(&self, number: u8, layer: &[u8]) -> Result<(), Violation> {
        let oldest = self.oldest(layer);
        if oldest < number {
            let broken = Violation::new(UNFLUSHED).at(self.base + PUBLISHED);
            return Err(broken.numbers(oldest.into(), number.into()));
        }
        Ok(())
    }

    fn settle(&self, memory: &Memory) -> Result<(), Violation> {
        self.number(memory.durable(), WORD)?;
        if !self.persistent {
            return Ok(());
        }
        let number = self.number(memory.durable(), PUBLISHED)?;
        self.check_published(number, memory.durable())
    }
}

/// Watches over several areas.
#[derive(Debug)]
pub(super) struct Areas(pub(super) Vec<Rc<RefCell<Area>>>);

impl Watch for Areas {
    fn visible(&mut self, memory: &Memory, at: u64, len: u64) -> Result<(), Violation> {
        for area in &self.0 {
            let mut area = area.borrow_mut();
            if at < area.base + AREA && at + len > area.base {
                area.see(memory, at, len)?;
            }
        }
        Ok(())
    }

    fn durable(&mut self, memory: &Memory, at: u64, len: u64) -> Result<(), Violation> {
        for area in &self.0 {
            let area = area.borrow();
            if at < area.base + BLOCK && at + len > area.base {
                area.settle(memory)?;
            }
        }
        Ok(())
    }

    fn power_lost(&mut self, memory: &Memory) -> Result<(), Violation> {
        for area in &self.0 {
            let mut area = area.borrow_mut();
            area.settle(memory)?;
            area.seen_word = area.number(memory.visible(), WORD)?;
            let area = &mut *area;
            let at = (area.base + BLOCK) as usize;
            area.seen_block.copy_from_slice(&memory.visible()[at..at + BLOCK_LEN as usize]);
        }
        Ok(())
    }
}
