use farword::AlignedOffset;

const TAIL: AlignedOffset = AlignedOffset::literal::<12>();

fn main() {
    let _ = TAIL;
}
