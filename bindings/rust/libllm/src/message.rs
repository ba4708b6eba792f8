// SPDX-License-Identifier: Apache-2.0
//! Messages, as handlers get them.
use std::ffi::CStr;
use std::fmt;
use std::slice;
use std::str::Utf8Error;
use std::time::{Duration, SystemTime};

use crate::attributes::{ReceivedAttributes, Value};
use crate::event;
use crate::{error, Error, Result};

/// The object that delivers a message.
#[derive(Clone, Copy)]
pub(crate) enum Origin {
    Receiver(*mut sys::llm_receiver),
    Replay(*mut sys::llm_replay),
    Connection,
}

/// A message. It is a view into the packet, and cannot be used after its handler:
///
/// ```compile_fail,E0521
/// use libllm::{Context, Delivery, Message, Receiver};
/// let mut stored: Option<Message> = None;
/// let context = Context::open().unwrap();
/// let receiver = Receiver::open(&context, "loop://stored:1", |delivery: Delivery| {
///     if let Delivery::Message(message) = delivery {
///         stored = Some(message);
///     }
/// });
/// ```
///
/// nor can its bytes:
///
/// ```compile_fail,E0521
/// use libllm::{Context, Delivery, Receiver};
/// let mut stored: &[u8] = &[];
/// let context = Context::open().unwrap();
/// let receiver = Receiver::open(&context, "loop://stored:1", |delivery: Delivery| {
///     if let Delivery::Message(message) = delivery {
///         stored = message.data();
///     }
/// });
/// ```
#[derive(Clone, Copy)]
pub struct Message<'a> {
    raw: &'a sys::llm_message,
    origin: Origin,
}

impl<'a> Message<'a> {
    /// # Safety
    /// `raw` is valid for `'a`, in which a handler of `origin` runs.
    #[inline]
    pub(crate) unsafe fn new(raw: *const sys::llm_message, origin: Origin) -> Self {
        Self { raw: unsafe { &*raw }, origin }
    }

    /// Its bytes.
    #[inline]
    pub fn data(&self) -> &'a [u8] {
        unsafe { bytes(self.raw.data, self.raw.size as usize) }
    }

    /// Its bytes as a text.
    pub fn text(&self) -> std::result::Result<&'a str, Utf8Error> {
        std::str::from_utf8(self.data())
    }

    /// Name of its topic; empty if that could not be learned, or is not UTF-8.
    pub fn topic(&self) -> &'a str {
        unsafe { event::text(self.raw.topic) }
    }

    /// Name of its topic, whatever its bytes are.
    pub fn topic_bytes(&self) -> &'a [u8] {
        unsafe { CStr::from_ptr(self.raw.topic) }.to_bytes()
    }

    /// Number of its topic in the session.
    #[inline]
    pub fn topic_id(&self) -> u32 {
        self.raw.topic_id
    }

    /// Its number in the session, over all topics, from 0.
    #[inline]
    pub fn number(&self) -> u64 {
        self.raw.number
    }

    /// Its session.
    #[inline]
    pub fn session(&self) -> u64 {
        self.raw.session
    }

    /// Time at which the kernel received the packet that completed it, with the option `timestamps`; of a replay, at which the store
    /// had written it.
    pub fn received_at(&self) -> Option<SystemTime> {
        let at = self.raw.received_at;
        (at != 0).then(|| SystemTime::UNIX_EPOCH + Duration::from_nanos(at))
    }

    /// Its attributes. Of a receiver: with a filter ([`Receiver::filter`](crate::Receiver::filter)), else [`Error::State`].
    pub fn attributes(&self) -> Result<ReceivedAttributes<'a>> {
        let mut found = crate::options::filled(sys::llm_attributes_init);
        error::done(match self.origin {
            Origin::Receiver(receiver) => unsafe { sys::llm_message_attributes(receiver, self.raw, &mut found) },
            Origin::Replay(replay) => unsafe { sys::llm_replay_attributes(replay, self.raw, &mut found) },
            Origin::Connection => sys::LLM_ESTATE,
        })?;
        Ok(unsafe { ReceivedAttributes::new(found) })
    }

    /// Its property with this code; None if it has none.
    pub fn property(&self, code: u16) -> Result<Option<Value<'a>>> {
        let receiver = match self.origin {
            Origin::Receiver(receiver) => receiver,
            Origin::Replay(_) => {
                return Ok(self.attributes()?.properties().find(|found| found.0 == code).map(|found| found.1))
            }
            Origin::Connection => return Err(Error::State),
        };
        let mut found = std::mem::MaybeUninit::zeroed();
        match error::done(unsafe { sys::llm_message_property(receiver, self.raw, code, found.as_mut_ptr()) }) {
            Ok(()) => Ok(Some(unsafe { Value::new(&found.assume_init()) })),
            Err(Error::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Acknowledges it and every message of the session before it, with the option `acknowledge` set to
    /// [`Acknowledger::Application`](crate::Acknowledger::Application).
    pub fn acknowledge(&self) -> Result<()> {
        match self.origin {
            Origin::Receiver(receiver) => {
                error::done(unsafe { sys::llm_receiver_acknowledge(receiver, self.raw.session, self.raw.number) })
            }
            Origin::Replay(_) | Origin::Connection => Err(Error::State),
        }
    }
}

impl fmt::Debug for Message<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Message")
            .field("topic", &self.topic())
            .field("number", &self.number())
            .field("data", &self.data())
            .finish_non_exhaustive()
    }
}

/// Messages that arrived together, in order.
#[derive(Clone)]
pub struct Messages<'a> {
    left: slice::Iter<'a, sys::llm_message>,
    origin: Origin,
}

impl<'a> Messages<'a> {
    /// # Safety
    /// The messages are valid for `'a`, in which a handler of `origin` runs.
    #[inline]
    pub(crate) unsafe fn new(first: *const sys::llm_message, count: usize, origin: Origin) -> Self {
        Self { left: unsafe { slice::from_raw_parts(first, count) }.iter(), origin }
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    #[inline]
    fn next(&mut self) -> Option<Message<'a>> {
        let origin = self.origin;
        self.left.next().map(|raw| Message { raw, origin })
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.left.size_hint()
    }
}

impl ExactSizeIterator for Messages<'_> {}

/// Bytes of the library, which may be at NULL if there are none.
///
/// # Safety
/// `size` bytes at `data` are valid for `'a`.
#[inline]
pub(crate) unsafe fn bytes<'a>(data: *const std::os::raw::c_void, size: usize) -> &'a [u8] {
    let data = if size == 0 { std::ptr::NonNull::dangling().as_ptr() } else { data.cast::<u8>() as *mut u8 };
    unsafe { slice::from_raw_parts(data, size) }
}
