//! Messages, to the program's own function or to syslog and stderr.

use core::ffi::{CStr, c_char, c_int};
use core::fmt::{self, Write};
use core::ptr;
use core::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use super::{Answer, INVAL, answer, place};

mod default;

/// `RPMA_LOG_DISABLED`.
pub const LOG_DISABLED: c_int = -1;
/// `RPMA_LOG_LEVEL_FATAL`.
pub const LOG_LEVEL_FATAL: c_int = 0;
/// `RPMA_LOG_LEVEL_ERROR`.
pub const LOG_LEVEL_ERROR: c_int = 1;
/// `RPMA_LOG_LEVEL_WARNING`.
pub const LOG_LEVEL_WARNING: c_int = 2;
/// `RPMA_LOG_LEVEL_NOTICE`.
pub const LOG_LEVEL_NOTICE: c_int = 3;
/// `RPMA_LOG_LEVEL_INFO`.
pub const LOG_LEVEL_INFO: c_int = 4;
/// `RPMA_LOG_LEVEL_DEBUG`.
pub const LOG_LEVEL_DEBUG: c_int = 5;

/// `RPMA_LOG_THRESHOLD`: above this level nothing is said.
pub const LOG_THRESHOLD: c_int = 0;
/// `RPMA_LOG_THRESHOLD_AUX`: up to this level stderr hears it too.
pub const LOG_THRESHOLD_AUX: c_int = 1;

/// `rpma_log_function`: level, file, line, function, a format as of `printf`,
/// and what it needs.
pub type LogFunction = unsafe extern "C" fn(
    level: c_int,
    file: *const c_char,
    line: c_int,
    function: *const c_char,
    format: *const c_char,
    ...
);

static THRESHOLDS: [AtomicI32; 2] =
    [AtomicI32::new(LOG_LEVEL_WARNING), AtomicI32::new(LOG_DISABLED)];

/// A [`LogFunction`]; null for our own.
static FUNCTION: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

/// Sends messages to this function; null for the library's own, which writes to
/// syslog and, up to the auxiliary threshold, to stderr.
///
/// # Safety
/// The function is one of the type, may be called by any thread, and is there
/// until another is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_log_set_function(log_function: Option<LogFunction>) -> c_int {
    let function = log_function.map_or(ptr::null_mut(), |function| function as *mut ());
    FUNCTION.store(function, Ordering::SeqCst);
    0
}

/// Sets a threshold.
#[unsafe(no_mangle)]
pub extern "C" fn rpma_log_set_threshold(threshold: c_int, level: c_int) -> c_int {
    answer(|| {
        let which = which(threshold)?;
        if !(LOG_DISABLED..=LOG_LEVEL_DEBUG).contains(&level) {
            return Err(INVAL);
        }
        which.store(level, Ordering::SeqCst);
        Ok(())
    })
}

/// Gives a threshold.
///
/// # Safety
/// As the [module](super) says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rpma_log_get_threshold(threshold: c_int, level: *mut c_int) -> c_int {
    answer(|| -> Answer {
        let value = which(threshold)?.load(Ordering::SeqCst);
        // SAFETY: not null, so the caller's variable.
        unsafe { place(level)?.write(value) };
        Ok(())
    })
}

fn which(threshold: c_int) -> Result<&'static AtomicI32, super::Failure> {
    usize::try_from(threshold).ok().and_then(|index| THRESHOLDS.get(index)).ok_or(INVAL)
}

/// Whether anybody would hear of it.
pub(super) fn is_heard(level: c_int) -> bool {
    level <= THRESHOLDS[0].load(Ordering::Relaxed)
}

/// What a message says, in room that needs no memory; what is too long is cut.
struct Text {
    bytes: [u8; 1024],
    len: usize,
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // One byte is kept for the end.
        let room = self.bytes.len() - 1 - self.len;
        for byte in text.bytes().filter(|byte| *byte != 0).take(room) {
            self.bytes[self.len] = byte;
            self.len += 1;
        }
        Ok(())
    }
}

/// Where a message comes from.
#[derive(Clone, Copy)]
pub(super) struct Origin {
    pub(super) file: &'static CStr,
    pub(super) line: u32,
    pub(super) function: &'static CStr,
}

/// Says it, where it is heard.
#[cold]
pub(super) fn message(level: c_int, origin: Origin, words: fmt::Arguments<'_>) {
    if !is_heard(level) {
        return;
    }
    let mut text = Text { bytes: [0; 1024], len: 0 };
    let _ = text.write_fmt(words);
    let Ok(text) = CStr::from_bytes_until_nul(&text.bytes) else {
        return;
    };
    let function = FUNCTION.load(Ordering::SeqCst);
    if function.is_null() {
        default::message(level, THRESHOLDS[1].load(Ordering::SeqCst), origin, text);
        return;
    }
    // SAFETY: it is null or what `rpma_log_set_function` was given.
    let function = unsafe { core::mem::transmute::<*mut (), LogFunction>(function) };
    let line = c_int::try_from(origin.line).unwrap_or(0);
    let (file, name) = (origin.file.as_ptr(), origin.function.as_ptr());
    // SAFETY: it is a function of that type, and all are strings that outlive
    // the call; the format asks for the one that it is given.
    unsafe { function(level, file, line, name, c"%s\n".as_ptr(), text.as_ptr()) };
}

/// Says something: the level, the function's name, and what.
macro_rules! log {
    ($level:ident, $function:literal, $($words:tt)+) => {{
        const FILE: &core::ffi::CStr =
            match core::ffi::CStr::from_bytes_with_nul(concat!(file!(), "\0").as_bytes()) {
                Ok(file) => file,
                Err(_) => c"?",
            };
        let origin = $crate::capi::log::Origin { file: FILE, line: line!(), function: $function };
        let level = paste_level!($level);
        $crate::capi::log::message(level, origin, format_args!($($words)+));
    }};
}

/// `ERROR` as the level of that name.
macro_rules! paste_level {
    (FATAL) => {
        $crate::capi::LOG_LEVEL_FATAL
    };
    (ERROR) => {
        $crate::capi::LOG_LEVEL_ERROR
    };
    (WARNING) => {
        $crate::capi::LOG_LEVEL_WARNING
    };
    (NOTICE) => {
        $crate::capi::LOG_LEVEL_NOTICE
    };
    (INFO) => {
        $crate::capi::LOG_LEVEL_INFO
    };
    (DEBUG) => {
        $crate::capi::LOG_LEVEL_DEBUG
    };
}
