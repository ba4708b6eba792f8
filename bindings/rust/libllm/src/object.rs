// SPDX-License-Identifier: Apache-2.0
//! Objects of the C library, and their closing.
use std::mem::ManuallyDrop;
use std::os::raw::{c_int, c_void};
use std::ptr;
use std::sync::Arc;

use crate::upcalls::{Closing, Handler, Upcalls};
use crate::{error, Error, Result};

/// A type of the C library that is closed by a function of its own.
pub(crate) trait Closes {
    /// Closed inside handlers, too: its own handler may run then, and is freed after the next poll.
    const INSIDE: bool = false;

    /// # Safety
    /// `raw` is an open object, which is not used after the call unless that returns `LLM_ESTATE`.
    unsafe fn close(raw: *mut Self) -> c_int;
}

macro_rules! closes {
    ($($raw:ident $close:ident $(inside $inside:literal)?;)*) => {
        $(impl Closes for sys::$raw {
            $(const INSIDE: bool = $inside;)?

            unsafe fn close(mut raw: *mut Self) -> c_int {
                unsafe { sys::$close(&mut raw) }
            }
        })*
    };
}

closes! {
    llm_transmitter llm_transmitter_close;
    llm_receiver llm_receiver_close;
    llm_connection llm_connection_close inside true;
    llm_listener llm_listener_close;
    llm_store llm_store_close;
}

/// A context of the C library. Each object in it has a reference, so that it is closed last.
pub(crate) struct Root {
    pub(crate) raw: *mut sys::llm_context,
    /// Given up to the library if that cannot close the context.
    pub(crate) upcalls: ManuallyDrop<Box<Upcalls>>,
    pub(crate) log: ManuallyDrop<Option<Handler>>,
}

// As the handles that refer to it are or are not: see AsScope.
unsafe impl Send for Root {}
unsafe impl Sync for Root {}

impl Drop for Root {
    fn drop(&mut self) {
        self.upcalls.close_deferred();
        if unsafe { sys::llm_context_close(&mut self.raw) } == sys::LLM_ESTATE {
            return;
        }
        unsafe { ManuallyDrop::drop(&mut self.log) };
        let upcalls = unsafe { ManuallyDrop::take(&mut self.upcalls) };
        upcalls.resume();
    }
}

/// An object of a context, with the memory of its handler. Dropping it closes it.
pub(crate) struct Object<T: Closes> {
    pub(crate) raw: *mut T,
    pub(crate) root: Arc<Root>,
    handler: Option<Handler>,
    /// True: the library may call the handler after the close.
    outlived: bool,
}

// As the handles that refer to it are or are not: see AsScope.
unsafe impl<T: Closes> Send for Object<T> {}
unsafe impl<T: Closes> Sync for Object<T> {}

impl<T: Closes> Object<T> {
    pub(crate) fn new(raw: *mut T, root: Arc<Root>, handler: Option<Handler>) -> Self {
        Self { raw, root, handler, outlived: false }
    }

    pub(crate) fn outlived(mut self) -> Self {
        self.outlived = true;
        self
    }

    /// Closes the object if this is its last reference, and returns what the C call does.
    pub(crate) fn close(this: Arc<Self>) -> Result<usize> {
        let mut object = Arc::try_unwrap(this).map_err(|_others| Error::State)?;
        let code = object.finish();
        if T::INSIDE {
            return error::count(code);
        }
        object.root.upcalls.after(code)
    }

    fn finish(&mut self) -> c_int {
        unsafe fn close<T: Closes>(raw: *mut c_void) -> c_int {
            unsafe { T::close(raw.cast()) }
        }
        unsafe fn closed(_: *mut c_void) -> c_int {
            0
        }
        let raw = std::mem::replace(&mut self.raw, ptr::null_mut());
        let code = unsafe { T::close(raw) };
        let upcalls = &self.root.upcalls;
        let mut handler = self.handler.take();
        if self.outlived {
            handler.take().into_iter().for_each(|handler| upcalls.retire(handler));
        }
        if code == sys::LLM_ESTATE {
            upcalls.defer(Closing { raw: raw.cast(), close: close::<T>, _handler: handler });
        } else if T::INSIDE && handler.is_some() {
            upcalls.defer(Closing { raw: ptr::null_mut(), close: closed, _handler: handler });
        }
        code
    }
}

impl<T: Closes> Drop for Object<T> {
    fn drop(&mut self) {
        // Inside a handler, which may have closed a connection, panics of others wait.
        if !self.raw.is_null() && self.finish() != sys::LLM_ESTATE && !T::INSIDE {
            self.root.upcalls.resume();
        }
    }
}
