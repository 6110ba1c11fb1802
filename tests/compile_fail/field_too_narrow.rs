#[repr(C)]
struct Header {
    signature: [u8; 8],
    tail: u32,
}

const TAIL: farword::AlignedOffset = farword::aligned_offset_of!(Header, tail);

fn main() {
    let _ = TAIL;
}
