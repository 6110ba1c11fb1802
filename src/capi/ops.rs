//! What is posted: each call is one request and one doorbell.
//!
//! None of these can panic, so none is run under a guard.

use core::ffi::{CStr, c_char, c_int, c_void};

use super::{
    Conn, E_AGAIN, E_INVAL, E_NOSUPP, E_PROVIDER, Failure, INVAL, MrLocal, MrRemote, PROVIDER,
};
use crate::error::Errno;
use crate::region::Usage;
use crate::verbs::{Command, Direct, Remote};
use crate::wr::{SEND_SIGNALED, Sge, WR_RDMA_READ, WR_RDMA_WRITE};

/// `RPMA_F_COMPLETION_ON_ERROR`.
pub const F_COMPLETION_ON_ERROR: c_int = 1;
/// `RPMA_F_COMPLETION_ALWAYS`.
pub const F_COMPLETION_ALWAYS: c_int = 3;
/// `RPMA_FLUSH_TYPE_PERSISTENT`.
pub const FLUSH_TYPE_PERSISTENT: c_int = 0;
/// `RPMA_FLUSH_TYPE_VISIBILITY`.
pub const FLUSH_TYPE_VISIBILITY: c_int = 1;

/// `IBV_WR_RDMA_WRITE_WITH_IMM`.
const WR_RDMA_WRITE_WITH_IMM: u32 = 1;
/// `IBV_WR_SEND`.
const WR_SEND: u32 = 2;
/// `IBV_WR_SEND_WITH_IMM`.
const WR_SEND_WITH_IMM: u32 = 3;

/// Of the flags, bit 1 alone asks for a completion on success.
#[inline]
fn signaled(flags: c_int) -> u32 {
    (flags & 2).cast_unsigned()
}

const _: () = assert!(SEND_SIGNALED == 2);

/// The code of a post that failed, once it has been said.
#[cold]
#[inline(never)]
fn refused(function: &'static CStr, code: c_int) -> c_int {
    super::answer(|| {
        let errno = Errno(code.saturating_abs());
        log!(ERROR, c"post", "{}: the post failed: {errno}", function.to_string_lossy());
        Err(PROVIDER)
    })
}

#[inline]
fn code(function: &'static CStr, posted: Result<(), c_int>) -> c_int {
    match posted {
        Ok(()) => 0,
        Err(code) => refused(function, code),
    }
}

/// The code of a request that was staged, or for which there was no room.
#[inline]
fn staged(is_staged: bool) -> c_int {
    if is_staged { 0 } else { E_AGAIN }
}

/// As [`code`], for calls that are run under a guard.
pub(super) fn posted(function: &'static CStr, posted: Result<(), c_int>) -> super::Answer {
    match code(function, posted) {
        0 => Ok(()),
        code => Err(Failure(code)),
    }
}

/// The element of a local range; none where there is no region, no offset and no
/// length.
///
/// # Safety
/// Null or a live region.
#[inline]
pub(super) unsafe fn element(
    mr: *const MrLocal,
    offset: usize,
    len: usize,
) -> Result<Option<Sge>, Failure> {
    // SAFETY: this function's own condition.
    match unsafe { mr.as_ref() } {
        Some(mr) => Ok(Some(mr.element(offset, len))),
        None if offset == 0 && len == 0 => Ok(None),
        None => Err(INVAL),
    }
}

/// Both ends of a transfer; neither where both regions are null and all numbers
/// are 0.
///
/// # Safety
/// Null or live regions.
#[inline]
unsafe fn ends(
    remote: (*const MrRemote, usize),
    local: (*const MrLocal, usize),
    len: usize,
) -> Result<(Option<Remote>, Option<Sge>), Failure> {
    // SAFETY: this function's own condition.
    let far = unsafe { remote.0.as_ref() };
    // SAFETY: as above.
    let near = unsafe { local.0.as_ref() };
    match (far, near) {
        (Some(far), Some(near)) => Ok((Some(far.at(remote.1)), Some(near.element(local.1, len)))),
        (None, None) if remote.1 == 0 && local.1 == 0 && len == 0 => Ok((None, None)),
        _ => Err(INVAL),
    }
}

/// Writes 8 bytes to the peer's memory, atomically. They are copied before the
/// call returns. Any thread may call it.
///
/// Only what is named is checked: null pointers, flags of 0, and an offset that
/// is no multiple of 8, in this order. What lies out of the region's bounds or
/// rights comes back as a completion with an error.
///
/// # Safety
/// As the [module](super) says; 8 bytes may be read at `src`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_atomic_write(
    conn: *mut Conn,
    dst: *mut MrRemote,
    dst_offset: usize,
    src: *const c_char,
    flags: c_int,
    op_context: *const c_void,
) -> c_int {
    // SAFETY: as the module says.
    let Some(conn) = (unsafe { conn.as_ref() }) else {
        return E_INVAL;
    };
    // SAFETY: as above.
    let Some(dst) = (unsafe { dst.as_ref() }) else {
        return E_INVAL;
    };
    if src.is_null() || flags == 0 || !dst_offset.is_multiple_of(8) {
        return E_INVAL;
    }
    let (to, wr_id) = (dst.at(dst_offset), op_context.addr() as u64);
    // SAFETY: this thread has the connection's batch, as the module says.
    if let Some(batch) = unsafe { conn.batch.open() } {
        // SAFETY: not null, so 8 bytes may be read.
        let word = unsafe { src.cast::<u64>().read_unaligned() };
        return staged(batch.atomic_write(to, word, signaled(flags), wr_id));
    }
    // SAFETY: not null, so 8 bytes may be read.
    unsafe { post_word(&conn.direct, to, src, signaled(flags), wr_id) }
}

/// Of its own, so that staging needs no stack.
///
/// # Safety
/// 8 bytes may be read at `src`.
#[inline(never)]
unsafe fn post_word(
    direct: &Direct,
    to: Remote,
    src: *const c_char,
    signaled: u32,
    wr_id: u64,
) -> c_int {
    // SAFETY: this function's own condition.
    code(c"rpma_atomic_write", unsafe { direct.atomic_write(to, src.cast(), signaled, wr_id) })
}

/// Writes registered memory to the peer's. Any thread may call it.
///
/// # Safety
/// As the [module](super) says; the memory does not change until the write is
/// complete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_write(
    conn: *mut Conn,
    dst: *mut MrRemote,
    dst_offset: usize,
    src: *const MrLocal,
    src_offset: usize,
    len: usize,
    flags: c_int,
    op_context: *const c_void,
) -> c_int {
    let (remote, local) = ((dst.cast_const(), dst_offset), (src, src_offset));
    let what = (WR_RDMA_WRITE, 0, flags, op_context);
    // SAFETY: as the module says.
    unsafe { transfer(c"rpma_write", conn, remote, local, len, what) }
}

/// As [`rpma_write`], and hands the peer a number: it needs a posted receive.
///
/// # Safety
/// As [`rpma_write`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_write_with_imm(
    conn: *mut Conn,
    dst: *mut MrRemote,
    dst_offset: usize,
    src: *const MrLocal,
    src_offset: usize,
    len: usize,
    flags: c_int,
    imm: u32,
    op_context: *const c_void,
) -> c_int {
    let (remote, local) = ((dst.cast_const(), dst_offset), (src, src_offset));
    let what = (WR_RDMA_WRITE_WITH_IMM, imm, flags, op_context);
    // SAFETY: as the module says.
    unsafe { transfer(c"rpma_write_with_imm", conn, remote, local, len, what) }
}

/// Reads the peer's memory into registered memory.
///
/// # Safety
/// As the [module](super) says; the memory is the device's until the read is
/// complete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_read(
    conn: *mut Conn,
    dst: *mut MrLocal,
    dst_offset: usize,
    src: *const MrRemote,
    src_offset: usize,
    len: usize,
    flags: c_int,
    op_context: *const c_void,
) -> c_int {
    let (remote, local) = ((src, src_offset), (dst.cast_const(), dst_offset));
    let what = (WR_RDMA_READ, 0, flags, op_context);
    // SAFETY: as the module says.
    unsafe { transfer(c"rpma_read", conn, remote, local, len, what) }
}

/// A write or a read: opcode, immediate data, flags, context.
///
/// # Safety
/// As the [module](super) says.
#[inline]
unsafe fn transfer(
    function: &'static CStr,
    conn: *mut Conn,
    remote: (*const MrRemote, usize),
    local: (*const MrLocal, usize),
    len: usize,
    (opcode, imm, flags, op_context): (u32, u32, c_int, *const c_void),
) -> c_int {
    // SAFETY: this function's own condition.
    let Some(conn) = (unsafe { conn.as_ref() }) else {
        return E_INVAL;
    };
    if flags == 0 {
        return E_INVAL;
    }
    // SAFETY: as above.
    let Ok((remote, sge)) = (unsafe { ends(remote, local, len) }) else {
        return E_INVAL;
    };
    let wr_id = op_context.addr() as u64;
    let command = Command { opcode, flags: signaled(flags), imm: imm.to_be(), wr_id };
    // SAFETY: this thread has the connection's batch, as the module says.
    if let Some(batch) = unsafe { conn.batch.open() } {
        return staged(batch.request(command, remote, sge));
    }
    if opcode == WR_RDMA_READ {
        conn.direct.note_read();
    }
    code(function, conn.direct.post(command, remote, sge))
}

/// Flushes a range of the peer's memory: what was written to it before is then
/// visible there, or persistent.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_flush(
    conn: *mut Conn,
    dst: *mut MrRemote,
    dst_offset: usize,
    len: usize,
    flush_type: c_int,
    flags: c_int,
    op_context: *const c_void,
) -> c_int {
    // SAFETY: as the module says.
    let Some(conn) = (unsafe { conn.as_ref() }) else {
        return E_INVAL;
    };
    // SAFETY: as above.
    let Some(dst) = (unsafe { dst.as_ref() }) else {
        return E_INVAL;
    };
    if flags == 0 {
        return E_INVAL;
    }
    let persistent = flush_type == FLUSH_TYPE_PERSISTENT;
    if persistent && !conn.direct_write_to_pmem() {
        return no_flush("the peer did not say that it can write directly to persistent memory");
    }
    let needed = match flush_type {
        FLUSH_TYPE_PERSISTENT => Usage::FLUSH_PERSISTENT,
        FLUSH_TYPE_VISIBILITY => Usage::FLUSH_VISIBILITY,
        // librpma looks at these two types alone.
        _ => Usage::NONE,
    };
    if !dst.region.usage().contains(needed) {
        return no_flush("the region's usage does not allow this flush");
    }
    let (range, wr_id) = ((dst.at(dst_offset), len), op_context.addr() as u64);
    let (flags, scratch) = (signaled(flags), conn.scratch);
    // SAFETY: this thread has the connection's batch, as the module says.
    if let Some(batch) = unsafe { conn.batch.open() } {
        return staged(match conn.direct.has_flush() {
            true => batch.flush(range, persistent, flags, wr_id),
            false => batch.request(Command::read(flags, wr_id), Some(range.0), Some(scratch)),
        });
    }
    code(c"rpma_flush", conn.direct.flush(range, persistent, flags, wr_id, scratch))
}

#[cold]
fn no_flush(why: &str) -> c_int {
    super::answer(|| {
        log!(ERROR, c"rpma_flush", "{why}");
        Err(Failure(E_NOSUPP))
    })
}

/// Sends a message, an empty one where `src` is null.
///
/// # Safety
/// As [`rpma_write`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_send(
    conn: *mut Conn,
    src: *const MrLocal,
    offset: usize,
    len: usize,
    flags: c_int,
    op_context: *const c_void,
) -> c_int {
    // SAFETY: as the module says.
    unsafe { message(c"rpma_send", conn, src, (offset, len), (WR_SEND, 0, flags, op_context)) }
}

/// As [`rpma_send`], with a number.
///
/// # Safety
/// As [`rpma_write`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_send_with_imm(
    conn: *mut Conn,
    src: *const MrLocal,
    offset: usize,
    len: usize,
    flags: c_int,
    imm: u32,
    op_context: *const c_void,
) -> c_int {
    let what = (WR_SEND_WITH_IMM, imm, flags, op_context);
    // SAFETY: as the module says.
    unsafe { message(c"rpma_send_with_imm", conn, src, (offset, len), what) }
}

/// # Safety
/// As the [module](super) says.
unsafe fn message(
    function: &'static CStr,
    conn: *mut Conn,
    src: *const MrLocal,
    (offset, len): (usize, usize),
    (opcode, imm, flags, op_context): (u32, u32, c_int, *const c_void),
) -> c_int {
    // SAFETY: this function's own condition.
    let Some(conn) = (unsafe { conn.as_ref() }) else {
        return E_INVAL;
    };
    // SAFETY: as above.
    let Ok(sge) = (unsafe { element(src, offset, len) }) else {
        return E_INVAL;
    };
    if flags == 0 {
        return E_INVAL;
    }
    let wr_id = op_context.addr() as u64;
    let command = Command { opcode, flags: signaled(flags), imm: imm.to_be(), wr_id };
    // SAFETY: this thread has the connection's batch, as the module says.
    if let Some(batch) = unsafe { conn.batch.open() } {
        return staged(batch.request(command, None, sge));
    }
    code(function, conn.direct.post(command, None, sge))
}

/// Posts a receive, of nothing where `dst` is null.
///
/// # Safety
/// As the [module](super) says; the memory is the device's until the receive is
/// complete.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_recv(
    conn: *mut Conn,
    dst: *mut MrLocal,
    offset: usize,
    len: usize,
    op_context: *const c_void,
) -> c_int {
    // SAFETY: as the module says.
    let Some(conn) = (unsafe { conn.as_ref() }) else {
        return E_INVAL;
    };
    // SAFETY: as above.
    let Ok(sge) = (unsafe { element(dst, offset, len) }) else {
        return E_INVAL;
    };
    code(c"rpma_recv", conn.direct.recv(op_context.addr() as u64, sge))
}

const _: () = assert!(E_PROVIDER == PROVIDER.0);
