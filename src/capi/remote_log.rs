//! What librpma lacks: its example's log, ready-made.

use core::ffi::{c_int, c_void};
use core::slice;
use core::sync::atomic::AtomicU64;
use core::time::Duration;

use super::ring::{failure, over};
use super::{
    Conn, E_AGAIN, E_NOMEM, Failure, INVAL, MrLocal, MrRemote, Owned, answer, get, place, take,
};
use crate::log::{Bound, Log, LogConfig, LogError, Lsn};
use crate::offset::AlignedOffset;
use crate::verbs::VerbsQp;

/// `struct farword_log`.
#[derive(Debug)]
pub struct ConnLog {
    log: Log<'static, VerbsQp<()>>,
}

fn refused(function: &'static str) -> impl Fn(LogError) -> Failure {
    move |error| match error {
        LogError::Ring(error) => failure(function, error),
        error => {
            log!(ERROR, c"farword_log", "{function}: {error}");
            Failure(match error {
                LogError::Full { .. } => E_NOMEM,
                LogError::TimedOut => E_AGAIN,
                _ => super::E_INVAL,
            })
        }
    }
}

/// # Safety
/// Null, or a log that no other thread uses.
unsafe fn log<'a>(log: *mut ConnLog) -> Result<&'a mut Log<'static, VerbsQp<()>>, Failure> {
    // SAFETY: this function's own condition.
    unsafe { log.as_mut() }.map(|log| &mut log.log).ok_or(INVAL)
}

/// # Safety
/// Null or the caller's variable.
unsafe fn tell(into: *mut u64, lsn: Lsn) -> super::Answer {
    // SAFETY: this function's own condition.
    unsafe { place(into)?.write(lsn.get()) };
    Ok(())
}

/// Opens the log in a peer's region, whose word `used` lies at `used_offset`.
///
/// # Safety
/// As the [module](super) says; until it is closed the log alone posts on the
/// connection, polls its main completion queue and uses the staging memory, and
/// both stay.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farword_log_open(
    conn: *mut Conn,
    region: *const MrRemote,
    used_offset: usize,
    staging: *const MrLocal,
    timeout_ms: c_int,
    log_ptr: *mut *mut ConnLog,
) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let conn = unsafe { get(conn) }?;
        // SAFETY: as above.
        let region = unsafe { get(region) }?.region;
        // SAFETY: as above.
        let staging = unsafe { get(staging) }?;
        let into = place(log_ptr)?;
        let offset = AlignedOffset::new(used_offset as u64)
            .map_err(|which| failure("farword_log_open", which.into()))?;
        let Ok(timeout) = u64::try_from(timeout_ms) else {
            return Err(INVAL);
        };
        let (first, bytes) = staging.memory();
        let words = first.cast::<AtomicU64>();
        if !words.is_aligned() || bytes < 8 {
            return Err(INVAL);
        }
        // SAFETY: it is registered memory of so many bytes, aligned, that stays
        // and that others reach as atomics only, says the caller.
        let memory = unsafe { slice::from_raw_parts(words.cast_const(), bytes / 8) };
        let config = LogConfig::default()
            .with_used_offset(offset)
            .with_bound(Bound::Time(Duration::from_millis(timeout)));
        let log = Log::open(over(conn, 0)?, region, memory, staging.whole(), config)
            .map_err(refused("farword_log_open"))?;
        let new = Owned::new(ConnLog { log })?;
        // SAFETY: not null, so the caller's variable.
        unsafe { into.write(new.leak()) };
        Ok(())
    })
}

/// Closes a log. What was appended and not committed is not part of it.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farword_log_close(log_ptr: *mut *mut ConnLog) -> c_int {
    // SAFETY: as the module says.
    answer(|| unsafe { take(log_ptr) }.map(drop))
}

/// Appends a record, which nobody sees before a commit, and gives the tail
/// behind it.
///
/// # Safety
/// As the [module](super) says; `len` bytes may be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farword_log_append(
    to: *mut ConnLog,
    record: *const c_void,
    len: usize,
    tail: *mut u64,
) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let log = unsafe { log(to) }?;
        let (record, into) = (place(record.cast_mut().cast::<u8>())?, place(tail)?);
        if len > isize::MAX as usize {
            return Err(INVAL);
        }
        // SAFETY: not null, so there are as many bytes.
        let record = unsafe { slice::from_raw_parts(record.as_ptr(), len) };
        let lsn = log.append(record).map_err(refused("farword_log_append"))?;
        // SAFETY: not null, so the caller's variable.
        unsafe { into.write(lsn.get()) };
        Ok(())
    })
}

/// Publishes what was appended, with one doorbell, and gives the tail.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farword_log_commit(to: *mut ConnLog, tail: *mut u64) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let log = unsafe { log(to) }?;
        place(tail)?;
        let lsn = log.commit().map_err(refused("farword_log_commit"))?;
        // SAFETY: as above.
        unsafe { tell(tail, lsn) }
    })
}

/// Waits until the log is durable up to `tail`.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farword_log_wait(to: *mut ConnLog, tail: u64) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let log = unsafe { log(to) }?;
        log.wait(Lsn(tail)).map_err(refused("farword_log_wait"))
    })
}

/// Takes completions, and gives the tail up to which the log is durable.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn farword_log_poll(to: *mut ConnLog, tail: *mut u64) -> c_int {
    answer(|| {
        // SAFETY: as the module says.
        let log = unsafe { log(to) }?;
        place(tail)?;
        let lsn = log.poll().map_err(refused("farword_log_poll"))?;
        // SAFETY: as above.
        unsafe { tell(tail, lsn) }
    })
}
