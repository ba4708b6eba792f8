// SPDX-License-Identifier: Apache-2.0
//! The crate over the loop transport: owners, handlers, results, panics, threads.
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io::IoSlice;
use std::num::NonZeroU16;
use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};
use std::{env, fs, process, thread};

use libllm::*;

const OPTIONS: &str =
    "mtu=1500&linger_ns=100000000&history_bytes=1M&history_packets=256&reorder_bytes=64K&sessions_max=4&\
                       message_bytes_max=64K&topics_max=8&window_packets=64&rcvbuf_bytes=4M";
const CALL_OPTIONS: &str = "history_bytes=1M&history_packets=256&reorder_bytes=64K&message_bytes_max=64K";
const PATIENCE: Duration = Duration::from_secs(60);

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // A thread that ends has none of its own any more.
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        System.alloc(layout)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        System.dealloc(memory, layout);
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn quiet() -> ContextOptions {
    ContextOptions::new().huge_pages(false).log(Level::Error, |_, _| ())
}

fn poll_until(context: &Context, condition: impl Fn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < until);
        context.poll().unwrap();
    }
}

/// A handler that is a structure: refuses a topic, and counts.
struct Desk<'a> {
    prices: &'a Cell<f64>,
    texts: &'a RefCell<Vec<String>>,
    events: &'a RefCell<HashMap<EventKind, u32>>,
}

impl ReceiverHandler for Desk<'_> {
    fn message(&mut self, message: Message) {
        match message.topic() {
            "quotes" => self.prices.set(self.prices.get() + f64::from_le_bytes(message.data().try_into().unwrap())),
            _ => self.texts.borrow_mut().push(message.text().unwrap().to_owned()),
        }
    }

    fn event(&mut self, event: Event) {
        *self.events.borrow_mut().entry(event.kind()).or_default() += 1;
        assert!(!event.to_string().is_empty());
    }

    fn accept(&mut self, source: Source) -> bool {
        source.topic != Some("unwanted")
    }

    fn join(&mut self, session: u64) -> Option<(JoinMode, u64)> {
        assert_ne!(session, 0);
        Some((JoinMode::Oldest, 0))
    }
}

#[test]
fn messages_and_events_arrive() {
    let channel = format!("loop://rust:1?{OPTIONS}");
    let (prices, texts, events) = Default::default();
    let context = quiet().open().unwrap();
    let desk = Desk { prices: &prices, texts: &texts, events: &events };
    let _receiver = Receiver::open(&context, &channel, desk).unwrap();
    let transmitter = Transmitter::open(&context, &channel).unwrap();
    let quotes = transmitter.topic_with("quotes", TopicFlags::WHOLE | TopicFlags::NO_HISTORY).unwrap();
    let news = transmitter.topic("news").unwrap();
    let unwanted = transmitter.topic("unwanted").unwrap();

    quotes.send(&1.5_f64.to_le_bytes()).unwrap();
    news.send_more(b"up").unwrap();
    news.send_pieces(&[IoSlice::new(b"do"), IoSlice::new(b"wn")], SendFlags::MORE | SendFlags::NOW).unwrap();
    unwanted.send_now(b"x").unwrap();
    // Without commit() the room is given back.
    drop(quotes.claim(8).unwrap());
    let mut room = quotes.claim(16).unwrap();
    assert!(matches!(quotes.claim(8), Err(Error::State)));
    room[..8].copy_from_slice(&2.5_f64.to_le_bytes());
    room.commit_first(8, SendFlags::NONE).unwrap();
    assert_eq!(quotes.claim(8).unwrap().commit_first(9, SendFlags::NONE), Err(Error::InvalidArgument));
    news.send(b"").unwrap();
    poll_until(&context, || texts.borrow().len() == 3 && prices.get() == 4.0);
    assert_eq!(*texts.borrow(), ["up", "down", ""]);
    assert_eq!(events.borrow()[&EventKind::SessionNew], 1);
    assert_eq!(transmitter.next_number(), 6);
    assert_eq!(context.counter("messages_delivered"), Ok(5));
    assert_eq!(context.counter("no such counter"), Err(Error::NotFound));
    let counters = context.counters().unwrap();
    assert!(counters.iter().any(|counter| counter.name == "messages_delivered" && counter.value == 5));
    drop((quotes, news));
    let copy = unwanted.clone();
    drop(unwanted);
    // A topic is left; the transmitter ends with it.
    let session = transmitter.session();
    assert_eq!(transmitter.close(), Err(Error::State));
    copy.send(b"y").unwrap();
    assert_ne!(session, 0);
    drop(copy);
    poll_until(&context, || events.borrow().contains_key(&EventKind::SessionEnd));
}

#[test]
fn messages_that_arrive_together_come_together_without_allocation() {
    let channel = format!("loop://rust:2?{OPTIONS}");
    struct Together<'a>(&'a Cell<u64>);
    impl ReceiverHandler for Together<'_> {
        const TOGETHER: bool = true;
        fn message(&mut self, _: Message) {
            unreachable!();
        }
        fn messages(&mut self, messages: Messages) {
            assert!(messages.len() > 0);
            for message in messages {
                assert_eq!(message.number(), self.0.get());
                self.0.set(self.0.get() + 1);
            }
        }
        fn event(&mut self, _: Event) {}
    }
    let count = Cell::new(0);
    let context = quiet().open().unwrap();
    let _receiver = Receiver::open(&context, &channel, Together(&count)).unwrap();
    let transmitter = Transmitter::open(&context, &channel).unwrap();
    let topic = transmitter.topic("t").unwrap();
    topic.send(b"first").unwrap();
    poll_until(&context, || count.get() == 1);
    let before = ALLOCATIONS.with(Cell::get);
    for i in 0..1000_u32 {
        assert!(matches!(topic.send_more(&i.to_le_bytes()), Ok(()) | Err(Error::Again)));
        context.poll().unwrap();
    }
    poll_until(&context, || count.get() == transmitter.next_number());
    assert_eq!(ALLOCATIONS.with(Cell::get), before);
}

#[test]
fn errors_are_values() {
    let channel = format!("loop://rust:3?{OPTIONS}");
    let lines = Arc::new(Mutex::new(Vec::new()));
    let written = lines.clone();
    let log = move |level, text: &str| written.lock().unwrap().push((level, text.to_owned()));
    let context = ContextOptions::new().huge_pages(false).log(Level::Warning, log).open().unwrap();
    let error = Transmitter::open(&context, "nothing://a:1").err().unwrap();
    assert_eq!((error, error.name(), error.code()), (Error::Scheme, "LLM_ESCHEME", -3));
    assert!(error.to_string().contains("scheme"));
    assert_eq!(lines.lock().unwrap()[0].0, Level::Error);
    assert!(lines.lock().unwrap()[0].1.contains("nothing"));
    assert_eq!(Transmitter::open(&context, "loop://a\0:1").err(), Some(Error::InvalidArgument));
    let long = Options::new().stream(&"x".repeat(64));
    assert_eq!(Transmitter::open_with(&context, &channel, &long, |_| ()).err(), Some(Error::Option));
    let small = Options::new().message_bytes_max(10).join(JoinMode::Oldest).loop_(0);
    let transmitter = Transmitter::open_with(&context, "loop://rust-few-options:1", &small, |_| ()).unwrap();
    assert_eq!(transmitter.topic("").err(), Some(Error::InvalidArgument));
    assert_eq!(transmitter.topic("t").unwrap().send(&[0; 11]), Err(Error::MessageSize));
    assert!(matches!(quiet().stats_name("\0").open(), Err(Error::InvalidArgument)));
    assert_eq!(version(), env!("CARGO_PKG_VERSION"));
}

#[test]
fn attributes_arrive_and_are_filtered() {
    let channel = format!("loop://rust:4?{OPTIONS}");
    let found = RefCell::new(Vec::new());
    let context = quiet().open().unwrap();
    let receiver = Receiver::open(&context, &channel, |delivery: Delivery| {
        if let Delivery::Message(message) = delivery {
            let attributes = message.attributes().unwrap();
            let price = match message.property(1).unwrap() {
                Some(Value::Double(price)) => price,
                other => panic!("{other:?}"),
            };
            assert_eq!(message.property(2), Ok(Some(Value::Bytes(b"EUR"))));
            assert_eq!(message.property(3), Ok(None));
            found.borrow_mut().push((attributes.label(), attributes.bitmap().to_vec(), price));
        }
    })
    .unwrap();
    let filter = Filter::new().label(1, 1).any_bit(&[4]).selector("price > 1.5", &[("price", 1)]);
    receiver.filter(Some(&filter)).unwrap();
    let wrong = Filter::new().selector("price >", &[("price", 1)]);
    assert_eq!(receiver.filter(Some(&wrong)), Err(Error::InvalidArgument));
    let topic = Transmitter::open(&context, &channel).unwrap().topic("t").unwrap();
    for (label, bits, price) in [(1, 4, 1.0), (1, 4, 2.0), (2, 4, 3.0), (3, 8, 4.0), (3, 12, 5.0)] {
        let bitmap = [bits];
        let attributes = Attributes::new().label(label).bitmap(&bitmap);
        let attributes = attributes.property(1, Value::Double(price)).property(2, Value::Bytes(b"EUR"));
        topic.send_with(b"x", &attributes, SendFlags::NONE).unwrap();
    }
    poll_until(&context, || found.borrow().len() == 2);
    assert_eq!(*found.borrow(), [(1, vec![4], 2.0), (3, vec![12], 5.0)]);
    receiver.filter(None).unwrap();
}

#[test]
fn panics_come_out_of_poll_and_nothing_is_lost() {
    let channel = format!("loop://rust:5?{OPTIONS}");
    let seen = RefCell::new(Vec::new());
    let context = quiet().open().unwrap();
    let _receiver = Receiver::open(&context, &channel, |delivery: Delivery| {
        if let Delivery::Message(message) = delivery {
            seen.borrow_mut().push(message.number());
            assert!(message.number() != 1 && message.number() != 2, "at message {}", message.number());
        }
    })
    .unwrap();
    let topic = Transmitter::open(&context, &channel).unwrap().topic("t").unwrap();
    for i in 0..5_u8 {
        topic.send_more(&[i]).unwrap();
    }
    let mut panics = Vec::new();
    while seen.borrow().len() < 5 {
        if let Err(panic) = panic::catch_unwind(AssertUnwindSafe(|| context.poll())) {
            panics.push(*panic.downcast::<String>().unwrap());
        }
    }
    // The five are in one packet, and one panic comes out of one poll.
    assert_eq!(*seen.borrow(), [0, 1, 2, 3, 4]);
    assert_eq!(panics, ["at message 1"]);
    topic.send(b"on").unwrap();
    poll_until(&context, || seen.borrow().len() == 6);
}

#[test]
fn panics_come_out_of_closing_and_of_the_drop_of_a_context() {
    let channel = format!("loop://rust:6?{OPTIONS}");
    for drop_all in [false, true] {
        let context = quiet().open().unwrap();
        let armed = Rc::new(Cell::new(false));
        let arm = armed.clone();
        let receiver = Receiver::open(&context, &channel, move |_: Delivery| assert!(!arm.get(), "late")).unwrap();
        let transmitter = Transmitter::open(&context, &channel).unwrap();
        transmitter.wait_for(1, PATIENCE).unwrap();
        let topic = transmitter.topic("t").unwrap();
        while context.poll().unwrap() > 0 {}
        armed.set(true);
        topic.send(b"x").unwrap();
        drop(topic);
        let panic = panic::catch_unwind(AssertUnwindSafe(|| {
            if drop_all {
                drop((context, transmitter, receiver));
            } else {
                let _ = transmitter.close();
            }
        }));
        assert_eq!(*panic.unwrap_err().downcast::<&str>().unwrap(), "late");
    }
}

#[test]
fn handles_are_dropped_in_any_order_and_inside_handlers() {
    let channel = format!("loop://rust:7?{OPTIONS}");
    let context = quiet().open().unwrap();
    let slot = Rc::new(RefCell::new(None));
    let (own, dropped) = (slot.clone(), Rc::new(Cell::new(0)));
    let counted = dropped.clone();
    let receiver = Receiver::open(&context, &channel, move |delivery: Delivery| {
        if let Delivery::Message(_) = delivery {
            // Its own receiver, and the transmitter, with their topics.
            drop::<Option<(Receiver, Transmitter, Topic)>>(own.borrow_mut().take());
            counted.set(counted.get() + 1);
        }
    })
    .unwrap();
    let transmitter = Transmitter::open(&context, &channel).unwrap();
    let topic = transmitter.topic("t").unwrap();
    let other = topic.clone();
    topic.send(b"x").unwrap();
    *slot.borrow_mut() = Some((receiver, transmitter, topic));
    poll_until(&context, || dropped.get() == 1);
    assert_eq!(Rc::strong_count(&slot), 1, "the receiver is not closed when the poll has ended");
    drop(context);
    other.send(b"the context is open as long as there is a topic").unwrap();
    drop(other);
}

#[test]
fn handlers_that_are_leaked_stay_usable() {
    let channel = format!("loop://rust:8?{OPTIONS}");
    let count = Cell::new(0);
    let context = quiet().open().unwrap();
    let receiver = Receiver::open(&context, &channel, |_: Delivery| count.set(count.get() + 1)).unwrap();
    std::mem::forget(receiver);
    Transmitter::open(&context, &channel).unwrap().topic("t").unwrap().send(b"x").unwrap();
    poll_until(&context, || count.get() > 1);
}

#[test]
fn polling_and_opening_inside_a_handler_is_refused() {
    let channel = format!("loop://rust:9?{OPTIONS}");
    let results = Rc::new(RefCell::new(Vec::new()));
    let (context, store) = (Rc::new(quiet().open().unwrap()), results.clone());
    let inside = context.clone();
    let receiver = Receiver::open(&context, &channel, move |delivery: Delivery| {
        if let Delivery::Message(_) = delivery {
            store.borrow_mut().push(inside.poll().err());
            store.borrow_mut().push(Transmitter::open(&inside, "loop://inside:1").err());
        }
    });
    Transmitter::open(&context, &channel).unwrap().topic("t").unwrap().send(b"x").unwrap();
    poll_until(&context, || !results.borrow().is_empty());
    assert_eq!(*results.borrow(), [Some(Error::State), Some(Error::State)]);
    drop(receiver);
}

#[test]
fn requests_are_answered() {
    let channel = format!("loop://rust-calls:10?{CALL_OPTIONS}");
    let refused = NonZeroU16::new(7).unwrap();
    let (connected, codes, answers) = <(Cell<u32>, RefCell<Vec<u64>>, RefCell<Vec<_>>)>::default();
    let at_server = Rc::new(RefCell::new(Vec::new()));
    let asked = at_server.clone();
    let context = quiet().open().unwrap();
    let accept = |caller: Caller| if caller.payload == b"word" { Answer::Accept } else { Answer::Refuse(refused) };
    let listener = Listener::open(&context, &channel, accept, move |connection, incoming| match incoming {
        Incoming::Request(request) => {
            let answer = [request.data, b"!"].concat();
            match request.data {
                // At once, later, and never.
                b"hello" => request.reply(&answer).unwrap(),
                b"later" => asked.borrow_mut().push((connection.handle().unwrap(), request.id)),
                _ => (),
            }
        }
        Incoming::Message(message) => {
            let topic = connection.handle().unwrap().topic("echo").unwrap();
            topic.send(message.data()).unwrap();
        }
        Incoming::Event(_) => (),
    })
    .unwrap();
    let client = |_: ConnectionRef, incoming: Incoming| match incoming {
        Incoming::Event(event) if event.kind() == EventKind::Connected => connected.set(connected.get() + 1),
        Incoming::Event(event) if event.kind() == EventKind::Disconnected => codes.borrow_mut().push(event.first()),
        Incoming::Message(message) => answers.borrow_mut().push(message.text().unwrap().to_owned()),
        _ => (),
    };
    let connection = Connection::open(&context, &channel, b"word", client).unwrap();
    assert_eq!(connection.topic("early").err(), Some(Error::State));
    let stranger = Connection::open(&context, &channel, b"guess", client).unwrap();
    poll_until(&context, || connected.get() == 1 && codes.borrow().len() == 1);
    assert_eq!(*codes.borrow(), [7]);
    drop(stranger);

    let ask = |text: &str, timeout| {
        let take = |answer: std::result::Result<&[u8], Reason>| {
            answers.borrow_mut().push(
                answer.map_or_else(|reason| reason.to_string(), |data| String::from_utf8(data.to_vec()).unwrap()),
            );
        };
        connection.request(text.as_bytes(), timeout, take)
    };
    ask("hello", PATIENCE).unwrap();
    ask("later", PATIENCE).unwrap();
    ask("nothing", Duration::from_millis(1)).unwrap();
    assert_eq!(ask("no time", Duration::ZERO), Err(Error::InvalidArgument));
    connection.topic("t").unwrap().send(b"echo").unwrap();
    poll_until(&context, || answers.borrow().len() == 3 && at_server.borrow().len() == 1);
    let (server, id) = at_server.borrow_mut().pop().unwrap();
    assert_eq!(server.id(), connection.id());
    server.reply(id, b"at last").unwrap();
    poll_until(&context, || answers.borrow().len() == 4);
    let mut sorted = answers.take();
    sorted.sort();
    assert_eq!(sorted, ["at last", "echo", "hello!", &Reason::Unanswered.to_string()]);
    // The listener closes its connections, except those that have other handles.
    ask("unanswered as it closes", PATIENCE).unwrap();
    drop((server, listener));
    poll_until(&context, || codes.borrow().len() == 2 && answers.borrow().len() == 1);
    assert_eq!(*answers.borrow(), [Reason::Closed.to_string()]);
    assert_eq!(connection.close(), Ok(true));
}

#[test]
fn connections_are_dropped_in_their_own_handler() {
    let channel = format!("loop://rust-calls:11?{CALL_OPTIONS}");
    let slot = Rc::new(RefCell::new(None::<Connection>));
    let dropped = Rc::new(Cell::new(false));
    let context = quiet().open().unwrap();
    let accept = |_: Caller| Answer::Accept;
    let hang_up = |connection: ConnectionRef, incoming: Incoming| {
        if let Incoming::Message(_) = incoming {
            // Not allowed inside a handler: it is closed after the poll.
            assert_eq!(connection.handle().unwrap().close(), Err(Error::State));
            panic!("enough");
        }
    };
    let listener = Listener::open(&context, &channel, accept, hang_up).unwrap();
    let (own, flag, alive) = (slot.clone(), dropped.clone(), Rc::new(()));
    let counted = alive.clone();
    let client = move |connection: ConnectionRef, incoming: Incoming| match incoming {
        Incoming::Event(event) if event.kind() == EventKind::Connected => {
            connection.handle().unwrap().topic("t").unwrap().send(b"bye").unwrap();
        }
        Incoming::Event(event) if event.kind() == EventKind::Disconnected => {
            drop(own.borrow_mut().take());
            flag.set(Rc::strong_count(&counted) > 0);
        }
        _ => (),
    };
    *slot.borrow_mut() = Some(Connection::open(&context, &channel, b"", client).unwrap());
    let mut listener = Some(listener);
    let until = Instant::now() + PATIENCE;
    while !dropped.get() && Instant::now() < until {
        if panic::catch_unwind(AssertUnwindSafe(|| context.poll())).is_err() {
            listener = None;
        }
    }
    assert!(dropped.get() && listener.is_none());
    context.poll().unwrap();
    drop(context);
    assert_eq!(Rc::strong_count(&alive), 1, "the handler is not freed");
}

#[test]
fn threads_share_a_context_with_a_loop_of_its_own() {
    let channel = format!("loop://rust:12?{OPTIONS}");
    let count = Arc::new(AtomicU64::new(0));
    let context = quiet().wait_mode(WaitMode::Block).open_shared(None).unwrap();
    let counted = count.clone();
    let _receiver = Receiver::open(&context, &channel, move |delivery: Delivery| {
        if let Delivery::Message(message) = delivery {
            counted.fetch_add(1, Ordering::Relaxed);
            assert_ne!(message.data(), b"stop");
        }
    })
    .unwrap();
    let transmitter = Transmitter::open(&context, &channel).unwrap();
    thread::scope(|scope| {
        for name in ["a", "b"] {
            let topic = transmitter.topic(name).unwrap();
            scope.spawn(move || {
                for _ in 0..100 {
                    while topic.send(b"x") == Err(Error::Again) {
                        topic.wait(1, PATIENCE).unwrap();
                    }
                }
            });
        }
    });
    let until = Instant::now() + PATIENCE;
    while count.load(Ordering::Relaxed) < 200 && Instant::now() < until {
        thread::yield_now();
    }
    transmitter.topic("c").unwrap().send(b"stop").unwrap();
    while count.load(Ordering::Relaxed) < 201 && Instant::now() < until {
        thread::yield_now();
    }
    assert_eq!(count.load(Ordering::Relaxed), 201);
    // A panic on the loop thread comes out of the next call that polls.
    while panic::catch_unwind(AssertUnwindSafe(|| context.poll())).is_ok() {
        assert!(Instant::now() < until);
    }
}

#[test]
fn recordings_of_a_store_are_replayed() {
    let channel = format!("loop://rust:13?{OPTIONS}");
    let directory = env::temp_dir().join(format!("llm-rust-{}", process::id()));
    fs::create_dir(&directory).unwrap();
    let begun_at = SystemTime::now() - Duration::from_secs(1);
    let acknowledged = Cell::new(0);
    {
        let context = quiet().open().unwrap();
        let options = StoreOptions::new().segment_bytes(16 << 20).spares(0).reserve_bytes(0);
        let store = Store::open(&context, &directory, &options, |_| ()).unwrap();
        store.follow(&channel, &Options::new().receiver_name("a")).unwrap();
        let stream = Options::new().stream("orders");
        let transmitter = Transmitter::open_with(&context, &channel, &stream, |event| {
            if event.kind() == EventKind::Acknowledged {
                acknowledged.set(event.last() + 1);
            }
        })
        .unwrap();
        let topic = transmitter.topic("orders").unwrap();
        topic.assure(Some(&Assurance::new().receivers(0).names("a").patience(PATIENCE))).unwrap();
        for i in 0..100_u32 {
            let attributes = Attributes::new().label(i).property(1, Value::Int64(-5));
            topic.send_with(&i.to_le_bytes(), &attributes, SendFlags::NONE).unwrap();
        }
        poll_until(&context, || acknowledged.get() == 100);
        let mut asked = Options::new().stream("orders");
        // The store is of this context, too, and answers while the question waits.
        assert_eq!(Store::ask(&context, &channel, &mut asked, 1, PATIENCE), Ok(1));
        assert_eq!(asked.stream_base_set(), 100);
    }
    let next = Cell::new(50_u32);
    let options = ReplayOptions::new().from(JoinMode::Number, 50).until_number(90);
    let take = |delivery: Delivery| {
        if let Delivery::Message(message) = delivery {
            assert_eq!(message.data(), next.get().to_le_bytes());
            assert_eq!(message.attributes().unwrap().label(), next.get());
            assert_eq!(message.property(1), Ok(Some(Value::Int64(-5))));
            assert!(message.received_at().unwrap() >= begun_at);
            next.set(next.get() + 1);
            assert_ne!(next.get(), 60, "sixty");
        }
    };
    let mut replay = Replay::open(&directory, &options, take).unwrap();
    let mut panics = 0;
    loop {
        match panic::catch_unwind(AssertUnwindSafe(|| replay.next(256))) {
            Ok(Ok(0)) => break,
            Ok(delivered) => assert!(delivered.is_ok()),
            Err(_) => panics += 1,
        }
    }
    assert_eq!((next.get(), panics), (90, 1));
    drop(replay);
    let keyed = ReplayOptions::new().keys(&directory.join("absent.keys"));
    let refused = Replay::open_with_log(&directory, &keyed, take, |_, _| ()).err();
    assert!(matches!(refused, Some(Error::NotFound | Error::Option)), "{refused:?}");
    let found = recordings(&directory).unwrap();
    assert_eq!((found.len(), found[0].message_next, found[0].ended), (1, 100, Some(Reason::Closed)));
    let mut options = Options::new().stream("orders");
    assert_eq!(continue_stream(&directory, &mut options), Ok(1));
    assert_eq!(options.stream_base_set(), 100);
    fs::remove_dir_all(&directory).unwrap();
    let missing = Replay::open_with_log(&directory, &ReplayOptions::new(), take, |_, _| ());
    assert_eq!(missing.err(), Some(Error::NotFound));
}

/// A child process would need unsafe code; a context that moves with its objects does not.
#[test]
fn objects_live_in_structures() {
    let channel = format!("loop://rust:14?{OPTIONS}");
    struct Desk {
        topics: HashMap<&'static str, Topic<'static>>,
        transmitter: Transmitter<'static>,
        context: Context<'static>,
    }
    let context = quiet().open().unwrap();
    let transmitter = Transmitter::open(&context, &channel).unwrap();
    let mut desk = Desk { topics: HashMap::new(), transmitter, context };
    for name in ["a", "b"] {
        desk.topics.insert(name, desk.transmitter.topic(name).unwrap());
    }
    desk.topics["a"].send(b"x").unwrap();
    desk.transmitter.flush().unwrap();
    assert!(desk.context.poll().is_ok() && desk.context.deadline_ns().is_some() && desk.context.fd().is_ok());
    desk.transmitter.limit_rate(1 << 20, 0).unwrap();
    assert_eq!(desk.transmitter.suspend(1), Err(Error::NotFound));
    assert!(desk.transmitter.congestion().unwrap().is_empty() && desk.transmitter.claim_max() > 1000);
    assert_eq!(desk.transmitter.bottleneck().err(), Some(Error::State));
}

/// Handles of all kinds, which handlers take from here as well.
#[derive(Default)]
struct Pool {
    transmitters: Vec<Transmitter<'static>>,
    topics: Vec<Topic<'static>>,
    receivers: Vec<Receiver<'static>>,
    connections: Vec<Connection<'static>>,
    listeners: Vec<Listener<'static>>,
    state: u64,
}

impl Pool {
    fn random(&mut self, below: usize) -> usize {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) as usize % below
    }

    fn is_empty(&self) -> bool {
        self.transmitters.is_empty()
            && self.topics.is_empty()
            && self.receivers.is_empty()
            && self.connections.is_empty()
            && self.listeners.is_empty()
    }

    /// Takes any handle out; the caller drops it when the pool is no longer borrowed.
    fn take(&mut self) -> Box<dyn std::any::Any> {
        fn one<T: 'static>(from: &mut Vec<T>, at: usize) -> Box<dyn std::any::Any> {
            Box::new((!from.is_empty()).then(|| from.swap_remove(at % from.len())))
        }
        let at = self.random(1000);
        match self.random(5) {
            0 => one(&mut self.transmitters, at),
            1 => one(&mut self.topics, at),
            2 => one(&mut self.receivers, at),
            3 => one(&mut self.connections, at),
            _ => one(&mut self.listeners, at),
        }
    }
}

/// Does something inside a handler: drops a handle, sends, or panics.
fn meddle(pool: &Rc<RefCell<Pool>>) {
    let choice = pool.borrow_mut().random(40);
    if choice < 4 {
        let taken = pool.borrow_mut().take();
        drop(taken);
    }
    let topic = pool.borrow().topics.last().cloned();
    if let (5..=9, Some(topic)) = (choice, topic) {
        let _ = topic.send(b"from a handler");
    }
    if choice == 10 {
        // A panic without its message.
        panic::resume_unwind(Box::new("meddling"));
    }
}

fn random_call(context: &Context<'static>, pool: &Rc<RefCell<Pool>>, channels: &[String; 2]) {
    let own = pool.clone();
    let choice = pool.borrow_mut().random(60);
    let full = |count| count > 3;
    match choice {
        0 if !full(pool.borrow().transmitters.len()) => {
            let options = Options::new().linger_ns(0);
            let opened = Transmitter::open_with(context, &channels[0], &options, move |_| meddle(&own)).unwrap();
            pool.borrow_mut().transmitters.push(opened);
        }
        1 | 2 if !full(pool.borrow().receivers.len()) => {
            let opened = Receiver::open(context, &channels[0], move |_: Delivery| meddle(&own)).unwrap();
            pool.borrow_mut().receivers.push(opened);
        }
        3 | 4 => {
            let opened = pool.borrow().transmitters.last().map(|transmitter| transmitter.topic(&choice.to_string()));
            pool.borrow_mut().topics.extend(opened.and_then(Result::ok));
        }
        5 if !full(pool.borrow().listeners.len()) => {
            let peers = pool.clone();
            let accept = move |_: Caller| {
                meddle(&own);
                Answer::Accept
            };
            let opened = Listener::open(context, &channels[1], accept, move |connection, _| {
                let handle = connection.handle();
                peers.borrow_mut().connections.extend(handle);
                meddle(&peers);
            });
            pool.borrow_mut().listeners.extend(opened);
        }
        6 if !full(pool.borrow().connections.len()) => {
            let options = Options::for_connections().linger_ns(0);
            let handler = move |_: ConnectionRef, _: Incoming| meddle(&own);
            let opened = Connection::open_with(context, &channels[1], &options, b"", handler).unwrap();
            pool.borrow_mut().connections.push(opened);
        }
        7..=9 => {
            let connection = pool.borrow().connections.last().cloned();
            if let Some(connection) = connection {
                let _ = connection.request(b"?", PATIENCE, move |_| meddle(&own));
            }
        }
        10..=13 => {
            let taken = pool.borrow_mut().take();
            drop(taken);
        }
        14..=30 => {
            let topic = pool.borrow().topics.last().cloned();
            if let Some(topic) = topic {
                let _ = topic.send(b"message");
                drop(topic.claim(10));
            }
        }
        _ => drop(context.poll()),
    }
}

#[test]
fn random_calls_and_panics_in_any_order() {
    let calls = env::var("LLM_CALLS").map_or(10_000, |text| text.parse().unwrap());
    let few = "&linger_ns=0&history_bytes=64K&history_packets=64&window_packets=64&reorder_bytes=64K&rcvbuf_bytes=1M&topics_max=4000";
    let channels =
        ["random", "random-calls"].map(|name| format!("loop://{name}:1?mtu=1500&message_bytes_max=1000{few}"));
    let context = Rc::new(quiet().open().unwrap());
    let state = env::var("LLM_SEED").map_or(1, |text| text.parse().unwrap());
    let pool = Rc::new(RefCell::new(Pool { state, ..Pool::default() }));
    let mut panics = 0;
    for _ in 0..calls {
        let call = || random_call(&context, &pool, &channels);
        panics += u32::from(panic::catch_unwind(AssertUnwindSafe(call)).is_err());
    }
    // Handlers that run while others are dropped may put more connections into the pool.
    while !pool.borrow().is_empty() {
        let left = pool.take();
        let _ = panic::catch_unwind(AssertUnwindSafe(|| drop(left)));
    }
    let _ = panic::catch_unwind(AssertUnwindSafe(|| drop(context)));
    assert!(panics > 10, "{panics}");
    assert!(pool.borrow().is_empty(), "a handler was called without a context");
    assert_eq!(Rc::strong_count(&pool), 1, "handlers are not freed");
}
