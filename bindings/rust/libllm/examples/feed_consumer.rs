// SPDX-License-Identifier: Apache-2.0
//! Consumer of the feed handler (examples/feed_handler): the last quote of each symbol, and what each event means for it.
//!
//!   feed_consumer [CHANNEL [FILE]]
//!
//! Ends with the first session that ends, and writes the last quotes to FILE.
#![forbid(unsafe_code)]
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::env;
use std::error::Error;
use std::fmt;
use std::fs;
use std::time::Duration;

use libllm::{ContextOptions, Event, EventKind, Message, Reason, Receiver, ReceiverHandler, Source, WaitMode};

/// A normalised quote; examples/feed_handler/quote.h has the format.
struct Quote {
    bid_size: u64,
    ask_size: u64,
    bid_price: u32,
    ask_price: u32,
    stale: bool,
    /// Session that sent it.
    session: u64,
}

impl Quote {
    const BYTES: usize = 48;
    const STALE: u16 = 1;

    /// None: the format is unknown.
    fn decode(message: &Message) -> Option<Self> {
        let data = message.data().get(..Self::BYTES)?;
        let u16_at = |at: usize| u16::from_le_bytes([data[at], data[at + 1]]);
        let u32_at = |at: usize| data[at..at + 4].try_into().map(u32::from_le_bytes).ok();
        let u64_at = |at: usize| data[at..at + 8].try_into().map(u64::from_le_bytes).ok();
        if u16_at(0) != 1 {
            return None;
        }
        Some(Self {
            bid_size: u64_at(24)?,
            ask_size: u64_at(32)?,
            bid_price: u32_at(40)?,
            ask_price: u32_at(44)?,
            stale: u16_at(2) & Self::STALE != 0,
            session: message.session(),
        })
    }
}

impl fmt::Display for Quote {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        let [bid, ask] = [self.bid_price, self.ask_price].map(|price| (price / 10000, price % 10000));
        write!(to, "{} {}.{:04} {}.{:04} {}", self.bid_size, bid.0, bid.1, ask.0, ask.1, self.ask_size)?;
        to.write_str(if self.stale { " stale" } else { "" })
    }
}

#[derive(Default)]
struct Book {
    quotes: BTreeMap<String, Quote>,
    ended: bool,
    messages_bad: u64,
}

impl Book {
    /// Marks the quotes of a session stale until a new quote comes for each symbol.
    fn is_stale(&mut self, session: u64) {
        for quote in self.quotes.values_mut().filter(|quote| quote.session == session) {
            quote.stale = true;
        }
    }
}

struct Consumer<'a>(&'a RefCell<Book>);

impl ReceiverHandler for Consumer<'_> {
    /// Anyone may send on the channel: topics that are no symbols are ignored, and never reach the terminal.
    fn accept(&mut self, source: Source) -> bool {
        let is_symbol =
            |name: &str| !name.is_empty() && name.len() <= 8 && name.bytes().all(|byte| byte.is_ascii_graphic());
        source.topic.map_or(true, is_symbol)
    }

    fn message(&mut self, message: Message) {
        let mut book = self.0.borrow_mut();
        // A topic with an unknown name is delivered with an empty one.
        match Quote::decode(&message) {
            Some(quote) if !message.topic().is_empty() => {
                println!("{} {quote}", message.topic());
                // A symbol that is known costs no allocation.
                if let Some(known) = book.quotes.get_mut(message.topic()) {
                    *known = quote;
                } else {
                    book.quotes.insert(message.topic().to_owned(), quote);
                }
            }
            _ => book.messages_bad += 1,
        }
    }

    fn event(&mut self, event: Event) {
        let mut book = self.0.borrow_mut();
        match event.kind() {
            EventKind::Gap | EventKind::StreamGap | EventKind::HeartbeatLost => book.is_stale(event.session()),
            EventKind::SessionEnd => {
                book.ended = true;
                // The last quotes of a handler that closed its session remain valid.
                if event.reason() != Reason::Closed {
                    book.is_stale(event.session());
                }
            }
            _ => (),
        }
        println!("* {event}");
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let channel = arguments.next().unwrap_or_else(|| "udp://239.192.1.3:5003".into());
    let book = RefCell::default();
    let context = ContextOptions::new().wait_mode(WaitMode::Block).open()?;
    let _receiver = Receiver::open(&context, &channel, Consumer(&book))?;
    println!("* listening on {channel}");
    while !book.borrow().ended {
        context.wait(Duration::MAX)?;
    }
    let book = book.borrow();
    if book.messages_bad > 0 {
        eprintln!("feed_consumer: {} messages were no quotes of a symbol", book.messages_bad);
    }
    if let Some(file) = arguments.next() {
        let lines: String = book.quotes.iter().map(|(symbol, quote)| format!("{symbol} {quote}\n")).collect();
        fs::write(file, lines)?;
    }
    Ok(())
}
