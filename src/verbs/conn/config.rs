//! How a connection is set up.

use core::time::Duration;

use super::error::{Cause, ConnError, Step};
use crate::verbs::qp::Path;

/// The most private data that a connecting side can send, in bytes.
pub const MAX_CONNECT_DATA: usize = 56;
/// The most private data that an accepting side can send, in bytes.
pub const MAX_ACCEPT_DATA: usize = 196;
/// The most private data that a rejecting side can send, in bytes.
pub const MAX_REJECT_DATA: usize = 148;

/// How a connection is set up.
///
/// ```
/// use core::time::Duration;
/// use farword::verbs::{ConnConfig, Path};
/// let config = ConnConfig::default()
///     .with_sq_depth(256)
///     .with_path(Path::PostSend)
///     .with_connect_timeout(Duration::from_secs(1));
/// ```
///
/// # How long a dead peer can go unnoticed
/// - A peer's program that ends, even by SIGKILL, is noticed at once: its
///   kernel says goodbye. The connection's events are watched, and what is
///   pending is flushed; see [`Connection`](super::Connection).
/// - A peer that loses power, or whose network does, says nothing. A request
///   that is in flight then fails once it was sent `retry_count + 1` times
///   without an answer, each time for [`ack_timeout`](Self::ack_timeout); the
///   specification lets a device wait up to four times as long.
///   [`silence_bound`](Self::silence_bound) is that: with the defaults
///   0.5 seconds, and 1.9 on the slowest device that keeps to the rules.
/// - With nothing in flight nothing is sent, so nothing is noticed; the next
///   request will.
///
/// These settings are the connecting side's: the accepting side's queue pair
/// takes over the retry count that the other asked for. A program that accepts
/// and posts requests itself should bound its waits, as every wait of a ring
/// can be ([`Deadline`](crate::Deadline)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnConfig {
    /// How many requests the send queue is asked to hold. The ring over it may
    /// be as deep as the largest power of two that is not above what is granted.
    pub sq_depth: u32,
    /// Which calls the queue pair is driven by, and so how the 8 bytes of an
    /// atomic write travel. `None` takes [`Path::Native`] where the device has
    /// ATOMIC WRITE, and [`Path::PostSend`] else.
    pub path: Option<Path>,
    /// How often a request that gets no answer is sent again: 0 to 7. librpma
    /// has 7; some devices (Soft-RoCE is one) take 7 for "for ever", so that a
    /// peer without power is never noticed. 6, the default, is bounded
    /// everywhere, and still outlives the loss of six packets in a row.
    pub retry_count: u8,
    /// How often a request is sent again that the peer was not ready for: 0 to
    /// 7, where 7 is for ever. Writes and reads need no readiness, so that it
    /// does not matter to a ring.
    pub rnr_retry_count: u8,
    /// How long an answer may take, as the exponent of InfiniBand's formula:
    /// 4.096 µs × 2^n. The default, 14, is 67 ms. `None`, and a kernel that does
    /// not have the setting (before 5.2), leave it to the device; 0 is for ever.
    pub ack_timeout: Option<u8>,
    /// How long finding a device that leads to the peer may take.
    pub address_timeout: Duration,
    /// How long finding the route may take.
    pub route_timeout: Duration,
    /// How long the peer may take to answer, and an accepted peer to confirm.
    pub connect_timeout: Duration,
}

impl Default for ConnConfig {
    fn default() -> Self {
        ConnConfig {
            sq_depth: 128,
            path: None,
            retry_count: 6,
            rnr_retry_count: 7,
            ack_timeout: Some(14),
            address_timeout: Duration::from_secs(2),
            route_timeout: Duration::from_secs(2),
            connect_timeout: Duration::from_secs(5),
        }
    }
}

impl ConnConfig {
    /// With a send queue for so many requests.
    #[must_use]
    pub const fn with_sq_depth(mut self, depth: u32) -> Self {
        self.sq_depth = depth;
        self
    }

    /// With this path, or not at all.
    #[must_use]
    pub const fn with_path(mut self, path: Path) -> Self {
        self.path = Some(path);
        self
    }

    /// With another retry count: 0 to 7, larger numbers count as 7.
    #[must_use]
    pub const fn with_retry_count(mut self, count: u8) -> Self {
        self.retry_count = if count > 7 { 7 } else { count };
        self
    }

    /// With another retry count for a peer that is not ready: 0 to 7, larger
    /// numbers count as 7.
    #[must_use]
    pub const fn with_rnr_retry_count(mut self, count: u8) -> Self {
        self.rnr_retry_count = if count > 7 { 7 } else { count };
        self
    }

    /// With another acknowledgement timeout: an exponent of 0 to 31, larger
    /// numbers count as 31.
    #[must_use]
    pub const fn with_ack_timeout(mut self, exponent: Option<u8>) -> Self {
        self.ack_timeout = match exponent {
            Some(exponent) if exponent > 31 => Some(31),
            exponent => exponent,
        };
        self
    }

    /// With another timeout for finding the device.
    #[must_use]
    pub const fn with_address_timeout(mut self, timeout: Duration) -> Self {
        self.address_timeout = timeout;
        self
    }

    /// With another timeout for finding the route.
    #[must_use]
    pub const fn with_route_timeout(mut self, timeout: Duration) -> Self {
        self.route_timeout = timeout;
        self
    }

    /// With another timeout for the peer's answer.
    #[must_use]
    pub const fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long a peer that fell silent can go unnoticed while a request is in
    /// flight: at the formula's value, and at the most that the specification
    /// allows a device. `None` where it is for ever or not known.
    ///
    /// ```
    /// use farword::verbs::ConnConfig;
    /// let (nominal, most) = ConnConfig::default().silence_bound().expect("bounded");
    /// assert_eq!((nominal.as_millis(), most.as_millis()), (469, 1879));
    /// assert_eq!(ConnConfig::default().with_retry_count(7).silence_bound(), None);
    /// ```
    #[must_use]
    pub fn silence_bound(&self) -> Option<(Duration, Duration)> {
        let exponent = self.ack_timeout.filter(|exponent| *exponent > 0)?;
        if self.retry_count >= 7 {
            return None;
        }
        let once = Duration::from_nanos(4096 << exponent);
        let nominal = once * (u32::from(self.retry_count) + 1);
        Some((nominal, nominal * 4))
    }
}

/// Refuses private data that the protocol would cut or refuse later.
pub(super) fn check_private_data(step: Step, data: &[u8]) -> Result<(), ConnError> {
    let max = match step {
        Step::Connect => MAX_CONNECT_DATA,
        Step::Accept => MAX_ACCEPT_DATA,
        _ => MAX_REJECT_DATA,
    };
    if data.len() > max {
        return Err(ConnError::new(step, Cause::PrivateDataTooLong { len: data.len(), max }));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_data_is_refused_one_byte_above_each_limit() {
        for (step, max) in [(Step::Connect, 56), (Step::Accept, 196), (Step::Reject, 148)] {
            assert!(check_private_data(step, &[0; 256][..max]).is_ok());
            let refused = check_private_data(step, &[0; 256][..max + 1]).expect_err("too long");
            assert_eq!(refused.cause(), &Cause::PrivateDataTooLong { len: max + 1, max });
        }
    }

    #[test]
    fn an_endless_setting_has_no_bound() {
        let config = ConnConfig::default();
        assert!(config.with_ack_timeout(None).silence_bound().is_none());
        assert!(config.with_ack_timeout(Some(0)).silence_bound().is_none());
        assert!(config.with_ack_timeout(Some(200)).silence_bound().is_some());
        assert_eq!(config.with_retry_count(99).retry_count, 7);
    }
}
