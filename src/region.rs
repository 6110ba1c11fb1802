//! Remote memory: regions, their 21-byte descriptors, and targets that were
//! checked once.

use core::fmt;
use core::ops::BitOr;

use crate::error::Invalid;
use crate::offset::{ALIGNMENT, AlignedOffset};
use crate::op::FlushKind;

/// What a region may be used for: librpma's `RPMA_MR_USAGE_*` bits.
///
/// ```
/// use farword::Usage;
/// let usage = Usage::WRITE_DST | Usage::FLUSH_VISIBILITY;
/// assert_eq!(usage.bits(), 24);
/// assert_eq!(usage.to_string(), "WRITE_DST|FLUSH_VISIBILITY");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct Usage(u8);

impl Usage {
    /// No use at all.
    pub const NONE: Usage = Usage(0);
    /// The source of a read.
    pub const READ_SRC: Usage = Usage(1);
    /// The destination of a read.
    pub const READ_DST: Usage = Usage(2);
    /// The source of a write.
    pub const WRITE_SRC: Usage = Usage(4);
    /// The destination of a write, atomic or not.
    pub const WRITE_DST: Usage = Usage(8);
    /// Can be flushed to visibility.
    pub const FLUSH_VISIBILITY: Usage = Usage(16);
    /// Can be flushed to persistence.
    pub const FLUSH_PERSISTENT: Usage = Usage(32);
    /// The source of a send.
    pub const SEND: Usage = Usage(64);
    /// The destination of a receive.
    pub const RECV: Usage = Usage(128);

    const NAMES: [&'static str; 8] = [
        "READ_SRC",
        "READ_DST",
        "WRITE_SRC",
        "WRITE_DST",
        "FLUSH_VISIBILITY",
        "FLUSH_PERSISTENT",
        "SEND",
        "RECV",
    ];

    /// From the bits, any of which may be set.
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        Usage(bits)
    }

    /// The bits.
    #[inline]
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether every use in `other` is allowed.
    #[inline]
    #[must_use]
    pub const fn contains(self, other: Usage) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both together: [`BitOr`] that works in constants.
    #[inline]
    #[must_use]
    pub const fn and(self, other: Usage) -> Self {
        Usage(self.0 | other.0)
    }

    /// The use that a flush of this kind needs.
    #[inline]
    #[must_use]
    pub const fn for_flush(kind: FlushKind) -> Self {
        match kind {
            FlushKind::Persistent => Usage::FLUSH_PERSISTENT,
            FlushKind::Visibility => Usage::FLUSH_VISIBILITY,
        }
    }

    pub(crate) const fn require(self, needs: Usage) -> Result<(), Invalid> {
        if self.contains(needs) { Ok(()) } else { Err(Invalid::UsageMissing { needs, has: self }) }
    }
}

impl BitOr for Usage {
    type Output = Usage;

    #[inline]
    fn bitor(self, other: Usage) -> Usage {
        self.and(other)
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("nothing");
        }
        let mut separator = "";
        for (bit, name) in Self::NAMES.iter().enumerate() {
            if self.0 & (1 << bit) != 0 {
                write!(f, "{separator}{name}")?;
                separator = "|";
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Usage({self})")
    }
}

/// A region of a peer's memory, as its descriptor tells of it.
///
/// Nothing is checked against the peer: it may lie, and then its own device
/// refuses the request. What farword checks is that a [`Target`] or a [`Span`]
/// lies within what the descriptor says.
///
/// ```
/// use farword::{AlignedOffset, RemoteRegion, Usage};
///
/// let region = RemoteRegion::new(0x7f00_0000_0000, 4096, 0x1234, Usage::WRITE_DST);
/// let bytes = region.to_descriptor();
/// assert_eq!(bytes.len(), 21);
/// assert_eq!(RemoteRegion::from_descriptor(&bytes)?, region);
///
/// let tail = region.target(AlignedOffset::literal::<8>())?;
/// assert_eq!(tail.address(), 0x7f00_0000_0008);
/// assert!(region.target(AlignedOffset::literal::<4096>()).is_err());
/// # Ok::<(), farword::Invalid>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RemoteRegion {
    base: u64,
    size: u64,
    rkey: u32,
    usage: Usage,
}

impl RemoteRegion {
    /// The length of a descriptor, in bytes.
    pub const DESCRIPTOR_LEN: usize = 21;

    /// From its parts. As in librpma, any base, size and key is taken; bounds
    /// are checked where a place within it is asked for.
    #[inline]
    #[must_use]
    pub const fn new(base: u64, size: u64, rkey: u32, usage: Usage) -> Self {
        RemoteRegion { base, size, rkey, usage }
    }

    /// Reads a descriptor: base (u64), size (u64), rkey (u32), usage (u8), all
    /// little-endian, byte for byte librpma's. Bytes after the 21st are
    /// ignored.
    ///
    /// # Errors
    /// [`Invalid::DescriptorTooShort`] for fewer than 21 bytes,
    /// [`Invalid::ZeroUsage`] where the last byte is 0.
    pub const fn from_descriptor(bytes: &[u8]) -> Result<Self, Invalid> {
        let Some((base, rest)) = bytes.split_first_chunk::<8>() else {
            return Err(Invalid::DescriptorTooShort { len: bytes.len() });
        };
        let Some((size, rest)) = rest.split_first_chunk::<8>() else {
            return Err(Invalid::DescriptorTooShort { len: bytes.len() });
        };
        let Some((rkey, rest)) = rest.split_first_chunk::<4>() else {
            return Err(Invalid::DescriptorTooShort { len: bytes.len() });
        };
        let Some((usage, _)) = rest.split_first() else {
            return Err(Invalid::DescriptorTooShort { len: bytes.len() });
        };
        if *usage == 0 {
            return Err(Invalid::ZeroUsage);
        }
        Ok(RemoteRegion {
            base: u64::from_le_bytes(*base),
            size: u64::from_le_bytes(*size),
            rkey: u32::from_le_bytes(*rkey),
            usage: Usage(*usage),
        })
    }

    /// Writes the descriptor, to be sent to whoever is to use the region.
    #[must_use]
    pub fn to_descriptor(&self) -> [u8; Self::DESCRIPTOR_LEN] {
        let mut bytes = [0; Self::DESCRIPTOR_LEN];
        bytes[0..8].copy_from_slice(&self.base.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.size.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.rkey.to_le_bytes());
        bytes[20] = self.usage.bits();
        bytes
    }

    /// The address of its first byte, in the peer's address space.
    #[inline]
    #[must_use]
    pub const fn base(&self) -> u64 {
        self.base
    }

    /// Its size in bytes.
    #[inline]
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The key that the peer's device asks for.
    #[inline]
    #[must_use]
    pub const fn rkey(&self) -> u32 {
        self.rkey
    }

    /// What it may be used for.
    #[inline]
    #[must_use]
    pub const fn usage(&self) -> Usage {
        self.usage
    }

    /// The target of an atomic write: 8 bytes at `offset`, checked once, to be
    /// kept and used as often as wanted.
    ///
    /// # Errors
    /// [`Invalid::UsageMissing`] without [`Usage::WRITE_DST`];
    /// [`Invalid::OutOfBounds`] if the 8 bytes do not lie within the region;
    /// [`Invalid::AddressWraps`] if they pass the end of the address space;
    /// [`Invalid::UnalignedAddress`] if base + offset is not a multiple of 8,
    /// which would cost the write its atomicity.
    #[inline]
    pub const fn target(&self, offset: AlignedOffset) -> Result<Target, Invalid> {
        if let Err(which) = self.usage.require(Usage::WRITE_DST) {
            return Err(which);
        }
        let address = match self.address(offset.get(), ALIGNMENT) {
            Ok(address) => address,
            Err(which) => return Err(which),
        };
        if !address.is_multiple_of(ALIGNMENT) {
            return Err(Invalid::UnalignedAddress { base: self.base, offset: offset.get() });
        }
        Ok(Target { address, key: (self.rkey as u64) << FIRST_HALF })
    }

    /// A range of bytes, for `write`, `read` and `flush`. It may be unaligned
    /// and, for a write or a read, empty.
    ///
    /// # Errors
    /// [`Invalid::OutOfBounds`] and [`Invalid::AddressWraps`] as for
    /// [`target`](Self::target). Which uses are allowed is checked by the
    /// operation.
    #[inline]
    pub const fn span(&self, offset: u64, len: u64) -> Result<Span, Invalid> {
        match self.address(offset, len) {
            Ok(address) => Ok(Span { address, len, rkey: self.rkey, usage: self.usage }),
            Err(which) => Err(which),
        }
    }

    /// The address of `len` bytes at `offset`, bounds checked with no wrap.
    #[inline]
    const fn address(&self, offset: u64, len: u64) -> Result<u64, Invalid> {
        match offset.checked_add(len) {
            Some(end) if end <= self.size => {}
            _ => return Err(Invalid::OutOfBounds { offset, len, size: self.size }),
        }
        let wraps = Invalid::AddressWraps { base: self.base, offset, len };
        let Some(address) = self.base.checked_add(offset) else {
            return Err(wraps);
        };
        // The last byte may be the last of the address space; the end may not
        // lie beyond that. An empty range has no last byte.
        if len > 0 && address.checked_add(len - 1).is_none() {
            return Err(wraps);
        }
        Ok(address)
    }
}

/// The target of atomic writes: an aligned address within a region that may be
/// written, and its key.
///
/// It is checked when it is made, by [`RemoteRegion::target`], and never again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Target {
    // In the order in which they stand in a work request, so that staging moves
    // them as one.
    address: u64,
    /// The remote key in the first four bytes, zeros in the others: two whole
    /// words are cheaper to pass along than one and a half.
    key: u64,
}

/// Where the first four bytes of a word in memory stand in its value.
const FIRST_HALF: u32 = if cfg!(target_endian = "little") { 0 } else { 32 };

impl Target {
    /// Its address, a multiple of 8.
    #[inline]
    #[must_use]
    pub const fn address(&self) -> u64 {
        self.address
    }

    /// The region's key.
    #[inline]
    #[must_use]
    pub const fn rkey(&self) -> u32 {
        (self.key >> FIRST_HALF) as u32
    }
}

/// A range of bytes within a region, its bounds checked when it was made by
/// [`RemoteRegion::span`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    address: u64,
    len: u64,
    rkey: u32,
    usage: Usage,
}

impl Span {
    /// The address of its first byte.
    #[inline]
    #[must_use]
    pub const fn address(&self) -> u64 {
        self.address
    }

    /// Its length in bytes.
    #[inline]
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "a range of a peer's memory is no collection")]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// The region's key.
    #[inline]
    #[must_use]
    pub const fn rkey(&self) -> u32 {
        self.rkey
    }

    /// What the region may be used for.
    #[inline]
    #[must_use]
    pub const fn usage(&self) -> Usage {
        self.usage
    }
}

/// A range of local registered memory: where a `write` takes its bytes and a
/// `read` puts them.
///
/// It is a plain value. The device checks it against its registrations when a
/// request is carried out, so one that outlived its registration, or was made
/// up, gives an error completion ([`LOC_PROT_ERR`](crate::WcStatus::LOC_PROT_ERR))
/// and touches no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LocalSlice {
    address: u64,
    len: u64,
    lkey: u32,
}

impl LocalSlice {
    /// From its parts.
    #[inline]
    #[must_use]
    pub const fn new(address: u64, len: u64, lkey: u32) -> Self {
        LocalSlice { address, len, lkey }
    }

    /// A part of it.
    ///
    /// # Errors
    /// [`Invalid::OutOfBounds`] if `len` bytes at `offset` are not all in it.
    #[inline]
    pub const fn slice(&self, offset: u64, len: u64) -> Result<Self, Invalid> {
        match offset.checked_add(len) {
            Some(end) if end <= self.len => {
                Ok(LocalSlice { address: self.address.wrapping_add(offset), len, lkey: self.lkey })
            }
            _ => Err(Invalid::OutOfBounds { offset, len, size: self.len }),
        }
    }

    /// The address of its first byte.
    #[inline]
    #[must_use]
    pub const fn address(&self) -> u64 {
        self.address
    }

    /// Its length in bytes.
    #[inline]
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "a range of registered memory is no collection")]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// The local key.
    #[inline]
    #[must_use]
    pub const fn lkey(&self) -> u32 {
        self.lkey
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Usage = Usage::from_bits(0xff);

    #[test]
    fn a_descriptor_is_byte_for_byte_librpmas() {
        let region = RemoteRegion::new(
            0x0102_0304_0506_0708,
            0x1112_1314_1516_1718,
            0x2122_2324,
            Usage::from_bits(0x19),
        );
        let expected = [
            8, 7, 6, 5, 4, 3, 2, 1, 0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, 0x24, 0x23,
            0x22, 0x21, 0x19,
        ];
        assert_eq!(region.to_descriptor(), expected);
        assert_eq!(RemoteRegion::from_descriptor(&expected), Ok(region));
    }

    #[test]
    fn a_descriptor_is_refused_for_its_length_and_for_no_usage() {
        for len in 0..21 {
            assert_eq!(
                RemoteRegion::from_descriptor(&[0xff; 21][..len]),
                Err(Invalid::DescriptorTooShort { len })
            );
        }
        let mut bytes = [0xff; 40];
        assert!(RemoteRegion::from_descriptor(&bytes).is_ok(), "longer input is taken");
        bytes[20] = 0;
        assert_eq!(RemoteRegion::from_descriptor(&bytes), Err(Invalid::ZeroUsage));
        bytes = [0; 40];
        bytes[20] = 1;
        assert!(RemoteRegion::from_descriptor(&bytes).is_ok(), "zeros elsewhere are taken");
    }

    /// CASES 1: the sum must be aligned, not the offset alone.
    #[test]
    fn an_aligned_offset_on_an_unaligned_base_is_refused() {
        for skew in 1..8 {
            let region = RemoteRegion::new(0x1000 + skew, 64, 1, ALL);
            assert_eq!(
                region.target(AlignedOffset::literal::<8>()),
                Err(Invalid::UnalignedAddress { base: 0x1000 + skew, offset: 8 })
            );
        }
    }

    #[test]
    fn the_last_word_of_a_region_is_in_and_the_next_is_out() {
        let region = RemoteRegion::new(0x1000, 64, 1, ALL);
        assert!(region.target(AlignedOffset::literal::<56>()).is_ok());
        assert_eq!(
            region.target(AlignedOffset::literal::<64>()),
            Err(Invalid::OutOfBounds { offset: 64, len: 8, size: 64 })
        );
        let short = RemoteRegion::new(0x1000, 63, 1, ALL);
        assert!(short.target(AlignedOffset::literal::<56>()).is_err());
        assert!(RemoteRegion::new(0x1000, 0, 1, ALL).target(AlignedOffset::ZERO).is_err());
    }

    #[test]
    fn addresses_do_not_wrap() {
        let region = RemoteRegion::new(u64::MAX - 15, u64::MAX, 1, ALL);
        assert!(region.target(AlignedOffset::literal::<8>()).is_ok(), "the very last word");
        assert_eq!(
            region.target(AlignedOffset::literal::<16>()),
            Err(Invalid::AddressWraps { base: u64::MAX - 15, offset: 16, len: 8 })
        );
        assert!(region.span(8, 8).is_ok());
        assert!(region.span(8, 9).is_err());
    }

    #[test]
    fn uses_are_joined_named_and_shown() {
        use alloc_free::text;
        let joined = Usage::READ_SRC | Usage::WRITE_DST;
        assert_eq!((joined, joined.bits()), (Usage::READ_SRC.and(Usage::WRITE_DST), 9));
        assert_eq!(joined | joined, joined, "a use that is there stays");
        assert!(joined.contains(Usage::WRITE_DST) && !joined.contains(Usage::SEND));
        assert!(!Usage::READ_SRC.contains(joined) && joined.contains(Usage::NONE));
        assert_eq!(Usage::for_flush(FlushKind::Persistent).bits(), 32);
        assert_eq!(Usage::for_flush(FlushKind::Visibility).bits(), 16);
        assert_eq!(text(&Usage::NONE), "nothing");
        assert_eq!(text(&joined), "READ_SRC|WRITE_DST");
        assert_eq!(text(&Usage::RECV), "RECV");
        assert_eq!(text(&format_args!("{joined:?}")), "Usage(READ_SRC|WRITE_DST)");
    }

    /// Text without a heap, which these tests may not have.
    mod alloc_free {
        use core::fmt::{self, Write};

        pub(super) struct Text(arrayvec::ArrayString<64>);

        impl PartialEq<&str> for Text {
            fn eq(&self, other: &&str) -> bool {
                self.0.as_str() == *other
            }
        }

        impl fmt::Debug for Text {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        pub(super) fn text(shown: &impl fmt::Display) -> Text {
            let mut text = arrayvec::ArrayString::new();
            write!(text, "{shown}").expect("it is short");
            Text(text)
        }
    }

    #[test]
    fn every_part_is_given_back_as_it_was_given() {
        let region = RemoteRegion::new(0x1000, 64, 0x8765_4321, ALL);
        let parts = (region.base(), region.size(), region.rkey(), region.usage());
        assert_eq!(parts, (0x1000, 64, 0x8765_4321, ALL));
        let target = region.target(AlignedOffset::literal::<24>()).expect("it lies within");
        assert_eq!((target.address(), target.rkey()), (0x1018, 0x8765_4321));
        let span = region.span(5, 59).expect("it lies within");
        assert_eq!(
            (span.address(), span.len(), span.rkey(), span.usage()),
            (0x1005, 59, 0x8765_4321, ALL)
        );
        assert!(region.span(5, 60).is_err() && region.span(64, 0).is_ok());
        let slice = LocalSlice::new(0x2000, 64, 7).slice(4, 60).expect("it lies within");
        assert_eq!((slice.address(), slice.len(), slice.lkey()), (0x2004, 60, 7));
        assert!(slice.slice(1, 60).is_err() && slice.slice(60, 0).is_ok());
    }

    #[test]
    fn the_usage_bits_are_asked() {
        let region = RemoteRegion::new(0x1000, 64, 1, Usage::READ_SRC);
        assert_eq!(
            region.target(AlignedOffset::ZERO),
            Err(Invalid::UsageMissing { needs: Usage::WRITE_DST, has: Usage::READ_SRC })
        );
    }
}
