//! What a ring tells of the requests that it retires.

use super::*;
use crate::flight::Run;

/// One operation, finished one way or the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Completion {
    /// What the caller gave when it was staged.
    pub context: OpContext,
    /// Its ticket.
    pub ticket: Ticket,
    /// What it was.
    pub op: Op,
    /// How it went.
    pub outcome: Outcome,
    /// How many operations of this ring it newly confirms, itself included if
    /// it succeeded: all those staged before it that the caller has not been
    /// told of. After seven [`Notify::OnError`] writes and one
    /// [`Notify::Always`], the one completion confirms eight.
    pub confirms: u64,
}

/// How an operation went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It succeeded, and so did everything before it on the ring.
    Confirmed,
    /// It is the one that failed, with this status; whether it can have been
    /// carried out all the same, [`WcStatus::may_have_executed`] tells.
    Failed(WcStatus),
    /// It was in flight when the ring failed: it may have been carried out or
    /// not.
    Unknown,
    /// It was staged and never posted: it was not carried out.
    Unposted,
}

impl Outcome {
    /// Whether it is [`Confirmed`](Outcome::Confirmed).
    #[must_use]
    pub const fn is_confirmed(self) -> bool {
        matches!(self, Outcome::Confirmed)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Confirmed => f.write_str("confirmed"),
            Outcome::Failed(status) => write!(f, "failed: {status}"),
            Outcome::Unknown => f.write_str("unknown: it may have been carried out"),
            Outcome::Unposted => f.write_str("never posted"),
        }
    }
}

impl<P: Provider> Ring<'_, P> {
    /// The one poll behind all others. `EACH` tells of silent successes too, and
    /// then knows no `room`.
    #[inline]
    pub(super) fn poll_up_to<const EACH: bool>(
        &mut self,
        room: Option<usize>,
        each: &mut impl FnMut(Completion),
    ) -> Result<usize, Error> {
        let most = room.unwrap_or(usize::MAX);
        let mut given;
        if self.state == State::Live && most > 0 {
            let want = POLL_BATCH.min(most);
            let (got, first) = self.poll_once::<EACH>(want, each);
            given = first;
            if got == want {
                given += self.poll_on::<EACH>(most - given, each);
            }
        } else {
            given = self.poll_on::<EACH>(most, each);
        }
        if self.state != State::Live {
            return self.poll_failed(most, given, each);
        }
        Ok(given)
    }

    /// Polls until there are no more completions than a call may take, or no more
    /// room. No more than requests can be there: a provider that goes on and on
    /// is stopped.
    #[inline(never)]
    fn poll_on<const EACH: bool>(
        &mut self,
        most: usize,
        each: &mut impl FnMut(Completion),
    ) -> usize {
        let mut given: usize = 0;
        for _ in 0..self.flight.depth() {
            let want = POLL_BATCH.min(most.saturating_sub(given));
            if want == 0 || matches!(self.state, State::Dead(_)) {
                break;
            }
            let (got, more) = self.poll_once::<EACH>(want, each);
            given += more;
            if got < want {
                break;
            }
        }
        given
    }

    /// One call of the provider: how many work completions there were, `want` at
    /// most, and how many completions they gave.
    #[inline(always)]
    fn poll_once<const EACH: bool>(
        &mut self,
        want: usize,
        each: &mut impl FnMut(Completion),
    ) -> (usize, usize) {
        let got = match self.provider.poll(&mut self.wcs.get_mut(0)[..want]) {
            Ok(got) => got.min(want),
            Err(fault) => {
                self.fail(State::Dead(Why::Device(fault)));
                return (0, 0);
            }
        };
        self.polled += got as u64;
        let mut given = 0;
        for index in 0..got {
            let Wc { wr_id, status, vendor_err, .. } = self.wcs.get(0)[index];
            given += if status == WcStatus::SUCCESS && self.state == State::Live {
                self.take::<EACH>(wr_id, each)
            } else {
                self.take_other::<EACH>(wr_id, status, vendor_err, each)
            };
        }
        (got, given)
    }

    /// Takes a success in on a live ring, and says how many completions it gave.
    #[inline]
    fn take<const EACH: bool>(&mut self, wr_id: u64, each: &mut impl FnMut(Completion)) -> usize {
        let Some(run) = self.flight.retire(wr_id) else {
            self.stale += 1;
            return 0;
        };
        if EACH {
            return self.tell_each(run.first, run.last.wrapping_sub(run.first) + 1, each);
        }
        self.confirm(run.last);
        let record = self.records.get(run.last);
        if record.notify == Notify::OnError {
            // A request of the ring's own is none that the caller counts.
            self.reported = self.reported.wrapping_add(u64::from(record.own));
            return 0;
        }
        let (context, op) = (record.context, record.op);
        each(self.completion(run.last, context, op, Outcome::Confirmed));
        1
    }

    #[inline]
    fn confirm(&mut self, last: u64) {
        let next = last.wrapping_add(1);
        self.confirmed = next;
        if self.batch.is_fence_due() && (next.wrapping_sub(self.fence_to) as i64) >= 0 {
            // No emulated flush is outstanding any more.
            self.batch.set_fence_due(false);
        }
    }

    #[inline]
    fn completion(
        &mut self,
        number: u64,
        context: OpContext,
        op: Op,
        outcome: Outcome,
    ) -> Completion {
        let confirms = self.confirmed.wrapping_sub(self.reported);
        self.reported = self.confirmed;
        Completion { context, ticket: self.ticket(number), op, outcome, confirms }
    }

    fn tell(&mut self, number: u64, outcome: Outcome, each: &mut impl FnMut(Completion)) -> usize {
        let record = *self.records.get(number);
        if record.own {
            self.reported = self.reported.wrapping_add(u64::from(outcome.is_confirmed()));
            return 0;
        }
        each(self.completion(number, record.context, record.op, outcome));
        1
    }

    /// Confirms `count` requests one by one, so that each tells of itself.
    fn tell_each(&mut self, first: u64, count: u64, each: &mut impl FnMut(Completion)) -> usize {
        let mut given = 0;
        for index in 0..count {
            let number = first.wrapping_add(index);
            self.confirm(number);
            given += self.tell(number, Outcome::Confirmed, each);
        }
        given
    }

    /// A completion behind the one that failed: nothing from there on succeeded
    /// for certain.
    fn take_flushed(&mut self, wr_id: u64) -> usize {
        // One that came before counts once.
        let is_news = wr_id.wrapping_sub(self.flushed) as i64 >= 0;
        if is_news && self.flight.is_in_flight(wr_id) {
            self.flushed = wr_id.wrapping_add(1);
        } else {
            self.stale += 1;
        }
        0
    }

    /// Takes an error in, or anything on a ring that is not live.
    #[cold]
    #[inline(never)]
    fn take_other<const EACH: bool>(
        &mut self,
        wr_id: u64,
        status: WcStatus,
        vendor_err: u32,
        each: &mut impl FnMut(Completion),
    ) -> usize {
        if self.errored {
            return self.take_flushed(wr_id);
        }
        let Some(run) = self.flight.retire(wr_id) else {
            self.stale += 1;
            return 0;
        };
        self.take_failure::<EACH>(run, status, vendor_err, each)
    }

    /// The first error completion, or any completion while draining.
    fn take_failure<const EACH: bool>(
        &mut self,
        run: Run,
        status: WcStatus,
        vendor_err: u32,
        each: &mut impl FnMut(Completion),
    ) -> usize {
        let mut given = 0;
        let earlier = run.last.wrapping_sub(run.first);
        // Completions come in order, so what stands before this one succeeded.
        if EACH {
            given += self.tell_each(run.first, earlier, each);
        } else if earlier > 0 {
            self.confirm(run.last.wrapping_sub(1));
        }
        let outcome = match status {
            WcStatus::SUCCESS => Outcome::Confirmed,
            WcStatus::WR_FLUSH_ERR => Outcome::Unknown,
            status => Outcome::Failed(status),
        };
        if outcome.is_confirmed() {
            self.confirm(run.last);
        } else {
            // A post whose extent was unknown leaves the ring draining; the
            // first error completion then says where it stopped.
            self.state = State::Draining(match self.failure() {
                Some(why) => why,
                None => Why::Completion { status, vendor_err },
            });
            self.flight.close();
            self.errored = true;
            self.flushed = run.last.wrapping_add(1);
        }
        let record = self.records.get(run.last);
        let silent =
            outcome.is_confirmed() && !EACH && record.notify == Notify::OnError && !record.own;
        if silent { given } else { given + self.tell(run.last, outcome, each) }
    }

    /// The end of a poll on a dead ring: gives back what completes no more, and
    /// fails once there is nothing left.
    #[cold]
    fn poll_failed(
        &mut self,
        room: usize,
        mut given: usize,
        each: &mut impl FnMut(Completion),
    ) -> Result<usize, Error> {
        let dead = matches!(self.state, State::Dead(_));
        while given < room {
            let completed = (self.flushed.wrapping_sub(self.flight.retired()) as i64) > 0;
            let told = dead || (self.errored && completed);
            if self.flight.in_flight() > 0 && !told {
                break;
            }
            let Some((number, was_posted)) = self.flight.retire_oldest() else {
                break;
            };
            self.unposted += u64::from(!was_posted);
            let outcome = if was_posted { Outcome::Unknown } else { Outcome::Unposted };
            given += self.tell(number, outcome, each);
        }
        match self.failure() {
            Some(why) if given == 0 && self.is_idle() => Err(Error::Failed { why }),
            _ => Ok(given),
        }
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn each_outcome_is_said_in_words_and_one_of_them_is_success() {
        for (outcome, words) in [
            (Outcome::Confirmed, "confirmed"),
            (Outcome::Failed(WcStatus::REM_ACCESS_ERR), "failed: "),
            (Outcome::Unknown, "unknown: it may have been carried out"),
            (Outcome::Unposted, "never posted"),
        ] {
            assert!(outcome.to_string().starts_with(words), "{outcome}");
            assert_eq!(outcome.is_confirmed(), outcome == Outcome::Confirmed);
        }
    }
}
