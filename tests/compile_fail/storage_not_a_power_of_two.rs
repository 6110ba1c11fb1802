fn main() {
    let _ = farword::RingStorage::<100, 32>::new();
}
