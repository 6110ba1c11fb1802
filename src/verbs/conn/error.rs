//! Why a connection did not come about, or ended.

use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use std::boxed::Box;
use std::string::{String, ToString};
use std::vec::Vec;

use crate::error::{DeviceFault, Errno, WcStatus, Why};
use crate::verbs::device::{DeviceError, DeviceName, Gid};
use crate::verbs::qp::PathUnavailable;

/// Why a connection did not come about, or ended: at which step, with which
/// peer, over which device, and what the cause was.
///
/// It is one pointer wide. Its message names all of them, and what to look at.
#[derive(Clone, PartialEq, Eq)]
pub struct ConnError(Box<Details>);

#[derive(Clone, PartialEq, Eq)]
struct Details {
    step: Step,
    cause: Cause,
    host: Option<String>,
    peer: Option<SocketAddr>,
    via: Option<Via>,
}

/// What a connection goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Via {
    /// The device.
    pub device: DeviceName,
    /// Its port.
    pub port: u8,
    /// The GID that the connection goes out from.
    pub gid: Gid,
}

impl fmt::Display for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} port {} GID {}", self.device, self.port, self.gid)
    }
}

/// What was being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Looking up a host name.
    Lookup,
    /// Opening rdma_cm.
    Open,
    /// Binding to a local address.
    Bind,
    /// Listening.
    Listen,
    /// Waiting for a peer's request.
    Request,
    /// Finding the device that leads to the peer.
    Address,
    /// Finding the route to the peer.
    Route,
    /// Making the queues.
    Queues,
    /// Connecting.
    Connect,
    /// Accepting.
    Accept,
    /// Rejecting.
    Reject,
    /// Disconnecting.
    Disconnect,
    /// Moving data, or waiting for the connection's end.
    Transfer,
}

impl Step {
    fn words(self) -> &'static str {
        match self {
            Step::Lookup => "looking up",
            Step::Open => "opening rdma_cm for",
            Step::Bind => "binding to",
            Step::Listen => "listening on",
            Step::Request => "waiting for a peer on",
            Step::Address => "finding a device that leads to",
            Step::Route => "finding the route to",
            Step::Queues => "making the queues for",
            Step::Connect => "connecting to",
            Step::Accept => "accepting",
            Step::Reject => "rejecting",
            Step::Disconnect => "disconnecting from",
            Step::Transfer => "moving data to",
        }
    }
}

/// Why it failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// A call failed.
    Os(Errno),
    /// Nothing happened within this time.
    TimedOut(Duration),
    /// A [`Waker`](super::Waker) ended the wait.
    Woken,
    /// The name has no address, or is none.
    NameService(String),
    /// The peer refused.
    Rejected(Rejection),
    /// The peer did not answer rdma_cm's messages.
    Unreachable(Errno),
    /// The peer closed the connection, or its process ended.
    Closed,
    /// The connection broke.
    Lost(Errno),
    /// More private data than the protocol carries.
    PrivateDataTooLong {
        /// How many bytes were given.
        len: usize,
        /// How many it carries at this step.
        max: usize,
    },
    /// The device grants less inline data than a word of 8 bytes, and has no
    /// native atomic write.
    InlineTooSmall {
        /// What it grants.
        granted: u32,
    },
    /// The path that was asked for is one that the device, or its library, does
    /// not have.
    Path(PathUnavailable),
    /// The protection domain is of another device than the one that leads to
    /// the peer.
    WrongDevice {
        /// The protection domain's device.
        pd: DeviceName,
    },
    /// The device refused.
    Device(DeviceError),
    /// A request on the connection's ring failed.
    Ring(Why),
}

/// How a peer refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rejection {
    /// Why, in the protocol's words.
    pub reason: RejectReason,
    /// What the peer sent along. The protocol pads it with zeros.
    pub private_data: Vec<u8>,
}

impl Rejection {
    pub(super) fn new(reason: RejectReason, private_data: Vec<u8>) -> Self {
        Rejection { reason, private_data }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "refused: {}", self.reason)?;
        // What was sent along may be words; padding is zeros.
        let end = self.private_data.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        match core::str::from_utf8(&self.private_data[..end]) {
            Ok(words) if end > 0 && !words.contains(char::is_control) => write!(f, ": {words}"),
            _ => Ok(()),
        }
    }
}

/// Why a connection was refused: InfiniBand's numbers, or, on iWARP, an errno.
///
/// ```
/// use farword::verbs::RejectReason;
/// assert_eq!(RejectReason::NO_LISTENER.to_string(), "nobody listens there (8)");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RejectReason(
    /// The number; on iWARP, a negative errno.
    pub i32,
);

impl RejectReason {
    /// The other side has no queue pair left.
    pub const NO_QP: RejectReason = RejectReason(1);
    /// The other side ran out of resources.
    pub const NO_RESOURCES: RejectReason = RejectReason(3);
    /// The other side waited too long for an answer.
    pub const TIMEOUT: RejectReason = RejectReason(4);
    /// Nobody listens on that port.
    pub const NO_LISTENER: RejectReason = RejectReason(8);
    /// The other side still knows an earlier connection of this queue pair.
    pub const STALE: RejectReason = RejectReason(10);
    /// The program at the other end said no.
    pub const BY_PROGRAM: RejectReason = RejectReason(28);
}

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = match *self {
            RejectReason::NO_QP => "it has no queue pair left",
            RejectReason::NO_RESOURCES => "it is out of resources",
            RejectReason::TIMEOUT => "it waited too long",
            RejectReason::NO_LISTENER => "nobody listens there",
            RejectReason::STALE => "it still holds an earlier connection",
            RejectReason::BY_PROGRAM => "the program there said no",
            RejectReason(number) if number < 0 => {
                return Errno(number.saturating_abs()).fmt(f);
            }
            RejectReason(number) => return write!(f, "reason {number}"),
        };
        write!(f, "{words} ({})", self.0)
    }
}

impl ConnError {
    pub(super) fn new(step: Step, cause: Cause) -> Self {
        ConnError(Box::new(Details { step, cause, host: None, peer: None, via: None }))
    }

    pub(super) fn with_peer(mut self, peer: Option<SocketAddr>) -> Self {
        self.0.peer = self.0.peer.or(peer);
        self
    }

    /// Names the peer as the caller did, where that is not its address.
    pub(super) fn with_host(mut self, host: &str) -> Self {
        let is_address = self.0.peer.is_some_and(|peer| peer.to_string() == host);
        self.0.host = (!is_address).then(|| host.into());
        self
    }

    pub(super) fn with_via(mut self, via: Option<Via>) -> Self {
        self.0.via = self.0.via.or(via);
        self
    }

    /// What was being done.
    #[must_use]
    pub fn step(&self) -> Step {
        self.0.step
    }

    /// Why it failed.
    #[must_use]
    pub fn cause(&self) -> &Cause {
        &self.0.cause
    }

    /// The peer, or, for a listener, the local address.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        self.0.peer
    }

    /// What the connection goes through, once that is known.
    #[must_use]
    pub fn via(&self) -> Option<&Via> {
        self.0.via.as_ref()
    }

    /// Whether it was a [`Waker`](super::Waker) that ended the wait.
    #[must_use]
    pub fn is_woken(&self) -> bool {
        self.0.cause == Cause::Woken
    }

    /// Whether time ran out.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self.0.cause, Cause::TimedOut(_))
    }

    /// Whether a call refused its arguments, as calls on an id do when the
    /// connection has moved on under them.
    pub(super) fn is_einval(&self) -> bool {
        let device =
            |error: &DeviceError| matches!(error, DeviceError::Os { errno: Errno::EINVAL, .. });
        match &self.0.cause {
            Cause::Os(errno) => *errno == Errno::EINVAL,
            Cause::Device(error) => device(error),
            _ => false,
        }
    }

    fn hint(&self) -> Option<&'static str> {
        const NETWORK: &str = "look whether the peer is up, whether both ends' ports are active \
             and on one network, whether their GIDs are of one RoCE version, and whether UDP port \
             4791 is let through (`farword devices`, `rdma link`)";
        match &self.0.cause {
            Cause::Os(Errno::ENODEV | Errno(2)) if matches!(self.0.step, Step::Open) => {
                Some("no RDMA device or no rdma_cm here: is the module rdma_ucm loaded?")
            }
            Cause::Os(Errno::ENODEV | Errno::EADDRNOTAVAIL) => Some(
                "no RDMA device has that address or leads there: look at the addresses of the \
                 network interfaces under the RDMA devices (`farword devices`, `rdma link`)",
            ),
            Cause::TimedOut(_) if matches!(self.0.step, Step::Request) => None,
            Cause::TimedOut(_) | Cause::Unreachable(_) => Some(NETWORK),
            Cause::Ring(Why::Completion { status, .. }) if *status == WcStatus::RETRY_EXC_ERR => {
                Some(NETWORK)
            }
            Cause::Ring(Why::Device(DeviceFault::Port)) => Some(NETWORK),
            Cause::Rejected(Rejection { reason: RejectReason::NO_LISTENER, .. }) => {
                Some("is the server running, and is that its port?")
            }
            _ => None,
        }
    }
}

impl fmt::Display for ConnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Details { step, cause, host, peer, via } = &*self.0;
        f.write_str(step.words())?;
        match (host, peer) {
            (Some(host), Some(peer)) => write!(f, " {host} ({peer})")?,
            (Some(host), None) => write!(f, " {host}")?,
            (None, Some(peer)) => write!(f, " {peer}")?,
            (None, None) => f.write_str(" a peer")?,
        }
        if let Some(via) = via {
            write!(f, " over {via}")?;
        }
        write!(f, ": {cause}")?;
        match self.hint() {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for ConnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnError")
            .field("step", &self.0.step)
            .field("cause", &self.0.cause)
            .field("peer", &self.0.peer)
            .field("via", &self.0.via)
            .finish_non_exhaustive()
    }
}

impl core::error::Error for ConnError {}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Os(errno) => errno.fmt(f),
            Cause::TimedOut(time) => write!(f, "nothing happened within {time:?}"),
            Cause::Woken => f.write_str("the wait was ended"),
            Cause::NameService(error) => f.write_str(error),
            Cause::Rejected(rejection) => rejection.fmt(f),
            Cause::Unreachable(errno) => write!(f, "unreachable: {errno}"),
            Cause::Closed => f.write_str("closed by the peer, or the peer's program ended"),
            Cause::Lost(errno) => write!(f, "lost: {errno}"),
            Cause::PrivateDataTooLong { len, max } => {
                write!(f, "{len} bytes of private data: this step carries at most {max}")
            }
            Cause::InlineTooSmall { granted } => write!(
                f,
                "the device grants {granted} bytes of inline data and has no native atomic \
                 write: a word needs 8"
            ),
            Cause::Path(error) => error.fmt(f),
            Cause::WrongDevice { pd } => {
                write!(f, "the protection domain is of device {pd}, which does not lead there")
            }
            Cause::Device(error) => error.fmt(f),
            Cause::Ring(why) => why.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer() -> SocketAddr {
        "10.9.0.1:7000".parse().expect("an address")
    }

    #[test]
    fn a_message_names_step_peer_device_errno_and_what_to_look_at() {
        let via = Via { device: "rxe0".into(), port: 1, gid: Gid::from([0xfe; 16]) };
        let error = ConnError::new(Step::Connect, Cause::Unreachable(Errno::ETIMEDOUT))
            .with_peer(Some(peer()))
            .with_host("storage-7")
            .with_via(Some(via));
        let text = error.to_string();
        for part in ["connecting to", "storage-7", "10.9.0.1:7000", "rxe0 port 1 GID fefe:"] {
            assert!(text.contains(part), "{text} lacks {part}");
        }
        assert!(text.contains("ETIMEDOUT (110)") && text.contains("RoCE version"), "{text}");
        assert!(size_of::<ConnError>() <= 8);
    }

    /// CASES 22: retry exceeded says where to look.
    #[test]
    fn retry_exceeded_points_at_the_network() {
        let why = Why::Completion { status: WcStatus::RETRY_EXC_ERR, vendor_err: 0 };
        let text = ConnError::new(Step::Transfer, Cause::Ring(why)).to_string();
        assert!(text.contains("retry counter exceeded") && text.contains("UDP port"), "{text}");
    }

    #[test]
    fn a_rejections_words_are_shown_and_other_bytes_are_not() {
        let told = |data: &[u8]| Rejection::new(RejectReason::BY_PROGRAM, data.into()).to_string();
        assert_eq!(told(b"busy\0\0\0"), "refused: the program there said no (28): busy");
        for data in [&b""[..], b"\0\0", b"\x1b[2J", b"\xff\xfe"] {
            assert_eq!(told(data), "refused: the program there said no (28)");
        }
    }

    #[test]
    fn reasons_have_words_and_numbers() {
        assert_eq!(RejectReason(99).to_string(), "reason 99");
        assert_eq!(RejectReason(-111).to_string(), "ECONNREFUSED (111)");
    }
}
