//! A queue of fixed capacity whose entries can be looked at.

use core::fmt;

#[derive(Clone)]
pub(super) struct Fifo<T, const N: usize> {
    entries: [T; N],
    head: usize,
    len: usize,
}

impl<T: Copy, const N: usize> Fifo<T, N> {
    pub(super) const fn new(empty: T) -> Self {
        const { assert!(N > 0, "a queue needs room for one entry") }
        Fifo { entries: [empty; N], head: 0, len: 0 }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) const fn room(&self) -> usize {
        N - self.len
    }

    /// Puts an entry in, or says `false` where there is no room.
    pub(super) fn push(&mut self, entry: T) -> bool {
        if self.room() == 0 {
            return false;
        }
        self.entries[(self.head + self.len) % N] = entry;
        self.len += 1;
        true
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        let oldest = *self.get(0)?;
        self.head = (self.head + 1) % N;
        self.len -= 1;
        Some(oldest)
    }

    /// The entry with `index` older ones before it.
    pub(super) fn get(&self, index: usize) -> Option<&T> {
        (index < self.len).then(|| &self.entries[(self.head + index) % N])
    }

    /// Oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.len).map(|index| &self.entries[(self.head + index) % N])
    }
}

impl<T: Copy + fmt::Debug, const N: usize> fmt::Debug for Fifo<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_out_in_order_across_the_end_of_the_array() {
        let mut fifo = Fifo::<u32, 3>::new(0);
        for n in 0..10 {
            assert!(fifo.push(n) && fifo.push(n + 100));
            assert_eq!((fifo.get(0), fifo.get(1), fifo.get(2)), (Some(&n), Some(&(n + 100)), None));
            assert!(fifo.push(0));
            assert!(!fifo.push(9), "full");
            assert_eq!((fifo.pop(), fifo.pop(), fifo.pop()), (Some(n), Some(n + 100), Some(0)));
            assert_eq!((fifo.pop(), fifo.len()), (None, 0));
        }
    }
}
