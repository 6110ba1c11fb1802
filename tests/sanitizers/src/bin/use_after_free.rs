//! A load of freed memory, which the address sanitizer and memcheck must find.

fn main() {
    let word: *const u64 = Box::into_raw(Box::new(core::hint::black_box(7)));
    // SAFETY: it came from a box.
    drop(unsafe { Box::from_raw(word.cast_mut()) });
    // SAFETY: none; it is freed. That is the fault. The exit code must not hang
    // on the value.
    core::hint::black_box(unsafe { core::hint::black_box(word).read_volatile() });
}
