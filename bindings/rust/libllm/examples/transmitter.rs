// SPDX-License-Identifier: Apache-2.0
//! Minimal transmitter: sends numbered messages on one topic.
//!
//!   transmitter [CHANNEL [TOPIC [COUNT [INTERVAL_MS]]]]
#![forbid(unsafe_code)]
use std::env;
use std::error::Error;
use std::time::{Duration, Instant};

use libllm::{Context, ContextOptions, Topic, Transmitter, WaitMode};

/// Processes events until the given time. Between messages a transmitter has to send repairs and heartbeats, which it does only
/// inside poll() and wait(): so poll at least once, however fast messages are sent.
fn work_until(context: &Context, then: Instant) -> libllm::Result<()> {
    context.poll()?;
    while let Some(left) = then.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        context.wait(left)?;
    }
    Ok(())
}

/// send() never blocks: if the network is slower, it is refused with `Error::Again`, and poll() makes room.
fn send_number(context: &Context, topic: &Topic, number: u64) -> libllm::Result<()> {
    let text = format!("hello, number {number}");
    loop {
        match topic.send(text.as_bytes()) {
            Err(libllm::Error::Again) => context.poll()?,
            other => return other,
        };
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let channel = arguments.next().unwrap_or_else(|| "udp://239.192.1.1:5001".into());
    let name = arguments.next().unwrap_or_else(|| "greetings".into());
    let count = arguments.next().map_or(Ok(10), |text| text.parse())?;
    let interval = Duration::from_millis(arguments.next().map_or(Ok(500), |text| text.parse())?);

    // Sleeps between messages; the default, WaitMode::Spin, is faster and occupies a core.
    let context = ContextOptions::new().wait_mode(WaitMode::Block).open()?;
    let transmitter = Transmitter::open(&context, &channel)?;
    let topic = transmitter.topic(&name)?;

    let mut send_at = Instant::now();
    for number in 0..count {
        send_number(&context, &topic, number)?;
        send_at += interval;
        work_until(&context, send_at)?;
    }

    // Waits, by default at most one second, until all known receivers have everything.
    drop(topic);
    transmitter.close()?;
    Ok(())
}
