//! librpma's C ABI.
//!
//! Every public function of librpma 1.2, under its name, with its arguments,
//! checks and codes, over the verbs code that [`verbs`](crate::verbs) has for
//! Rust. `src/capi/install` makes a shared and a static library of it, which a C
//! or C++ program links in librpma's place. The prototypes, in words of our own,
//! are in `include/librpma.h`; what librpma does not have is in
//! `include/farword_rpma.h`, and begins with `farword_`.
//!
//! # The contract
//! What the manual of librpma asks of a caller is asked here, of every function:
//! a pointer is null, or leads to what its type says; an object came from the
//! function that makes it and was not deleted; what an object was made of
//! outlives it. A null pointer, and any number, is answered with
//! [`E_INVAL`] where librpma does so, and also where librpma would crash.
//!
//! No panic leaves a function: it is caught, logged, and answered with
//! [`E_UNKNOWN`].
//!
//! # Threads
//! One connection is used by one thread at a time. `rpma_atomic_write`,
//! `rpma_write`, `rpma_cq_wait` and `rpma_cq_get_wc` may be called by any thread
//! at any time. So may, which librpma does not say, the other calls that post
//! one request: `rpma_read`, `rpma_write_with_imm`, `rpma_flush`, `rpma_send`,
//! `rpma_send_with_imm`, `rpma_recv`, `rpma_srq_recv`. Between
//! [`farword_batch_begin`] and [`farword_batch_end`] a connection is one thread's
//! alone.

#![allow(unsafe_code, reason = "C calls it")]

use core::alloc::Layout;
use core::ffi::c_int;
use core::panic::AssertUnwindSafe;
use core::ptr::NonNull;
use std::alloc::alloc;
use std::boxed::Box;
use std::panic::catch_unwind;

#[macro_use]
mod log;
mod batch;
mod conn;
mod conn_cfg;
mod conn_req;
mod cq;
mod ep;
mod err;
mod link;
mod mr;
mod ops;
#[doc(hidden)]
pub mod over;
mod peer;
mod peer_cfg;
mod remote_log;
mod ring;
mod srq;
mod srq_cfg;
mod utils;

pub use batch::*;
pub use conn::*;
pub use conn_cfg::*;
pub use conn_req::*;
pub use cq::*;
pub use ep::*;
pub use err::*;
pub use log::*;
pub use mr::*;
pub use ops::*;
pub use peer::*;
pub use peer_cfg::*;
pub use remote_log::*;
pub use ring::*;
pub use srq::*;
pub use srq_cfg::*;
pub use utils::*;

/// `RPMA_E_UNKNOWN`.
pub const E_UNKNOWN: c_int = -100_000;
/// `RPMA_E_NOSUPP`.
pub const E_NOSUPP: c_int = -100_001;
/// `RPMA_E_PROVIDER`.
pub const E_PROVIDER: c_int = -100_002;
/// `RPMA_E_NOMEM`.
pub const E_NOMEM: c_int = -100_003;
/// `RPMA_E_INVAL`.
pub const E_INVAL: c_int = -100_004;
/// `RPMA_E_NO_COMPLETION`.
pub const E_NO_COMPLETION: c_int = -100_005;
/// `RPMA_E_NO_EVENT`.
pub const E_NO_EVENT: c_int = -100_006;
/// `RPMA_E_AGAIN`.
pub const E_AGAIN: c_int = -100_007;
/// `RPMA_E_SHARED_CHANNEL`.
pub const E_SHARED_CHANNEL: c_int = -100_008;
/// `RPMA_E_NOT_SHARED_CHNL`.
pub const E_NOT_SHARED_CHNL: c_int = -100_009;

/// A code other than 0, on its way to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Failure(c_int);

type Answer = Result<(), Failure>;

const INVAL: Failure = Failure(E_INVAL);
const PROVIDER: Failure = Failure(E_PROVIDER);

/// What every function is run by: no panic gets past it.
fn answer(call: impl FnOnce() -> Answer) -> c_int {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => 0,
        Ok(Err(Failure(code))) => code,
        Err(_) => {
            log!(FATAL, c"answer", "a panic was caught: please report it");
            E_UNKNOWN
        }
    }
}

/// What a pointer leads to, or that it is null.
///
/// # Safety
/// It is null, or leads to a `T` that stays for as long as the reference is
/// used, and that nobody changes meanwhile but through what allows it.
unsafe fn get<'a, T>(pointer: *const T) -> Result<&'a T, Failure> {
    // SAFETY: this function's own condition.
    unsafe { pointer.as_ref() }.ok_or(INVAL)
}

/// The place that an out-pointer leads to, or that it is null.
fn place<T>(pointer: *mut T) -> Result<NonNull<T>, Failure> {
    NonNull::new(pointer).ok_or(INVAL)
}

/// An object that C holds a pointer to. Unlike a box, it may be moved while C
/// uses what it points at.
#[derive(Debug)]
struct Owned<T>(NonNull<T>);

// SAFETY: it owns what it points at.
unsafe impl<T: Send> Send for Owned<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Owned<T> {}

impl<T> Owned<T> {
    /// On the heap, or, where there is no memory, the code that says so.
    fn new(value: T) -> Result<Self, Failure> {
        const { assert!(size_of::<T>() > 0) };
        // SAFETY: the layout is not empty.
        let at = unsafe { alloc(Layout::new::<T>()) }.cast::<T>();
        let at = NonNull::new(at).ok_or(Failure(E_NOMEM))?;
        // SAFETY: there is room for a `T`, aligned as one, and nobody else's.
        unsafe { at.write(value) };
        Ok(Owned(at))
    }

    /// The object that C gives back.
    ///
    /// # Safety
    /// It came from [`leak`](Self::leak), and is not used any more.
    unsafe fn from_raw(at: NonNull<T>) -> Self {
        Owned(at)
    }

    fn as_ptr(&self) -> *mut T {
        self.0.as_ptr()
    }

    /// Hands it to C.
    fn leak(self) -> *mut T {
        let at = self.as_ptr();
        core::mem::forget(self);
        at
    }

    fn into_inner(self) -> T {
        let at = self.leak();
        // SAFETY: the object is this value's own, and was allocated with the
        // layout of a `T`.
        *unsafe { Box::from_raw(at) }
    }
}

impl<T> core::ops::Deref for Owned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the object lives as long as `self`.
        unsafe { self.0.as_ref() }
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: as for `into_inner`.
        drop(unsafe { Box::from_raw(self.as_ptr()) });
    }
}

/// Takes the object out of a C variable, which is null from then on; `None` if
/// it was null before.
///
/// # Safety
/// The pointer is null or leads to a variable that is null or has an object
/// from [`Owned::leak`], which is not used any more.
unsafe fn take<T>(variable: *mut *mut T) -> Result<Option<Owned<T>>, Failure> {
    let variable = place(variable)?;
    // SAFETY: this function's own condition.
    let object = unsafe { variable.replace(core::ptr::null_mut()) };
    // SAFETY: as above.
    Ok(NonNull::new(object).map(|object| unsafe { Owned::from_raw(object) }))
}
