// SPDX-License-Identifier: Apache-2.0
//! Events.
use std::ffi::CStr;
use std::fmt;
use std::io;
use std::os::raw::c_char;

use crate::error::text_of;
use crate::{EventKind, Limit, Reason, Threshold};

macro_rules! names {
    ($($name:ident $call:ident)*) => {
        $(impl fmt::Display for $name {
            /// The name for people.
            fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str(text_of(unsafe { sys::$call(self.raw()) }))
            }
        })*
    };
}

names! {
    EventKind llm_event_name
    Reason llm_reason_name
    Threshold llm_threshold_name
    Limit llm_limit_name
}

/// An event. It cannot be used after its handler:
///
/// ```compile_fail,E0521
/// use libllm::{Context, Event, Transmitter};
/// let mut stored: Option<Event> = None;
/// let context = Context::open().unwrap();
/// let transmitter = Transmitter::open_with(&context, "loop://event:1", &Default::default(), |event: Event| stored = Some(event));
/// ```
#[derive(Clone, Copy)]
pub struct Event<'a> {
    raw: &'a sys::llm_event,
}

impl<'a> Event<'a> {
    /// # Safety
    /// `raw` is valid for `'a`.
    pub(crate) unsafe fn new(raw: *const sys::llm_event) -> Self {
        Self { raw: unsafe { &*raw } }
    }

    /// The kind. [`EventKind`] says which of the other values an event has.
    pub fn kind(&self) -> EventKind {
        EventKind::from_raw(self.raw.kind)
    }

    /// The reason.
    pub fn reason(&self) -> Reason {
        Reason::from_raw(self.raw.reason)
    }

    /// The session that it concerns.
    pub fn session(&self) -> u64 {
        self.raw.session
    }

    /// Number of the first message that it concerns.
    pub fn first(&self) -> u64 {
        self.raw.first
    }

    /// Number of the last message that it concerns.
    pub fn last(&self) -> u64 {
        self.raw.last
    }

    /// Number of packets lost.
    pub fn packets(&self) -> u64 {
        self.raw.packets
    }

    /// Name of the topic that it concerns, empty if it has none.
    pub fn topic(&self) -> &'a str {
        unsafe { text(self.raw.topic) }
    }

    /// Number of the topic in its session.
    pub fn topic_id(&self) -> u32 {
        self.raw.topic_id
    }

    /// Name of the receiver, or pattern of names; empty if it has none.
    pub fn receiver(&self) -> &'a str {
        unsafe { text(self.raw.receiver) }
    }

    /// Receivers present, and receivers that have to acknowledge.
    pub fn receivers(&self) -> (u32, u32) {
        (self.raw.receivers, self.raw.receivers_wanted)
    }

    /// Address of the other side, for people; empty if it has none.
    pub fn address(&self) -> &'a str {
        unsafe { text(self.raw.address) }
    }

    /// Path in the directory of a store; empty if it has none.
    pub fn file(&self) -> &'a str {
        unsafe { text(self.raw.file) }
    }

    /// Error of the system.
    pub fn error(&self) -> Option<io::Error> {
        (self.raw.error != 0).then(|| io::Error::from_raw_os_error(self.raw.error))
    }

    /// Identity of the stream; 0: none.
    pub fn stream(&self) -> u64 {
        self.raw.stream
    }

    /// Number in the stream of message 0 of the session.
    pub fn stream_base(&self) -> u64 {
        self.raw.stream_base
    }

    /// Term in the stream.
    pub fn stream_term(&self) -> u32 {
        self.raw.stream_term
    }

    /// Hash of the delivered message; 0 unless the kind has one.
    pub fn hash(&self) -> u64 {
        self.raw.hash
    }

    /// Hash of the copy that differs from it.
    pub fn hash_copy(&self) -> u64 {
        self.raw.hash_copy
    }

    /// Verdict of the slow-receiver policy.
    pub fn verdict(&self) -> Option<Verdict> {
        unsafe { self.raw.verdict.as_ref() }.map(Verdict::new)
    }

    /// Bottleneck of a receiver or a transmitter.
    pub fn bottleneck(&self) -> Option<Bottleneck> {
        unsafe { self.raw.bottleneck.as_ref() }.map(Bottleneck::new)
    }
}

impl fmt::Display for Event<'_> {
    /// A sentence for people.
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = [0_u8; 512];
        let size = unsafe { sys::llm_event_text(self.raw, line.as_mut_ptr().cast(), line.len()) };
        to.write_str(&String::from_utf8_lossy(&line[..size.min(line.len() - 1)]))
    }
}

impl fmt::Debug for Event<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "Event({self})")
    }
}

/// A text of the library; empty if there is none, or if it is not UTF-8.
///
/// # Safety
/// `text` is NULL, or ends with a zero and is valid for `'a`.
pub(crate) unsafe fn text<'a>(text: *const c_char) -> &'a str {
    if text.is_null() {
        return "";
    }
    unsafe { CStr::from_ptr(text) }.to_str().unwrap_or("")
}

macro_rules! copied {
    ($(#[$about:meta])* $name:ident of $raw:ident, $deciding:ident: $enum:ident = $text:literal, {
        $($(#[$field_about:meta])* $field:ident: $type:ty,)*
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct $name {
            #[doc = $text]
            pub $deciding: $enum,
            $($(#[$field_about])* pub $field: $type,)*
        }

        impl $name {
            pub(crate) fn new(raw: &sys::$raw) -> Self {
                Self { $deciding: $enum::from_raw(raw.$deciding), $($field: raw.$field,)* }
            }
        }
    };
}

copied! {
    /// A verdict of the slow-receiver policy and its figures; rates and shares are means over a second.
    Verdict of llm_verdict, threshold: Threshold = "The threshold that decided.", {
        /// Identity of the receiver; 0: all receivers.
        receiver: u64,
        /// The figure compared, in the unit of the threshold.
        value: u64,
        /// The limit that it reached.
        limit: u64,
        /// NAKs a second.
        naks_per_s: u64,
        /// NAKed share of the packets sent.
        nak_ppm: u64,
        /// Packets not yet received.
        lag_packets: u64,
        /// Lag in time.
        lag_ns: u64,
        /// Time since the receiver was last heard.
        silent_ns: u64,
        /// Expelled: it may come back after this time, 0: never.
        rejoin_ns: u64,
        /// Receivers that have reported.
        receivers: u32,
        /// Receivers, of these, that suffer.
        suffering: u32,
        /// True: no action was taken.
        dry_run: bool,
        /// Lag in bytes of the history.
        lag_bytes: u64,
        /// Time for which it owes an acknowledgement.
        ack_ns: u64,
    }
}

copied! {
    /// The bottleneck of a receiver or a transmitter over an interval, and the figures that show it.
    Bottleneck of llm_bottleneck, limit: Limit = "The bottleneck.", {
        /// Identity of the receiver that reported it; 0: measured in this context.
        receiver: u64,
        /// Length of the interval.
        time_ns: u64,
        /// Data packets received, or sent for the first time.
        packets: u64,
        /// Receivers: time between the starts of two polls of which the first delivered something.
        away_ns: u64,
        /// The longest of these.
        away_ns_max: u64,
        /// Receivers: packets found missing.
        packets_missed: u64,
        /// Receivers: packets dropped by their host.
        packets_dropped: u64,
        /// Transmitters: blocked by flow control.
        window_ns: u64,
        /// Transmitters: blocked by a rate limit.
        rate_ns: u64,
        /// Transmitters: blocked by messages that are not acknowledged.
        history_ns: u64,
        /// Transmitters: blocked by the transport.
        transport_ns: u64,
    }
}
