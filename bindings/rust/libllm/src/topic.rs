// SPDX-License-Identifier: Apache-2.0
//! Topics, and sending.
use std::io::IoSlice;
use std::ops::{BitOr, Deref, DerefMut};
use std::os::raw::c_int;
use std::ptr;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use crate::mode::{AsScope, Scope};
use crate::object::{Object, Root};
use crate::options::filled;
use crate::{context, error, Attributes, Local, Mode, Result};

macro_rules! flags {
    ($(#[$about:meta])* $name:ident { $($(#[$flag_about:meta])* $flag:ident = $value:expr,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name(u32);

        impl $name {
            /// No flag.
            pub const NONE: Self = Self(0);
            $($(#[$flag_about])* pub const $flag: Self = Self($value);)*
        }

        impl BitOr for $name {
            type Output = Self;
            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }
    };
}

flags! {
    /// Flags of a topic.
    TopicFlags {
        /// Messages that fit into one packet never span two.
        WHOLE = sys::LLM_TOPIC_WHOLE,
        /// Each message is sent once: losses are reported, not repaired.
        UNRELIABLE = sys::LLM_TOPIC_UNRELIABLE,
        /// Messages are repaired for current receivers; late joiners get none of those sent before.
        NO_HISTORY = sys::LLM_TOPIC_NO_HISTORY,
    }
}

flags! {
    /// Flags of a send.
    SendFlags {
        /// Another message follows at once: only pack this one.
        MORE = sys::LLM_SEND_MORE,
        /// Send now, even if the transport is busy.
        NOW = sys::LLM_SEND_NOW,
    }
}

/// A transmitter, which has to be open as long as a topic of it exists.
#[derive(Clone)]
pub(crate) enum Owner {
    Transmitter(Arc<Object<sys::llm_transmitter>>),
    Connection(Arc<Object<sys::llm_connection>>),
}

impl Owner {
    fn root(&self) -> &Root {
        match self {
            Self::Transmitter(object) => &object.root,
            Self::Connection(object) => &object.root,
        }
    }
}

/// A named flow of messages within a session. Clones are handles of the same topic.
///
/// [`Error::Again`](crate::Error::Again) is back-pressure: poll and try again, or [`wait`](Self::wait).
pub struct Topic<'h, M: Mode = Local> {
    raw: AsScope<*mut sys::llm_topic>,
    owner: Owner,
    _scope: Scope<'h, M>,
}

impl<M: Mode> Clone for Topic<'_, M> {
    fn clone(&self) -> Self {
        Self { raw: self.raw, owner: self.owner.clone(), _scope: Scope::NEW }
    }
}

impl<'h, M: Mode> Topic<'h, M> {
    pub(crate) fn open(
        transmitter: *mut sys::llm_transmitter,
        owner: Owner,
        name: &str,
        flags: TopicFlags,
    ) -> Result<Self> {
        let name = context::text(name)?;
        let mut raw = ptr::null_mut();
        error::done(unsafe { sys::llm_topic_open(transmitter, name.as_ptr(), flags.0, &mut raw) })?;
        Ok(Self { raw: AsScope(raw), owner, _scope: Scope::NEW })
    }

    /// Sends a message, which is copied: at once if the transport is idle, else together with others. Never blocks.
    #[inline]
    pub fn send(&self, data: &[u8]) -> Result<()> {
        self.send_flags(data, SendFlags::NONE)
    }

    /// Sends a message that another one follows at once: packs it, for the next send without this, flush or poll.
    #[inline]
    pub fn send_more(&self, data: &[u8]) -> Result<()> {
        self.send_flags(data, SendFlags::MORE)
    }

    /// Sends a message now, even if the transport is busy.
    #[inline]
    pub fn send_now(&self, data: &[u8]) -> Result<()> {
        self.send_flags(data, SendFlags::NOW)
    }

    /// Sends a message, with flags.
    #[inline]
    pub fn send_flags(&self, data: &[u8], flags: SendFlags) -> Result<()> {
        error::done(unsafe { sys::llm_send(self.raw.0, data.as_ptr().cast(), data.len(), flags.0) })
    }

    /// Sends a message gathered from pieces.
    #[inline]
    pub fn send_pieces(&self, pieces: &[IoSlice<'_>], flags: SendFlags) -> Result<()> {
        // An IoSlice is laid out as an iovec.
        let count = c_int::try_from(pieces.len()).unwrap_or(-1);
        error::done(unsafe { sys::llm_sendv(self.raw.0, pieces.as_ptr().cast(), count, flags.0) })
    }

    /// Sends a message with attributes.
    pub fn send_with(&self, data: &[u8], attributes: &Attributes<'_>, flags: SendFlags) -> Result<()> {
        let attributes = attributes.raw();
        error::done(unsafe { sys::llm_send_with(self.raw.0, data.as_ptr().cast(), data.len(), &attributes, flags.0) })
    }

    /// Sends a message under a number in the stream, at least the next one: those between are skipped.
    pub fn send_numbered(&self, number: u64, data: &[u8], flags: SendFlags) -> Result<()> {
        error::done(unsafe { sys::llm_send_numbered(self.raw.0, number, data.as_ptr().cast(), data.len(), flags.0) })
    }

    /// Claims room for a message in a packet, where it is built without a copy. One claim at a time for each transmitter.
    #[inline]
    pub fn claim(&self, size: usize) -> Result<Claim<'_>> {
        let mut data = ptr::null_mut();
        error::done(unsafe { sys::llm_topic_claim(self.raw.0, size, &mut data) })?;
        let data = if data.is_null() { ptr::NonNull::dangling().as_ptr() } else { data.cast() };
        Ok(Claim { topic: self.raw.0, data: unsafe { slice::from_raw_parts_mut(data, size) } })
    }

    /// Polls the context until the topic would take a message of this size or the time has passed, which is
    /// [`Error::Again`](crate::Error::Again).
    pub fn wait(&self, size: usize, timeout: Duration) -> Result<()> {
        let code = unsafe { sys::llm_topic_wait(self.raw.0, size, context::ns(timeout)) };
        self.owner.root().upcalls.after(code).map(drop)
    }

    /// Requires acknowledgements of the messages from now on; None: no longer.
    pub fn assure(&self, assurance: Option<&Assurance>) -> Result<()> {
        let mut names = None;
        let raw = match assurance {
            None => ptr::null(),
            Some(assurance) => {
                let mut raw = assurance.raw;
                if let Some(text) = &assurance.names {
                    raw.names = names.insert(context::text(text)?).as_ptr();
                }
                return error::done(unsafe { sys::llm_topic_assure(self.raw.0, &raw) });
            }
        };
        error::done(unsafe { sys::llm_topic_assure(self.raw.0, raw) })
    }

    /// Caches the last messages for late joiners, each of at most `bytes_max`.
    pub fn cache(&self, messages: u64, bytes_max: u64) -> Result<()> {
        let mut cache = filled(sys::llm_cache_init);
        cache.messages = messages;
        cache.bytes_max = bytes_max;
        error::done(unsafe { sys::llm_topic_cache(self.raw.0, &cache) })
    }

    /// Limits the rate from now on, in bytes a second; 0: no limit.
    pub fn limit_rate(&self, bytes_per_s: u64) -> Result<()> {
        let mut rate = filled(sys::llm_rate_init);
        rate.bytes_per_s = bytes_per_s;
        error::done(unsafe { sys::llm_topic_limit_rate(self.raw.0, &rate) })
    }
}

/// Room for a message in a packet. Without [`commit`](Self::commit) it is given back.
pub struct Claim<'t> {
    topic: *mut sys::llm_topic,
    data: &'t mut [u8],
}

impl Claim<'_> {
    /// Sends the whole message.
    #[inline]
    pub fn commit(self) -> Result<()> {
        let size = self.data.len();
        self.commit_first(size, SendFlags::NONE)
    }

    /// Sends the first `size` bytes, with flags.
    #[inline]
    pub fn commit_first(self, size: usize, flags: SendFlags) -> Result<()> {
        let code = unsafe { sys::llm_topic_commit(self.topic, size, flags.0) };
        if code == 0 {
            // It is no longer open.
            std::mem::forget(self);
        }
        error::done(code)
    }
}

impl Deref for Claim<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.data
    }
}

impl DerefMut for Claim<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        self.data
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        unsafe { sys::llm_topic_abort(self.topic) };
    }
}

/// Receivers that have to acknowledge the messages of a topic, and bounds of what may be unacknowledged.
#[derive(Clone)]
pub struct Assurance {
    raw: sys::llm_assurance,
    names: Option<String>,
}

impl Assurance {
    /// The defaults: any one receiver.
    pub fn new() -> Self {
        Self { raw: filled(sys::llm_assurance_init), names: None }
    }

    /// Number of receivers; 0: by name only.
    #[must_use]
    pub fn receivers(mut self, receivers: u32) -> Self {
        self.raw.receivers = receivers;
        self
    }

    /// Named receivers, and patterns of names: `a,store-*:2`.
    #[must_use]
    pub fn names(mut self, names: &str) -> Self {
        self.names = Some(names.to_owned());
        self
    }

    /// Messages that may be unacknowledged.
    #[must_use]
    pub fn messages_max(mut self, messages: u64) -> Self {
        self.raw.messages_max = messages;
        self
    }

    /// Bytes that may be unacknowledged.
    #[must_use]
    pub fn bytes_max(mut self, bytes: u64) -> Self {
        self.raw.bytes_max = bytes;
        self
    }

    /// Time without progress after which [`EventKind::Unacknowledged`](crate::EventKind::Unacknowledged) is reported.
    #[must_use]
    pub fn patience(mut self, time: Duration) -> Self {
        self.raw.patience_ns = context::ns(time);
        self
    }
}

impl Default for Assurance {
    fn default() -> Self {
        Self::new()
    }
}
