//! Where messages go when the program has no function for them.

use core::ffi::{CStr, c_char, c_int};
use core::mem::MaybeUninit;
use std::io::Write;

use super::{LOG_DISABLED, Origin};

/// Of one length, so that messages stand below one another.
const NAMES: [&CStr; 6] =
    [c"*FATAL* ", c"*ERROR* ", c"*WARN*  ", c"*NOTE*  ", c"*INFO*  ", c"*DEBUG* "];
const PRIORITIES: [c_int; 6] = [
    libc::LOG_CRIT,
    libc::LOG_ERR,
    libc::LOG_WARNING,
    libc::LOG_NOTICE,
    libc::LOG_INFO,
    libc::LOG_DEBUG,
];

/// To stderr up to the auxiliary threshold, and to syslog.
pub(super) fn message(level: c_int, aux: c_int, origin: Origin, text: &CStr) {
    let Some((name, priority)) = usize::try_from(level)
        .ok()
        .and_then(|index| Some((NAMES.get(index)?, *PRIORITIES.get(index)?)))
    else {
        return;
    };
    let line = c_int::try_from(origin.line).unwrap_or(0);
    if aux != LOG_DISABLED && level <= aux {
        let stamp = stamp();
        let (name, file) = (name.to_string_lossy(), base(origin.file).to_string_lossy());
        let (function, words) = (origin.function.to_string_lossy(), text.to_string_lossy());
        let thread = rustix::thread::gettid().as_raw_nonzero();
        // Whoever closed stderr wants no messages there.
        let _ = writeln!(
            std::io::stderr(),
            "{stamp}[{thread}] {name}{file}: {line}: {function}: {words}"
        );
    }
    let (name, file) = (name.as_ptr(), base(origin.file).as_ptr());
    let (function, words) = (origin.function.as_ptr(), text.as_ptr());
    let format = c"%s%s: %d: %s: %s".as_ptr();
    // SAFETY: all are strings; the format asks for what it is given.
    unsafe { libc::syslog(priority, format, name, file, line, function, words) };
}

/// A path's last part.
fn base(path: &CStr) -> &CStr {
    let bytes = path.to_bytes_with_nul();
    let last = bytes.rsplit(|byte| *byte == b'/').next().unwrap_or(bytes);
    CStr::from_bytes_with_nul(last).unwrap_or(path)
}

/// The local time, to the microsecond; what is not known is not said.
fn stamp() -> std::string::String {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock is there, and `now` may be written.
    if unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &mut now) } != 0 {
        return "[time error] ".into();
    }
    let mut parts = MaybeUninit::<libc::tm>::uninit();
    // SAFETY: `now` may be read and `parts` written.
    let parts = unsafe { libc::localtime_r(&now.tv_sec, parts.as_mut_ptr()) };
    let mut text = [0u8; 32];
    let len = if parts.is_null() {
        0
    } else {
        let (at, room) = (text.as_mut_ptr().cast::<c_char>(), text.len());
        // SAFETY: the parts were filled in; there is as much room as said.
        unsafe { libc::strftime(at, room, c"%b %d %H:%M:%S".as_ptr(), parts) }
    };
    let date = text.get(..len).unwrap_or_default();
    std::format!("{}.{:06} ", std::string::String::from_utf8_lossy(date), now.tv_nsec / 1000)
}

/// Names the program's messages as librpma's, from when the library is loaded.
extern "C" fn open() {
    // SAFETY: the name is there until `close`.
    unsafe { libc::openlog(c"rpma".as_ptr(), libc::LOG_PID, libc::LOG_LOCAL7) };
}

/// The name goes with the library.
extern "C" fn close() {
    // SAFETY: it needs nothing.
    unsafe { libc::closelog() };
}

#[used]
// SAFETY: the section holds pointers to functions that are run once, when the
// program or library that has them is loaded.
#[unsafe(link_section = ".init_array")]
static OPEN: extern "C" fn() = open;

#[used]
// SAFETY: as above, when it goes.
#[unsafe(link_section = ".fini_array")]
static CLOSE: extern "C" fn() = close;
