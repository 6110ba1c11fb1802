//! How a log is opened, and what it refuses.

use super::*;
#[cfg(feature = "std")]
use crate::ring::Deadline;

/// How a log is opened.
///
/// ```
/// use core::time::Duration;
/// use farword::log::{Bound, LogConfig};
/// let config = LogConfig::default().with_bound(Bound::Time(Duration::from_secs(2)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogConfig {
    /// How far a commit is flushed. `None` takes persistence where the region
    /// and the peer's configuration allow it, and visibility else.
    pub flush: Option<FlushKind>,
    /// How long any one wait within the log may take.
    pub bound: Bound,
    /// Where the word `used` lies; the records start behind it.
    pub used_offset: AlignedOffset,
    /// Whether to look at the signature.
    pub check_signature: bool,
}

impl Default for LogConfig {
    /// The best flush, the default bound, librpma's layout.
    fn default() -> Self {
        LogConfig {
            flush: None,
            bound: Bound::default(),
            used_offset: USED_OFFSET,
            check_signature: true,
        }
    }
}

impl LogConfig {
    /// With this kind of flush.
    #[must_use]
    pub const fn with_flush(mut self, kind: FlushKind) -> Self {
        self.flush = Some(kind);
        self
    }

    /// With this bound for any one wait.
    #[must_use]
    pub const fn with_bound(mut self, bound: Bound) -> Self {
        self.bound = bound;
        self
    }

    /// With the word `used` elsewhere, as a peer's [`Announcement`] says.
    #[must_use]
    pub const fn with_used_offset(mut self, offset: AlignedOffset) -> Self {
        self.used_offset = offset;
        self
    }

    /// Without a look at the signature: for peers that leave it unset.
    #[must_use]
    pub const fn with_any_signature(mut self) -> Self {
        self.check_signature = false;
        self
    }
}

/// How long one wait may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bound {
    /// So many polls in a row that give nothing.
    Polls(u64),
    /// So long.
    #[cfg(feature = "std")]
    Time(core::time::Duration),
}

impl Default for Bound {
    /// Ten seconds; without a clock, 2^32 polls.
    fn default() -> Self {
        #[cfg(feature = "std")]
        return Bound::Time(core::time::Duration::from_secs(10));
        #[cfg(not(feature = "std"))]
        return Bound::Polls(1 << 32);
    }
}

impl Bound {
    pub(super) fn start(self) -> Started {
        match self {
            Bound::Polls(polls) => Started::Polls(crate::Polls(polls)),
            #[cfg(feature = "std")]
            Bound::Time(time) => Started::Time(Deadline::after(time)),
        }
    }
}

/// A bound that has begun to run.
#[derive(Debug)]
pub(super) enum Started {
    Polls(crate::Polls),
    #[cfg(feature = "std")]
    Time(Deadline),
}

impl Patience for Started {
    fn more(&mut self) -> bool {
        match self {
            Started::Polls(polls) => polls.more(),
            #[cfg(feature = "std")]
            Started::Time(deadline) => deadline.more(),
        }
    }
}

/// Why a log refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogError {
    /// The log has no room for this record now.
    Full {
        /// What the record takes, its NUL included.
        len: u64,
        /// What is free.
        free: u64,
    },
    /// No log of this size could hold the record.
    TooLarge {
        /// What the record takes, its NUL included.
        len: u64,
        /// What an empty log has.
        max: u64,
    },
    /// The region is smaller than a log's header.
    RegionTooSmall {
        /// Its size.
        size: u64,
    },
    /// The tail does not lie within the log.
    TailOutside {
        /// What the tail word says.
        tail: u64,
        /// The least that it may say.
        first: u64,
        /// The region's size: the most that it may say.
        size: u64,
    },
    /// The region starts with something that is no log's signature.
    ForeignSignature {
        /// What it starts with.
        found: [u8; 8],
    },
    /// The region, the staging memory or the ring cannot carry a log.
    Invalid(Invalid),
    /// The ring refused or failed.
    Ring(Error),
    /// The wait took longer than allowed. What was under way may still be
    /// carried out.
    TimedOut,
}

impl From<Invalid> for LogError {
    fn from(which: Invalid) -> Self {
        LogError::Invalid(which)
    }
}

impl From<Error> for LogError {
    fn from(error: Error) -> Self {
        match error {
            Error::Invalid { which } => LogError::Invalid(which),
            error => LogError::Ring(error),
        }
    }
}

impl From<WaitError> for LogError {
    fn from(error: WaitError) -> Self {
        match error {
            WaitError::TimedOut => LogError::TimedOut,
            WaitError::Ring(error) => error.into(),
        }
    }
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            LogError::Full { len, free } => {
                write!(f, "the log is full: the record takes {len} bytes and {free} are free")
            }
            LogError::TooLarge { len, max } => {
                write!(f, "the record takes {len} bytes and a log of this size holds {max} in all")
            }
            LogError::RegionTooSmall { size } => {
                write!(f, "a region of {size} bytes is smaller than a log's header")
            }
            LogError::TailOutside { tail, first, size } => {
                write!(f, "the log's tail is {tail}, which does not lie between {first} and {size}")
            }
            LogError::ForeignSignature { found } => {
                write!(f, "the region starts with \"{}\", not with \"LOG\"", found.escape_ascii())
            }
            LogError::Invalid(which) => which.fmt(f),
            LogError::Ring(error) => error.fmt(f),
            LogError::TimedOut => f.write_str("no confirmation within the time allowed"),
        }
    }
}

impl core::error::Error for LogError {}
