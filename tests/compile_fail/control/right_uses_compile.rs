// The control: what the failing cases do, done right. It also makes the harness
// build rather than check, without which a constant in a generic function is
// never evaluated.

use core::sync::atomic::AtomicU64;
use farword::{AlignedOffset, Ring, RingConfig, RingStorage, Usage, aligned_offset_of};
use farword::soft::{InlineQp, QpConfig, SoftDevice};

#[repr(C)]
struct Header {
    signature: [u8; 8],
    tail: u64,
}

const TAIL: AlignedOffset = aligned_offset_of!(Header, tail);

fn main() {
    assert_eq!(AlignedOffset::literal::<16>().get(), 16);
    let memory = [const { AtomicU64::new(0) }; 8];
    let mut device = SoftDevice::new();
    let region = device.register(&memory, Usage::WRITE_DST).unwrap().remote();
    let qp = InlineQp::boxed(&device, QpConfig::default()).unwrap();
    let mut storage = RingStorage::<64, 16>::new();
    let ring = Ring::new(qp, RingConfig::default(), &mut storage).unwrap();
    assert!(region.target(TAIL).is_ok());
    // Any order of dropping that compiles is clean.
    drop(ring);
    drop(device);
}
