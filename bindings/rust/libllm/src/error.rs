// SPDX-License-Identifier: Apache-2.0
//! Errors of calls.
use std::ffi::CStr;
use std::fmt;
use std::os::raw::{c_char, c_int};

pub use crate::generated::Error;

/// Result of a call.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The number of the error in C, such as that of `LLM_EAGAIN`.
    pub fn code(self) -> i32 {
        self.raw()
    }

    /// The name of the error in C.
    pub fn name(self) -> &'static str {
        text_of(unsafe { sys::llm_error_name(self.raw()) })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(text_of(unsafe { sys::llm_error_text(self.raw()) }))
    }
}

impl std::error::Error for Error {}

/// A static text of the library.
pub(crate) fn text_of(text: *const c_char) -> &'static str {
    unsafe { CStr::from_ptr(text) }.to_str().unwrap_or("")
}

#[cold]
fn failed(code: c_int) -> Error {
    Error::from_raw(code)
}

/// The count that a call returned, or its error.
#[inline]
pub(crate) fn count(code: c_int) -> Result<usize> {
    if code < 0 {
        return Err(failed(code));
    }
    Ok(code as usize)
}

/// Success, or the error that a call returned.
#[inline]
pub(crate) fn done(code: c_int) -> Result<()> {
    if code < 0 {
        return Err(failed(code));
    }
    Ok(())
}
