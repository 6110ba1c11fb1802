//! The clever arithmetic held against naive models of it.

use std::collections::VecDeque;

use farword::flight::{Flight, Run};
use farword::{AlignedOffset, Invalid, LocalSlice, Remedy, RemoteRegion, Usage};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Staged,
    Posted,
}

/// A send queue as a list of what is in it.
struct Naive {
    depth: usize,
    batch: usize,
    next: u64,
    queue: VecDeque<(u64, State)>,
}

impl Naive {
    fn count(&self, state: State) -> usize {
        self.queue.iter().filter(|entry| entry.1 == state).count()
    }

    fn stage(&mut self) -> Option<u64> {
        if self.queue.len() == self.depth || self.count(State::Staged) == self.batch {
            return None;
        }
        self.queue.push_back((self.next, State::Staged));
        self.next = self.next.wrapping_add(1);
        self.queue.back().map(|entry| entry.0)
    }

    fn post(&mut self, count: usize) {
        for entry in self.queue.iter_mut().filter(|entry| entry.1 == State::Staged).take(count) {
            entry.1 = State::Posted;
        }
    }

    fn retire(&mut self, last: u64) -> Option<Run> {
        let at = self.queue.iter().position(|entry| *entry == (last, State::Posted))?;
        let gone: Vec<_> = self.queue.drain(..=at).collect();
        Some(Run { first: gone[0].0, last: gone[at].0 })
    }

    fn retire_oldest(&mut self) -> Option<(u64, bool)> {
        self.queue.pop_front().map(|(number, state)| (number, state == State::Posted))
    }
}

#[derive(Clone, Debug)]
enum Step {
    Stage,
    /// Post so many, as far as there are any.
    Post(u32),
    /// Retire the request so far behind the oldest in flight, or one that is
    /// not there.
    Retire(u64),
    RetireOldest,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => Just(Step::Stage),
        3 => (0u32..12).prop_map(Step::Post),
        3 => prop_oneof![0u64..20, Just(u64::MAX), any::<u64>()].prop_map(Step::Retire),
        1 => Just(Step::RetireOldest),
    ]
}

proptest! {
    #[test]
    fn slot_arithmetic_is_that_of_a_naive_queue(
        depth_log in 0u32..6,
        batch_log in 0u32..6,
        start in prop_oneof![
            Just(0),
            Just(u64::from(u32::MAX) - 9),
            Just(u64::MAX - 9),
            any::<u64>(),
        ],
        steps in prop::collection::vec(step(), 1..400),
    ) {
        let (depth, batch) = (1 << depth_log, 1u32 << batch_log.min(depth_log));
        let mut flight = Flight::new(depth, batch, start);
        let mut naive = Naive {
            depth: depth as usize,
            batch: batch as usize,
            next: start,
            queue: VecDeque::new(),
        };
        let mut closed = false;
        for step in steps {
            match step {
                Step::Stage if closed => prop_assert_eq!(flight.stage(), None),
                Step::Stage => prop_assert_eq!(flight.stage(), naive.stage()),
                Step::Post(count) => {
                    let count = count.min(flight.unposted());
                    flight.post(count);
                    naive.post(count as usize);
                }
                Step::Retire(ahead) => {
                    let last = flight.retired().wrapping_add(ahead);
                    prop_assert_eq!(flight.retire(last), naive.retire(last));
                }
                Step::RetireOldest => {
                    // Only a dead queue gives requests back this way.
                    flight.close();
                    closed = true;
                    prop_assert_eq!(flight.retire_oldest(), naive.retire_oldest());
                }
            }
            let (staged, posted) = (naive.count(State::Staged), naive.count(State::Posted));
            prop_assert_eq!(flight.unposted() as usize, staged);
            prop_assert_eq!(flight.in_flight() as usize, posted);
            prop_assert_eq!(flight.occupied() as usize, naive.queue.len());
            if closed {
                prop_assert_eq!(flight.room(), 0);
            } else {
                let room = (naive.depth - naive.queue.len()).min(naive.batch - staged);
                prop_assert_eq!(flight.room() as usize, room);
                if room == 0 && posted == 0 {
                    let told = matches!(flight.remedy(), Remedy::Doorbell { .. });
                    prop_assert!(told, "polling alone would never make room");
                }
            }
        }
    }

    #[test]
    fn a_target_is_accepted_exactly_where_wide_arithmetic_says(
        base in prop_oneof![any::<u64>(), u64::MAX - 64..=u64::MAX, 0u64..64],
        size in prop_oneof![any::<u64>(), 0u64..64],
        word in prop_oneof![any::<u64>(), 0u64..16],
        usage in any::<u8>(),
    ) {
        let offset = word.wrapping_mul(8);
        let region = RemoteRegion::new(base, size, 7, Usage::from_bits(usage));
        let target = region.target(AlignedOffset::new(offset).unwrap());
        let (base, size, offset) = (u128::from(base), u128::from(size), u128::from(offset));
        let good = usage & 8 != 0
            && offset + 8 <= size
            && base + offset + 8 <= 1 << 64
            && (base + offset) % 8 == 0;
        prop_assert_eq!(target.is_ok(), good, "{:?}", target);
        if let Ok(target) = target {
            prop_assert_eq!(u128::from(target.address()), base + offset);
        }
    }

    #[test]
    fn a_span_is_accepted_exactly_where_wide_arithmetic_says(
        base in prop_oneof![any::<u64>(), u64::MAX - 64..=u64::MAX],
        size in prop_oneof![any::<u64>(), 0u64..64],
        offset in prop_oneof![any::<u64>(), 0u64..64],
        len in prop_oneof![any::<u64>(), 0u64..64],
    ) {
        let span = RemoteRegion::new(base, size, 7, Usage::READ_SRC).span(offset, len);
        let local = LocalSlice::new(base, size, 7).slice(offset, len);
        let end = u128::from(offset) + u128::from(len);
        let inside = end <= u128::from(size);
        prop_assert_eq!(local.is_ok(), inside);
        // An empty range has no last byte, but it has an address.
        let last = u128::from(base) + u128::from(offset) + u128::from(len.saturating_sub(1));
        prop_assert_eq!(span.is_ok(), inside && last < 1 << 64, "{:?}", span);
    }

    #[test]
    fn any_bytes_are_a_descriptor_or_a_typed_error(
        bytes in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        match RemoteRegion::from_descriptor(&bytes) {
            Ok(region) => {
                prop_assert_eq!(&region.to_descriptor()[..], &bytes[..21]);
                prop_assert!(bytes[20] != 0);
            }
            Err(Invalid::DescriptorTooShort { len }) => prop_assert!(len == bytes.len() && len < 21),
            Err(Invalid::ZeroUsage) => prop_assert_eq!(bytes[20], 0),
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}
