//! Memory that is lost, which the leak sanitizer must find.

#[inline(never)]
fn lose() {
    core::hint::black_box(Box::into_raw(Box::new([1u64; 100])));
}

fn main() {
    lose();
    // Overwrites what the stack may still hold of the pointer.
    core::hint::black_box([0u64; 512]);
}
