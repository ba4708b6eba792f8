// SPDX-License-Identifier: Apache-2.0
//! Stores.
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use crate::mode::Scope;
use crate::object::Object;
use crate::options::filled;
use crate::transmitter::{on_event, Events};
use crate::upcalls::Handler;
use crate::{context, error, Allows, Context, Error, Event, Local, Mode, Options, Result};
use crate::{StoreEngine, StoreFull, StoreLevel};

/// Options of a store, with the defaults of the library.
#[derive(Clone)]
pub struct StoreOptions {
    raw: sys::llm_store_options,
}

macro_rules! setters {
    ($($(#[$about:meta])* $name:ident: $type:ty = $value:ident => $field:ident: $set:expr;)*) => {
        $($(#[$about])*
        #[must_use]
        pub fn $name(mut self, $value: $type) -> Self {
            self.raw.$field = $set;
            self
        })*
    };
}
pub(crate) use setters;

impl StoreOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self { raw: filled(sys::llm_store_options_init) }
    }

    setters! {
        /// Messages that it acknowledges.
        level: StoreLevel = level => level: level.raw();
        /// Way of writing to disk.
        engine: StoreEngine = engine => engine: engine.raw();
        /// Bytes of a segment.
        segment_bytes: u64 = bytes => segment_bytes: bytes;
        /// Segments that are prepared ahead.
        spares: u32 = count => spares: count;
        /// Free bytes of the disk that it leaves.
        reserve_bytes: u64 = bytes => reserve_bytes: bytes;
        /// Reaction to a full disk.
        full: StoreFull = full => full: full.raw();
        /// Bytes of all segments, above which the oldest are removed; 0: no limit.
        bytes_max: u64 = bytes => bytes_max: bytes;
        /// Age at which segments are removed.
        age_max: Duration = age => age_ns_max: context::ns(age);
        /// Retains messages of assured topics until they are acknowledged.
        until_acknowledged: bool = wanted => until_acknowledged: wanted;
    }
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// A store follows channels and writes every packet of their sessions to disk. It is closed with its handle.
pub struct Store<'h, M: Mode = Local> {
    object: Arc<Object<sys::llm_store>>,
    _scope: Scope<'h, M>,
}

impl<'h, M: Mode> Store<'h, M> {
    /// Opens a store in a directory that no other store uses. Blocks while the headers of the segments are read.
    pub fn open<H>(context: &Context<'h, M>, directory: &Path, options: &StoreOptions, handler: H) -> Result<Self>
    where
        H: FnMut(Event<'_>),
        M: Allows<'h, H>,
    {
        let directory = path(directory)?;
        let events = Handler::new(Events { upcalls: &**context.root.upcalls, handler });
        let mut handlers = filled(sys::llm_store_handlers_init);
        handlers.arg = events.memory();
        handlers.event = Some(on_event::<H>);
        let mut settings = options.raw;
        settings.directory = directory.as_ptr();
        let mut raw = ptr::null_mut();
        error::done(unsafe { sys::llm_store_open(context.root.raw, &settings, &handlers, &mut raw) })?;
        let object = Object::new(raw, context.root.clone(), Some(events));
        Ok(Self { object: Arc::new(object), _scope: Scope::NEW })
    }

    /// Follows a channel: records every session on it. May block while the transport opens.
    pub fn follow(&self, channel: &str, options: &Options) -> Result<()> {
        let channel = context::text(channel)?;
        error::done(unsafe { sys::llm_store_follow(self.object.raw, channel.as_ptr(), options.checked()?) })
    }

    /// Writes what was received, acknowledges it, leaves the channels and closes the store. Blocks until the writes have ended.
    /// [`Error::State`] inside a handler.
    pub fn close(self) -> Result<()> {
        Object::close(self.object).map(drop)
    }
}

impl Store<'_> {
    /// Asks the stores of a channel where the stream of the option `stream` ends, and sets `stream_base` and `stream_term` of the options,
    /// so that a transmitter continues it. Blocks, polling the context. Returns how many stores have answered.
    pub fn ask<M: Mode>(
        context: &Context<'_, M>,
        channel: &str,
        options: &mut Options,
        stores: u32,
        timeout: Duration,
    ) -> Result<usize> {
        let channel = context::text(channel)?;
        options.checked()?;
        let timeout = context::ns(timeout);
        let code = unsafe { sys::llm_store_ask(context.root.raw, channel.as_ptr(), &mut options.raw, stores, timeout) };
        context.root.upcalls.after(code)
    }
}

pub(crate) fn path(path: &Path) -> Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Error::InvalidArgument)
}
