//! A data race, which the thread sanitizer must find.

use core::cell::UnsafeCell;

struct Shared(UnsafeCell<u64>);

// SAFETY: none. That is the fault.
unsafe impl Sync for Shared {}

static SHARED: Shared = Shared(UnsafeCell::new(0));

fn main() {
    let add = || {
        for _ in 0..1000 {
            // SAFETY: none; two threads do so at once.
            unsafe { *SHARED.0.get() += 1 };
        }
    };
    let other = std::thread::spawn(add);
    add();
    other.join().expect("it does not panic");
}
