// SPDX-License-Identifier: Apache-2.0
//! Transmitters.
use std::os::raw::c_void;
use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use crate::mode::Scope;
use crate::object::Object;
use crate::options::filled;
use crate::topic::{Owner, Topic, TopicFlags};
use crate::upcalls::{Handler, Upcalls};
use crate::{context, error, Allows, Bottleneck, Context, Event, Local, Mode, Options, Result};

/// A session: a random identity, one sequence of packets, one history for repairs, many topics.
///
/// It is closed with the last handle: of it, and of its topics.
pub struct Transmitter<'h, M: Mode = Local> {
    object: Arc<Object<sys::llm_transmitter>>,
    _scope: Scope<'h, M>,
}

/// Handler of events: of a transmitter, or of a store.
pub(crate) struct Events<H> {
    pub(crate) upcalls: *const Upcalls,
    pub(crate) handler: H,
}

pub(crate) unsafe extern "C" fn on_event<H: FnMut(Event<'_>)>(arg: *mut c_void, event: *const sys::llm_event) {
    let events = unsafe { &mut *arg.cast::<Events<H>>() };
    let handler = &mut events.handler;
    unsafe { &*events.upcalls }.catch(|| handler(unsafe { Event::new(event) }));
}

impl<'h, M: Mode> Transmitter<'h, M> {
    /// Opens a transmitter on a channel, such as `udp://239.192.1.1:5001`. Its events are logged as warnings. May block while the
    /// transport opens. The context has to be polled as well: repairs and heartbeats are sent there.
    pub fn open(context: &Context<'h, M>, channel: &str) -> Result<Self> {
        Self::open_raw(context, channel, ptr::null(), &filled(sys::llm_transmitter_handlers_init), None)
    }

    /// The same, with options and a handler of events.
    pub fn open_with<H>(context: &Context<'h, M>, channel: &str, options: &Options, handler: H) -> Result<Self>
    where
        H: FnMut(Event<'_>),
        M: Allows<'h, H>,
    {
        let events = Handler::new(Events { upcalls: &**context.root.upcalls, handler });
        let mut handlers = filled(sys::llm_transmitter_handlers_init);
        handlers.arg = events.memory();
        handlers.event = Some(on_event::<H>);
        Self::open_raw(context, channel, options.checked()?, &handlers, Some(events))
    }

    fn open_raw(
        context: &Context<'h, M>,
        channel: &str,
        options: *const sys::llm_options,
        handlers: &sys::llm_transmitter_handlers,
        handler: Option<Handler>,
    ) -> Result<Self> {
        let channel = context::text(channel)?;
        let mut raw = ptr::null_mut();
        let code =
            unsafe { sys::llm_transmitter_open(context.root.raw, channel.as_ptr(), options, handlers, &mut raw) };
        error::done(code)?;
        Ok(Self { object: Arc::new(Object::new(raw, context.root.clone(), handler)), _scope: Scope::NEW })
    }

    /// Opens a topic with the defaults, and announces it.
    pub fn topic(&self, name: &str) -> Result<Topic<'h, M>> {
        self.topic_with(name, TopicFlags::NONE)
    }

    /// Opens a topic with flags.
    pub fn topic_with(&self, name: &str, flags: TopicFlags) -> Result<Topic<'h, M>> {
        Topic::open(self.object.raw, Owner::Transmitter(self.object.clone()), name, flags)
    }

    /// Identity of the session; random, never used again.
    pub fn session(&self) -> u64 {
        unsafe { sys::llm_transmitter_session(self.object.raw) }
    }

    /// Number that the next message will have.
    pub fn next_number(&self) -> u64 {
        unsafe { sys::llm_transmitter_next(self.object.raw) }
    }

    /// Receivers known by their status reports.
    pub fn receivers(&self) -> u32 {
        unsafe { sys::llm_transmitter_receivers(self.object.raw) }
    }

    /// Polls the context until so many receivers are known or the time has passed. Returns the number that is known.
    pub fn wait_for(&self, receivers: u32, timeout: Duration) -> Result<usize> {
        let code = unsafe { sys::llm_transmitter_wait(self.object.raw, receivers, context::ns(timeout)) };
        self.object.root.upcalls.after(code)
    }

    /// Sends packed messages.
    #[inline]
    pub fn flush(&self) -> Result<()> {
        error::done(unsafe { sys::llm_transmitter_flush(self.object.raw) })
    }

    /// Longest message that [`Topic::claim`] takes.
    pub fn claim_max(&self) -> usize {
        unsafe { sys::llm_transmitter_claim_max(self.object.raw) }
    }

    /// Limits the rates from now on, in bytes a second; 0: no limit.
    pub fn limit_rate(&self, bytes_per_s: u64, repair_bytes_per_s: u64) -> Result<()> {
        let mut rate = filled(sys::llm_rate_init);
        rate.bytes_per_s = bytes_per_s;
        rate.repair_bytes_per_s = repair_bytes_per_s;
        error::done(unsafe { sys::llm_transmitter_limit_rate(self.object.raw, &rate) })
    }

    /// Suspends a receiver: it gets no repairs, and flow control does not wait for it.
    pub fn suspend(&self, receiver: u64) -> Result<()> {
        error::done(unsafe { sys::llm_transmitter_suspend(self.object.raw, receiver) })
    }

    /// Answers the NAKs of a receiver again.
    pub fn resume(&self, receiver: u64) -> Result<()> {
        error::done(unsafe { sys::llm_transmitter_resume(self.object.raw, receiver) })
    }

    /// Stops answering the NAKs of all receivers.
    pub fn suspend_all(&self) -> Result<()> {
        error::done(unsafe { sys::llm_transmitter_suspend_all(self.object.raw) })
    }

    /// Answers NAKs again, except those of receivers that are suspended one by one.
    pub fn resume_all(&self) -> Result<()> {
        error::done(unsafe { sys::llm_transmitter_resume_all(self.object.raw) })
    }

    /// The bottleneck over the latest interval of the watch.
    pub fn bottleneck(&self) -> Result<Bottleneck> {
        let mut found = unsafe { std::mem::zeroed() };
        error::done(unsafe { sys::llm_transmitter_bottleneck(self.object.raw, &mut found) })?;
        Ok(Bottleneck::new(&found))
    }

    /// The receivers that are known, each according to its latest report.
    pub fn congestion(&self) -> Result<Vec<Congestion>> {
        let mut found = Vec::<sys::llm_congestion>::new();
        loop {
            let room = found.capacity();
            let count = unsafe { sys::llm_transmitter_congestion(self.object.raw, found.as_mut_ptr(), room as i32) };
            let count = error::count(count)?;
            if count <= room {
                unsafe { found.set_len(count) };
                return Ok(found.iter().map(Congestion::new).collect());
            }
            found.reserve(count);
        }
    }

    /// Ends the session. Blocks, polling the context, until every known receiver has all messages, or `linger_ns` has passed. Returns the
    /// number of receivers that did not report to have everything, at least 1 if messages of assured topics were not acknowledged.
    ///
    /// [`Error::State`](crate::Error::State): inside a handler, or a [`Topic`] is left; the transmitter is closed with that.
    pub fn close(self) -> Result<usize> {
        Object::close(self.object)
    }
}

/// A receiver, according to its latest report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Congestion {
    /// Identity of the receiver.
    pub receiver: u64,
    /// Time at which it was heard, by [`clock_ns`](crate::clock_ns).
    pub heard_at: u64,
    /// Round trip; 0: not measured.
    pub rtt_ns: u64,
    /// Packets sent by then that it neither had nor gave up.
    pub lag_packets: u64,
    /// Packets that its window holds.
    pub window_packets: u64,
    /// NAKs that it sent since it follows the session.
    pub naks: u64,
    /// Packets that it lost.
    pub packets_lost: u64,
    /// Packets that its host dropped, if it runs a watch.
    pub packets_dropped: u64,
    /// Its bottleneck, if it runs a watch.
    pub bottleneck: Option<Bottleneck>,
}

impl Congestion {
    fn new(raw: &sys::llm_congestion) -> Self {
        Self {
            receiver: raw.receiver,
            heard_at: raw.heard_at,
            rtt_ns: raw.rtt_ns,
            lag_packets: raw.lag_packets,
            window_packets: raw.window_packets,
            naks: raw.naks,
            packets_lost: raw.packets_lost,
            packets_dropped: raw.packets_dropped,
            bottleneck: raw.reports.then(|| Bottleneck::new(&raw.bottleneck)),
        }
    }
}
