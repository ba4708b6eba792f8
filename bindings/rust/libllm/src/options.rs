// SPDX-License-Identifier: Apache-2.0
//! Options of channels.
use std::mem::MaybeUninit;
use std::os::raw::c_char;

use crate::{Error, Result};

/// Options of a channel, with the defaults of the library. A `key=value` of the channel overrides them. llm_options(7) describes
/// each.
///
/// ```
/// use libllm::{Flow, Options};
/// let options = Options::new().ttl(2).flow(Flow::Window).linger_ns(0);
/// ```
#[derive(Clone)]
pub struct Options {
    pub(crate) raw: sys::llm_options,
    /// True: a text was too long, or has a zero in it.
    pub(crate) wrong: bool,
}

impl Options {
    /// The defaults of transmitters and receivers.
    pub fn new() -> Self {
        Self::filled(sys::llm_options_init)
    }

    /// The defaults of connections and listeners.
    pub fn for_connections() -> Self {
        Self::filled(sys::llm_connection_options_init)
    }

    fn filled(init: unsafe extern "C" fn(*mut sys::llm_options)) -> Self {
        Self { raw: filled(init), wrong: false }
    }

    pub(crate) fn checked(&self) -> Result<*const sys::llm_options> {
        if self.wrong {
            return Err(Error::Option);
        }
        Ok(&self.raw)
    }

    /// The number in its stream of the first message, as [`Store::ask`](crate::Store::ask) has set it.
    pub fn stream_base_set(&self) -> u64 {
        self.raw.stream_base
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

/// A structure of the C library that its function fills with the defaults. Only for structures of which zeros are a value.
pub(crate) fn filled<T>(init: unsafe extern "C" fn(*mut T)) -> T {
    let mut raw = MaybeUninit::zeroed();
    // The function writes all members that the library knows; the others stay zero.
    unsafe {
        init(raw.as_mut_ptr());
        raw.assume_init()
    }
}

/// Copies a text with its terminating zero. False: it has no room, or a zero in it.
pub(crate) fn copy_text(to: &mut [c_char], text: &str) -> bool {
    if text.len() >= to.len() || text.as_bytes().contains(&0) {
        return false;
    }
    to.fill(0);
    for (to, from) in to.iter_mut().zip(text.bytes()) {
        *to = from as c_char;
    }
    true
}
