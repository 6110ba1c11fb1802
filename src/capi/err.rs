//! Error codes in words.

use core::ffi::{c_char, c_int};

use super::{
    E_AGAIN, E_INVAL, E_NO_COMPLETION, E_NO_EVENT, E_NOMEM, E_NOSUPP, E_NOT_SHARED_CHNL,
    E_PROVIDER, E_SHARED_CHANNEL,
};

/// A code in words, which are there for ever. Any number is taken.
#[unsafe(no_mangle)]
pub extern "C" fn rpma_err_2str(ret: c_int) -> *const c_char {
    let words = match ret {
        0 => c"Success",
        E_NOSUPP => c"Not supported",
        E_PROVIDER => c"Provider error occurred",
        E_NOMEM => c"Out of memory",
        E_INVAL => c"Invalid argument",
        E_NO_COMPLETION => c"No next completion available",
        E_NO_EVENT => c"No next event available",
        E_AGAIN => c"Temporary error, try again",
        E_SHARED_CHANNEL => c"Completion channel is shared",
        E_NOT_SHARED_CHNL => c"Completion channel is not shared",
        _ => c"Unknown error",
    };
    words.as_ptr()
}
