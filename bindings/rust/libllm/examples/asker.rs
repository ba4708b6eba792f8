// SPDX-License-Identifier: Apache-2.0
//! Minimal client: connects to an answerer, sends requests, and prints each reply and how long it took.
//!
//!   asker [CHANNEL [WORD [TEXT...]]]
#![forbid(unsafe_code)]
use std::cell::Cell;
use std::env;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use libllm::{Connection, ConnectionRef, Context, EventKind, Incoming};

const PATIENCE: Duration = Duration::from_secs(1);

fn run() -> libllm::Result<bool> {
    let mut arguments = env::args().skip(1);
    let channel = arguments.next().unwrap_or_else(|| "udp://127.0.0.1:5001?interface=lo".into());
    let word = arguments.next().unwrap_or_else(|| "please".into());
    let (connected, over, waits) = <(Cell<bool>, Cell<bool>, Cell<bool>)>::default();

    let context = Context::open()?;
    let on_incoming = |_: ConnectionRef, incoming: Incoming| {
        if let Incoming::Event(event) = incoming {
            println!("{event}");
            connected.set(connected.get() || event.kind() == EventKind::Connected);
            over.set(over.get() || event.kind() == EventKind::Disconnected);
        }
    };
    let connection = Connection::open(&context, &channel, word.as_bytes(), on_incoming)?;
    while !connected.get() && !over.get() {
        context.wait(PATIENCE)?;
    }
    for text in arguments.take_while(|_| !over.get()) {
        let asked_at = Instant::now();
        let waits = &waits;
        waits.set(true);
        // Called once: with the reply, or with the reason for its absence.
        connection.request(text.as_bytes(), PATIENCE, move |reply| {
            waits.set(false);
            match reply {
                Ok(data) => {
                    println!("{}, after {} us", String::from_utf8_lossy(data), asked_at.elapsed().as_micros());
                }
                Err(reason) => println!("no reply: {reason}"),
            }
        })?;
        while waits.get() {
            context.wait(PATIENCE)?;
        }
    }
    connection.close()?;
    Ok(connected.get())
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // The library's log says which value was wrong.
            eprintln!("asker: {error}");
            ExitCode::FAILURE
        }
    }
}
