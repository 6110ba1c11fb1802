fn main() {
    let _ = farword::AlignedOffset::literal::<12>();
}
