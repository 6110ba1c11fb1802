//! Requests as C asks for them: at addresses that nobody has checked, with the
//! caller's own number.

use super::Batch;
use crate::wr::{SEND_FENCE, SendWr, Sge, WR_FLUSH};

/// An address and its key.
type Place = (u64, u32);

impl Batch<'_> {
    /// Stages an atomic write.
    #[inline]
    pub(crate) fn set_word_at(
        &mut self,
        number: u64,
        (wr_id, flags): (u64, u32),
        (address, rkey): Place,
        word: u64,
    ) {
        let flags = flags | self.flags;
        if flags & SEND_FENCE != 0 {
            // As for `set_word`.
            self.flags &= !SEND_FENCE;
        }
        let wr = self.wrs.get_mut(number);
        wr.wr_id = wr_id;
        wr.send_flags = flags;
        wr.remote_addr = address;
        wr.rkey = rkey;
        wr.word = word;
    }

    /// Stages any other request; with no element it moves nothing.
    pub(crate) fn set_request(
        &mut self,
        number: u64,
        (wr_id, flags): (u64, u32),
        (opcode, imm): (u32, u32),
        (address, rkey): Place,
        sge: Option<Sge>,
    ) {
        self.dirty = true;
        let wr = self.wrs.get_mut(number);
        wr.wr_id = wr_id;
        wr.send_flags = flags;
        wr.opcode = opcode;
        wr.imm_data = imm;
        wr.remote_addr = address;
        wr.rkey = rkey;
        wr.num_sge = i32::from(sge.is_some());
        wr.sge = sge.unwrap_or_default();
    }

    /// Stages a native flush of `len` bytes.
    pub(crate) fn set_flush_at(
        &mut self,
        number: u64,
        id: (u64, u32),
        place: Place,
        (kind, len): (u32, u64),
    ) {
        self.set_request(number, id, (WR_FLUSH, 0), place, None);
        let wr = self.wrs.get_mut(number);
        wr.flush_kind = kind;
        wr.flush_len = len;
    }

    /// A staged request.
    pub(crate) fn get(&self, number: u64) -> &SendWr {
        self.wrs.get(number)
    }
}
