// SPDX-License-Identifier: Apache-2.0
//! Receivers and their handlers.
use std::os::raw::{c_int, c_void};
use std::ptr;
use std::sync::Arc;

use crate::message::Origin;
use crate::mode::Scope;
use crate::object::Object;
use crate::options::filled;
use crate::upcalls::{Handler, Upcalls};
use crate::{context, error, event};
use crate::{Allows, Bottleneck, Context, Event, Filter, JoinMode, Local, Message, Messages, Mode, Options, Result};

/// Argument of a closure that is the handler of a receiver or a replay.
#[derive(Clone, Copy, Debug)]
pub enum Delivery<'a> {
    /// A message.
    Message(Message<'a>),
    /// An event, in order with the messages.
    Event(Event<'a>),
}

/// Handler of a receiver or of a replay. Closures that take a [`Delivery`] are handlers, too.
pub trait ReceiverHandler {
    /// True: messages that arrived together come together, by [`messages`](Self::messages).
    const TOGETHER: bool = false;

    /// A message.
    fn message(&mut self, message: Message<'_>);

    /// Messages that arrived together, and are next in order. If this panics, the handler has had all of them.
    fn messages(&mut self, messages: Messages<'_>) {
        messages.for_each(|message| self.message(message));
    }

    /// An event: above all [`EventKind::Gap`](crate::EventKind::Gap), which names the lost messages.
    fn event(&mut self, event: Event<'_>);

    /// True: follow the session, or the topic of it. Asked once for each.
    fn accept(&mut self, source: Source<'_>) -> bool {
        let _ = source;
        true
    }

    /// Position at which to begin with a session; None: as the options say.
    fn join(&mut self, session: u64) -> Option<(JoinMode, u64)> {
        let _ = session;
        None
    }
}

impl<F: FnMut(Delivery<'_>)> ReceiverHandler for F {
    #[inline]
    fn message(&mut self, message: Message<'_>) {
        self(Delivery::Message(message));
    }

    #[inline]
    fn event(&mut self, event: Event<'_>) {
        self(Delivery::Event(event));
    }
}

/// A session, or a topic of one, that a receiver is asked to accept.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The session.
    pub session: u64,
    /// The topic; None: the session as a whole.
    pub topic: Option<&'a str>,
}

/// A handler, and where the functions that C calls find the rest.
struct Bound<H> {
    upcalls: *const Upcalls,
    /// The receiver or the replay. The library writes it while it opens that, before a handler runs.
    object: *mut c_void,
    handler: H,
}

impl<H: ReceiverHandler> Bound<H> {
    /// Calls the handler.
    ///
    /// # Safety
    /// The library calls a handler with `arg`, and does so one at a time.
    #[inline(always)]
    unsafe fn call<R>(arg: *mut c_void, call: impl FnOnce(&mut H, *mut c_void) -> R) -> Option<R> {
        let bound = unsafe { &mut *arg.cast::<Self>() };
        let (handler, object) = (&mut bound.handler, bound.object);
        unsafe { &*bound.upcalls }.catch(|| call(handler, object))
    }
}

fn origin(object: *mut c_void, replay: bool) -> Origin {
    if replay {
        Origin::Replay(object.cast())
    } else {
        Origin::Receiver(object.cast())
    }
}

unsafe extern "C" fn on_message<H: ReceiverHandler, const REPLAY: bool>(
    arg: *mut c_void,
    message: *const sys::llm_message,
) {
    unsafe {
        Bound::<H>::call(arg, |handler, object| handler.message(Message::new(message, origin(object, REPLAY))));
    }
}

unsafe extern "C" fn on_messages<H: ReceiverHandler, const REPLAY: bool>(
    arg: *mut c_void,
    first: *const sys::llm_message,
    count: c_int,
) {
    unsafe {
        Bound::<H>::call(arg, |handler, object| {
            handler.messages(Messages::new(first, count as usize, origin(object, REPLAY)));
        });
    }
}

unsafe extern "C" fn on_event<H: ReceiverHandler>(arg: *mut c_void, event: *const sys::llm_event) {
    unsafe { Bound::<H>::call(arg, |handler, _| handler.event(Event::new(event))) };
}

/// After a panic what was asked about is not followed.
unsafe extern "C" fn on_accept<H: ReceiverHandler>(arg: *mut c_void, source: *const sys::llm_source) -> bool {
    let raw = unsafe { &*source };
    let topic = (!raw.topic.is_null()).then(|| unsafe { event::text(raw.topic) });
    let source = Source { session: raw.session, topic };
    unsafe { Bound::<H>::call(arg, |handler, _| handler.accept(source)) }.unwrap_or(false)
}

unsafe extern "C" fn on_join<H: ReceiverHandler>(arg: *mut c_void, session: u64, join: *mut sys::llm_join) {
    let chosen = unsafe { Bound::<H>::call(arg, |handler, _| handler.join(session)) };
    if let Some(Some((mode, value))) = chosen {
        unsafe { *join = sys::llm_join { mode: mode.raw(), value } };
    }
}

/// Memory of a handler, the structure for C, and where the library writes the object.
pub(crate) fn bind<H: ReceiverHandler, const REPLAY: bool>(
    handler: H,
    upcalls: *const Upcalls,
) -> (Handler, sys::llm_receiver_handlers, *mut *mut c_void) {
    let bound = Handler::new(Bound { upcalls, object: ptr::null_mut(), handler });
    let mut handlers = filled(sys::llm_receiver_handlers_init);
    handlers.arg = bound.memory();
    if H::TOGETHER {
        handlers.messages = Some(on_messages::<H, REPLAY>);
    } else {
        handlers.message = Some(on_message::<H, REPLAY>);
    }
    handlers.event = Some(on_event::<H>);
    handlers.accept = Some(on_accept::<H>);
    handlers.join = Some(on_join::<H>);
    let object = unsafe { ptr::addr_of_mut!((*bound.memory().cast::<Bound<H>>()).object) };
    (bound, handlers, object)
}

/// A receiver joins a channel, follows every session on it that its handler accepts, and delivers messages and events in order.
pub struct Receiver<'h, M: Mode = Local> {
    object: Arc<Object<sys::llm_receiver>>,
    _scope: Scope<'h, M>,
}

impl<M: Mode> Clone for Receiver<'_, M> {
    fn clone(&self) -> Self {
        Self { object: self.object.clone(), _scope: Scope::NEW }
    }
}

impl<'h, M: Mode> Receiver<'h, M> {
    /// Opens a receiver on a channel, such as `udp://239.192.1.1:5001`. May block while the transport opens.
    pub fn open<H>(context: &Context<'h, M>, channel: &str, handler: H) -> Result<Self>
    where
        H: ReceiverHandler,
        M: Allows<'h, H>,
    {
        Self::open_with(context, channel, &Options::new(), handler)
    }

    /// The same, with options.
    pub fn open_with<H>(context: &Context<'h, M>, channel: &str, options: &Options, handler: H) -> Result<Self>
    where
        H: ReceiverHandler,
        M: Allows<'h, H>,
    {
        let (channel, options) = (context::text(channel)?, options.checked()?);
        let (bound, handlers, object) = bind::<H, false>(handler, &**context.root.upcalls);
        let raw = object.cast();
        error::done(unsafe { sys::llm_receiver_open(context.root.raw, channel.as_ptr(), options, &handlers, raw) })?;
        let object = Object::new(unsafe { *raw }, context.root.clone(), Some(bound));
        Ok(Self { object: Arc::new(object), _scope: Scope::NEW })
    }

    /// Delivers only topics that match this subject, or another that was subscribed to: `prices.*.bonds`, `prices.>`.
    pub fn subscribe(&self, subject: &str) -> Result<()> {
        let subject = context::text(subject)?;
        error::done(unsafe { sys::llm_receiver_subscribe(self.object.raw, subject.as_ptr()) })
    }

    /// Removes a subject, as it was written.
    pub fn unsubscribe(&self, subject: &str) -> Result<()> {
        let subject = context::text(subject)?;
        error::done(unsafe { sys::llm_receiver_unsubscribe(self.object.raw, subject.as_ptr()) })
    }

    /// Sets the filter: messages that it does not select are not delivered. None: every message is.
    pub fn filter(&self, filter: Option<&Filter>) -> Result<()> {
        match filter {
            Some(filter) => unsafe { filter.set(self.object.raw) },
            None => error::done(unsafe { sys::llm_receiver_filter(self.object.raw, ptr::null()) }),
        }
    }

    /// Acknowledges every message of the session up to this number. [`Message::acknowledge`] does it for a message.
    pub fn acknowledge(&self, session: u64, number: u64) -> Result<()> {
        error::done(unsafe { sys::llm_receiver_acknowledge(self.object.raw, session, number) })
    }

    /// The bottleneck over the latest interval of the watch.
    pub fn bottleneck(&self) -> Result<Bottleneck> {
        let mut found = unsafe { std::mem::zeroed() };
        error::done(unsafe { sys::llm_receiver_bottleneck(self.object.raw, &mut found) })?;
        Ok(Bottleneck::new(&found))
    }

    /// Leaves the channel. [`Error::State`](crate::Error::State): inside a handler, or another clone is left.
    pub fn close(self) -> Result<()> {
        Object::close(self.object).map(drop)
    }
}
