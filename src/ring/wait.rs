//! Waiting for a request, with a bound.

use super::*;
use crate::wr::SEND_SIGNALED;

/// How long to go on waiting. Asked after every poll that gave nothing.
pub trait Patience {
    /// Whether to poll once more.
    fn more(&mut self) -> bool;
}

impl<F: FnMut() -> bool> Patience for F {
    fn more(&mut self) -> bool {
        self()
    }
}

/// Waits as long as it takes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Forever;

impl Patience for Forever {
    fn more(&mut self) -> bool {
        core::hint::spin_loop();
        true
    }
}

/// Waits for so many polls that give nothing.
#[derive(Clone, Copy, Debug)]
pub struct Polls(
    /// How many more.
    pub u64,
);

impl Patience for Polls {
    fn more(&mut self) -> bool {
        core::hint::spin_loop();
        self.0 = self.0.saturating_sub(1);
        self.0 > 0
    }
}

/// Waits until a moment, spinning first and yielding the processor later.
#[cfg(feature = "std")]
#[derive(Debug)]
pub struct Deadline {
    at: std::time::Instant,
    polls: u32,
}

#[cfg(feature = "std")]
impl Deadline {
    /// That long from now.
    #[must_use]
    pub fn after(duration: core::time::Duration) -> Self {
        let now = std::time::Instant::now();
        // A year is as good as for ever, and cannot overflow the clock.
        let year = core::time::Duration::from_secs(365 * 24 * 3600);
        Deadline { at: now + duration.min(year), polls: 0 }
    }
}

#[cfg(feature = "std")]
impl Patience for Deadline {
    fn more(&mut self) -> bool {
        self.polls = self.polls.wrapping_add(1);
        core::hint::spin_loop();
        if !self.polls.is_multiple_of(64) {
            return true;
        }
        if self.polls > 4096 {
            std::thread::yield_now();
        }
        std::time::Instant::now() < self.at
    }
}

/// Why a wait ended without what was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitError {
    /// Patience ran out; the request may still complete.
    TimedOut,
    /// The ring refused or failed.
    Ring(Error),
}

impl From<Error> for WaitError {
    fn from(error: Error) -> Self {
        WaitError::Ring(error)
    }
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitError::TimedOut => f.write_str("no completion within the time allowed"),
            WaitError::Ring(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for WaitError {}

impl<P: Provider> Ring<'_, P> {
    /// Waits until an operation is confirmed, giving every completion on the way
    /// to `each`. Staged work is posted first, and where nothing in flight would
    /// ever tell of the operation, the ring posts an empty signaled write of its
    /// own that does.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`]; [`WaitError::Ring`] if the ring failed before
    /// the operation was confirmed. Completions that were not given to `each`
    /// by then are still there to be polled.
    ///
    /// ```
    /// # use core::sync::atomic::AtomicU64;
    /// # use farword::{AlignedOffset, Notify, OpContext, Polls, Ring, RingConfig, Usage, Word};
    /// # use farword::soft::{InlineQp, QpConfig, SoftDevice};
    /// # let memory = [const { AtomicU64::new(0) }; 8];
    /// # let mut device = SoftDevice::new();
    /// # let region = device.register(&memory, Usage::WRITE_DST)?.remote();
    /// # let qp = InlineQp::boxed(&device, QpConfig::default())?;
    /// # let mut ring = Ring::boxed(qp, RingConfig::default())?;
    /// # let tail = region.target(AlignedOffset::ZERO)?;
    /// let ticket = ring.atomic_write(tail, Word::le(1), Notify::OnError, OpContext::new(7))?;
    /// ring.wait(ticket, Polls(1000), |_| {}).expect("it was posted and confirmed");
    /// assert!(ring.is_confirmed(ticket));
    /// # Ok::<(), farword::Error>(())
    /// ```
    pub fn wait(
        &mut self,
        ticket: Ticket,
        mut patience: impl Patience,
        mut each: impl FnMut(Completion),
    ) -> Result<(), WaitError> {
        while !self.is_confirmed(ticket) {
            if let Some(why) = self.failure() {
                return Err(Error::Failed { why }.into());
            }
            let posted = self.ring_for_waiting(ticket)?;
            let given = self.poll_with(&mut each)?;
            if given == 0 && !posted && !self.is_confirmed(ticket) && !patience.more() {
                return Err(WaitError::TimedOut);
            }
        }
        Ok(())
    }

    /// Posts what is staged and waits until nothing is in flight, giving every
    /// completion to `each`. On a dead ring that is how all contexts come back:
    /// should the flush completions not come in time, the ring is abandoned and
    /// what was left is told of as [`Outcome::Unknown`].
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] on a live ring; [`WaitError::Ring`] with
    /// [`Error::Failed`] on a dead one, every context having been given back.
    pub fn drain(
        &mut self,
        mut patience: impl Patience,
        mut each: impl FnMut(Completion),
    ) -> Result<(), WaitError> {
        while !self.is_idle() {
            let last = self.ticket(self.flight.next().wrapping_sub(1));
            let posted = match self.failure() {
                Some(_) => false,
                None => match self.ring_for_waiting(last) {
                    // The post itself killed the ring: all the more to give back.
                    Err(Error::Failed { .. }) => false,
                    result => result?,
                },
            };
            let given = self.poll_with(&mut each)?;
            if given == 0 && !posted && !self.is_idle() && !patience.more() {
                if self.failure().is_none() {
                    return Err(WaitError::TimedOut);
                }
                self.abandon();
            }
        }
        match self.failure() {
            Some(why) => Err(Error::Failed { why }.into()),
            None => Ok(()),
        }
    }

    /// Posts what stands between the caller and news of `ticket`: what is
    /// staged, and an empty signaled write where nothing signaled is in flight
    /// at `ticket` or behind it. Says whether anything was posted.
    fn ring_for_waiting(&mut self, ticket: Ticket) -> Result<bool, Error> {
        let next = self.flight.next();
        if !self.signaled_within(self.number(ticket), next) {
            let unposted = self.flight.unposted();
            if unposted > 0 {
                // The last staged request can still be signaled itself.
                let last = next.wrapping_sub(1);
                self.signaled += u64::from(self.batch.signal(last));
                self.records.get_mut(last).forced = true;
            } else if let Some(number) = self.flight.stage() {
                self.stage_own(number);
            }
            // Else the queue is full of posted requests, and one of the oldest
            // quarter is signaled: polling makes room.
        }
        if self.flight.unposted() == 0 {
            return Ok(false);
        }
        match self.doorbell() {
            Ok(count) => Ok(count > 0),
            // The provider is full for now: polling helps.
            Err(Error::Full { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn stage_own(&mut self, number: u64) {
        let mut record = Record::new(OpContext::new(0), Op::Write, Notify::OnError);
        record.own = true;
        record.forced = true;
        *self.records.get_mut(number) = record;
        self.signaled += 1;
        self.batch.set_nothing(number, SEND_SIGNALED);
    }

    /// Whether a request from `from` up to, but not including, `to` is signaled.
    fn signaled_within(&self, from: u64, to: u64) -> bool {
        let count = to.wrapping_sub(from).min(u64::from(self.flight.occupied()));
        (1..=count).any(|back| {
            let number = to.wrapping_sub(back);
            let record = self.records.get(number);
            record.forced
                || record.notify == Notify::Always
                || number as u32 & self.window == self.window
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(mut patience: impl Patience, most: usize) -> usize {
        (0..most).take_while(|_| patience.more()).count()
    }

    #[test]
    fn so_many_polls_are_allowed_and_no_more() {
        // The poll that came before it asked is one of them.
        for (polls, more) in [(0, 0), (1, 0), (2, 1), (50, 49)] {
            assert_eq!(allowed(Polls(polls), 1000), more, "{polls}");
        }
        assert_eq!(allowed(Forever, 1000), 1000);
        assert_eq!(allowed(|| false, 1000), 0);
        assert_eq!(allowed(|| true, 1000), 1000);
    }

    #[cfg(feature = "std")]
    #[test]
    fn a_deadline_ends_soon_after_its_moment_and_not_before() {
        use core::time::Duration;
        // It looks at the clock once in 64 polls.
        assert_eq!(allowed(Deadline::after(Duration::ZERO), 1000), 63);
        for far in [Duration::from_secs(3600), Duration::MAX] {
            assert_eq!(allowed(Deadline::after(far), 10_000), 10_000);
        }
        let days = Deadline::after(Duration::MAX).at - std::time::Instant::now();
        assert!(days > Duration::from_secs(364 * 86_400), "{days:?}");
    }

    /// A ring over a provider that lets so many polls go empty, with one write
    /// staged; its ticket.
    #[cfg(feature = "std")]
    fn late(empty_polls: u32, notify: Notify) -> (Ring<'static, late::Late>, Ticket) {
        use crate::{AlignedOffset, RemoteRegion, Usage, Word};
        let mut ring = late::Late::ring(empty_polls, RingConfig::new(16, 16));
        let region = RemoteRegion::new(4096, 4096, 1, Usage::WRITE_DST);
        let target = region.target(AlignedOffset::ZERO).expect("within the region");
        let ticket = ring.atomic_write(target, Word::ne(1), notify, OpContext::new(7));
        (ring, ticket.expect("room"))
    }

    /// One that goes on for `most` askings, which it counts.
    #[cfg(feature = "std")]
    fn counting(asked: &mut u32, most: u32) -> impl FnMut() -> bool {
        move || {
            *asked += 1;
            *asked <= most
        }
    }

    #[cfg(feature = "std")]
    #[test]
    fn patience_is_asked_after_polls_in_vain_alone() {
        // Not after the poll that follows the post, nor after one that gave.
        for (empty, notify, due) in
            [(5, Notify::Always, 4), (5, Notify::OnError, 4), (1, Notify::OnError, 0)]
        {
            let told = usize::from(notify == Notify::Always);
            let (mut ring, ticket) = late(empty, notify);
            let (mut asked, mut given) = (0, 0);
            ring.wait(ticket, counting(&mut asked, 100), |_| given += 1).expect("confirmed");
            assert_eq!((asked, given), (due, told), "wait, {empty}");
            let (mut ring, _) = late(empty, notify);
            let (mut asked, mut given) = (0, 0);
            ring.drain(counting(&mut asked, 100), |_| given += 1).expect("confirmed");
            assert_eq!((asked, given), (due, told), "drain, {empty}");
        }
    }

    #[cfg(feature = "std")]
    #[test]
    fn a_wait_ends_with_its_patience_and_loses_nothing() {
        let (mut ring, ticket) = late(5, Notify::Always);
        let (mut asked, mut given) = (0, 0);
        let first = ring.wait(ticket, counting(&mut asked, 1), |_| given += 1);
        assert_eq!((first, asked, given), (Err(WaitError::TimedOut), 2, 0));
        let (mut asked, mut given) = (0, 0);
        let again = ring.drain(counting(&mut asked, 0), |_| given += 1);
        assert_eq!((again, asked, given), (Err(WaitError::TimedOut), 1, 0));
        ring.drain(Polls(100), |done| given += done.context.get()).expect("confirmed");
        assert_eq!(given, 7);
    }

    #[cfg(feature = "std")]
    #[test]
    fn why_a_wait_ended_is_said_in_words() {
        use std::string::ToString;
        let refused = WaitError::from(Error::Provider(Errno::EIO));
        assert_eq!(refused, WaitError::Ring(Error::Provider(Errno::EIO)));
        assert_eq!(refused.to_string(), Error::Provider(Errno::EIO).to_string());
        assert_eq!(WaitError::TimedOut.to_string(), "no completion within the time allowed");
    }
}
