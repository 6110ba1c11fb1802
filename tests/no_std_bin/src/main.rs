//! An atomic write over the inline software device, with lent memory, in a
//! program that has no `std`, no `alloc` and its own panic handler. It exits
//! with 0 only if the word is in the remote memory and its completion came.

#![no_std]
#![no_main]

use core::panic::PanicInfo;
use core::sync::atomic::{AtomicU64, Ordering};

use job::run;

mod job {
    use super::*;
    use farword::soft::{InlineQp, QpConfig, QpStorage, SoftDevice};
    use farword::{
        AlignedOffset, Error, Notify, OpContext, Ring, RingConfig, RingStorage, Usage, Word,
    };

    static MEMORY: [AtomicU64; 8] = [const { AtomicU64::new(0) }; 8];
    const WORD: u64 = 0x0123_4567_89ab_cdef;

    pub fn run() -> Result<bool, Error> {
        let mut device = SoftDevice::new();
        let region = device.register(&MEMORY, Usage::WRITE_DST)?.remote();
        let mut queues = QpStorage::<16>::new();
        let qp = InlineQp::new(&device, QpConfig::default(), &mut queues)?;
        let mut storage = RingStorage::<16, 8>::new();
        let mut ring = Ring::new(qp, RingConfig::default(), &mut storage)?;

        let target = region.target(AlignedOffset::literal::<24>())?;
        ring.atomic_write(target, Word::ne(WORD), Notify::Always, OpContext::new(7))?;
        ring.doorbell()?;
        let mut context = 0;
        ring.poll_with(|completion| context = completion.context.get())?;
        Ok(context == 7 && MEMORY[3].load(Ordering::Acquire) == WORD)
    }
}

/// What the C start-up code calls.
#[unsafe(no_mangle)]
pub extern "C" fn main(_argc: i32, _argv: *const *const u8) -> i32 {
    match run() {
        Ok(true) => 0,
        Ok(false) => 1,
        Err(_) => 2,
    }
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

/// The precompiled `core` names it in its unwinding tables; with `panic = abort`
/// nothing ever calls it.
#[unsafe(no_mangle)]
pub extern "C" fn rust_eh_personality() {}
