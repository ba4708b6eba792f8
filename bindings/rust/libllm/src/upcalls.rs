// SPDX-License-Identifier: Apache-2.0
//! Calls from the library to handlers: panics that come out of them, and what cannot be closed before they return.
use std::any::Any;
use std::os::raw::{c_int, c_void};
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::error;
use crate::Result;

type Panic = Box<dyn Any + Send>;

/// Memory of a handler, at an address that does not change. The library has the address.
pub(crate) struct Handler {
    memory: *mut c_void,
    free: unsafe fn(*mut c_void),
}

impl Handler {
    pub(crate) fn new<T>(value: T) -> Self {
        unsafe fn free<T>(memory: *mut c_void) {
            drop(unsafe { Box::from_raw(memory.cast::<T>()) });
        }
        Self { memory: Box::into_raw(Box::new(value)).cast(), free: free::<T> }
    }

    pub(crate) fn memory(&self) -> *mut c_void {
        self.memory
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        unsafe { (self.free)(self.memory) }
    }
}

/// An object whose last handle was dropped inside a handler, where the library closes nothing.
pub(crate) struct Closing {
    pub(crate) raw: *mut c_void,
    pub(crate) close: unsafe fn(*mut c_void) -> c_int,
    /// Freed after the close.
    pub(crate) _handler: Option<Handler>,
}

#[derive(Default)]
struct Left {
    /// The first panic of a handler since the last poll.
    panic: Option<Panic>,
    closings: Vec<Closing>,
    /// Handlers that the library may call until the context is closed.
    retired: Vec<Handler>,
}

/// Work that handlers leave to the call that polls.
#[derive(Default)]
pub(crate) struct Upcalls {
    attention: AtomicBool,
    left: Mutex<Left>,
}

impl Upcalls {
    fn left(&self) -> MutexGuard<'_, Left> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls a handler. A panic must not unwind through C: it is stored until `settle()`. None: the handler panicked.
    #[inline(always)]
    pub(crate) fn catch<R>(&self, call: impl FnOnce() -> R) -> Option<R> {
        match panic::catch_unwind(AssertUnwindSafe(call)) {
            Ok(value) => Some(value),
            Err(panic) => {
                self.store(panic);
                None
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn store(&self, panic: Panic) {
        let mut left = self.left();
        self.attention.store(true, Ordering::Release);
        if left.panic.is_none() {
            left.panic = Some(panic);
            return;
        }
        drop(left);
        // One panic comes out of a call. What this one has runs code of the application, which may panic in its turn.
        std::mem::forget(panic::catch_unwind(AssertUnwindSafe(|| drop(panic))));
    }

    pub(crate) fn defer(&self, closing: Closing) {
        self.left().closings.push(closing);
        self.attention.store(true, Ordering::Release);
    }

    pub(crate) fn retire(&self, handler: Handler) {
        self.left().retired.push(handler);
    }

    /// The result of a call that runs handlers, after what they left was done.
    #[inline]
    pub(crate) fn after(&self, code: c_int) -> Result<usize> {
        if self.attention.load(Ordering::Acquire) {
            self.settle(code);
        }
        error::count(code)
    }

    /// Closes what could not be closed inside a handler, then goes on with the panic of one. Inside a handler (`LLM_ESTATE`) both wait.
    #[cold]
    #[inline(never)]
    fn settle(&self, code: c_int) {
        if code != sys::LLM_ESTATE {
            self.close_deferred();
            self.resume();
        }
    }

    pub(crate) fn close_deferred(&self) {
        loop {
            let mut closings = std::mem::take(&mut self.left().closings);
            if closings.is_empty() {
                return;
            }
            while let Some(closing) = closings.pop() {
                if unsafe { (closing.close)(closing.raw) } == sys::LLM_ESTATE {
                    // Still inside a handler.
                    closings.push(closing);
                    self.left().closings.append(&mut closings);
                    return;
                }
                // The others are not closed yet.
                self.catch(|| drop(closing));
            }
        }
    }

    /// Goes on with the panic of a handler. A thread that is unwinding already keeps to its own panic.
    pub(crate) fn resume(&self) {
        if thread::panicking() {
            return;
        }
        let mut left = self.left();
        self.attention.store(!left.closings.is_empty(), Ordering::Release);
        let panic = left.panic.take();
        drop(left);
        if let Some(panic) = panic {
            panic::resume_unwind(panic);
        }
    }
}
