#[repr(C, packed)]
struct Header {
    version: u32,
    tail: u64,
}

const TAIL: farword::AlignedOffset = farword::aligned_offset_of!(Header, tail);

fn main() {
    let _ = TAIL;
}
