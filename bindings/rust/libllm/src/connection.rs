// SPDX-License-Identifier: Apache-2.0
//! Connections, and requests and replies over them.
use std::num::NonZeroU16;
use std::os::raw::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use crate::message::{bytes, Origin};
use crate::mode::{AsScope, Scope};
use crate::object::{Closes, Object, Root};
use crate::options::filled;
use crate::topic::{Owner, Topic, TopicFlags};
use crate::upcalls::{Closing, Handler, Upcalls};
use crate::{context, error, Allows, Context, Error, Event, EventKind, Local, Message, Mode, Options, Reason, Result};

type Peer = Object<sys::llm_connection>;

/// Argument of the handler of a connection.
#[derive(Clone, Copy, Debug)]
pub enum Incoming<'a> {
    /// A message of the other side.
    Message(Message<'a>),
    /// A request of the other side.
    Request(Request<'a>),
    /// [`EventKind::Connected`], [`EventKind::Disconnected`] and others.
    Event(Event<'a>),
}

/// A request of the other side. [`reply`](Self::reply) answers it, or later [`Connection::reply`] with its `id`.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Identity of the request.
    pub id: u64,
    /// Its bytes.
    pub data: &'a [u8],
    connection: *mut sys::llm_connection,
}

impl Request<'_> {
    /// Replies. A reply that comes too late is ignored by the other side.
    pub fn reply(&self, data: &[u8]) -> Result<()> {
        reply(self.connection, self.id, data)
    }
}

fn reply(connection: *mut sys::llm_connection, id: u64, data: &[u8]) -> Result<()> {
    error::done(unsafe { sys::llm_connection_reply(connection, id, data.as_ptr().cast(), data.len()) })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

// ------------------------------------------------------------------------------------------------------- handlers

/// References to connections: of the one that was opened, or of those that a listener accepted.
enum Known {
    Opened(Mutex<Weak<Peer>>),
    Accepted { closed: AtomicBool, list: Mutex<Vec<Arc<Peer>>> },
}

/// A handler of connections, and where the functions that C calls find the rest.
struct Bound<H> {
    upcalls: *const Upcalls,
    root: Weak<Root>,
    known: Known,
    handler: H,
}

/// A connection, inside its handler.
pub struct ConnectionRef<'a, 'h, M: Mode = Local> {
    raw: *mut sys::llm_connection,
    known: &'a Known,
    upcalls: *const Upcalls,
    _scope: Scope<'h, M>,
}

impl<'h, M: Mode> ConnectionRef<'_, 'h, M> {
    /// Identity of the connection: the same on both sides, random, never used again.
    pub fn id(&self) -> u64 {
        unsafe { sys::llm_connection_id(self.raw) }
    }

    /// A handle. None before [`EventKind::Connected`], and while the connection is closed.
    pub fn handle(&self) -> Option<Connection<'h, M>> {
        let object = match self.known {
            Known::Opened(object) => lock(object).upgrade(),
            Known::Accepted { list, .. } => lock(list).iter().find(|object| object.raw == self.raw).cloned(),
        };
        Some(Connection { object: object?, _scope: Scope::NEW })
    }

    /// Sends a request: [`Connection::request`].
    pub fn request<F>(&self, data: &[u8], timeout: Duration, reply: F) -> Result<()>
    where
        F: FnOnce(std::result::Result<&[u8], Reason>),
        M: Allows<'h, F>,
    {
        request(self.raw, self.upcalls, data, timeout, reply)
    }
}

impl<H> Bound<H> {
    /// Calls the handler.
    ///
    /// # Safety
    /// The library calls a handler with `arg`, and does so one at a time.
    #[inline(always)]
    unsafe fn call<'h, M: Mode>(arg: *mut c_void, raw: *mut sys::llm_connection, incoming: Incoming<'_>)
    where
        H: FnMut(ConnectionRef<'_, 'h, M>, Incoming<'_>),
    {
        let bound = arg.cast::<Self>();
        // Only the handler belongs to the thread that polls: a listener that is dropped by another one uses the rest.
        let (handler, known, upcalls) = unsafe { (&mut (*bound).handler, &(*bound).known, (*bound).upcalls) };
        let connection = ConnectionRef { raw, known, upcalls, _scope: Scope::NEW };
        unsafe { &*upcalls }.catch(|| handler(connection, incoming));
    }
}

unsafe extern "C" fn on_message<'h, M: Mode, H: FnMut(ConnectionRef<'_, 'h, M>, Incoming<'_>)>(
    arg: *mut c_void,
    raw: *mut sys::llm_connection,
    message: *const sys::llm_message,
) {
    unsafe { Bound::<H>::call(arg, raw, Incoming::Message(Message::new(message, Origin::Connection))) };
}

unsafe extern "C" fn on_request<'h, M: Mode, H: FnMut(ConnectionRef<'_, 'h, M>, Incoming<'_>)>(
    arg: *mut c_void,
    raw: *mut sys::llm_connection,
    asked: *const sys::llm_request,
) {
    let asked = unsafe { &*asked };
    let request = Request { id: asked.id, data: unsafe { bytes(asked.data, asked.size) }, connection: raw };
    unsafe { Bound::<H>::call(arg, raw, Incoming::Request(request)) };
}

unsafe extern "C" fn on_event<'h, M: Mode, H: FnMut(ConnectionRef<'_, 'h, M>, Incoming<'_>)>(
    arg: *mut c_void,
    raw: *mut sys::llm_connection,
    event: *const sys::llm_event,
) {
    let event = unsafe { Event::new(event) };
    if event.kind() == EventKind::Connected && !unsafe { Bound::<H>::connected(arg, raw) } {
        return;
    }
    unsafe { Bound::<H>::call(arg, raw, Incoming::Event(event)) };
    if event.kind() == EventKind::Disconnected {
        unsafe { Bound::<H>::disconnected(arg, raw) };
    }
}

impl<H> Bound<H> {
    /// Takes over an accepted connection. False: its listener is closed, and so will it be.
    unsafe fn connected(arg: *mut c_void, raw: *mut sys::llm_connection) -> bool {
        unsafe fn close(raw: *mut c_void) -> c_int {
            unsafe { sys::llm_connection::close(raw.cast()) }
        }
        let bound = arg.cast::<Self>();
        let (known, root) = unsafe { (&(*bound).known, &(*bound).root) };
        if let Known::Accepted { closed, list } = known {
            match root.upgrade() {
                Some(root) if !closed.load(Ordering::Acquire) => {
                    lock(list).push(Arc::new(Object::new(raw, root, None)))
                }
                Some(root) => {
                    root.upcalls.defer(Closing { raw: raw.cast(), close, _handler: None });
                    return false;
                }
                None => return false,
            }
        }
        true
    }

    /// Closes an accepted connection that is over, unless there is another handle of it.
    unsafe fn disconnected(arg: *mut c_void, raw: *mut sys::llm_connection) {
        let bound = arg.cast::<Self>();
        let (known, upcalls) = unsafe { (&(*bound).known, &*(*bound).upcalls) };
        if let Known::Accepted { list, .. } = known {
            let mut list = lock(list);
            if let Some(at) = list.iter().position(|object| object.raw == raw) {
                let object = list.swap_remove(at);
                drop(list);
                upcalls.catch(|| drop(object));
            }
        }
    }
}

fn handlers_of<'h, M: Mode, H>(arg: *mut c_void) -> sys::llm_connection_handlers
where
    H: FnMut(ConnectionRef<'_, 'h, M>, Incoming<'_>),
{
    let mut handlers = filled(sys::llm_connection_handlers_init);
    handlers.arg = arg;
    handlers.message = Some(on_message::<M, H>);
    handlers.request = Some(on_request::<M, H>);
    handlers.event = Some(on_event::<M, H>);
    handlers
}

// ------------------------------------------------------------------------------------------------------- requests

struct Waiting<F> {
    upcalls: *const Upcalls,
    reply: F,
}

unsafe extern "C" fn on_reply<F: FnOnce(std::result::Result<&[u8], Reason>)>(
    arg: *mut c_void,
    reason: sys::llm_reason,
    data: *const c_void,
    size: usize,
) {
    let waiting = unsafe { Box::from_raw(arg.cast::<Waiting<F>>()) };
    let (reply, upcalls) = (waiting.reply, waiting.upcalls);
    let answer = match reason {
        sys::LLM_REASON_NONE => Ok(unsafe { bytes(data, size) }),
        other => Err(Reason::from_raw(other)),
    };
    unsafe { &*upcalls }.catch(|| reply(answer));
}

fn request<F: FnOnce(std::result::Result<&[u8], Reason>)>(
    connection: *mut sys::llm_connection,
    upcalls: *const Upcalls,
    data: &[u8],
    timeout: Duration,
    reply: F,
) -> Result<()> {
    let waiting = Box::into_raw(Box::new(Waiting { upcalls, reply }));
    let timeout = context::ns(timeout);
    let code = unsafe {
        let data = (data.as_ptr().cast(), data.len());
        sys::llm_connection_request(connection, data.0, data.1, timeout, Some(on_reply::<F>), waiting.cast())
    };
    if code < 0 {
        drop(unsafe { Box::from_raw(waiting) });
    }
    error::done(code)
}

// ----------------------------------------------------------------------------------------------------- connection

/// A connection is reliable unicast: each side receives every message of the other once and in order, until
/// [`EventKind::Disconnected`]. Clones are handles of the same connection; it is closed with the last one, and the last topic of it.
pub struct Connection<'h, M: Mode = Local> {
    object: Arc<Peer>,
    _scope: Scope<'h, M>,
}

impl<M: Mode> Clone for Connection<'_, M> {
    fn clone(&self) -> Self {
        Self { object: self.object.clone(), _scope: Scope::NEW }
    }
}

impl<'h, M: Mode> Connection<'h, M> {
    /// Requests a connection from the listener on the channel, and shows it the payload. [`EventKind::Connected`] or
    /// [`EventKind::Disconnected`] follows. May block while the transport opens.
    pub fn open<H>(context: &Context<'h, M>, channel: &str, payload: &[u8], handler: H) -> Result<Self>
    where
        H: FnMut(ConnectionRef<'_, 'h, M>, Incoming<'_>),
        M: Allows<'h, H>,
    {
        Self::open_with(context, channel, &Options::for_connections(), payload, handler)
    }

    /// The same, with options: begin with those of [`Options::for_connections`].
    pub fn open_with<H>(
        context: &Context<'h, M>,
        channel: &str,
        options: &Options,
        payload: &[u8],
        handler: H,
    ) -> Result<Self>
    where
        H: FnMut(ConnectionRef<'_, 'h, M>, Incoming<'_>),
        M: Allows<'h, H>,
    {
        let (channel, options) = (context::text(channel)?, options.checked()?);
        let upcalls: *const Upcalls = &**context.root.upcalls;
        let known = Known::Opened(Mutex::default());
        let bound = Handler::new(Bound { upcalls, root: Arc::downgrade(&context.root), known, handler });
        let handlers = handlers_of::<M, H>(bound.memory());
        let piece = sys::iovec { iov_base: payload.as_ptr() as *mut c_void, iov_len: payload.len() };
        let payload = if payload.is_empty() { ptr::null() } else { &piece };
        let known = unsafe { &*ptr::addr_of!((*bound.memory().cast::<Bound<H>>()).known) };
        // Its handler, which may run on another thread, waits for the reference.
        let mut reference = match known {
            Known::Opened(object) => lock(object),
            Known::Accepted { .. } => return Err(Error::State),
        };
        let mut raw = ptr::null_mut();
        error::done(unsafe {
            sys::llm_connection_open(context.root.raw, channel.as_ptr(), options, &handlers, payload, &mut raw)
        })?;
        let object = Arc::new(Object::new(raw, context.root.clone(), Some(bound)));
        *reference = Arc::downgrade(&object);
        drop(reference);
        Ok(Self { object, _scope: Scope::NEW })
    }

    /// Identity of the connection: the same on both sides, random, never used again.
    pub fn id(&self) -> u64 {
        unsafe { sys::llm_connection_id(self.object.raw) }
    }

    /// Opens a topic to the other side. [`Error::State`] before [`EventKind::Connected`].
    pub fn topic(&self, name: &str) -> Result<Topic<'h, M>> {
        let transmitter = unsafe { sys::llm_connection_transmitter(self.object.raw) };
        if transmitter.is_null() {
            return Err(Error::State);
        }
        Topic::open(transmitter, Owner::Connection(self.object.clone()), name, TopicFlags::NONE)
    }

    /// Sends a request to the other side. `reply` is called once, as a handler: with the answer that comes in time, or with the reason
    /// for its absence. Allocates.
    pub fn request<F>(&self, data: &[u8], timeout: Duration, reply: F) -> Result<()>
    where
        F: FnOnce(std::result::Result<&[u8], Reason>),
        M: Allows<'h, F>,
    {
        request(self.object.raw, &**self.object.root.upcalls, data, timeout, reply)
    }

    /// Replies to the request with this identity.
    pub fn reply(&self, id: u64, data: &[u8]) -> Result<()> {
        reply(self.object.raw, id, data)
    }

    /// Ends the connection. Blocks, polling the context, until the other side has all messages, is gone, or `linger_ns` has passed. False:
    /// the other side is not known to have everything.
    ///
    /// [`Error::State`]: another handle of it is left, or inside a handler, unless the connection is over.
    pub fn close(self) -> Result<bool> {
        Object::close(self.object).map(|undelivered| undelivered == 0)
    }
}

// ------------------------------------------------------------------------------------------------------- listener

/// A peer that requests a connection.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Caller<'a> {
    /// Identity of the connection.
    pub id: u64,
    /// The payload that it shows.
    pub payload: &'a [u8],
    /// Longest message that it accepts.
    pub message_bytes_max: u32,
}

/// Answer to a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The connection is accepted.
    Accept,
    /// It is refused, with a code.
    Refuse(NonZeroU16),
    /// [`Listener::accept`] or [`Listener::refuse`] follows.
    Later,
}

/// The accept handler of a listener, beside the handler of its connections.
struct Calls<A, H> {
    accept: A,
    bound: Bound<H>,
}

/// Address of the handler of the connections of a listener.
///
/// # Safety
/// `arg` is of a `Calls<A, H>`.
unsafe fn bound_of<A, H>(arg: *mut c_void) -> *mut c_void {
    unsafe { ptr::addr_of_mut!((*arg.cast::<Calls<A, H>>()).bound).cast() }
}

unsafe extern "C" fn on_connect<'h, M, A, H>(
    arg: *mut c_void,
    _listener: *mut sys::llm_listener,
    caller: *const sys::llm_caller,
    handlers: *mut sys::llm_connection_handlers,
) -> c_int
where
    M: Mode,
    A: FnMut(Caller<'_>) -> Answer,
    H: FnMut(ConnectionRef<'_, 'h, M>, Incoming<'_>),
{
    /// Refusal of a handler that panicked.
    const PANICKED: c_int = 65535;
    let (calls, raw) = unsafe { (arg.cast::<Calls<A, H>>(), &*caller) };
    let payload = unsafe { bytes(raw.payload, raw.payload_size) };
    let caller = Caller { id: raw.id, payload, message_bytes_max: raw.message_bytes_max };
    let (accept, upcalls) = unsafe { (&mut *ptr::addr_of_mut!((*calls).accept), &*(*calls).bound.upcalls) };
    match upcalls.catch(|| accept(caller)) {
        Some(Answer::Accept) => {
            unsafe { *handlers = handlers_of::<M, H>(bound_of::<A, H>(arg)) };
            sys::LLM_OK
        }
        Some(Answer::Refuse(code)) => code.get().into(),
        Some(Answer::Later) => sys::LLM_EAGAIN,
        None => PANICKED,
    }
}

/// Listens for connection requests, and owns the connections that it accepts: they are closed when they are over, and with it, unless
/// there are other handles of them.
pub struct Listener<'h, M: Mode = Local> {
    object: Arc<Object<sys::llm_listener>>,
    handlers: AsScope<sys::llm_connection_handlers>,
    /// Closes the connections.
    hang_up: unsafe fn(*mut c_void),
    _scope: Scope<'h, M>,
}

impl<'h, M: Mode> Listener<'h, M> {
    /// Listens on a channel. `accept` answers callers, `handler` is that of all connections.
    pub fn open<A, H>(context: &Context<'h, M>, channel: &str, accept: A, handler: H) -> Result<Self>
    where
        A: FnMut(Caller<'_>) -> Answer,
        H: FnMut(ConnectionRef<'_, 'h, M>, Incoming<'_>),
        M: Allows<'h, A> + Allows<'h, H>,
    {
        Self::open_with(context, channel, &Options::for_connections(), accept, handler)
    }

    /// The same, with options: begin with those of [`Options::for_connections`].
    pub fn open_with<A, H>(
        context: &Context<'h, M>,
        channel: &str,
        options: &Options,
        accept: A,
        handler: H,
    ) -> Result<Self>
    where
        A: FnMut(Caller<'_>) -> Answer,
        H: FnMut(ConnectionRef<'_, 'h, M>, Incoming<'_>),
        M: Allows<'h, A> + Allows<'h, H>,
    {
        unsafe fn hang_up<H>(bound: *mut c_void) {
            let known = unsafe { &(*bound.cast::<Bound<H>>()).known };
            if let Known::Accepted { closed, list } = known {
                closed.store(true, Ordering::Release);
                let connections = std::mem::take(&mut *lock(list));
                drop(connections);
            }
        }
        let (channel, options) = (context::text(channel)?, options.checked()?);
        let known = Known::Accepted { closed: AtomicBool::new(false), list: Mutex::default() };
        let root = Arc::downgrade(&context.root);
        let calls =
            Handler::new(Calls { accept, bound: Bound { upcalls: &**context.root.upcalls, root, known, handler } });
        let connections = handlers_of::<M, H>(unsafe { bound_of::<A, H>(calls.memory()) });
        let mut handlers = filled(sys::llm_listener_handlers_init);
        handlers.arg = calls.memory();
        handlers.connect = Some(on_connect::<M, A, H>);
        let mut raw = ptr::null_mut();
        error::done(unsafe {
            sys::llm_listener_open(context.root.raw, channel.as_ptr(), options, &handlers, &mut raw)
        })?;
        let object = Arc::new(Object::new(raw, context.root.clone(), Some(calls)).outlived());
        Ok(Self { object, handlers: AsScope(connections), hang_up: hang_up::<H>, _scope: Scope::NEW })
    }

    /// Accepts a caller that was answered [`Answer::Later`].
    pub fn accept(&self, id: u64) -> Result<()> {
        error::done(unsafe { sys::llm_listener_accept(self.object.raw, id, &self.handlers.0) })
    }

    /// Refuses such a caller, with a code.
    pub fn refuse(&self, id: u64, code: NonZeroU16) -> Result<()> {
        error::done(unsafe { sys::llm_listener_refuse(self.object.raw, id, code.get().into()) })
    }
}

impl<M: Mode> Drop for Listener<'_, M> {
    fn drop(&mut self) {
        unsafe { (self.hang_up)(self.handlers.0.arg) };
    }
}
