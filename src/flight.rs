//! The arithmetic of a send queue: what is staged, posted and retired.
//!
//! Pure numbers, no I/O, so that it can be held against a naive model.
//! Requests are numbered from the ring's start and never reused; the slot of a
//! request is its number modulo the depth. Three numbers divide them:
//!
//! ```text
//!   retired        posted         staged          limit
//!      |  in flight   |  unposted    |  room        |
//! ```

use crate::error::Remedy;

/// The state of one send queue. All counts are of requests, and
/// `retired <= posted <= staged <= limit` holds (modulo 2^64)
/// as long as it is open.
#[derive(Clone, Debug)]
pub struct Flight {
    /// The number of the next request to be staged.
    staged: u64,
    /// No number from here on may be staged: the nearer of the send queue's end
    /// and the batch's, as they were when somebody last looked. Both only ever
    /// move up, so it can be too low, and is looked at again once it is reached.
    limit: u64,
    posted: u64,
    retired: u64,
    depth: u32,
    batch: u32,
    closed: bool,
}

/// A run of requests that one completion retires, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The oldest request.
    pub first: u64,
    /// The request that completed.
    pub last: u64,
}

impl Flight {
    /// A queue of `depth` slots, at most `batch` of them staged and unposted,
    /// whose first request is number `start` (0, but for tests of the wrap).
    #[must_use]
    pub fn new(depth: u32, batch: u32, start: u64) -> Self {
        let limit = start.wrapping_add(u64::from(depth.min(batch)));
        let closed = false;
        Flight { staged: start, limit, posted: start, retired: start, depth, batch, closed }
    }

    /// Takes the next number, or `None` where there is no room.
    #[inline]
    pub fn stage(&mut self) -> Option<u64> {
        if self.staged == self.limit && !self.move_limit() {
            return None;
        }
        let number = self.staged;
        self.staged = number.wrapping_add(1);
        Some(number)
    }

    /// Moves the `count` oldest unposted requests into flight.
    #[inline]
    pub fn post(&mut self, count: u32) {
        debug_assert!(count <= self.unposted());
        self.posted = self.posted.wrapping_add(u64::from(count));
    }

    /// Moves all unposted requests into flight, and says how many those were.
    #[inline]
    pub fn post_all(&mut self) -> u32 {
        let count = self.unposted();
        self.posted = self.staged;
        count
    }

    /// Retires everything up to request `last`; `None` where it is not in
    /// flight, which is how a stale completion is told.
    #[inline]
    pub fn retire(&mut self, last: u64) -> Option<Run> {
        if !self.is_in_flight(last) {
            return None;
        }
        let first = self.retired;
        self.retired = last.wrapping_add(1);
        Some(Run { first, last })
    }

    /// Whether a request is posted and not retired.
    #[inline]
    #[must_use]
    pub fn is_in_flight(&self, number: u64) -> bool {
        number.wrapping_sub(self.retired) < self.posted.wrapping_sub(self.retired)
    }

    /// Retires the oldest request in flight, or, where none is, the oldest
    /// unposted one. For a dead queue, whose requests complete no more. The
    /// flag says whether it had been posted.
    pub fn retire_oldest(&mut self) -> Option<(u64, bool)> {
        let number = self.retired;
        if number == self.staged {
            return None;
        }
        let was_posted = number != self.posted;
        if !was_posted {
            self.posted = number.wrapping_add(1);
        }
        self.retired = number.wrapping_add(1);
        Some((number, was_posted))
    }

    /// Takes no more requests, ever.
    pub fn close(&mut self) {
        self.closed = true;
        self.limit = self.staged;
    }

    /// What would make room in a full queue, one request in every quarter of
    /// which is signaled. Fewer in flight than that may all be silent, and
    /// polling for them would be in vain.
    #[must_use]
    pub fn remedy(&self) -> Remedy {
        let silent = self.in_flight() < (self.depth / 4).max(1);
        if silent || self.unposted() == self.batch {
            Remedy::Doorbell { staged: self.unposted() }
        } else {
            Remedy::Poll { occupied: self.occupied(), depth: self.depth }
        }
    }

    /// Looks again how far staging may go, and says whether there is room.
    #[inline]
    fn move_limit(&mut self) -> bool {
        self.limit = self.staged.wrapping_add(u64::from(self.room()));
        self.limit != self.staged
    }

    /// The number of the next request to be staged.
    #[inline]
    #[must_use]
    pub fn next(&self) -> u64 {
        self.staged
    }

    /// The number of the oldest unposted request.
    #[inline]
    #[must_use]
    pub fn posted(&self) -> u64 {
        self.posted
    }

    /// The number of the oldest request that has not been retired.
    #[inline]
    #[must_use]
    pub fn retired(&self) -> u64 {
        self.retired
    }

    /// How many are staged and not posted.
    #[inline]
    #[must_use]
    pub fn unposted(&self) -> u32 {
        self.staged.wrapping_sub(self.posted) as u32
    }

    /// How many are posted and not retired.
    #[inline]
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.posted.wrapping_sub(self.retired) as u32
    }

    /// How many slots are taken.
    #[inline]
    #[must_use]
    pub fn occupied(&self) -> u32 {
        self.staged.wrapping_sub(self.retired) as u32
    }

    /// How many more can be staged now.
    #[inline]
    #[must_use]
    pub fn room(&self) -> u32 {
        if self.closed {
            return 0;
        }
        let by_depth = self.depth.wrapping_sub(self.occupied());
        let by_batch = self.batch.wrapping_sub(self.unposted());
        by_depth.min(by_batch)
    }

    /// The queue's depth.
    #[inline]
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.depth
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_the_nearer_of_queue_and_batch() {
        let mut flight = Flight::new(8, 4, 0);
        for number in 0..4 {
            assert_eq!(flight.stage(), Some(number));
        }
        assert_eq!(flight.stage(), None);
        assert_eq!(flight.remedy(), Remedy::Doorbell { staged: 4 });
        flight.post(3);
        assert_eq!((flight.in_flight(), flight.unposted(), flight.room()), (3, 1, 3));
        flight.post(1);
        for _ in 0..4 {
            assert!(flight.stage().is_some());
        }
        flight.post(4);
        assert_eq!(flight.stage(), None);
        assert_eq!(flight.remedy(), Remedy::Poll { occupied: 8, depth: 8 });
        assert_eq!(flight.retire(4), Some(Run { first: 0, last: 4 }));
        assert_eq!(flight.room(), 4);
    }

    #[test]
    fn everything_unposted_is_posted_at_once_and_counted() {
        let mut flight = Flight::new(8, 8, u64::MAX - 2);
        for _ in 0..6 {
            flight.stage();
        }
        flight.post(1);
        assert_eq!((flight.post_all(), flight.in_flight(), flight.unposted()), (5, 6, 0));
        assert_eq!((flight.post_all(), flight.in_flight()), (0, 6));
    }

    #[test]
    fn stale_and_future_numbers_retire_nothing() {
        let mut flight = Flight::new(8, 8, 0);
        for _ in 0..6 {
            flight.stage();
        }
        flight.post(4);
        assert_eq!(flight.retire(4), None, "staged, not posted");
        assert_eq!(flight.retire(3), Some(Run { first: 0, last: 3 }));
        assert_eq!(flight.retire(3), None, "the same again");
        assert_eq!(flight.retire(u64::MAX), None);
    }

    #[test]
    fn the_wrap_of_every_counter_is_as_any_other_step() {
        for start in [u64::from(u32::MAX) - 5, u64::MAX - 5] {
            let mut flight = Flight::new(4, 4, start);
            for step in 0..40u64 {
                let number = flight.stage().expect("room");
                assert_eq!(number, start.wrapping_add(step));
                flight.post(1);
                assert_eq!(flight.retire(number), Some(Run { first: number, last: number }));
                assert_eq!(flight.room(), 4);
            }
        }
    }

    #[test]
    fn a_closed_queue_stays_closed_and_gives_its_requests_back_once() {
        let mut flight = Flight::new(4, 4, 0);
        for _ in 0..3 {
            flight.stage();
        }
        flight.post(2);
        flight.close();
        assert_eq!(flight.stage(), None);
        assert_eq!(flight.retire_oldest(), Some((0, true)));
        assert_eq!(flight.retire_oldest(), Some((1, true)));
        assert_eq!(flight.retire_oldest(), Some((2, false)));
        assert_eq!(flight.retire_oldest(), None);
        assert_eq!((flight.stage(), flight.occupied()), (None, 0));
    }
}
