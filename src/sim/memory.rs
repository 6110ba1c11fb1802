//! The remote node's memory: what its processors see, and what survives.

use std::vec::Vec;

use crate::sim::Violation;

/// Bytes in two layers. A store reaches the visible one; the durable one gets
/// it by a flush, or by chance at any time, as a cache evicts its lines: always
/// 8 aligned bytes at once.
///
/// Offsets are from the region's first byte.
#[derive(Debug, Default)]
pub struct Memory {
    visible: Vec<u8>,
    durable: Vec<u8>,
    /// One bit for every unit of 8 bytes in which the layers may differ.
    dirty: Vec<u64>,
    dirty_units: u32,
    crashes: u32,
    print: u64,
}

/// Checks memory as it changes, from outside of the simulation: an engine's own
/// rules.
pub trait Watch {
    /// Bytes have become visible.
    ///
    /// # Errors
    /// The rule that is now broken; the run remembers the first one.
    fn visible(&mut self, memory: &Memory, at: u64, len: u64) -> Result<(), Violation>;

    /// Bytes have become durable.
    ///
    /// # Errors
    /// As [`visible`](Self::visible).
    fn durable(&mut self, memory: &Memory, at: u64, len: u64) -> Result<(), Violation>;

    /// Power was lost and is back: the visible layer is what was durable.
    ///
    /// # Errors
    /// As [`visible`](Self::visible).
    fn power_lost(&mut self, memory: &Memory) -> Result<(), Violation>;
}

/// One byte's share of the print, the layer and the place mixed in.
#[inline]
fn mix(layer: u64, at: usize, value: u64) -> u64 {
    let mut hash = (at as u64) << 1 | layer;
    hash = (hash ^ value.rotate_left(17)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^= hash >> 29;
    hash.wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

impl Memory {
    pub(super) fn clear(&mut self, len: usize) {
        self.visible.clear();
        self.visible.resize(len, 0);
        self.durable.clear();
        self.durable.resize(len, 0);
        self.dirty.clear();
        self.dirty.resize(len.div_ceil(8).div_ceil(64), 0);
        self.dirty_units = 0;
        self.crashes = 0;
        self.print = 0;
    }

    /// What the node's processors see.
    #[must_use]
    pub fn visible(&self) -> &[u8] {
        &self.visible
    }

    /// What would survive the loss of power now.
    #[must_use]
    pub fn durable(&self) -> &[u8] {
        &self.durable
    }

    /// The aligned word at `at` that the node's processors see, in this
    /// machine's byte order; 0 outside.
    #[must_use]
    pub fn visible_word(&self, at: u64) -> u64 {
        word(&self.visible, at)
    }

    /// The aligned word at `at` that would survive.
    #[must_use]
    pub fn durable_word(&self, at: u64) -> u64 {
        word(&self.durable, at)
    }

    /// How often power was lost.
    #[must_use]
    pub fn crashes(&self) -> u32 {
        self.crashes
    }

    pub(super) fn count_crash(&mut self) {
        self.crashes += 1;
    }

    /// A number for what both layers hold; equal layers have equal numbers.
    pub(super) fn print(&self) -> u64 {
        self.print
    }

    pub(super) fn dirty_units(&self) -> u32 {
        self.dirty_units
    }

    /// Sets both layers, as the node's own code does before it listens.
    pub(super) fn format(&mut self, at: usize, bytes: &[u8]) {
        self.store(at, bytes);
        self.persist(at, bytes.len(), |_, _, _| {});
    }

    /// Stores bytes where processors see them.
    #[inline]
    pub(super) fn store(&mut self, at: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        for (place, &new) in (at..).zip(bytes) {
            let old = self.visible[place];
            if old != new {
                self.print ^= mix(0, place, u64::from(old)) ^ mix(0, place, u64::from(new));
                self.visible[place] = new;
            }
        }
        for unit in at / 8..=(at + bytes.len() - 1) / 8 {
            let bit = 1 << (unit % 64);
            self.dirty_units += u32::from(self.dirty[unit / 64] & bit == 0);
            self.dirty[unit / 64] |= bit;
        }
    }

    /// Makes the units that a range touches durable, and tells of each.
    #[inline]
    pub(super) fn persist(
        &mut self,
        at: usize,
        len: usize,
        mut each: impl FnMut(&Memory, usize, usize),
    ) {
        if len == 0 {
            return;
        }
        for unit in at / 8..=(at + len - 1) / 8 {
            if self.dirty[unit / 64] & (1 << (unit % 64)) != 0 {
                let (from, count) = self.persist_unit(unit);
                each(self, from, count);
            }
        }
    }

    /// Makes one unit durable; says which bytes it holds.
    pub(super) fn persist_unit(&mut self, unit: usize) -> (usize, usize) {
        let from = unit * 8;
        let to = (from + 8).min(self.visible.len());
        for place in from..to {
            let (old, new) = (self.durable[place], self.visible[place]);
            if old != new {
                self.print ^= mix(1, place, u64::from(old)) ^ mix(1, place, u64::from(new));
                self.durable[place] = new;
            }
        }
        self.clean(unit);
        (from, to - from)
    }

    /// What was visible in one unit is gone: it is again what was durable.
    pub(super) fn lose_unit(&mut self, unit: usize) {
        let from = unit * 8;
        let to = (from + 8).min(self.visible.len());
        for place in from..to {
            let (old, new) = (self.visible[place], self.durable[place]);
            if old != new {
                self.print ^= mix(0, place, u64::from(old)) ^ mix(0, place, u64::from(new));
                self.visible[place] = new;
            }
        }
        self.clean(unit);
    }

    fn clean(&mut self, unit: usize) {
        self.dirty[unit / 64] &= !(1 << (unit % 64));
        self.dirty_units -= 1;
    }

    /// The `index`-th dirty unit, of [`dirty_units`](Self::dirty_units).
    pub(super) fn dirty_unit(&self, mut index: u32) -> Option<usize> {
        for (group, &bits) in self.dirty.iter().enumerate() {
            let here = bits.count_ones();
            if index >= here {
                index -= here;
                continue;
            }
            let mut bits = bits;
            for _ in 0..index {
                bits &= bits - 1;
            }
            return Some(group * 64 + bits.trailing_zeros() as usize);
        }
        None
    }
}

fn word(bytes: &[u8], at: u64) -> u64 {
    let at = at as usize;
    bytes
        .get(at..at.saturating_add(8))
        .and_then(|bytes| bytes.try_into().ok())
        .map_or(0, u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_visible_and_not_durable_until_its_unit_is_persisted() {
        let mut memory = Memory::default();
        memory.clear(40);
        memory.store(6, &[1, 2, 3, 4]);
        assert_eq!(memory.visible()[6..10], [1, 2, 3, 4]);
        assert_eq!((&memory.durable()[6..10], memory.dirty_units()), (&[0; 4][..], 2));
        assert_eq!((memory.dirty_unit(0), memory.dirty_unit(1)), (Some(0), Some(1)));
        memory.persist(0, 8, |_, _, _| {});
        assert_eq!(memory.durable()[6..10], [1, 2, 0, 0]);
        memory.lose_unit(1);
        assert_eq!((&memory.visible()[6..10], memory.dirty_units()), (&[1, 2, 0, 0][..], 0));
    }

    #[test]
    fn equal_layers_have_equal_prints_however_they_came_about() {
        let (mut one, mut other) = (Memory::default(), Memory::default());
        one.clear(32);
        other.clear(32);
        one.store(0, &[9, 9]);
        one.store(0, &[1, 2]);
        other.store(1, &[2]);
        assert_ne!(one.print(), other.print());
        other.store(0, &[1]);
        assert_eq!(one.print(), other.print());
        one.persist(0, 8, |_, _, _| {});
        assert_ne!(one.print(), other.print());
    }
}
