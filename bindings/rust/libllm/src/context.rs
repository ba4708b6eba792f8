// SPDX-License-Identifier: Apache-2.0
//! Contexts: event loop, log and counters.
use std::ffi::{CStr, CString};
use std::mem::ManuallyDrop;
use std::os::unix::io::BorrowedFd;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use crate::log::{self, LogFn};
use crate::mode::Scope;
use crate::object::Root;
use crate::options::filled;
use crate::upcalls::Upcalls;
use crate::{error, Error, LatencyLevel, Level, Local, Mode, Result, Shared, WaitMode};

/// Options of a context, with the defaults of the library.
///
/// ```
/// use libllm::{ContextOptions, Level, WaitMode};
/// let context = ContextOptions::new()
///     .wait_mode(WaitMode::Block)
///     .log(Level::Warning, |level, text| eprintln!("{level:?}: {text}"))
///     .open()?;
/// # Ok::<(), libllm::Error>(())
/// ```
pub struct ContextOptions {
    raw: sys::llm_context_options,
    log: Option<LogFn>,
    stats_directory: Option<CString>,
    stats_name: Option<CString>,
    /// True: a text has a zero in it.
    wrong: bool,
}

impl ContextOptions {
    /// The defaults.
    pub fn new() -> Self {
        let raw = filled(sys::llm_context_options_init);
        Self { raw, log: None, stats_directory: None, stats_name: None, wrong: false }
    }

    /// Gives lines of this level, and more severe ones, to `write`, which must not call into the context. The default: warnings and
    /// errors go to stderr.
    #[must_use]
    pub fn log(mut self, level: Level, write: impl Fn(Level, &str) + Send + Sync + 'static) -> Self {
        self.log = Some(Box::new(write));
        self.raw.log_level = level.raw();
        self
    }

    /// Least severe level that is logged.
    #[must_use]
    pub fn log_level(mut self, level: Level) -> Self {
        self.raw.log_level = level.raw();
        self
    }

    /// Way of waiting of [`Context::wait`] and of the loop thread.
    #[must_use]
    pub fn wait_mode(mut self, mode: WaitMode) -> Self {
        self.raw.wait = mode.raw();
        self
    }

    /// NUMA node of large allocations.
    #[must_use]
    pub fn numa_node(mut self, node: u16) -> Self {
        self.raw.numa_node = node.into();
        self
    }

    /// Asks for huge pages for large allocations; the default.
    #[must_use]
    pub fn huge_pages(mut self, wanted: bool) -> Self {
        self.raw.huge_pages = wanted;
        self
    }

    /// Directory of the counters file; empty: no file.
    #[must_use]
    pub fn stats_directory(mut self, path: &str) -> Self {
        self.stats_directory = self.text(path);
        self
    }

    /// Name of this context, for people who read the counters file.
    #[must_use]
    pub fn stats_name(mut self, name: &str) -> Self {
        self.stats_name = self.text(name);
        self
    }

    /// Time between two tables of the counters file.
    #[must_use]
    pub fn stats_interval(mut self, interval: Duration) -> Self {
        self.raw.stats_ns = ns(interval);
        self
    }

    /// Permissions of the counters file.
    #[must_use]
    pub fn stats_mode(mut self, mode: u32) -> Self {
        self.raw.stats_mode = mode;
        self
    }

    /// Level of the latency monitor.
    #[must_use]
    pub fn latency(mut self, level: LatencyLevel) -> Self {
        self.raw.latency = level.raw();
        self
    }

    /// Interval of the bottleneck watch.
    #[must_use]
    pub fn watch_interval(mut self, interval: Duration) -> Self {
        self.raw.watch_ns = ns(interval);
        self
    }

    /// Refuses every channel without the option `keys`.
    #[must_use]
    pub fn keys_required(mut self, required: bool) -> Self {
        self.raw.keys_required = required;
        self
    }

    fn text(&mut self, text: &str) -> Option<CString> {
        let text = CString::new(text).ok();
        self.wrong |= text.is_none();
        text
    }

    /// Opens a context whose loop is the application's.
    pub fn open<'h>(self) -> Result<Context<'h>> {
        Ok(Context { root: self.open_root()?, _scope: Scope::NEW })
    }

    /// Opens a context and runs its loop on a thread of its own, pinned to a CPU if there is one in `cpu`. Handlers run on that thread,
    /// or on another that polls meanwhile. A panic of one comes out of the next call that polls.
    pub fn open_shared(self, cpu: Option<u16>) -> Result<Context<'static, Shared>> {
        let root = self.open_root()?;
        error::done(unsafe { sys::llm_context_start_thread(root.raw, cpu.map_or(-1, i32::from)) })?;
        Ok(Context { root, _scope: Scope::NEW })
    }

    fn open_root(mut self) -> Result<Arc<Root>> {
        if self.wrong {
            return Err(Error::InvalidArgument);
        }
        let upcalls = Box::<Upcalls>::default();
        let log = self.log.map(|write| log::bind(write, &upcalls));
        if let Some(log) = &log {
            self.raw.log = Some(log::on_line);
            self.raw.log_arg = log.memory();
        }
        self.raw.stats_directory = self.stats_directory.as_ref().map_or(ptr::null(), |text| text.as_ptr());
        self.raw.stats_name = self.stats_name.as_ref().map_or(ptr::null(), |text| text.as_ptr());
        let mut raw = ptr::null_mut();
        error::done(unsafe { sys::llm_context_open(&self.raw, &mut raw) })?;
        Ok(Arc::new(Root { raw, upcalls: ManuallyDrop::new(upcalls), log: ManuallyDrop::new(log) }))
    }
}

impl Default for ContextOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// An event loop with its memory, transports and clock.
///
/// Handlers of what is opened in it may borrow what lives longer than it does: `'h`. The context is closed with the last handle of it and of
/// what was opened in it.
///
/// A [`Local`] context stays on its thread:
///
/// ```compile_fail,E0277
/// let context = libllm::Context::open().unwrap();
/// std::thread::spawn(move || context.poll());
/// ```
///
/// and its handlers borrow nothing that ends before it:
///
/// ```compile_fail,E0597
/// use libllm::{Context, Delivery, Receiver};
/// let context = Context::open().unwrap();
/// let count = std::cell::Cell::new(0);
/// let receiver = Receiver::open(&context, "loop://borrow:1", |_: Delivery| count.set(count.get() + 1));
/// ```
pub struct Context<'h, M: Mode = Local> {
    pub(crate) root: Arc<Root>,
    _scope: Scope<'h, M>,
}

impl<'h> Context<'h> {
    /// Opens a context with the defaults, whose loop is the application's.
    pub fn open() -> Result<Self> {
        ContextOptions::new().open()
    }
}

impl<M: Mode> Context<'_, M> {
    /// Does all work that is due, and never blocks. Returns the number of messages and events delivered. Inside a handler it is refused:
    /// [`Error::State`].
    ///
    /// # Panics
    /// A panic of a handler comes out of this call, and of every other that runs handlers, after the other messages were delivered.
    #[inline]
    pub fn poll(&self) -> Result<usize> {
        let code = unsafe { sys::llm_poll(self.root.raw) };
        self.root.upcalls.after(code)
    }

    /// Polls until something was delivered or the time has passed, waiting as the wait mode says. With [`Duration::MAX`] it waits for
    /// ever.
    ///
    /// # Panics
    /// As [`poll`](Self::poll).
    pub fn wait(&self, timeout: Duration) -> Result<usize> {
        let code = unsafe { sys::llm_wait(self.root.raw, ns(timeout)) };
        self.root.upcalls.after(code)
    }

    /// A descriptor for applications that sleep: readable when a packet comes, and armed by this call. Poll once more after this call,
    /// and sleep only if that delivered nothing.
    pub fn fd(&self) -> Result<BorrowedFd<'_>> {
        let fd = unsafe { sys::llm_context_fd(self.root.raw) };
        error::done(fd)?;
        Ok(unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// Time at which [`poll`](Self::poll) has work to do even if no packet comes, by [`clock_ns`]. None: never.
    pub fn deadline_ns(&self) -> Option<u64> {
        let at = unsafe { sys::llm_context_deadline(self.root.raw) };
        (at != u64::MAX).then_some(at)
    }

    /// The sum of a counter over all objects that have it. docs/statistics.md lists all.
    pub fn counter(&self, name: &str) -> Result<u64> {
        let name = text(name)?;
        let mut value = 0;
        error::done(unsafe { sys::llm_context_counter(self.root.raw, name.as_ptr(), &mut value) })?;
        Ok(value)
    }

    /// Every counter of the context and of what is open in it.
    pub fn counters(&self) -> Result<Vec<Counter>> {
        let mut found = Vec::<sys::llm_counter>::new();
        loop {
            let room = found.capacity();
            let count = unsafe { sys::llm_context_counters(self.root.raw, found.as_mut_ptr(), room as i32) };
            let count = error::count(count)?;
            if count <= room {
                unsafe { found.set_len(count) };
                return Ok(found.iter().map(Counter::new).collect());
            }
            found.reserve(count);
        }
    }
}

/// A counter of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    /// The object, such as `transmitter udp://239.192.1.1:5001`.
    pub object: String,
    /// The name of the counter, such as `naks_received`.
    pub name: &'static str,
    /// Its value.
    pub value: u64,
}

impl Counter {
    fn new(raw: &sys::llm_counter) -> Self {
        let object = unsafe { CStr::from_ptr(raw.object) }.to_string_lossy().into_owned();
        Self { object, name: error::text_of(raw.name), value: raw.value }
    }
}

/// The clock of all points in time: CLOCK_MONOTONIC in nanoseconds.
pub fn clock_ns() -> u64 {
    unsafe { sys::llm_clock() }
}

/// The version of the library that is linked.
pub fn version() -> &'static str {
    error::text_of(unsafe { sys::llm_version() })
}

/// Nanoseconds as the library takes them, where the longest time is for ever.
pub(crate) fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

pub(crate) fn text(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::InvalidArgument)
}
