//! How a connection is made.

use core::ffi::c_int;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, Ordering};

use super::{INVAL, Owned, answer, get, place, take};
use crate::capi::Srq;

/// `struct rpma_conn_cfg`.
#[derive(Debug)]
pub struct ConnCfg {
    timeout_ms: AtomicI32,
    cq_size: AtomicU32,
    rcq_size: AtomicU32,
    sq_size: AtomicU32,
    rq_size: AtomicU32,
    compl_channel: AtomicBool,
    srq: AtomicPtr<Srq>,
}

/// What holds where the caller gives none.
pub(super) static DEFAULT: ConnCfg = ConnCfg::new();

impl ConnCfg {
    const fn new() -> Self {
        ConnCfg {
            timeout_ms: AtomicI32::new(1000),
            cq_size: AtomicU32::new(10),
            rcq_size: AtomicU32::new(0),
            sq_size: AtomicU32::new(10),
            rq_size: AtomicU32::new(10),
            compl_channel: AtomicBool::new(false),
            srq: AtomicPtr::new(ptr::null_mut()),
        }
    }

    pub(super) fn timeout_ms(&self) -> c_int {
        self.timeout_ms.load(Ordering::SeqCst)
    }

    pub(super) fn cq_size(&self) -> u32 {
        self.cq_size.load(Ordering::SeqCst)
    }

    pub(super) fn rcq_size(&self) -> u32 {
        self.rcq_size.load(Ordering::SeqCst)
    }

    pub(super) fn sq_size(&self) -> u32 {
        self.sq_size.load(Ordering::SeqCst)
    }

    pub(super) fn rq_size(&self) -> u32 {
        self.rq_size.load(Ordering::SeqCst)
    }

    pub(super) fn compl_channel(&self) -> bool {
        self.compl_channel.load(Ordering::SeqCst)
    }

    pub(super) fn srq(&self) -> *mut Srq {
        self.srq.load(Ordering::SeqCst)
    }
}

/// Makes a configuration: 1,000 ms, queues of 10, no receive completion queue.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_conn_cfg_new(cfg_ptr: *mut *mut ConnCfg) -> c_int {
    answer(|| {
        let into = place(cfg_ptr)?;
        let new = Owned::new(ConnCfg::new())?;
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
pub unsafe extern "C" fn rpma_conn_cfg_delete(cfg_ptr: *mut *mut ConnCfg) -> c_int {
    // SAFETY: as the module says.
    answer(|| unsafe { take(cfg_ptr) }.map(drop))
}

/// Sets how long connecting may take, in milliseconds; not negative.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_conn_cfg_set_timeout(cfg: *mut ConnCfg, timeout_ms: c_int) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let cfg = unsafe { get(cfg) }?;
        if timeout_ms < 0 {
            return Err(INVAL);
        }
        cfg.timeout_ms.store(timeout_ms, Ordering::SeqCst);
        Ok(())
    })
}

/// Sets whether both completion queues share one channel.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_conn_cfg_set_compl_channel(cfg: *mut ConnCfg, shared: u8) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        unsafe { get(cfg) }?.compl_channel.store(shared != 0, Ordering::SeqCst);
        Ok(())
    })
}

/// Sets the shared receive queue, which is not null.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_conn_cfg_set_srq(cfg: *mut ConnCfg, srq: *mut Srq) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let cfg = unsafe { get(cfg) }?;
        cfg.srq.store(place(srq)?.as_ptr(), Ordering::SeqCst);
        Ok(())
    })
}

macro_rules! setter {
    ($what:literal, $field:ident, $set:ident) => {
        #[doc = concat!("Sets ", $what, ".")]
        ///
        /// # Safety
        /// As the [module](super) says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $set(cfg: *mut ConnCfg, $field: u32) -> c_int {
            answer(|| {
                // SAFETY: as the module says.
                unsafe { get(cfg) }?.$field.store($field, Ordering::SeqCst);
                Ok(())
            })
        }
    };
}

setter!("the size of the completion queue", cq_size, rpma_conn_cfg_set_cq_size);
setter!(
    "the size of the receive completion queue; 0 for none",
    rcq_size,
    rpma_conn_cfg_set_rcq_size
);
setter!("the size of the send queue", sq_size, rpma_conn_cfg_set_sq_size);
setter!("the size of the receive queue", rq_size, rpma_conn_cfg_set_rq_size);

macro_rules! getter {
    ($what:literal, $field:ident, $value:ty, $get:ident) => {
        #[doc = concat!("Gives ", $what, ".")]
        ///
        /// # Safety
        /// As the [module](super) says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $get(cfg: *const ConnCfg, $field: *mut $value) -> c_int {
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

getter!("how long connecting may take", timeout_ms, c_int, rpma_conn_cfg_get_timeout);
getter!("the size of the completion queue", cq_size, u32, rpma_conn_cfg_get_cq_size);
getter!("the size of the receive completion queue", rcq_size, u32, rpma_conn_cfg_get_rcq_size);
getter!("the size of the send queue", sq_size, u32, rpma_conn_cfg_get_sq_size);
getter!("the size of the receive queue", rq_size, u32, rpma_conn_cfg_get_rq_size);
getter!(
    "whether both completion queues share one channel",
    compl_channel,
    bool,
    rpma_conn_cfg_get_compl_channel
);
getter!("the shared receive queue, or null", srq, *mut Srq, rpma_conn_cfg_get_srq);
