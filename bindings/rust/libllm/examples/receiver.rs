// SPDX-License-Identifier: Apache-2.0
//! Minimal receiver: prints the messages of a topic, and the events of the sessions that send them.
//!
//!   receiver [CHANNEL [TOPIC [COUNT]]]
//!
//! TOPIC "" (the default) selects every topic. Ends after COUNT messages, or with ctrl-C.
#![forbid(unsafe_code)]
use std::cell::Cell;
use std::env;
use std::error::Error;
use std::time::Duration;

use libllm::{ContextOptions, Event, EventKind, Message, Receiver, ReceiverHandler, Source, WaitMode};

struct Printer<'a> {
    /// Empty: all.
    topic: String,
    /// Messages still to print.
    left: &'a Cell<u64>,
}

impl ReceiverHandler for Printer<'_> {
    /// Called once for each session, without a topic, and once for each of its topics.
    fn accept(&mut self, source: Source) -> bool {
        self.topic.is_empty() || source.topic.map_or(true, |topic| topic == self.topic)
    }

    fn message(&mut self, message: Message) {
        // A single wait() may deliver more messages than COUNT.
        if self.left.get() == 0 {
            return;
        }
        self.left.set(self.left.get() - 1);
        let text = String::from_utf8_lossy(message.data());
        println!("{} {}: {text}", message.topic(), message.number());
    }

    fn event(&mut self, event: Event) {
        match event.kind() {
            // Loss is never silent.
            EventKind::Gap => println!("* {} messages lost: {event}", event.last() + 1 - event.first()),
            _ => println!("* {event}"),
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let channel = arguments.next().unwrap_or_else(|| "udp://239.192.1.1:5001".into());
    let topic = arguments.next().unwrap_or_default();
    let left = Cell::new(arguments.next().map_or(Ok(u64::MAX), |text| text.parse())?);

    // Sleeps until a packet arrives; the default, WaitMode::Spin, is faster and occupies a core.
    let context = ContextOptions::new().wait_mode(WaitMode::Block).open()?;
    let _receiver = Receiver::open(&context, &channel, Printer { topic, left: &left })?;
    println!("* listening on {channel}");
    // The handler runs inside wait().
    while left.get() > 0 {
        context.wait(Duration::MAX)?;
    }
    Ok(())
}
