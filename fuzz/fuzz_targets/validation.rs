//! Every check of an argument against the same rule in 128-bit arithmetic,
//! where nothing wraps. A refusal must name a rule that was broken.

#![no_main]

use arbitrary::{Arbitrary, Unstructured};
use core::sync::atomic::AtomicU64;
use farword::soft::SoftDevice;
use farword::{
    AlignedOffset, Capabilities, Chain, DeviceFault, Error, FlushKind, FlushSupport, Invalid,
    LocalSlice, Notify, OpContext, PostError, Provider, RemoteRegion, Ring, RingConfig, Usage,
    wr::Wc,
};
use libfuzzer_sys::fuzz_target;

const SPACE: u128 = 1 << 64;

/// Small ones and those at the end of 64 bits, where rules are broken by one.
#[derive(Debug)]
struct Number(u64);

impl<'a> Arbitrary<'a> for Number {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> arbitrary::Result<Self> {
        let near = u64::from(u8::arbitrary(bytes)?);
        Ok(Number(match u8::arbitrary(bytes)? % 5 {
            0 => near,
            1 => near * 8,
            2 => u64::MAX - near,
            3 => (1u64 << (near % 64)).wrapping_sub(near / 64),
            _ => u64::arbitrary(bytes)?,
        }))
    }
}

#[derive(Arbitrary, Debug)]
struct Raw {
    numbers: [Number; 6],
    usage: u8,
    equal: bool,
    flags: u32,
    depth: u32,
    batch: u32,
    sq_depth: u32,
    cq_depth: u32,
    max_inline: u8,
    native: bool,
    persistent_peer: bool,
    flush: u8,
    memory: u8,
}

#[derive(Debug)]
struct Input {
    base: u64,
    size: u64,
    usage: u8,
    offset: u64,
    len: u64,
    local_len: u64,
    flags: u32,
    depth: u32,
    batch: u32,
    sq_depth: u32,
    cq_depth: u32,
    max_inline: u32,
    max_message: u64,
    native: bool,
    persistent_peer: bool,
    flush: u8,
    start: u64,
    memory: u8,
}

impl<'a> Arbitrary<'a> for Input {
    fn arbitrary(bytes: &mut Unstructured<'a>) -> arbitrary::Result<Self> {
        let raw = Raw::arbitrary(bytes)?;
        let [base, size, offset, len, local_len, max_message] = raw.numbers.map(|number| number.0);
        let even = |number: u32| if number.is_multiple_of(4) { number / 4 } else { 4096 };
        Ok(Input {
            base,
            size,
            usage: raw.usage,
            offset,
            len,
            local_len: if raw.equal { len } else { local_len },
            flags: if raw.flags % 2 == 0 { raw.flags / 2 % 8 } else { raw.flags },
            depth: raw.depth,
            batch: raw.batch,
            sq_depth: even(raw.sq_depth),
            cq_depth: even(raw.cq_depth),
            max_inline: raw.max_inline.into(),
            max_message,
            native: raw.native,
            persistent_peer: raw.persistent_peer,
            flush: raw.flush,
            start: offset,
            memory: raw.memory,
        })
    }
}

/// Says what it can do, and does nothing.
struct Stub(Capabilities);

impl Provider for Stub {
    fn capabilities(&self) -> Capabilities {
        self.0
    }

    fn post(&mut self, _: Chain<'_>) -> Result<(), PostError> {
        Ok(())
    }

    fn poll(&mut self, _: &mut [Wc]) -> Result<usize, DeviceFault> {
        Ok(0)
    }
}

fuzz_target!(|input: Input| {
    offset(&input);
    flags(input.flags);
    target(&input);
    span(&input);
    slice(&input);
    register(&input);
    ring(&input);
});

fn offset(input: &Input) {
    let made = AlignedOffset::new(input.offset);
    let offset = input.offset;
    match made {
        Ok(made) => assert_eq!((made.get(), offset % 8), (offset, 0)),
        Err(which) => {
            assert_ne!(offset % 8, 0);
            assert_eq!(which, Invalid::Unaligned { offset });
        }
    }
}

fn flags(flags: u32) {
    let expected = match flags {
        0 => Err(Invalid::ZeroFlags),
        1 => Ok(Notify::OnError),
        3 => Ok(Notify::Always),
        _ => Err(Invalid::UnknownFlags { flags }),
    };
    assert_eq!(Notify::from_bits(flags), expected);
}

fn region(input: &Input) -> RemoteRegion {
    RemoteRegion::new(input.base, input.size, 7, Usage::from_bits(input.usage))
}

fn target(input: &Input) {
    let Ok(offset) = AlignedOffset::new(input.offset & !7) else {
        unreachable!("masked");
    };
    let (base, size, at) =
        (u128::from(input.base), u128::from(input.size), u128::from(offset.get()));
    let unusable = input.usage & 8 == 0;
    let outside = at + 8 > size;
    let wraps = base + at + 8 > SPACE;
    let unaligned = (base + at) % 8 != 0;
    match region(input).target(offset) {
        Ok(target) => {
            assert!(!unusable && !outside && !wraps && !unaligned);
            assert_eq!((u128::from(target.address()), target.rkey()), (base + at, 7));
        }
        Err(Invalid::UsageMissing { .. }) => assert!(unusable),
        Err(Invalid::OutOfBounds { .. }) => assert!(outside),
        Err(Invalid::AddressWraps { .. }) => assert!(wraps),
        Err(Invalid::UnalignedAddress { .. }) => assert!(unaligned),
        Err(which) => panic!("a rule that targets do not have: {which}"),
    }
}

fn span(input: &Input) {
    let (base, size) = (u128::from(input.base), u128::from(input.size));
    let (at, len) = (u128::from(input.offset), u128::from(input.len));
    let outside = at + len > size;
    // An empty range has an address, but no byte.
    let wraps = base + at + len.max(1) > SPACE;
    match region(input).span(input.offset, input.len) {
        Ok(span) => {
            assert!(!outside && !wraps);
            assert_eq!((u128::from(span.address()), u128::from(span.len())), (base + at, len));
            assert_eq!((span.rkey(), span.usage().bits()), (7, input.usage));
        }
        Err(Invalid::OutOfBounds { .. }) => assert!(outside),
        Err(Invalid::AddressWraps { .. }) => assert!(wraps),
        Err(which) => panic!("a rule that spans do not have: {which}"),
    }
}

fn slice(input: &Input) {
    let whole = LocalSlice::new(input.base, input.local_len, 9);
    let (at, len) = (u128::from(input.offset), u128::from(input.len));
    let outside = at + len > u128::from(input.local_len);
    match whole.slice(input.offset, input.len) {
        Ok(part) => {
            assert!(!outside);
            assert_eq!(u128::from(part.address()), (u128::from(input.base) + at) % SPACE);
            assert_eq!((u128::from(part.len()), part.lkey()), (len, 9));
        }
        Err(which) => {
            let (offset, len, size) = (input.offset, input.len, input.local_len);
            assert!(outside);
            assert_eq!(which, Invalid::OutOfBounds { offset, len, size });
        }
    }
}

fn register(input: &Input) {
    let memory: Vec<AtomicU64> = (0..input.memory).map(|_| AtomicU64::new(0)).collect();
    let bytes = u128::from(input.memory) * 8;
    let outside = u128::from(input.start) + u128::from(input.len) > bytes;
    let mut device = SoftDevice::new();
    let usage = Usage::from_bits(input.usage);
    match device.register_part(&memory, input.start, input.len, usage) {
        Ok(region) => {
            assert!(!outside && input.usage != 0 && input.len != 0);
            let base = memory.as_ptr().addr() as u64 + input.start;
            assert_eq!((region.remote().base(), region.remote().size()), (base, input.len));
            assert_eq!((region.local().address(), region.local().len()), (base, input.len));
            assert_ne!(region.remote().rkey(), region.local().lkey());
        }
        Err(Invalid::ZeroUsage) => assert_eq!(input.usage, 0),
        Err(Invalid::EmptyRange) => assert_eq!(input.len, 0),
        Err(Invalid::OutsideMemory { .. }) => assert!(outside),
        Err(which) => panic!("a rule that registrations do not have: {which}"),
    }
}

fn ring(input: &Input) {
    let flush = match input.flush % 3 {
        0 => FlushSupport::None,
        1 => FlushSupport::Emulated(LocalSlice::new(0, 8, 1)),
        _ => FlushSupport::Native,
    };
    let capabilities = Capabilities::new(input.sq_depth, input.cq_depth)
        .with_max_inline(input.max_inline)
        .with_max_message(input.max_message)
        .with_native_atomic_write(input.native)
        .with_flush(flush);
    let (depth, batch) = (shape(input.depth), shape(input.batch));
    let config = RingConfig::new(depth, batch).with_persistent_peer(input.persistent_peer);
    let is_depth = |number: u32| number.count_ones() == 1 && number <= 1 << 20;
    let odd = !is_depth(depth) || !is_depth(batch) || batch > depth;
    let deep = depth > input.sq_depth;
    let flooded = depth > input.cq_depth;
    let narrow = !input.native && input.max_inline < 8;
    match Ring::boxed(Stub(capabilities), config) {
        Ok(ring) => {
            assert!(!odd && !deep && !flooded && !narrow);
            assert_eq!(ring.room(), batch);
            operations(ring, input, flush);
        }
        Err(Error::Invalid { which: Invalid::Depth { .. } }) => assert!(odd),
        Err(Error::Invalid { which: Invalid::SqTooDeep { .. } }) => assert!(deep),
        Err(Error::Invalid { which: Invalid::CqTooSmall { .. } }) => assert!(flooded),
        Err(Error::Invalid { which: Invalid::InlineTooSmall { .. } }) => assert!(narrow),
        Err(error) => panic!("a rule that rings do not have: {error}"),
    }
}

/// Half of the numbers as they are, half of them powers of two; none of the
/// powers so great that allocating the ring would be all that is tested.
fn shape(number: u32) -> u32 {
    let number = if number & 1 == 0 { 1 << ((number >> 1) % 12) } else { number >> 1 };
    if number.is_power_of_two() && number > 4096 { number - 1 } else { number }
}

fn operations(mut ring: Ring<'_, Stub>, input: &Input, flush: FlushSupport) {
    let Ok(span) = region(input).span(input.offset, input.len) else {
        return;
    };
    let local = LocalSlice::new(0, input.local_len, 9);
    let (always, context) = (Notify::Always, OpContext::new(1));
    let differ = input.local_len != input.len;
    let long = u128::from(input.local_len) > u128::from(input.max_message.min(u32::MAX.into()));
    let mut staged = 0;
    for (read, needs) in [(false, 8), (true, 1)] {
        if ring.room() == 0 {
            ring.doorbell().expect("the stub takes everything");
        }
        if ring.room() == 0 {
            return;
        }
        let made = if read {
            ring.read(local, span, always, context)
        } else {
            ring.write(local, span, always, context)
        };
        match made {
            Ok(_) => {
                assert!(input.usage & needs != 0 && !differ && !long);
                staged += 1;
            }
            Err(error) => refused(error, input.usage & needs == 0, differ, long),
        }
    }
    for kind in [FlushKind::Persistent, FlushKind::Visibility] {
        if ring.room() == 0 {
            break;
        }
        let none = flush == FlushSupport::None;
        let volatile = kind == FlushKind::Persistent && !input.persistent_peer;
        let unusable = input.usage & Usage::for_flush(kind).bits() == 0;
        match ring.flush(span, kind, always, context) {
            Ok(_) => {
                assert!(!none && !volatile && !unusable && input.len > 0);
                staged += 1;
            }
            Err(Error::Invalid { which }) => match which {
                Invalid::FlushUnsupported { .. } => assert!(none),
                Invalid::PeerNotPersistent => assert!(volatile),
                Invalid::UsageMissing { .. } => assert!(unusable),
                Invalid::EmptyRange => assert_eq!(input.len, 0),
                which => panic!("a rule that flushes do not have: {which}"),
            },
            Err(error) => panic!("there was room: {error}"),
        }
    }
    assert_eq!(ring.counters().staged, staged, "what is refused is not staged");
}

fn refused(error: Error, unusable: bool, differ: bool, long: bool) {
    match error {
        Error::Invalid { which: Invalid::UsageMissing { .. } } => assert!(unusable),
        Error::Invalid { which: Invalid::LengthMismatch { .. } } => assert!(differ),
        Error::Invalid { which: Invalid::MessageTooLong { .. } } => assert!(long),
        error => panic!("a rule that reads and writes do not have: {error}"),
    }
}
