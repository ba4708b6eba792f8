// SPDX-License-Identifier: Apache-2.0
//! The same as cost.c, by the means of Rust.
use std::cell::Cell;
use std::env;
use std::error::Error;

use libllm::{
    Context, ContextOptions, Delivery, Event, Message, Messages, Receiver, ReceiverHandler, Topic,
    Transmitter,
};

#[derive(Default)]
struct Seen {
    messages: Cell<u64>,
    bytes: Cell<u64>,
}

impl Seen {
    fn add(&self, message: Message) {
        self.messages.set(self.messages.get() + 1);
        self.bytes
            .set(self.bytes.get() + message.data().len() as u64);
    }
}

struct Together<'a>(&'a Seen);

impl ReceiverHandler for Together<'_> {
    const TOGETHER: bool = true;

    fn message(&mut self, message: Message) {
        self.0.add(message);
    }

    fn messages(&mut self, messages: Messages) {
        messages.for_each(|message| self.0.add(message));
    }

    fn event(&mut self, _: Event) {}
}

/// Callgrind counts during this function and the next one, which it finds by name.
#[no_mangle]
#[inline(never)]
pub fn counted_send(
    transmitter: &Transmitter,
    topic: &Topic,
    data: &[u8],
    count: usize,
) -> libllm::Result<()> {
    for _ in 0..count {
        topic.send_more(data)?;
    }
    transmitter.flush()
}

#[no_mangle]
#[inline(never)]
pub fn counted_receive(context: &Context) -> libllm::Result<()> {
    while context.poll()? > 0 {}
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().collect();
    let [_, channel, kind, bursts, count] = <[String; 5]>::try_from(arguments)
        .map_err(|_| "cost_rust CHANNEL one|together BURSTS MESSAGES")?;
    let seen = Seen::default();
    let options = || {
        ContextOptions::new()
            .huge_pages(false)
            .stats_directory("")
            .open()
    };
    let (near, far) = (options()?, options()?);
    let _receiver = if kind == "one" {
        Receiver::open(&far, &channel, |delivery: Delivery| {
            if let Delivery::Message(message) = delivery {
                seen.add(message);
            }
        })?
    } else {
        Receiver::open(&far, &channel, Together(&seen))?
    };
    let transmitter = Transmitter::open(&near, &channel)?;
    let topic = transmitter.topic("topic")?;
    let count = count.parse()?;
    for _ in 0..bursts.parse()? {
        counted_send(&transmitter, &topic, &[0; 45], count)?;
        counted_receive(&far)?;
        near.poll()?;
    }
    println!("{} {}", seen.messages.get(), seen.bytes.get());
    Ok(())
}
