//! The clever arithmetic held against naive models of it.

use std::collections::VecDeque;

use farword::flight::{Flight, Run};
use farword::{AlignedOffset, Invalid, LocalSlice, Remedy, RemoteRegion, Usage};
use proptest::prelude::*;

/// A send queue as a list of its requests: `true` once posted.
#[derive(Debug)]
struct Naive {
    slots: VecDeque<(u64, bool)>,
    next: u64,
    depth: u32,
    batch: u32,
    closed: bool,
}

impl Naive {
    fn new(depth: u32, batch: u32, start: u64) -> Self {
        Naive { slots: VecDeque::new(), next: start, depth, batch, closed: false }
    }

    fn in_flight(&self) -> u32 {
        self.slots.iter().filter(|(_, posted)| *posted).count() as u32
    }

    fn unposted(&self) -> u32 {
        self.slots.len() as u32 - self.in_flight()
    }

    fn room(&self) -> u32 {
        if self.closed {
            return 0;
        }
        (self.depth - self.slots.len() as u32).min(self.batch - self.unposted())
    }

    fn stage(&mut self) -> Option<u64> {
        (self.room() > 0).then(|| {
            let number = self.next;
            self.slots.push_back((number, false));
            self.next = number.wrapping_add(1);
            number
        })
    }

    fn post(&mut self, count: u32) {
        let unposted = self.slots.iter_mut().filter(|(_, posted)| !*posted);
        unposted.take(count as usize).for_each(|(_, posted)| *posted = true);
    }

    fn retire(&mut self, last: u64) -> Option<Run> {
        let at = self.slots.iter().position(|slot| *slot == (last, true))?;
        let run: Vec<u64> = self.slots.drain(..=at).map(|(number, _)| number).collect();
        Some(Run { first: run[0], last: run[at] })
    }

    fn retire_oldest(&mut self) -> Option<(u64, bool)> {
        self.slots.pop_front()
    }

    /// What a caller of a full queue has to do, by what there is to do.
    fn remedy(&self) -> Remedy {
        let quarter = self.depth / 4;
        if self.unposted() == self.batch || self.in_flight() < quarter.max(1) {
            Remedy::Doorbell { staged: self.unposted() }
        } else {
            Remedy::Poll { occupied: self.slots.len() as u32, depth: self.depth }
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Stage(u8),
    /// Of those unposted, that many of 256.
    Post(u8),
    /// A request in flight, that far of 256 from the oldest.
    Retire(u8),
    /// Any number at all, as a stale or made-up completion has it.
    RetireAny(u64),
    /// A number near the edges of what is in flight, or 2^32 beside it.
    RetireNear(i8, bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..=40u8).prop_map(Step::Stage),
        4 => any::<u8>().prop_map(Step::Post),
        4 => any::<u8>().prop_map(Step::Retire),
        1 => any::<u64>().prop_map(Step::RetireAny),
        2 => any::<(i8, bool)>().prop_map(|(by, far)| Step::RetireNear(by, far)),
    ]
}

/// Starts from which the low half, or the whole, of the counters wraps soon.
fn start() -> impl Strategy<Value = u64> {
    let near = |at: u64| (0..80u64).prop_map(move |before| at.wrapping_sub(before));
    prop_oneof![Just(0), near(0), near(1 << 32), near(1 << 31), near(1 << 63), any::<u64>()]
}

fn shape() -> impl Strategy<Value = (u32, u32)> {
    (0..=6u32).prop_flat_map(|depth| (Just(1 << depth), (0..=depth).prop_map(|batch| 1 << batch)))
}

fn part(of: u32, in_256: u8) -> u32 {
    (u64::from(of) * u64::from(in_256) / 255) as u32
}

fn apply(step: &Step, flight: &mut Flight, naive: &mut Naive) -> Result<(), TestCaseError> {
    match *step {
        Step::Stage(count) => {
            for _ in 0..count {
                prop_assert_eq!(flight.stage(), naive.stage());
            }
        }
        Step::Post(share) => {
            let count = part(naive.unposted(), share);
            flight.post(count);
            naive.post(count);
        }
        Step::Retire(share) => {
            let Some(last) = naive.in_flight().checked_sub(1) else {
                return Ok(());
            };
            let last = naive.slots[part(last, share) as usize].0;
            prop_assert_eq!(flight.retire(last), naive.retire(last));
        }
        Step::RetireAny(last) => prop_assert_eq!(flight.retire(last), naive.retire(last)),
        Step::RetireNear(by, far) => {
            let near = naive.next.wrapping_add_signed(by.into());
            let last = if far { near.wrapping_add(1 << 32) } else { near };
            let in_flight = naive.slots.contains(&(last, true));
            prop_assert_eq!(flight.is_in_flight(last), in_flight);
            prop_assert_eq!(flight.retire(last), naive.retire(last));
        }
    }
    Ok(())
}

fn agree(flight: &Flight, naive: &Naive) -> Result<(), TestCaseError> {
    let unposted = u64::from(naive.unposted());
    prop_assert_eq!(flight.next(), naive.next);
    prop_assert_eq!(flight.posted(), naive.next.wrapping_sub(unposted));
    prop_assert_eq!(
        flight.retired(),
        naive.slots.front().map_or(naive.next, |(oldest, _)| *oldest)
    );
    prop_assert_eq!(flight.in_flight(), naive.in_flight());
    prop_assert_eq!(flight.unposted(), naive.unposted());
    prop_assert_eq!(flight.occupied() as usize, naive.slots.len());
    prop_assert_eq!(flight.room(), naive.room());
    prop_assert_eq!(flight.depth(), naive.depth);
    if naive.room() == 0 && !naive.closed {
        prop_assert_eq!(flight.remedy(), naive.remedy());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn the_slot_arithmetic_is_that_of_a_list(
        (depth, batch) in shape(),
        start in start(),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut flight = Flight::new(depth, batch, start);
        let mut naive = Naive::new(depth, batch, start);
        agree(&flight, &naive)?;
        for step in &steps {
            apply(step, &mut flight, &mut naive)?;
            agree(&flight, &naive)?;
        }
        // The end of a queue: closed, then emptied one by one.
        flight.close();
        naive.closed = true;
        agree(&flight, &naive)?;
        for _ in 0..=depth {
            prop_assert_eq!(flight.stage(), None);
            prop_assert_eq!(flight.retire_oldest(), naive.retire_oldest());
            agree(&flight, &naive)?;
        }
        prop_assert_eq!(flight.occupied(), 0);
    }
}

/// Numbers near the edges at which arithmetic goes wrong, and any others.
fn number() -> impl Strategy<Value = u64> {
    let near = |at: u64| (-20..=20i64).prop_map(move |by| at.wrapping_add_signed(by));
    prop_oneof![
        near(0),
        near(64),
        near(4096),
        near(1 << 32),
        near(1 << 63),
        near(u64::MAX - 4096),
        any::<u64>(),
    ]
}

fn region() -> impl Strategy<Value = RemoteRegion> {
    let usage = prop_oneof![3 => Just(0xff), 1 => any::<u8>()];
    (number(), number(), any::<u32>(), usage).prop_map(|(base, size, rkey, usage)| {
        RemoteRegion::new(base, size, rkey, Usage::from_bits(usage))
    })
}

/// Where `len` bytes at `offset` lie, in numbers that cannot wrap.
fn naive_address(region: &RemoteRegion, offset: u64, len: u64) -> Result<u128, Invalid> {
    let (base, size) = (u128::from(region.base()), u128::from(region.size()));
    let (wide_offset, wide_len) = (u128::from(offset), u128::from(len));
    if wide_offset + wide_len > size {
        return Err(Invalid::OutOfBounds { offset, len, size: region.size() });
    }
    let start = base + wide_offset;
    if start >= 1 << 64 || start + wide_len > 1 << 64 {
        return Err(Invalid::AddressWraps { base: region.base(), offset, len });
    }
    Ok(start)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, ..ProptestConfig::default() })]

    #[test]
    fn a_target_is_what_wide_arithmetic_says(region in region(), offset in number()) {
        let Ok(aligned) = AlignedOffset::new(offset) else {
            prop_assert!(!offset.is_multiple_of(8));
            return Ok(());
        };
        prop_assert_eq!((aligned.get(), offset % 8), (offset, 0));
        let expected = if region.usage().bits() & 8 == 0 {
            Err(Invalid::UsageMissing { needs: Usage::WRITE_DST, has: region.usage() })
        } else {
            naive_address(&region, offset, 8).and_then(|address| {
                if address % 8 == 0 {
                    Ok(address)
                } else {
                    Err(Invalid::UnalignedAddress { base: region.base(), offset })
                }
            })
        };
        let found = region.target(aligned);
        prop_assert_eq!(found.map(|target| u128::from(target.address())), expected);
        if let Ok(target) = found {
            prop_assert_eq!(target.rkey(), region.rkey());
        }
    }

    #[test]
    fn a_span_is_what_wide_arithmetic_says(
        region in region(),
        offset in number(),
        len in number(),
    ) {
        let found = region.span(offset, len);
        let expected = naive_address(&region, offset, len);
        prop_assert_eq!(found.map(|span| u128::from(span.address())), expected);
        if let Ok(span) = found {
            let parts = (span.len(), span.rkey(), span.usage());
            prop_assert_eq!(parts, (len, region.rkey(), region.usage()));
        }
    }

    #[test]
    fn a_local_slice_is_what_wide_arithmetic_says(
        whole in number(),
        offset in number(),
        len in number(),
    ) {
        let local = LocalSlice::new(0x1000, whole, 7);
        let fits = u128::from(offset) + u128::from(len) <= u128::from(whole);
        let expected = if fits {
            Ok(LocalSlice::new(0x1000u64.wrapping_add(offset), len, 7))
        } else {
            Err(Invalid::OutOfBounds { offset, len, size: whole })
        };
        prop_assert_eq!(local.slice(offset, len), expected);
    }

    /// Byte by byte, as the manual page has it.
    #[test]
    fn a_descriptor_is_read_byte_by_byte(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        let number = |from: usize, len: usize| {
            bytes[from..from + len].iter().rev().fold(0u64, |all, byte| all << 8 | u64::from(*byte))
        };
        let expected = if bytes.len() < 21 {
            Err(Invalid::DescriptorTooShort { len: bytes.len() })
        } else if bytes[20] == 0 {
            Err(Invalid::ZeroUsage)
        } else {
            let usage = Usage::from_bits(bytes[20]);
            Ok(RemoteRegion::new(number(0, 8), number(8, 8), number(16, 4) as u32, usage))
        };
        let found = RemoteRegion::from_descriptor(&bytes);
        prop_assert_eq!(found, expected);
        if let Ok(region) = found {
            prop_assert_eq!(&region.to_descriptor()[..], &bytes[..21]);
        }
    }
}
