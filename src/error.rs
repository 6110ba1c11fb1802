//! What can be refused, and why: small `Copy` errors whose messages carry the numbers.

use core::fmt;

use crate::op::FlushKind;
use crate::region::Usage;

/// Why a request, or a whole ring, was refused.
///
/// The four kinds are the four things a caller can do about it: mend the
/// arguments, look at the provider's errno, make room, or recover.
///
/// ```
/// use farword::{AlignedOffset, Error, Invalid};
///
/// let refused = AlignedOffset::new(12).unwrap_err();
/// assert_eq!(Error::from(refused), Error::Invalid { which: Invalid::Unaligned { offset: 12 } });
/// assert_eq!(refused.to_string(), "offset 12 is not a multiple of 8");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// An argument broke a rule; nothing was staged (librpma: `RPMA_E_INVAL`).
    Invalid {
        /// The rule, with the numbers that broke it.
        which: Invalid,
    },
    /// The provider refused a post; what it did not take is still staged
    /// (librpma: `RPMA_E_PROVIDER`).
    Provider(Errno),
    /// There is no room now; nothing was staged. Retry after the remedy.
    Full {
        /// What makes room.
        remedy: Remedy,
    },
    /// The ring is dead: its queue pair takes no more work.
    Failed {
        /// What killed it.
        why: Why,
    },
}

impl From<Invalid> for Error {
    #[inline]
    fn from(which: Invalid) -> Self {
        Error::Invalid { which }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Invalid { which } => which.fmt(f),
            Error::Provider(errno) => write!(f, "the provider refused the post: {errno}"),
            Error::Full { remedy } => remedy.fmt(f),
            Error::Failed { why } => write!(f, "the ring has failed: {why}"),
        }
    }
}

impl core::error::Error for Error {}

/// Which rule an argument broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Invalid {
    /// An atomic write's offset must be a multiple of 8.
    Unaligned {
        /// The offset that was given.
        offset: u64,
    },
    /// Base plus offset must be a multiple of 8: an aligned offset in a region
    /// whose base is not aligned is not an aligned address.
    UnalignedAddress {
        /// The region's base address.
        base: u64,
        /// The offset that was given.
        offset: u64,
    },
    /// The range must lie within the region.
    OutOfBounds {
        /// The offset that was given.
        offset: u64,
        /// The length that was given.
        len: u64,
        /// The region's size.
        size: u64,
    },
    /// Base + offset + length must not pass the end of the address space.
    AddressWraps {
        /// The region's base address.
        base: u64,
        /// The offset that was given.
        offset: u64,
        /// The length that was given.
        len: u64,
    },
    /// The region was not registered for this use.
    UsageMissing {
        /// What the operation needs.
        needs: Usage,
        /// What the region has.
        has: Usage,
    },
    /// Completion flags of zero: neither on error nor always.
    ZeroFlags,
    /// Completion flags with bits that mean nothing.
    UnknownFlags {
        /// The flags that were given.
        flags: u32,
    },
    /// A region descriptor has 21 bytes.
    DescriptorTooShort {
        /// How many there were.
        len: usize,
    },
    /// A region descriptor with no usage bit set.
    ZeroUsage,
    /// A range of no bytes where at least one is needed.
    EmptyRange,
    /// Local and remote lengths differ.
    LengthMismatch {
        /// The local buffer's length.
        local: u64,
        /// The remote range's length.
        remote: u64,
    },
    /// More bytes than one work request can carry.
    MessageTooLong {
        /// The length that was given.
        len: u64,
        /// The provider's limit.
        max: u64,
    },
    /// The provider cannot flush in this way.
    FlushUnsupported {
        /// The kind that was asked for.
        kind: FlushKind,
    },
    /// A persistent flush needs a peer whose configuration says that writes
    /// go straight to persistent memory.
    PeerNotPersistent,
    /// A depth or batch length must be a power of two between the bounds.
    Depth {
        /// The number that was given.
        got: u64,
        /// The least that is allowed.
        min: u64,
        /// The most that is allowed.
        max: u64,
    },
    /// On an error every request completes, so the completion queue must hold
    /// as many entries as the send queue.
    CqTooSmall {
        /// The completion queue's depth.
        cq: u32,
        /// The send queue's depth.
        sq: u32,
    },
    /// The provider grants less inline data than the 8 bytes of a word.
    InlineTooSmall {
        /// The bytes that it grants.
        granted: u32,
    },
    /// The ring's send-queue depth exceeds the provider's.
    SqTooDeep {
        /// The depth that was asked for.
        asked: u32,
        /// The provider's depth.
        granted: u32,
    },
    /// Memory for a software region must start on a byte that lies within it.
    OutsideMemory {
        /// The first byte that was asked for.
        start: u64,
        /// The bytes that were asked for.
        len: u64,
        /// The bytes that there are.
        size: u64,
    },
    /// A device's table of regions is full.
    TooManyRegions {
        /// How many it holds.
        max: usize,
    },
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Invalid::*;
        match *self {
            Unaligned { offset } => write!(f, "offset {offset} is not a multiple of 8"),
            UnalignedAddress { base, offset } => write!(
                f,
                "base {base:#x} + offset {offset} is not a multiple of 8: \
                 choose an offset that makes the sum one"
            ),
            OutOfBounds { offset, len, size } => {
                write!(f, "{len} bytes at offset {offset} do not fit a region of {size} bytes")
            }
            AddressWraps { base, offset, len } => write!(
                f,
                "base {base:#x} + offset {offset} + {len} bytes passes the end of the address space"
            ),
            UsageMissing { needs, has } => {
                write!(f, "the region allows {has} but the operation needs {needs}")
            }
            ZeroFlags => f.write_str("completion flags are 0: use 1 (on error) or 3 (always)"),
            UnknownFlags { flags } => {
                write!(f, "completion flags {flags:#x} are neither 1 (on error) nor 3 (always)")
            }
            DescriptorTooShort { len } => {
                write!(f, "a region descriptor of {len} bytes: it needs 21")
            }
            ZeroUsage => f.write_str("usage bits are 0: a region must allow something"),
            EmptyRange => f.write_str("a range of 0 bytes: it needs at least 1"),
            LengthMismatch { local, remote } => {
                write!(f, "{local} local bytes for {remote} remote ones: the lengths must be equal")
            }
            MessageTooLong { len, max } => {
                write!(f, "{len} bytes in one request: the provider carries {max}")
            }
            FlushUnsupported { kind } => {
                write!(f, "the provider has no flush to {kind}")
            }
            PeerNotPersistent => f.write_str(
                "a flush to persistence needs a peer configured for direct write to \
                 persistent memory; this one is not",
            ),
            Depth { got, min, max } => {
                write!(f, "{got} is not a power of two from {min} to {max}")
            }
            CqTooSmall { cq, sq } => write!(
                f,
                "a completion queue of {cq} for a send queue of {sq}: on an error every \
                 request completes, so it needs at least {sq}"
            ),
            InlineTooSmall { granted } => {
                write!(f, "the provider grants {granted} bytes of inline data: a word needs 8")
            }
            SqTooDeep { asked, granted } => {
                write!(f, "a ring of {asked} requests over a send queue of {granted}")
            }
            OutsideMemory { start, len, size } => {
                write!(f, "{len} bytes from byte {start} do not lie within {size} bytes of memory")
            }
            TooManyRegions { max } => write!(f, "the device holds {max} regions and has them"),
        }
    }
}

impl core::error::Error for Invalid {}

/// What makes room in a full ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// The room is taken by requests that are staged: ring the doorbell. The
    /// next answer may still be to poll.
    Doorbell {
        /// How many requests are staged.
        staged: u32,
    },
    /// The send queue is full of posted requests: poll for completions.
    Poll {
        /// How many requests are staged or in flight.
        occupied: u32,
        /// The send queue's depth.
        depth: u32,
    },
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Remedy::Doorbell { staged } => {
                write!(f, "no room beside {staged} staged requests: ring the doorbell")
            }
            Remedy::Poll { occupied, depth } => write!(
                f,
                "the send queue is full with {occupied} of {depth} requests: poll for completions"
            ),
        }
    }
}

/// What killed a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// A request completed with an error.
    Completion {
        /// The status of the first one that did.
        status: WcStatus,
        /// The provider's own code for it.
        vendor_err: u32,
    },
    /// A post failed and the provider did not say how much it took, so what is
    /// in flight cannot be known.
    PostUnknown(Errno),
    /// Polling the completion queue failed, or the device said that the queue
    /// pair, its completion queue or the device itself is gone. Nothing more
    /// completes.
    Device(DeviceFault),
    /// The owner gave up on it.
    Abandoned,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Why::Completion { status, vendor_err } => {
                write!(f, "a request completed with {status}, vendor error {vendor_err:#x}")
            }
            Why::PostUnknown(errno) => {
                write!(f, "a post failed with {errno} and how much of it was taken is unknown")
            }
            Why::Device(fault) => fault.fmt(f),
            Why::Abandoned => f.write_str("it was abandoned by its owner"),
        }
    }
}

/// A fault after which a provider completes nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceFault {
    /// The poll call itself failed.
    Poll(Errno),
    /// The completion queue overflowed or broke (`IBV_EVENT_CQ_ERR`).
    CompletionQueue,
    /// The queue pair broke (`IBV_EVENT_QP_FATAL` and its kin).
    QueuePair,
    /// The device broke (`IBV_EVENT_DEVICE_FATAL`).
    Device,
    /// The port went down (`IBV_EVENT_PORT_ERR`).
    Port,
    /// The connection to the peer was lost.
    Connection,
}

impl fmt::Display for DeviceFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            DeviceFault::Poll(errno) => write!(f, "polling for completions failed: {errno}"),
            DeviceFault::CompletionQueue => f.write_str("the completion queue is in error"),
            DeviceFault::QueuePair => f.write_str("the queue pair is in error"),
            DeviceFault::Device => f.write_str("the device is in error"),
            DeviceFault::Port => f.write_str("the port is down"),
            DeviceFault::Connection => f.write_str("the connection to the peer is lost"),
        }
    }
}

/// An operating-system error number, positive.
///
/// ```
/// assert_eq!(farword::Errno(12).to_string(), "ENOMEM (12)");
/// assert_eq!(farword::Errno(1000).to_string(), "errno 1000");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Errno(
    /// The number, as in `errno.h`.
    pub i32,
);

impl Errno {
    /// Operation not permitted.
    pub const EPERM: Errno = Errno(1);
    /// Input/output error.
    pub const EIO: Errno = Errno(5);
    /// Try again.
    pub const EAGAIN: Errno = Errno(11);
    /// No room: what a provider says of a full send queue.
    pub const ENOMEM: Errno = Errno(12);
    /// Invalid argument.
    pub const EINVAL: Errno = Errno(22);
    /// No such device.
    pub const ENODEV: Errno = Errno(19);
    /// No space: what the `ibv_wr_*` calls say of a full send queue.
    pub const ENOSPC: Errno = Errno(28);
    /// The kernel has no such call.
    pub const ENOSYS: Errno = Errno(38);
    /// Operation not supported.
    pub const EOPNOTSUPP: Errno = Errno(95);
    /// The address is none of this machine's.
    pub const EADDRNOTAVAIL: Errno = Errno(99);
    /// Timed out.
    pub const ETIMEDOUT: Errno = Errno(110);

    const NAMES: [(i32, &'static str); 21] = [
        (1, "EPERM"),
        (2, "ENOENT"),
        (5, "EIO"),
        (9, "EBADF"),
        (11, "EAGAIN"),
        (12, "ENOMEM"),
        (13, "EACCES"),
        (14, "EFAULT"),
        (16, "EBUSY"),
        (19, "ENODEV"),
        (22, "EINVAL"),
        (28, "ENOSPC"),
        (38, "ENOSYS"),
        (95, "EOPNOTSUPP"),
        (98, "EADDRINUSE"),
        (99, "EADDRNOTAVAIL"),
        (101, "ENETUNREACH"),
        (104, "ECONNRESET"),
        (110, "ETIMEDOUT"),
        (111, "ECONNREFUSED"),
        (113, "EHOSTUNREACH"),
    ];
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::NAMES.iter().find(|(number, _)| *number == self.0) {
            Some((number, name)) => write!(f, "{name} ({number})"),
            None => write!(f, "errno {}", self.0),
        }
    }
}

impl core::error::Error for Errno {}

/// The status of a work completion: the values of `enum ibv_wc_status`.
///
/// ```
/// use farword::WcStatus;
/// assert_eq!(WcStatus::REM_ACCESS_ERR.0, 10);
/// assert_eq!(WcStatus::REM_ACCESS_ERR.to_string(), "remote access error (10)");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct WcStatus(
    /// The number, as in `verbs.h`.
    pub u32,
);

impl WcStatus {
    /// It was carried out.
    pub const SUCCESS: WcStatus = WcStatus(0);
    /// Local length error.
    pub const LOC_LEN_ERR: WcStatus = WcStatus(1);
    /// Local queue pair operation error.
    pub const LOC_QP_OP_ERR: WcStatus = WcStatus(2);
    /// Local protection error: the local key does not cover the buffer.
    pub const LOC_PROT_ERR: WcStatus = WcStatus(4);
    /// Flushed: the queue pair was already in error.
    pub const WR_FLUSH_ERR: WcStatus = WcStatus(5);
    /// The responder saw a malformed request.
    pub const REM_INV_REQ_ERR: WcStatus = WcStatus(9);
    /// The responder's key, bounds or rights refused the request.
    pub const REM_ACCESS_ERR: WcStatus = WcStatus(10);
    /// The responder could not complete the request.
    pub const REM_OP_ERR: WcStatus = WcStatus(11);
    /// The peer did not answer within the retries.
    pub const RETRY_EXC_ERR: WcStatus = WcStatus(12);
    /// The peer stayed not ready within the retries.
    pub const RNR_RETRY_EXC_ERR: WcStatus = WcStatus(13);
    /// Something else.
    pub const GENERAL_ERR: WcStatus = WcStatus(21);

    const NAMES: [&'static str; 24] = [
        "success",
        "local length error",
        "local QP operation error",
        "local EE context operation error",
        "local protection error",
        "work request flushed error",
        "memory window bind error",
        "bad response error",
        "local access error",
        "remote invalid request error",
        "remote access error",
        "remote operation error",
        "transport retry counter exceeded",
        "RNR retry counter exceeded",
        "local RDD violation error",
        "remote invalid RD request",
        "remote aborted error",
        "invalid EE context number",
        "invalid EE context state",
        "fatal error",
        "response timeout error",
        "general error",
        "tag matching error",
        "tag matching rendezvous incomplete",
    ];

    /// Whether a request that completed with this status may all the same have
    /// been carried out at the peer: the acknowledgement, not the request, may
    /// be what was lost. A refusal by the responder says for certain that it
    /// was not.
    ///
    /// ```
    /// use farword::WcStatus;
    /// assert!(WcStatus::RETRY_EXC_ERR.may_have_executed());
    /// assert!(!WcStatus::REM_ACCESS_ERR.may_have_executed());
    /// ```
    pub const fn may_have_executed(self) -> bool {
        !matches!(
            self,
            WcStatus::LOC_LEN_ERR
                | WcStatus::LOC_QP_OP_ERR
                | WcStatus::LOC_PROT_ERR
                | WcStatus::REM_INV_REQ_ERR
                | WcStatus::REM_ACCESS_ERR
        )
    }
}

impl fmt::Display for WcStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::NAMES.get(self.0 as usize) {
            Some(name) => write!(f, "{name} ({})", self.0),
            None => write!(f, "unknown status {}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn each_message_carries_its_numbers() {
        let bounds = Invalid::OutOfBounds { offset: 1017, len: 8, size: 1024 };
        let text = bounds.to_string();
        for number in ["1017", "8", "1024"] {
            assert!(text.contains(number), "{text} lacks {number}");
        }
        let full = Error::Full { remedy: Remedy::Poll { occupied: 64, depth: 64 } };
        assert!(full.to_string().contains("64 of 64"));
        let cq = Invalid::CqTooSmall { cq: 10, sq: 64 }.to_string();
        assert!(cq.contains("10") && cq.contains("64"));
    }

    #[test]
    fn errors_stay_small_and_copy() {
        fn copy<T: Copy + Send + Sync>() {}
        copy::<Error>();
        assert!(size_of::<Error>() <= 40, "{}", size_of::<Error>());
    }

    #[test]
    fn status_names_stand_at_their_numbers() {
        assert_eq!(WcStatus::RETRY_EXC_ERR.to_string(), "transport retry counter exceeded (12)");
        assert_eq!(WcStatus(99).to_string(), "unknown status 99");
    }
}
