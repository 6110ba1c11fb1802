//! The registered memory that records pass through on their way out: a circle
//! of bytes. Its places are counted from the log's opening and never reused.

use core::sync::atomic::AtomicU64;

use crate::error::Invalid;
use crate::log::store_bytes;
use crate::region::LocalSlice;
use crate::soft::load_bytes;

#[derive(Debug)]
pub(super) struct Staging<'m> {
    memory: &'m [AtomicU64],
    slice: LocalSlice,
    /// `freed <= sent <= filled <= freed + len`.
    freed: u64,
    sent: u64,
    filled: u64,
}

impl<'m> Staging<'m> {
    pub(super) fn new(memory: &'m [AtomicU64], slice: LocalSlice) -> Result<Self, Invalid> {
        let size = size_of_val(memory) as u64;
        if slice.len() < 16 || slice.len() > size {
            return Err(Invalid::OutsideMemory { start: 0, len: slice.len(), size });
        }
        Ok(Staging { memory, slice, freed: 0, sent: 0, filled: 0 })
    }

    pub(super) fn slice(&self) -> LocalSlice {
        self.slice
    }

    pub(super) fn room(&self) -> u64 {
        self.slice.len() - (self.filled - self.freed)
    }

    pub(super) fn filled(&self) -> u64 {
        self.filled
    }

    pub(super) fn sent(&self) -> u64 {
        self.sent
    }

    /// Copies as many bytes in as there is room for, and says how many.
    pub(super) fn fill(&mut self, bytes: &[u8]) -> usize {
        let take = self.room().min(bytes.len() as u64) as usize;
        let at = self.filled % self.slice.len();
        let first = take.min((self.slice.len() - at) as usize);
        store_bytes(self.memory, at, &bytes[..first]);
        store_bytes(self.memory, 0, &bytes[first..take]);
        self.filled += take as u64;
        take
    }

    /// The next run of bytes that were filled and not sent, without a break.
    pub(super) fn unsent(&self) -> Result<Option<LocalSlice>, Invalid> {
        let len = self.filled - self.sent;
        if len == 0 {
            return Ok(None);
        }
        let at = self.sent % self.slice.len();
        self.slice.slice(at, len.min(self.slice.len() - at)).map(Some)
    }

    pub(super) fn send(&mut self, len: u64) {
        self.sent += len;
    }

    /// Forgets what was filled behind `to`. What was sent of it stays taken
    /// until its write is confirmed.
    pub(super) fn give_up(&mut self, to: u64) {
        self.filled = to.max(self.sent);
    }

    pub(super) fn free_to(&mut self, place: u64) {
        self.freed = place;
    }

    pub(super) fn load(&self, at: u64, into: &mut [u8]) {
        load_bytes(self.memory, at, into);
    }
}
