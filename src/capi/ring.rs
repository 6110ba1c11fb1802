//! What librpma lacks: a ring, which says of every context what became of it.

use core::ffi::{c_char, c_int, c_void};
use core::ptr::{self, NonNull};

use arrayvec::ArrayVec;

use super::ops::{FLUSH_TYPE_PERSISTENT, FLUSH_TYPE_VISIBILITY};
use super::{
    Conn, E_AGAIN, Failure, INVAL, MrLocal, MrRemote, Owned, PROVIDER, answer, get, place, take,
};
use crate::error::{Error, Invalid};
use crate::offset::AlignedOffset;
use crate::op::{FlushKind, Notify, OpContext, Word};
use crate::region::{LocalSlice, Span};
use crate::ring::{Completion, Outcome, Ring, RingConfig};
use crate::verbs::VerbsQp;

/// `struct farword_ring`.
#[derive(Debug)]
pub struct ConnRing {
    ring: Ring<'static, VerbsQp<()>>,
}

/// `struct farword_done`.
#[derive(Debug)]
#[repr(C)]
pub struct Done {
    /// The context.
    pub op_context: *const c_void,
    /// `FARWORD_CONFIRMED` and the like: 0 to 3.
    pub outcome: c_int,
    /// `IBV_WC_*`, of one that failed.
    pub status: c_int,
}

impl From<Completion> for Done {
    fn from(completion: Completion) -> Self {
        let (outcome, status) = match completion.outcome {
            Outcome::Confirmed => (0, 0),
            Outcome::Failed(status) => (1, status.0.cast_signed()),
            Outcome::Unknown => (2, 0),
            Outcome::Unposted => (3, 0),
        };
        let context = completion.context.get() as usize;
        Done { op_context: ptr::without_provenance(context), outcome, status }
    }
}

/// The code of a ring's refusal, once it has been said.
pub(super) fn failure(function: &'static str, error: Error) -> Failure {
    match error {
        Error::Full { .. } => Failure(E_AGAIN),
        Error::Invalid { which } => {
            log!(ERROR, c"farword_ring", "{function}: {which}");
            INVAL
        }
        error => {
            log!(ERROR, c"farword_ring", "{function}: {error}");
            PROVIDER
        }
    }
}

/// A ring over the connection's send queue and main completion queue.
pub(super) fn over(conn: &Conn, batch: u32) -> Result<Ring<'static, VerbsQp<()>>, Failure> {
    // SAFETY: the connection outlives the ring, and only the ring posts on it
    // and polls its queue meanwhile, as the caller's own contract says.
    let provider = unsafe { conn.provider() }?;
    let depth = conn.ring_depth()?;
    let batch = if batch == 0 { depth } else { batch };
    let config = RingConfig::new(depth, batch).with_persistent_peer(conn.direct_write_to_pmem());
    Ring::boxed(provider, config).map_err(|error| failure("opening a ring", error))
}

fn invalid(function: &'static str) -> impl Fn(Invalid) -> Failure {
    move |which| failure(function, which.into())
}

fn notify(flags: c_int) -> Result<Notify, Failure> {
    match flags {
        0 => Err(INVAL),
        flags if flags & 2 != 0 => Ok(Notify::Always),
        _ => Ok(Notify::OnError),
    }
}

/// The ring behind a pointer.
///
/// # Safety
/// Null, or a ring that no other thread uses.
unsafe fn ring<'a>(ring: *mut ConnRing) -> Result<&'a mut Ring<'static, VerbsQp<()>>, Failure> {
    // SAFETY: this function's own condition.
    unsafe { ring.as_mut() }.map(|ring| &mut ring.ring).ok_or(INVAL)
}

fn context(op_context: *const c_void) -> OpContext {
    OpContext::new(op_context.addr() as u64)
}

/// Opens a ring over a connection: at most `batch` requests to a doorbell, or, if
/// that is 0, as many as the ring is deep.
///
/// # Safety
/// As the [module](super) says; until it is closed the ring alone posts on the
/// connection and polls its main completion queue, and the connection stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farword_ring_open(
    conn: *mut Conn,
    batch: u32,
    ring_ptr: *mut *mut ConnRing,
) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let conn = unsafe { get(conn) }?;
        let into = place(ring_ptr)?;
        let new = Owned::new(ConnRing { ring: over(conn, batch)? })?;
        // SAFETY: not null, so the caller's variable.
        unsafe { into.write(new.leak()) };
        Ok(())
    })
}

/// Closes a ring. What is staged was not posted; what is in flight is not waited
/// for.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farword_ring_close(ring_ptr: *mut *mut ConnRing) -> c_int {
    // SAFETY: as the module says.
    answer(|| unsafe { take(ring_ptr) }.map(drop))
}

/// Stages an atomic write, the sum of base and offset a multiple of 8, within a
/// region that may be written.
///
/// # Safety
/// As the [module](super) says; 8 bytes may be read at `src`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farword_ring_atomic_write(
    to: *mut ConnRing,
    dst: *const MrRemote,
    dst_offset: usize,
    src: *const c_char,
    flags: c_int,
    op_context: *const c_void,
) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let ring = unsafe { ring(to) }?;
        // SAFETY: as above.
        let region = unsafe { get(dst) }?.region;
        let (src, notify) = (place(src.cast_mut().cast::<u64>())?, notify(flags)?);
        let failed = invalid("farword_ring_atomic_write");
        let offset = AlignedOffset::new(dst_offset as u64).map_err(&failed)?;
        let target = region.target(offset).map_err(&failed)?;
        // SAFETY: not null, so 8 bytes may be read.
        let word = Word::ne(unsafe { src.read_unaligned() });
        ring.atomic_write(target, word, notify, context(op_context))
            .map(drop)
            .map_err(|error| failure("farword_ring_atomic_write", error))
    })
}

/// Both ends of a transfer, within their regions.
///
/// # Safety
/// Null or live regions.
unsafe fn ends(
    remote: (*const MrRemote, usize),
    local: (*const MrLocal, usize),
    len: usize,
) -> Result<(LocalSlice, Span), Failure> {
    let failed = invalid("farword_ring");
    // SAFETY: this function's own condition.
    let region = unsafe { get(remote.0) }?.region;
    // SAFETY: as above.
    let whole = unsafe { get(local.0) }?.whole();
    let span = region.span(remote.1 as u64, len as u64).map_err(&failed)?;
    let slice = whole.slice(local.1 as u64, len as u64).map_err(&failed)?;
    Ok((slice, span))
}

/// Stages a write.
///
/// # Safety
/// As the [module](super) says; the memory does not change until the write is
/// confirmed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farword_ring_write(
    to: *mut ConnRing,
    dst: *const MrRemote,
    dst_offset: usize,
    src: *const MrLocal,
    src_offset: usize,
    len: usize,
    flags: c_int,
    op_context: *const c_void,
) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let ring = unsafe { ring(to) }?;
        // SAFETY: as above.
        let (local, remote) = unsafe { ends((dst, dst_offset), (src, src_offset), len) }?;
        ring.write(local, remote, notify(flags)?, context(op_context))
            .map(drop)
            .map_err(|error| failure("farword_ring_write", error))
    })
}

/// Stages a read.
///
/// # Safety
/// As the [module](super) says; the memory is the device's until the read is
/// confirmed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farword_ring_read(
    to: *mut ConnRing,
    dst: *const MrLocal,
    dst_offset: usize,
    src: *const MrRemote,
    src_offset: usize,
    len: usize,
    flags: c_int,
    op_context: *const c_void,
) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let ring = unsafe { ring(to) }?;
        // SAFETY: as above.
        let (local, remote) = unsafe { ends((src, src_offset), (dst, dst_offset), len) }?;
        ring.read(local, remote, notify(flags)?, context(op_context))
            .map(drop)
            .map_err(|error| failure("farword_ring_read", error))
    })
}

/// Stages a flush.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farword_ring_flush(
    to: *mut ConnRing,
    dst: *const MrRemote,
    dst_offset: usize,
    len: usize,
    flush_type: c_int,
    flags: c_int,
    op_context: *const c_void,
) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let ring = unsafe { ring(to) }?;
        let kind = match flush_type {
            FLUSH_TYPE_PERSISTENT => FlushKind::Persistent,
            FLUSH_TYPE_VISIBILITY => FlushKind::Visibility,
            _ => return Err(INVAL),
        };
        // SAFETY: as above.
        let region = unsafe { get(dst) }?.region;
        let span = region.span(dst_offset as u64, len as u64);
        let span = span.map_err(invalid("farword_ring_flush"))?;
        ring.flush(span, kind, notify(flags)?, context(op_context))
            .map(drop)
            .map_err(|error| failure("farword_ring_flush", error))
    })
}

/// Posts what is staged with one doorbell, and says how many requests that was.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farword_ring_doorbell(to: *mut ConnRing, posted: *mut u32) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let ring = unsafe { ring(to) }?;
        let count = ring.doorbell().map_err(|error| failure("farword_ring_doorbell", error))?;
        if let Some(into) = NonNull::new(posted) {
            // SAFETY: not null, so the caller's variable.
            unsafe { into.write(count) };
        }
        Ok(())
    })
}

/// Takes what became of requests, `most` at most, and says how many.
/// `RPMA_E_NO_COMPLETION` where there is nothing now; `RPMA_E_PROVIDER` once the
/// ring is dead and every context has been given.
///
/// # Safety
/// As the [module](super) says; there is room for `most`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farword_ring_poll(
    to: *mut ConnRing,
    most: u32,
    done: *mut Done,
    got: *mut u32,
) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let ring = unsafe { ring(to) }?;
        let (done, into) = (place(done)?, place(got)?);
        if most == 0 {
            return Err(INVAL);
        }
        let mut count = 0;
        while count < most {
            let mut one = ArrayVec::<Completion, 1>::new();
            let polled = ring.poll(&mut one);
            let Some(completion) = one.pop() else {
                match polled {
                    // What was taken before is told of first.
                    Err(error) if count == 0 => return Err(failure("farword_ring_poll", error)),
                    _ => break,
                }
            };
            // SAFETY: there is room for `most`, says the caller.
            let at = unsafe { done.add(count as usize) };
            // SAFETY: as above.
            unsafe { at.write(completion.into()) };
            count += 1;
        }
        if count == 0 {
            return Err(Failure(super::E_NO_COMPLETION));
        }
        // SAFETY: not null, so the caller's variable.
        unsafe { into.write(count) };
        Ok(())
    })
}
