use farword::{AlignedOffset, aligned_offset_of};

#[repr(C)]
struct Tails {
    signature: u32,
    tail: [u8; 8],
}

#[repr(C)]
struct Log {
    signature: [u8; 8],
    tails: Tails,
}

const TAIL: AlignedOffset = aligned_offset_of!(Log, tails.tail);

fn main() {
    let _ = TAIL;
}
