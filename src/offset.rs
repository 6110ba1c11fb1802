//! Offsets that are multiples of 8 by construction.

use crate::error::Invalid;

/// The alignment that an atomic write's target needs, in bytes
/// (`RPMA_ATOMIC_WRITE_ALIGNMENT`).
pub const ALIGNMENT: u64 = 8;

/// An offset within a region, in bytes, that is a multiple of 8.
///
/// There are three ways to get one, the first two checked by the compiler:
///
/// ```
/// use farword::{AlignedOffset, aligned_offset_of};
///
/// #[repr(C)]
/// struct LogHeader {
///     signature: [u8; 8],
///     used: u64,
/// }
///
/// const LITERAL: AlignedOffset = AlignedOffset::literal::<16>();
/// const USED: AlignedOffset = aligned_offset_of!(LogHeader, used);
/// let runtime = AlignedOffset::new(24)?;
///
/// assert_eq!((LITERAL.get(), USED.get(), runtime.get()), (16, 8, 24));
/// # Ok::<(), farword::Invalid>(())
/// ```
///
/// A literal that is not a multiple of 8 does not compile:
///
/// ```compile_fail
/// let offset = farword::AlignedOffset::literal::<12>();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct AlignedOffset(u64);

impl AlignedOffset {
    /// The start of a region.
    pub const ZERO: AlignedOffset = AlignedOffset(0);

    /// The offset `N`, checked by the compiler.
    ///
    /// ```
    /// # use farword::AlignedOffset;
    /// assert_eq!(AlignedOffset::literal::<4096>().get(), 4096);
    /// ```
    #[inline]
    #[must_use]
    pub const fn literal<const N: u64>() -> Self {
        const {
            assert!(
                N.is_multiple_of(ALIGNMENT),
                "this offset is not a multiple of 8, and an atomic write needs one that is"
            );
        }
        AlignedOffset(N)
    }

    /// A number known only at run time.
    ///
    /// # Errors
    /// [`Invalid::Unaligned`] if `offset` is not a multiple of 8.
    ///
    /// ```
    /// # use farword::AlignedOffset;
    /// assert!(AlignedOffset::new(u64::MAX - 7).is_ok());
    /// assert!(AlignedOffset::new(u64::MAX).is_err());
    /// ```
    #[inline]
    pub const fn new(offset: u64) -> Result<Self, Invalid> {
        if offset.is_multiple_of(ALIGNMENT) {
            Ok(AlignedOffset(offset))
        } else {
            Err(Invalid::Unaligned { offset })
        }
    }

    /// The `index`-th word of a region, at byte `8 * index`.
    ///
    /// ```
    /// # use farword::AlignedOffset;
    /// assert_eq!(AlignedOffset::of_word(3).get(), 24);
    /// ```
    #[inline]
    #[must_use]
    pub const fn of_word(index: u32) -> Self {
        AlignedOffset(index as u64 * ALIGNMENT)
    }

    /// The number of bytes.
    #[inline]
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl TryFrom<u64> for AlignedOffset {
    type Error = Invalid;

    #[inline]
    fn try_from(offset: u64) -> Result<Self, Invalid> {
        Self::new(offset)
    }
}

impl From<AlignedOffset> for u64 {
    #[inline]
    fn from(offset: AlignedOffset) -> u64 {
        offset.0
    }
}

/// The [`AlignedOffset`] of a field of a `#[repr(C)]` struct, as a constant.
///
/// The compiler refuses a field that is not 8 bytes wide and one whose offset
/// is not a multiple of 8. Nested fields are written with dots. Give the struct
/// `#[repr(C)]`: without it the layout is the compiler's own and says nothing
/// about the peer's memory.
///
/// ```
/// use core::sync::atomic::AtomicU64;
/// use farword::aligned_offset_of;
///
/// #[repr(C)]
/// struct Header { epoch: AtomicU64, tail: u64 }
/// #[repr(C)]
/// struct Page { magic: [u8; 8], header: Header }
///
/// assert_eq!(aligned_offset_of!(Page, header.tail).get(), 16);
/// ```
///
/// ```compile_fail
/// # use farword::aligned_offset_of;
/// #[repr(C)]
/// struct Narrow { tail: u32 }
/// const TAIL: farword::AlignedOffset = aligned_offset_of!(Narrow, tail);
/// ```
#[macro_export]
macro_rules! aligned_offset_of {
    ($container:ty, $($field:tt).+ $(,)?) => {
        const {
            assert!(
                $crate::__private::field_size(|container: &$container| &container.$($field).+) == 8,
                "this field is not 8 bytes wide, and an atomic write stores exactly 8"
            );
            assert!(
                ::core::mem::offset_of!($container, $($field).+) % 8 == 0,
                "this field's offset is not a multiple of 8, and an atomic write needs one that is"
            );
            $crate::AlignedOffset::__asserted(
                ::core::mem::offset_of!($container, $($field).+) as u64
            )
        }
    };
}

impl AlignedOffset {
    /// For [`aligned_offset_of!`] alone, which has just asserted the alignment.
    /// It asserts again, so that calling it by hand breaks nothing.
    #[doc(hidden)]
    #[must_use]
    pub const fn __asserted(offset: u64) -> Self {
        assert!(offset.is_multiple_of(ALIGNMENT));
        AlignedOffset(offset)
    }
}

/// What the macros need from the outside.
#[doc(hidden)]
pub mod __private {
    /// The size of the field that `project` returns.
    pub const fn field_size<T, F>(_project: fn(&T) -> &F) -> usize {
        size_of::<F>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_multiples_of_eight_are_offsets() {
        for n in 0..64 {
            assert_eq!(AlignedOffset::new(n).is_ok(), n % 8 == 0, "{n}");
        }
        assert_eq!(AlignedOffset::new(u64::MAX), Err(Invalid::Unaligned { offset: u64::MAX }));
    }

    #[test]
    fn a_word_by_its_index_lies_at_eight_times_as_many_bytes() {
        for index in [0, 1, 7, u32::MAX] {
            assert_eq!(AlignedOffset::of_word(index).get(), 8 * u64::from(index));
        }
    }

    #[test]
    fn conversions_keep_the_number_and_the_rule() {
        for offset in [8, 16, u64::MAX - 7] {
            assert_eq!(AlignedOffset::try_from(offset).map(u64::from), Ok(offset));
        }
        assert_eq!(AlignedOffset::try_from(12), Err(Invalid::Unaligned { offset: 12 }));
    }

    #[test]
    fn a_field_gives_its_offset_at_compile_time() {
        #[repr(C)]
        struct Log {
            signature: [u8; 8],
            used: u64,
            data: [u8; 16],
        }
        const USED: AlignedOffset = aligned_offset_of!(Log, used);
        assert_eq!(USED.get(), 8);
    }
}
