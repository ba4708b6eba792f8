// SPDX-License-Identifier: Apache-2.0
//! Replay of recordings.
use std::ffi::CStr;
use std::os::raw::{c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr;
use std::time::{Duration, SystemTime};

use crate::log;
use crate::mode::Scope;
use crate::options::filled;
use crate::receiver::bind;
use crate::store::{path, setters};
use crate::upcalls::{Handler, Upcalls};
use crate::{context, error, Error, JoinMode, Level, Local, Options, Reason, ReceiverHandler, Result};

/// Options of a replay, with the defaults of the library.
#[derive(Clone)]
pub struct ReplayOptions {
    raw: sys::llm_replay_options,
    channel: Option<String>,
    keys: Option<PathBuf>,
}

impl ReplayOptions {
    /// The defaults: all sessions, from their beginning.
    pub fn new() -> Self {
        Self { raw: filled(sys::llm_replay_options_init), channel: None, keys: None }
    }

    setters! {
        /// Only this session.
        session: u64 = session => session: session;
        /// Leaves out messages from this number on.
        until_number: u64 = number => until_number: number;
        /// Leaves out messages received from this time on.
        until: SystemTime = time => until_realtime: realtime(time);
        /// Longer messages are reported as lost.
        message_bytes_max: u64 = bytes => message_bytes_max: bytes;
        /// Goes on behind damage, which is reported as a gap.
        skip_damage: bool = wanted => skip_damage: wanted;
    }

    /// Only sessions that were received from this channel.
    #[must_use]
    pub fn channel(mut self, channel: &str) -> Self {
        self.channel = Some(channel.to_owned());
        self
    }

    /// Key file with the epochs of recorded channels with keys, valid now or not. Without it they cannot be read.
    #[must_use]
    pub fn keys(mut self, file: &Path) -> Self {
        self.keys = Some(file.to_owned());
        self
    }

    /// Position at which each session begins: with [`JoinMode::Messages`] so many messages before its end, with [`JoinMode::Number`] with
    /// this one.
    #[must_use]
    pub fn from(mut self, mode: JoinMode, value: u64) -> Self {
        self.raw.from = mode.raw();
        self.raw.value = value;
        self
    }

    /// Begins each session with the first message received at this time, or a little earlier.
    #[must_use]
    pub fn from_time(self, time: SystemTime) -> Self {
        self.from(JoinMode::Time, realtime(time))
    }
}

impl Default for ReplayOptions {
    fn default() -> Self {
        Self::new()
    }
}

fn realtime(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, context::ns)
}

/// Reads recordings from the directory of a store, which may be running, and delivers them to the handler of a receiver. It needs no
/// context, and blocks while the disk reads.
pub struct Replay<'h> {
    raw: *mut sys::llm_replay,
    // Below it, as handlers use the others.
    _handler: Handler,
    _log: Option<Handler>,
    upcalls: Box<Upcalls>,
    _scope: Scope<'h, Local>,
}

impl<'h> Replay<'h> {
    /// Opens a replay of the recordings in a directory. Warnings and errors go to stderr.
    pub fn open<H>(directory: &Path, options: &ReplayOptions, handler: H) -> Result<Self>
    where
        H: ReceiverHandler + 'h,
    {
        Self::open_raw(directory, options, handler, Box::default(), None)
    }

    /// The same; warnings and errors go to `write`.
    pub fn open_with_log<H>(
        directory: &Path,
        options: &ReplayOptions,
        handler: H,
        write: impl Fn(Level, &str) + Send + Sync + 'static,
    ) -> Result<Self>
    where
        H: ReceiverHandler + 'h,
    {
        let upcalls = Box::<Upcalls>::default();
        let log = log::bind(Box::new(write), &upcalls);
        Self::open_raw(directory, options, handler, upcalls, Some(log))
    }

    fn open_raw<H>(
        directory: &Path,
        options: &ReplayOptions,
        handler: H,
        upcalls: Box<Upcalls>,
        log: Option<Handler>,
    ) -> Result<Self>
    where
        H: ReceiverHandler + 'h,
    {
        let (directory, channel) = (path(directory)?, options.channel.as_deref().map(context::text).transpose()?);
        let keys = options.keys.as_deref().map(path).transpose()?;
        let (handler, handlers, object) = bind::<H, true>(handler, &*upcalls);
        let mut settings = options.raw;
        settings.channel = channel.as_ref().map_or(ptr::null(), |channel| channel.as_ptr());
        settings.keys = keys.as_ref().map_or(ptr::null(), |keys| keys.as_ptr());
        let (line, arg) = match &log {
            Some(log) => (Some(log::on_line as _), log.memory()),
            None => (None, ptr::null_mut()),
        };
        let raw = object.cast();
        error::done(unsafe { sys::llm_replay_open(directory.as_ptr(), &settings, &handlers, line, arg, raw) })?;
        Ok(Self { raw: unsafe { *raw }, _handler: handler, _log: log, upcalls, _scope: Scope::NEW })
    }

    /// Delivers what is in the next packets. Returns the number of messages and events delivered, 0 when everything was.
    ///
    /// # Panics
    /// A panic of the handler comes out, after the other messages were delivered.
    pub fn next(&mut self, packets_max: u16) -> Result<usize> {
        let code = unsafe { sys::llm_replay_next(self.raw, c_int::from(packets_max)) };
        self.upcalls.after(code)
    }
}

impl Drop for Replay<'_> {
    fn drop(&mut self) {
        unsafe { sys::llm_replay_close(&mut self.raw) };
    }
}

/// The recording of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recording {
    /// The session.
    pub session: u64,
    /// The channel from which it was received.
    pub channel: String,
    /// Number of the first message that starts in the recording.
    pub message_first: u64,
    /// Number of the message after the last that is complete.
    pub message_next: u64,
    /// Time at which the first segment was begun.
    pub first_at: SystemTime,
    /// Time at which the last block was written.
    pub last_at: SystemTime,
    /// Bytes of its segments on disk.
    pub bytes: u64,
    /// The reason of its end, if that was recorded.
    pub ended: Option<Reason>,
    /// Identity of the stream that the session continues; 0: none.
    pub stream: u64,
    /// Number in the stream of message 0 of the session.
    pub stream_base: u64,
    /// Term in the stream.
    pub stream_term: u32,
}

unsafe extern "C" fn on_recording(arg: *mut c_void, raw: *const sys::llm_recording) {
    let (found, raw) = unsafe { (&mut *arg.cast::<Vec<Recording>>(), &*raw) };
    let at = |ns| SystemTime::UNIX_EPOCH + Duration::from_nanos(ns);
    found.push(Recording {
        session: raw.session,
        channel: unsafe { CStr::from_ptr(raw.channel) }.to_string_lossy().into_owned(),
        message_first: raw.message_first,
        message_next: raw.message_next,
        first_at: at(raw.realtime_first),
        last_at: at(raw.realtime_last),
        bytes: raw.bytes,
        ended: raw.ended.then(|| Reason::from_raw(raw.reason)),
        stream: raw.stream,
        stream_base: raw.stream_base,
        stream_term: raw.stream_term,
    });
}

/// The recordings in the directory of a store, in the order in which they began.
pub fn recordings(directory: &Path) -> Result<Vec<Recording>> {
    let directory = path(directory)?;
    let mut found = Vec::new();
    let arg = ptr::addr_of_mut!(found).cast();
    error::done(unsafe {
        sys::llm_replay_recordings(directory.as_ptr(), Some(on_recording), arg, None, ptr::null_mut())
    })?;
    Ok(found)
}

/// Sets `stream_base` and `stream_term` of the options, so that a transmitter continues the stream of the option `stream` where its
/// recordings in the directory of a store end. Returns the number of its sessions that are recorded.
pub fn continue_stream(directory: &Path, options: &mut Options) -> Result<usize> {
    if options.wrong {
        return Err(Error::Option);
    }
    let directory = path(directory)?;
    error::count(unsafe { sys::llm_replay_continue(directory.as_ptr(), &mut options.raw, None, ptr::null_mut()) })
}
