//! How a shared receive queue is made.

use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering};

use super::{Owned, answer, get, place, take};

/// `struct rpma_srq_cfg`.
#[derive(Debug)]
pub struct SrqCfg {
    rq_size: AtomicU32,
    rcq_size: AtomicU32,
}

/// What holds where the caller gives none.
pub(super) static DEFAULT: SrqCfg = SrqCfg::new();

impl SrqCfg {
    const fn new() -> Self {
        SrqCfg { rq_size: AtomicU32::new(20), rcq_size: AtomicU32::new(20) }
    }

    pub(super) fn rq_size(&self) -> u32 {
        self.rq_size.load(Ordering::SeqCst)
    }

    pub(super) fn rcq_size(&self) -> u32 {
        self.rcq_size.load(Ordering::SeqCst)
    }
}

/// Makes a configuration: 20 receives, and a completion queue of its own of 20.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_srq_cfg_new(cfg_ptr: *mut *mut SrqCfg) -> c_int {
    answer(|| {
        let into = place(cfg_ptr)?;
        let new = Owned::new(SrqCfg::new())?;
        // SAFETY: not null, so the caller's variable.
        unsafe { into.write(new.leak()) };
        Ok(())
    })
}

/// Deletes a configuration.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_srq_cfg_delete(cfg_ptr: *mut *mut SrqCfg) -> c_int {
    // SAFETY: as the module says.
    answer(|| unsafe { take(cfg_ptr) }.map(drop))
}

macro_rules! field {
    ($what:literal, $field:ident, $set:ident, $get:ident) => {
        #[doc = concat!("Sets ", $what, ".")]
        ///
        /// # Safety
        /// As the [module](super) says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $set(cfg: *mut SrqCfg, $field: u32) -> c_int {
            answer(|| {
                // SAFETY: as the module says.
                unsafe { get(cfg) }?.$field.store($field, Ordering::SeqCst);
                Ok(())
            })
        }

        #[doc = concat!("Gives ", $what, ".")]
        ///
        /// # Safety
        /// As the [module](super) says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $get(cfg: *const SrqCfg, $field: *mut u32) -> c_int {
            answer(|| {
                // SAFETY: as the module says.
                let value = unsafe { get(cfg) }?.$field();
                // SAFETY: not null, so the caller's variable.
                unsafe { place($field)?.write(value) };
                Ok(())
            })
        }
    };
}

field!("how many receives it holds", rq_size, rpma_srq_cfg_set_rq_size, rpma_srq_cfg_get_rq_size);
field!(
    "the size of its own completion queue; 0 for none",
    rcq_size,
    rpma_srq_cfg_set_rcq_size,
    rpma_srq_cfg_get_rcq_size
);
