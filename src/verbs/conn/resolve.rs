//! From host names to addresses, and from addresses to devices.

use core::net::{Ipv6Addr, SocketAddr, SocketAddrV6};
use core::ptr::NonNull;
use core::time::Duration;
use std::net::ToSocketAddrs;
use std::string::{String, ToString};
use std::sync::Arc;
use std::time::Instant;
use std::vec;
use std::vec::Vec;

use rdma_sys::{ibv_context, rdma_cm_event_type as kind};

use super::channel::{Channel, Event, Waited, Waker};
use super::error::{Cause, ConnError, RejectReason, Rejection, Step};
use super::id::Id;
use crate::error::Errno;

/// The addresses of a host name and port, or of what is an address already; at
/// least one.
pub(super) fn lookup(to: &str) -> Result<Vec<SocketAddr>, ConnError> {
    let failed =
        |words: String| ConnError::new(Step::Lookup, Cause::NameService(words)).with_host(to);
    if let Some(scoped) = scoped_by_name(to) {
        return scoped.map(|address| vec![address]).map_err(failed);
    }
    let addresses = to.to_socket_addrs().map_err(|error| failed(error.to_string()))?;
    let addresses = addresses.collect::<Vec<_>>();
    if addresses.is_empty() {
        return Err(failed("it has no address".into()));
    }
    Ok(addresses)
}

/// An IPv6 address whose scope is an interface's name, `[fe80::1%eth0]:7000`;
/// `None` for anything else. The standard library knows scopes by number alone.
fn scoped_by_name(to: &str) -> Option<Result<SocketAddr, String>> {
    let (host, port) = to.strip_prefix('[')?.split_once("]:")?;
    let (ip, scope) = host.split_once('%')?;
    if scope.parse::<u32>().is_ok() {
        return None;
    }
    let ip = ip.parse::<Ipv6Addr>().ok()?;
    let port = port.parse::<u16>().ok()?;
    // The kernel's list of interfaces; each folder is named as the interface.
    let path = std::format!("/sys/class/net/{scope}/ifindex");
    let index = std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok());
    Some(match index {
        Some(index) => Ok(SocketAddrV6::new(ip, port, 0, index).into()),
        None => Err(std::format!("there is no network interface {scope}")),
    })
}

/// The device that has an address or, if it is none of this machine's, the one
/// that leads there.
pub(in crate::verbs) fn resolve_device(
    address: SocketAddr,
    patience: Duration,
) -> Result<NonNull<ibv_context>, Errno> {
    let channel = Channel::new(Waker::new()?)?;
    let mut local = address;
    local.set_port(0);
    let id = Id::new(&channel)?;
    if !address.ip().is_unspecified() && id.bind(local).is_ok() {
        return id.context().ok_or(Errno::ENODEV);
    }
    match resolve_address(&channel, None, address, patience, |_| {}) {
        Ok(id) => id.context().ok_or(Errno::ENODEV),
        Err(Cause::Os(errno) | Cause::Lost(errno)) => Err(errno),
        Err(_) => Err(Errno::ETIMEDOUT),
    }
}

/// An id with the device that leads to an address. `prepare` is called with it
/// first.
///
/// While the network still looks for the neighbour, some kernels leave a
/// resolution alone until its time is over, and only then find that it could have
/// succeeded long ago. So it is tried for a short time first, then for longer
/// ones, and the first connection to a new neighbour takes an instant and not
/// seconds.
pub(super) fn resolve_address(
    channel: &Arc<Channel>,
    from: Option<SocketAddr>,
    to: SocketAddr,
    within: Duration,
    prepare: impl Fn(&Id),
) -> Result<Id, Cause> {
    /// The kernel's answer at the end of its time gets this much more.
    const GRACE: Duration = Duration::from_millis(200);
    let deadline = Instant::now() + within;
    let mut attempt = Duration::from_millis(50);
    loop {
        let id = Id::new(channel).map_err(Cause::Os)?;
        prepare(&id);
        let left = deadline.saturating_duration_since(Instant::now());
        attempt = (attempt * 2).min(left);
        id.resolve_address(from, to, attempt).map_err(Cause::Os)?;
        let is_last = attempt == left;
        match channel.next(Some(Instant::now() + attempt + GRACE)) {
            Waited::Came(event) if event.kind == kind::RDMA_CM_EVENT_ADDR_RESOLVED => {
                return Ok(id);
            }
            Waited::Came(event) if event.errno() == Errno::ETIMEDOUT && !is_last => {}
            Waited::Came(event) if event.errno() == Errno::ETIMEDOUT => {
                return Err(Cause::TimedOut(within));
            }
            Waited::Came(event) => return Err(event.into_cause()),
            Waited::TimedOut if is_last => return Err(Cause::TimedOut(within)),
            Waited::TimedOut => {}
            Waited::Woken => return Err(Cause::Woken),
            Waited::Failed(errno) => return Err(Cause::Os(errno)),
        }
    }
}

/// Waits for the event that ends a step well; any other is why it did not.
pub(super) fn expect(
    channel: &Arc<Channel>,
    wanted: u32,
    step: Step,
    within: Duration,
) -> Result<Event, ConnError> {
    let failed = |cause| Err(ConnError::new(step, cause));
    match channel.next(Instant::now().checked_add(within)) {
        Waited::Came(event) if event.kind == wanted => Ok(event),
        Waited::Came(event) => failed(event.into_cause()),
        Waited::TimedOut => failed(Cause::TimedOut(within)),
        Waited::Woken => failed(Cause::Woken),
        Waited::Failed(errno) => failed(Cause::Os(errno)),
    }
}

impl Event {
    /// The errno of an event that tells of a failure.
    pub(super) fn errno(&self) -> Errno {
        Errno(if self.status == 0 { Errno::EIO.0 } else { self.status.saturating_abs() })
    }

    fn into_cause(self) -> Cause {
        match self.kind {
            kind::RDMA_CM_EVENT_REJECTED => {
                Cause::Rejected(Rejection::new(RejectReason(self.status), self.private_data))
            }
            kind::RDMA_CM_EVENT_UNREACHABLE => Cause::Unreachable(self.errno()),
            kind::RDMA_CM_EVENT_DISCONNECTED => Cause::Closed,
            kind::RDMA_CM_EVENT_DEVICE_REMOVAL => Cause::Lost(Errno::ENODEV),
            kind::RDMA_CM_EVENT_ADDR_ERROR | kind::RDMA_CM_EVENT_ROUTE_ERROR => {
                Cause::Os(self.errno())
            }
            _ => Cause::Lost(self.errno()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_every_kind_are_read() {
        for (text, port, scope) in [
            ("127.0.0.1:7", 7, 0),
            ("[::1]:8", 8, 0),
            ("[fe80::1%3]:9", 9, 3),
            ("[fe80::1%lo]:10", 10, 1),
        ] {
            let address = lookup(text).expect(text)[0];
            assert_eq!(address.port(), port, "{text}");
            if let SocketAddr::V6(address) = address {
                assert_eq!(address.scope_id(), scope, "{text}");
            }
        }
    }

    #[test]
    fn what_is_no_address_is_named_in_the_error() {
        for text in ["nowhere", "[fe80::1%no-such-interface]:7", "10.9.0.1", "[::1]", ""] {
            let error = lookup(text).expect_err(text);
            assert_eq!(error.step(), Step::Lookup, "{error}");
            assert!(error.to_string().contains(text), "{error}");
        }
    }
}
