// SPDX-License-Identifier: Apache-2.0
//! Minimal server: accepts connections of clients that know the word, and answers each request with its text reversed.
//!
//!   answerer [CHANNEL [WORD]]
#![forbid(unsafe_code)]
use std::env;
use std::num::NonZeroU16;
use std::time::Duration;

use libllm::{Answer, Caller, ConnectionRef, ContextOptions, Error, Incoming, Listener, WaitMode};

/// Code of a refusal: the word is wrong.
const UNKNOWN_WORD: u16 = 403;

/// A client that sends faster than it reads gets no answer in time; other clients are not delayed.
fn on_incoming(connection: ConnectionRef, incoming: Incoming) {
    match incoming {
        Incoming::Request(request) => {
            let turned: Vec<u8> = request.data.iter().rev().copied().collect();
            if request.reply(&turned) == Err(Error::Again) {
                eprintln!("answerer: a reply is dropped");
            }
        }
        Incoming::Event(event) => println!("{:016x}: {event}", connection.id()),
        Incoming::Message(_) => (),
    }
}

fn main() -> libllm::Result<()> {
    let mut arguments = env::args().skip(1);
    let channel = arguments.next().unwrap_or_else(|| "udp://127.0.0.1:5001?interface=lo".into());
    let word = arguments.next().unwrap_or_else(|| "please".into());
    // Handles a connection request with its credentials.
    let accept = |caller: Caller| match NonZeroU16::new(UNKNOWN_WORD) {
        Some(code) if caller.payload != word.as_bytes() => Answer::Refuse(code),
        _ => Answer::Accept,
    };

    let context = ContextOptions::new().wait_mode(WaitMode::Block).open()?;
    // The listener closes connections that are over.
    let _listener = Listener::open(&context, &channel, accept, on_incoming)?;
    println!("listening on {channel}");
    loop {
        context.wait(Duration::MAX)?;
    }
}
