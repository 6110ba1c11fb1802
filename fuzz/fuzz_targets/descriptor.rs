//! Bytes from a peer: a region's descriptor, a log's announcement.
//!
//! Both are held against a reading of the bytes by hand, and written again.

#![no_main]

use farword::log::{Announcement, BadAnnouncement};
use farword::{Invalid, RemoteRegion};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    region(bytes);
    announcement(bytes);
});

fn region(bytes: &[u8]) {
    let read = RemoteRegion::from_descriptor(bytes);
    if bytes.len() < 21 {
        assert_eq!(read, Err(Invalid::DescriptorTooShort { len: bytes.len() }));
        return;
    }
    if bytes[20] == 0 {
        assert_eq!(read, Err(Invalid::ZeroUsage));
        return;
    }
    let region = read.expect("21 bytes, the last of them not 0");
    assert_eq!(u128::from(region.base()), little_endian(&bytes[..8]));
    assert_eq!(u128::from(region.size()), little_endian(&bytes[8..16]));
    assert_eq!(u128::from(region.rkey()), little_endian(&bytes[16..20]));
    assert_eq!(region.usage().bits(), bytes[20]);
    assert_eq!(region.to_descriptor(), bytes[..21]);
}

fn little_endian(bytes: &[u8]) -> u128 {
    bytes.iter().rev().fold(0, |number, byte| number * 256 + u128::from(*byte))
}

fn announcement(bytes: &[u8]) {
    let read = Announcement::from_bytes(bytes);
    let Some((head, rest)) = bytes.split_at_checked(4) else {
        assert!(matches!(read, Err(BadAnnouncement::TooShort { .. })));
        return;
    };
    let (region_len, config_len) = (usize::from(head[2]), usize::from(head[3]));
    if rest.len() < region_len + config_len {
        assert!(matches!(read, Err(BadAnnouncement::TooShort { .. })));
        return;
    }
    let used = u64::from(u16::from_ne_bytes([head[0], head[1]]));
    let region = RemoteRegion::from_descriptor(&rest[..region_len]);
    let Ok(told) = read else {
        assert!(region.is_err() || used % 8 != 0);
        return;
    };
    assert_eq!((Ok(told.region), told.used_offset.get()), (region, used));
    let config = (config_len > 0).then(|| rest[region_len] & 1 == 1);
    assert_eq!(told.persistent, config);
    // The last of the 28 bytes, where no descriptor reaches it.
    let flush = match (bytes.get(27), region_len + config_len < 24) {
        (Some(0xf0), true) => Some(false),
        (Some(0xf1), true) => Some(true),
        _ => None,
    };
    assert_eq!(told.native_flush, flush);
    assert_eq!(Announcement::from_bytes(&told.to_bytes()), Ok(told));
}
