//! The responder: carries one request out on the device's regions.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::batch::Request;
use crate::error::{Errno, WcStatus};
use crate::region::Usage;
use crate::soft::{Mode, REMOTE_READ, Registration, SoftDevice, flush_usage, memory};
use crate::wr::{
    SEND_FENCE, SEND_SIGNALED, WC_ATOMIC_WRITE, WC_FLUSH, WC_RDMA_READ, WC_RDMA_WRITE,
    WR_ATOMIC_WRITE, WR_FLUSH, WR_RDMA_READ, WR_RDMA_WRITE,
};

/// The key of a queue pair's own 8 bytes, where emulated flushes read to.
pub(crate) const SCRATCH_LKEY: u32 = u32::MAX;

/// A request as it stands in a send queue: all that it needs is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wqe {
    pub(super) wr_id: u64,
    pub(super) remote_addr: u64,
    /// The word itself, the address of the local bytes, or a flush's length.
    pub(super) data: u64,
    pub(super) rkey: u32,
    pub(super) lkey: u32,
    pub(super) len: u32,
    pub(super) kind: Kind,
    pub(super) flags: u8,
}

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    WriteWord = 0,
    AtomicWrite = 1,
    Write = 2,
    Read = 3,
    FlushPersistent = 4,
    FlushVisibility = 5,
}

impl Kind {
    #[cfg(feature = "std")]
    const ALL: [Kind; 6] = [
        Kind::WriteWord,
        Kind::AtomicWrite,
        Kind::Write,
        Kind::Read,
        Kind::FlushPersistent,
        Kind::FlushVisibility,
    ];

    #[cfg(feature = "std")]
    pub(super) fn from_bits(bits: u8) -> Kind {
        Kind::ALL[bits as usize % Kind::ALL.len()]
    }

    #[inline]
    pub(super) fn wc_opcode(self) -> u32 {
        match self {
            Kind::WriteWord | Kind::Write => WC_RDMA_WRITE,
            Kind::AtomicWrite => WC_ATOMIC_WRITE,
            Kind::Read => WC_RDMA_READ,
            Kind::FlushPersistent | Kind::FlushVisibility => WC_FLUSH,
        }
    }
}

impl Wqe {
    /// Copies a posted request, its inline bytes with it.
    ///
    /// # Errors
    /// `EINVAL` for one that no provider takes.
    #[inline]
    pub(super) fn copy(request: &Request<'_>) -> Result<Wqe, Errno> {
        let wr = request.wr();
        let mut wqe = Wqe {
            wr_id: wr.wr_id,
            remote_addr: wr.remote_addr,
            data: 0,
            rkey: wr.rkey,
            lkey: 0,
            len: 0,
            kind: Kind::WriteWord,
            flags: wr.send_flags as u8,
        };
        if let Some(word) = request.word() {
            wqe.data = word;
            wqe.len = request.sge().map_or(0, |sge| sge.length);
            wqe.kind = match wr.opcode {
                WR_RDMA_WRITE if wqe.len == 8 => Kind::WriteWord,
                WR_ATOMIC_WRITE => Kind::AtomicWrite,
                _ => return Err(Errno::EINVAL),
            };
            return Ok(wqe);
        }
        if let Some(sge) = request.sge() {
            wqe.data = sge.addr;
            wqe.len = sge.length;
            wqe.lkey = sge.lkey;
        }
        wqe.kind = match wr.opcode {
            WR_RDMA_WRITE => Kind::Write,
            WR_RDMA_READ => Kind::Read,
            WR_FLUSH => {
                wqe.data = wr.flush_len;
                if flush_usage(wr.flush_kind) == Usage::FLUSH_PERSISTENT {
                    Kind::FlushPersistent
                } else {
                    Kind::FlushVisibility
                }
            }
            _ => return Err(Errno::EINVAL),
        };
        Ok(wqe)
    }

    #[inline]
    pub(super) fn is_signaled(&self) -> bool {
        u32::from(self.flags) & SEND_SIGNALED != 0
    }

    #[inline]
    pub(super) fn is_fenced(&self) -> bool {
        u32::from(self.flags) & SEND_FENCE != 0
    }
}

impl SoftDevice<'_> {
    /// Carries a request out, or says with which status it fails; the target is
    /// untouched then.
    #[inline]
    pub(super) fn execute(
        &self,
        wqe: &Wqe,
        mode: Mode,
        scratch: &AtomicU64,
    ) -> Result<(), WcStatus> {
        if wqe.kind == Kind::WriteWord {
            return self.write_word(wqe);
        }
        self.execute_general(wqe, mode, scratch)
    }

    /// Stores a word where the key, the rights, the bounds and the alignment
    /// allow it, and says whether they did.
    #[inline]
    pub(super) fn store_word(&self, address: u64, rkey: u32, word: u64) -> bool {
        match self.by_key(rkey) {
            Some(region) if region.is_written_by(rkey) => region.store_word(address, word),
            _ => false,
        }
    }

    /// An inline write of 8 bytes: one store where the address is aligned, and
    /// bytes, without atomicity, where it is not.
    #[inline]
    fn write_word(&self, wqe: &Wqe) -> Result<(), WcStatus> {
        if self.store_word(wqe.remote_addr, wqe.rkey, wqe.data) {
            return Ok(());
        }
        let (region, at) = self.remote(wqe, 8, Usage::WRITE_DST.bits())?;
        memory::store_bytes(region.memory, at, &wqe.data.to_ne_bytes());
        Ok(())
    }

    fn execute_general(&self, wqe: &Wqe, mode: Mode, scratch: &AtomicU64) -> Result<(), WcStatus> {
        let len = u64::from(wqe.len);
        match wqe.kind {
            Kind::WriteWord => self.write_word(wqe),
            Kind::AtomicWrite => {
                if mode != Mode::Native {
                    return Err(WcStatus::LOC_QP_OP_ERR);
                }
                if wqe.len != 8 || !wqe.remote_addr.is_multiple_of(8) {
                    return Err(WcStatus::REM_INV_REQ_ERR);
                }
                self.write_word(wqe)
            }
            Kind::Write => {
                if len == 0 {
                    return Ok(());
                }
                let (source, from) = self.local(wqe)?;
                let (target, to) = self.remote(wqe, len, Usage::WRITE_DST.bits())?;
                memory::copy(source.memory, from, target.memory, to, len);
                Ok(())
            }
            Kind::Read => {
                if len == 0 {
                    return Ok(());
                }
                let (source, from) = self.remote(wqe, len, REMOTE_READ)?;
                if wqe.lkey == SCRATCH_LKEY {
                    return read_to_scratch(source, from, wqe, scratch);
                }
                let (target, to) = self.local(wqe)?;
                if !target.usage.contains(Usage::READ_DST) {
                    return Err(WcStatus::LOC_PROT_ERR);
                }
                memory::copy(source.memory, from, target.memory, to, len);
                Ok(())
            }
            Kind::FlushPersistent | Kind::FlushVisibility => {
                if mode != Mode::Native {
                    return Err(WcStatus::LOC_QP_OP_ERR);
                }
                let usage = if wqe.kind == Kind::FlushPersistent {
                    Usage::FLUSH_PERSISTENT
                } else {
                    Usage::FLUSH_VISIBILITY
                };
                self.remote(wqe, wqe.data, usage.bits()).map(|_| ())
            }
        }
    }

    fn remote(
        &self,
        wqe: &Wqe,
        len: u64,
        access: u8,
    ) -> Result<(&Registration<'_>, u64), WcStatus> {
        self.reach(wqe.rkey, wqe.remote_addr, len, access)
    }

    /// The region behind a remote key and the byte offset in its memory; any one
    /// of the bits in `access` lets the request pass.
    #[inline]
    fn reach(
        &self,
        rkey: u32,
        address: u64,
        len: u64,
        access: u8,
    ) -> Result<(&Registration<'_>, u64), WcStatus> {
        match self.by_key(rkey) {
            Some(region)
                if region.rkey.load(Ordering::Acquire) == rkey
                    && region.usage.bits() & access != 0
                    && region.holds(address, len) =>
            {
                Ok((region, address - region.origin))
            }
            _ => Err(WcStatus::REM_ACCESS_ERR),
        }
    }

    fn local(&self, wqe: &Wqe) -> Result<(&Registration<'_>, u64), WcStatus> {
        match self.by_key(wqe.lkey) {
            Some(region)
                if region.lkey.load(Ordering::Acquire) == wqe.lkey
                    && region.holds(wqe.data, u64::from(wqe.len)) =>
            {
                Ok((region, wqe.data - region.origin))
            }
            _ => Err(WcStatus::LOC_PROT_ERR),
        }
    }
}

impl Registration<'_> {
    /// Whether this is the key of this region, and the region may be written.
    #[inline]
    pub(super) fn is_written_by(&self, rkey: u32) -> bool {
        self.write_key.load(Ordering::Acquire) == u64::from(rkey)
    }

    /// The words that may be stored to, to be kept at hand in a loop.
    #[inline]
    pub(super) fn whole_words(&self) -> WholeWords<'_> {
        WholeWords { words: self.words, base: self.words_base }
    }

    /// As [`WholeWords::store`].
    #[inline]
    pub(super) fn store_word(&self, address: u64, word: u64) -> bool {
        self.whole_words().store(address, word)
    }

    /// Whether `len` bytes at `address` all lie in the region.
    #[inline]
    fn holds(&self, address: u64, len: u64) -> bool {
        let offset = address.wrapping_sub(self.base);
        offset <= self.size && len <= self.size - offset
    }
}

/// The whole words of a region.
#[derive(Clone, Copy, Debug)]
pub(super) struct WholeWords<'a> {
    words: &'a [AtomicU64],
    /// The address of the first.
    base: u64,
}

impl WholeWords<'_> {
    /// Stores a word where the bounds and the alignment allow it, and says
    /// whether they did.
    #[inline]
    pub(super) fn store(self, address: u64, word: u64) -> bool {
        // An index of words whose three lowest bits, if any is set, stand at the
        // top: one comparison refuses what is unaligned and what is outside.
        let index = address.wrapping_sub(self.base).rotate_right(3);
        match self.words.get(index as usize) {
            Some(place) => {
                place.store(word, Ordering::Release);
                true
            }
            None => false,
        }
    }
}

fn read_to_scratch(
    source: &Registration<'_>,
    from: u64,
    wqe: &Wqe,
    scratch: &AtomicU64,
) -> Result<(), WcStatus> {
    let mut bytes = [0; 8];
    let Some(into) = bytes.get_mut(..wqe.len as usize) else {
        return Err(WcStatus::LOC_LEN_ERR);
    };
    memory::load_bytes(source.memory, from, into);
    scratch.store(u64::from_ne_bytes(bytes), Ordering::Release);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn atomic_write(region: &crate::soft::SoftRegion, offset: u64, len: u32) -> Wqe {
        Wqe {
            wr_id: 0,
            remote_addr: region.remote().base() + offset,
            data: u64::MAX,
            rkey: region.remote().rkey(),
            lkey: 0,
            len,
            kind: Kind::AtomicWrite,
            flags: 0,
        }
    }

    /// CASES 12: a ring asks for no other length, but a peer may.
    #[test]
    fn the_responder_takes_an_atomic_write_of_exactly_eight_aligned_bytes() {
        let memory = [const { AtomicU64::new(0) }; 8];
        let (mut device, scratch) = (SoftDevice::new(), AtomicU64::new(0));
        let region = device.register(&memory, Usage::WRITE_DST).expect("there is room");
        let refused = Err(WcStatus::REM_INV_REQ_ERR);
        for len in [0, 1, 4, 7, 9, 16, u32::MAX] {
            let wqe = atomic_write(&region, 8, len);
            assert_eq!(device.execute(&wqe, Mode::Native, &scratch), refused, "{len} bytes");
        }
        for offset in [1, 4, 7, 9, 12] {
            let wqe = atomic_write(&region, offset, 8);
            assert_eq!(device.execute(&wqe, Mode::Native, &scratch), refused, "offset {offset}");
        }
        assert!(memory.iter().all(|word| word.load(Ordering::Acquire) == 0), "nothing is written");
        let wqe = atomic_write(&region, 8, 8);
        assert_eq!(device.execute(&wqe, Mode::Native, &scratch), Ok(()));
        let seen = memory.each_ref().map(|word| word.load(Ordering::Acquire));
        assert_eq!(seen, [0, u64::MAX, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_device_without_the_operation_refuses_it_locally() {
        let memory = [const { AtomicU64::new(0) }; 8];
        let (mut device, scratch) = (SoftDevice::new(), AtomicU64::new(0));
        let region = device.register(&memory, Usage::WRITE_DST).expect("there is room");
        let wqe = atomic_write(&region, 0, 8);
        let refused = Err(WcStatus::LOC_QP_OP_ERR);
        assert_eq!(device.execute(&wqe, Mode::Emulated, &scratch), refused);
        assert_eq!(memory[0].load(Ordering::Acquire), 0);
    }

    /// An address space does not wrap around the end of a region.
    #[test]
    fn bounds_hold_at_every_edge() {
        let memory = [const { AtomicU64::new(0) }; 8];
        let mut device = SoftDevice::new();
        let region = device.register_part(&memory, 8, 40, Usage::WRITE_DST).expect("it fits");
        let Some(held) = device.by_key(region.remote().rkey()) else {
            panic!("it is registered");
        };
        let base = region.remote().base();
        for (address, len, inside) in [
            (base, 40, true),
            (base, 41, false),
            (base + 32, 8, true),
            (base + 33, 8, false),
            (base + 40, 0, true),
            (base + 41, 0, false),
            (base - 1, 1, false),
            (base - 8, 8, false),
            (base + 8, u64::MAX, false),
            (base + 8, u64::MAX - 7, false),
            (0, u64::MAX, false),
            (u64::MAX, 1, false),
        ] {
            assert_eq!(held.holds(address, len), inside, "{address:#x} + {len}");
        }
    }
}
