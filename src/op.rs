//! What a caller says about one operation: when it completes, under which
//! context, with which 8 bytes.

use core::fmt;

use crate::error::Invalid;

/// When an operation gives a completion.
///
/// There are exactly two ways; librpma's zero flags cannot be written.
///
/// ```
/// use farword::{Invalid, Notify};
/// assert_eq!(Notify::from_bits(1), Ok(Notify::OnError));
/// assert_eq!(Notify::from_bits(3), Ok(Notify::Always));
/// assert_eq!(Notify::from_bits(0), Err(Invalid::ZeroFlags));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Notify {
    /// A completion only if the operation fails
    /// (`RPMA_F_COMPLETION_ON_ERROR`). Its success is confirmed by the next
    /// success on the ring: see [`Completion::confirms`](crate::Completion).
    OnError = 1,
    /// A completion either way (`RPMA_F_COMPLETION_ALWAYS`).
    Always = 3,
}

impl Notify {
    /// From librpma's flag bits: 1 is [`OnError`](Notify::OnError), 3 is
    /// [`Always`](Notify::Always).
    ///
    /// # Errors
    /// [`Invalid::ZeroFlags`] for 0, [`Invalid::UnknownFlags`] for any other
    /// number.
    pub const fn from_bits(flags: u32) -> Result<Self, Invalid> {
        match flags {
            0 => Err(Invalid::ZeroFlags),
            1 => Ok(Notify::OnError),
            3 => Ok(Notify::Always),
            _ => Err(Invalid::UnknownFlags { flags }),
        }
    }

    /// librpma's flag bits.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self as u32
    }
}

/// A value of the caller's that comes back in the completion, unchanged.
///
/// It may repeat, be zero, or be a pointer: farword never looks into it.
///
/// ```
/// use farword::OpContext;
///
/// assert_eq!(OpContext::new(42).get(), 42);
/// let transaction = [1u8, 2, 3];
/// let context = OpContext::from_ptr(transaction.as_ptr());
/// assert_eq!(context.as_ptr(), transaction.as_ptr());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct OpContext(u64);

impl OpContext {
    /// From an integer.
    #[inline]
    #[must_use]
    pub const fn new(value: u64) -> Self {
        OpContext(value)
    }

    /// From a pointer, whose provenance is exposed.
    #[inline]
    #[must_use]
    pub fn from_ptr<T>(pointer: *const T) -> Self {
        OpContext(pointer.expose_provenance() as u64)
    }

    /// The integer.
    #[inline]
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The pointer that was given to [`from_ptr`](Self::from_ptr).
    #[inline]
    #[must_use]
    pub fn as_ptr<T>(self) -> *const T {
        core::ptr::with_exposed_provenance(self.0 as usize)
    }
}

impl From<u64> for OpContext {
    #[inline]
    fn from(value: u64) -> Self {
        OpContext(value)
    }
}

impl<T> From<*const T> for OpContext {
    #[inline]
    fn from(pointer: *const T) -> Self {
        Self::from_ptr(pointer)
    }
}

impl<T> From<*mut T> for OpContext {
    #[inline]
    fn from(pointer: *mut T) -> Self {
        Self::from_ptr(pointer)
    }
}

/// The 8 bytes of an atomic write, in the order in which they lie in memory.
///
/// From a number, the byte order is named; there is no silent one.
///
/// ```
/// use farword::Word;
/// assert_eq!(Word::from([1, 2, 3, 4, 5, 6, 7, 8]).bytes(), [1, 2, 3, 4, 5, 6, 7, 8]);
/// assert_eq!(Word::le(1).bytes(), [1, 0, 0, 0, 0, 0, 0, 0]);
/// assert_eq!(Word::be(1).bytes(), [0, 0, 0, 0, 0, 0, 0, 1]);
/// assert_eq!(Word::ne(7).bytes(), 7u64.to_ne_bytes());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct Word(u64);

impl Word {
    /// From bytes in memory order.
    #[inline]
    #[must_use]
    pub const fn new(bytes: [u8; 8]) -> Self {
        Word(u64::from_ne_bytes(bytes))
    }

    /// A number, little-endian in the peer's memory.
    #[inline]
    #[must_use]
    pub const fn le(value: u64) -> Self {
        Word(value.to_le())
    }

    /// A number, big-endian in the peer's memory.
    #[inline]
    #[must_use]
    pub const fn be(value: u64) -> Self {
        Word(value.to_be())
    }

    /// A number in this machine's own byte order.
    #[inline]
    #[must_use]
    pub const fn ne(value: u64) -> Self {
        Word(value)
    }

    /// The bytes, in memory order.
    #[inline]
    #[must_use]
    pub const fn bytes(self) -> [u8; 8] {
        self.0.to_ne_bytes()
    }

    /// The bytes as one load in this machine's own byte order would see them.
    #[inline]
    #[must_use]
    pub const fn to_ne(self) -> u64 {
        self.0
    }
}

impl From<[u8; 8]> for Word {
    #[inline]
    fn from(bytes: [u8; 8]) -> Self {
        Word::new(bytes)
    }
}

/// How far a flush takes the bytes that were written before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FlushKind {
    /// To persistence: they survive the loss of power
    /// (`RPMA_FLUSH_TYPE_PERSISTENT`).
    Persistent = 0,
    /// To visibility: the peer's processors see them
    /// (`RPMA_FLUSH_TYPE_VISIBILITY`).
    Visibility = 1,
}

impl fmt::Display for FlushKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FlushKind::Persistent => "persistence",
            FlushKind::Visibility => "visibility",
        })
    }
}

/// What an operation was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Op {
    /// An atomic write of 8 bytes.
    AtomicWrite = 0,
    /// A plain write.
    Write = 1,
    /// A flush, native or emulated.
    Flush = 2,
    /// A read.
    Read = 3,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Op::AtomicWrite => "atomic write",
            Op::Write => "write",
            Op::Flush => "flush",
            Op::Read => "read",
        })
    }
}

/// The place of one operation in its ring's order: the first has 0.
///
/// A ring carries operations out in this order, so a ticket below
/// [`Ring::confirmed`](crate::Ring::confirmed) succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Ticket(pub(crate) u64);

impl Ticket {
    /// The number.
    #[inline]
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_two_flag_values_are_taken() {
        for flags in 0..=300 {
            assert_eq!(Notify::from_bits(flags).is_ok(), flags == 1 || flags == 3, "{flags}");
        }
        assert_eq!(Notify::from_bits(u32::MAX), Err(Invalid::UnknownFlags { flags: u32::MAX }));
        assert_eq!(Notify::Always.bits(), 3);
    }

    #[test]
    fn contexts_come_back_unchanged() {
        for value in [0, 1, u64::MAX, 1 << 63] {
            assert_eq!(OpContext::new(value).get(), value);
        }
        assert!(OpContext::from_ptr::<u8>(core::ptr::null()).as_ptr::<u8>().is_null());
    }
}
