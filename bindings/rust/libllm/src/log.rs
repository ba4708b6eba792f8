// SPDX-License-Identifier: Apache-2.0
//! Lines of the log.
use std::ffi::CStr;
use std::os::raw::{c_char, c_void};

use crate::upcalls::{Handler, Upcalls};
use crate::Level;

pub(crate) type LogFn = Box<dyn Fn(Level, &str) + Send + Sync>;

struct Log {
    upcalls: *const Upcalls,
    write: LogFn,
}

/// The memory of a log handler. It lives as long as the library may log, and `upcalls` outlives it.
pub(crate) fn bind(write: LogFn, upcalls: &Upcalls) -> Handler {
    Handler::new(Log { upcalls, write })
}

pub(crate) unsafe extern "C" fn on_line(arg: *mut c_void, level: sys::llm_level, text: *const c_char) {
    let (log, text) = unsafe { (&*arg.cast::<Log>(), CStr::from_ptr(text)) };
    unsafe { &*log.upcalls }.catch(|| (log.write)(Level::from_raw(level), &text.to_string_lossy()));
}
