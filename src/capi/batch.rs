//! What librpma lacks: many requests, one doorbell.

use core::ffi::{c_int, c_void};
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, Ordering};
use std::boxed::Box;

use super::{Conn, E_AGAIN, E_NOMEM, E_UNKNOWN, Failure, INVAL, PROVIDER, answer, get, place};
use crate::error::Errno;
use crate::verbs::{Staging, Unposted};

/// A connection's batch: made when the first one is begun, and kept.
#[derive(Debug)]
pub(super) struct Batches {
    /// Null while none is open.
    open: AtomicPtr<Staging>,
    made: AtomicPtr<Staging>,
    most: u32,
}

impl Batches {
    /// For batches of so many requests.
    pub(super) fn new(most: u32) -> Self {
        let (open, made) = (AtomicPtr::default(), AtomicPtr::default());
        Batches { open, made, most }
    }

    /// The batch that is open, if one is.
    ///
    /// # Safety
    /// No other thread uses the connection's batch, and the caller has no other
    /// reference to it.
    #[inline]
    #[allow(clippy::mut_from_ref, reason = "it lies behind a pointer of its own")]
    pub(super) unsafe fn open(&self) -> Option<&mut Staging> {
        // SAFETY: null, or what `begin` made, which is freed with `self`; the
        // rest is this function's own condition.
        unsafe { self.open.load(Ordering::Relaxed).as_mut() }
    }

    fn close(&self) {
        self.open.store(ptr::null_mut(), Ordering::Relaxed);
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        if let Some(made) = NonNull::new(*self.made.get_mut()) {
            // SAFETY: `begin` made it of a box, and nobody uses it any more.
            drop(unsafe { Box::from_raw(made.as_ptr()) });
        }
    }
}

/// Begins a batch: until [`farword_batch_end`], requests on this connection are
/// staged and not posted. `RPMA_E_INVAL` if one is open.
///
/// # Safety
/// As the [module](super) says; until the end, this thread alone posts requests
/// on the connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farword_batch_begin(conn: *mut Conn) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let conn = unsafe { get(conn) }?;
        let batches = &conn.batch;
        if !batches.open.load(Ordering::Relaxed).is_null() {
            return Err(INVAL);
        }
        let mut made = batches.made.load(Ordering::Relaxed);
        if made.is_null() {
            let new = Staging::new(&conn.direct, batches.most).map_err(|_| Failure(E_NOMEM))?;
            made = Box::into_raw(Box::new(new));
            batches.made.store(made, Ordering::Relaxed);
        }
        // SAFETY: this thread alone uses the batch, says the caller.
        conn.direct.begin(unsafe { &mut *made });
        batches.open.store(made, Ordering::Relaxed);
        Ok(())
    })
}

/// Ends the batch: posts all that is staged with one doorbell, and says how much
/// was taken.
///
/// Where there was no room for all of it the code is `RPMA_E_AGAIN`, for any
/// other refusal `RPMA_E_PROVIDER`: the rest stays staged and the batch open.
/// Take completions and end it again, or drop it. `RPMA_E_UNKNOWN`: how much was
/// taken is not known; the batch is over, and the connection should be.
///
/// # Safety
/// As [`farword_batch_begin`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farword_batch_end(conn: *mut Conn, posted: *mut u32) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let conn = unsafe { get(conn) }?;
        // SAFETY: this thread alone uses the batch, says the caller.
        let batch = unsafe { conn.batch.open() }.ok_or(INVAL)?;
        let all = batch.staged();
        let result = conn.direct.post_staged(batch);
        let taken = match result {
            Ok(()) => all,
            Err(Unposted::Rest(taken, _)) => taken,
            Err(Unposted::Unknown(_)) => 0,
        };
        if !matches!(result, Err(Unposted::Rest(..))) {
            conn.batch.close();
        }
        if let Some(into) = NonNull::new(posted) {
            // SAFETY: not null, so the caller's variable.
            unsafe { into.write(taken) };
        }
        result.map_err(|why| refused(why, all))
    })
}

#[cold]
fn refused(why: Unposted, all: u32) -> Failure {
    match why {
        Unposted::Rest(_, Errno::ENOMEM) => Failure(E_AGAIN),
        Unposted::Rest(taken, errno) => {
            log!(ERROR, c"farword_batch_end", "{taken} of {all} requests were posted: {errno}");
            PROVIDER
        }
        Unposted::Unknown(errno) => {
            log!(ERROR, c"farword_batch_end", "how many of {all} were posted is unknown: {errno}");
            Failure(E_UNKNOWN)
        }
    }
}

/// Gives the contexts of what is staged and not posted, in order, `most` at most,
/// and how many there are.
///
/// # Safety
/// As [`farword_batch_begin`]; there is room for `most` contexts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farword_batch_get_staged(
    conn: *mut Conn,
    most: u32,
    contexts: *mut *const c_void,
    staged: *mut u32,
) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let conn = unsafe { get(conn) }?;
        let into = place(staged)?;
        if most > 0 {
            place(contexts)?;
        }
        // SAFETY: this thread alone uses the batch, says the caller.
        let batch = unsafe { conn.batch.open() }.ok_or(INVAL)?;
        for (index, context) in batch.contexts().take(most as usize).enumerate() {
            // SAFETY: there is room for `most`, says the caller, and `index` is
            // below it.
            let at = unsafe { contexts.add(index) };
            // SAFETY: as above.
            unsafe { at.write(ptr::without_provenance(context as usize)) };
        }
        // SAFETY: not null, so the caller's variable.
        unsafe { into.write(batch.staged()) };
        Ok(())
    })
}

/// Drops what is staged and ends the batch. Nothing of it was posted or will be.
///
/// # Safety
/// As [`farword_batch_begin`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farword_batch_drop(conn: *mut Conn) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let conn = unsafe { get(conn) }?;
        // SAFETY: this thread alone uses the batch, says the caller.
        unsafe { conn.batch.open() }.ok_or(INVAL)?.clear();
        conn.batch.close();
        Ok(())
    })
}
