// SPDX-License-Identifier: Apache-2.0
//! libllm in Rust: brokerless reliable multicast messaging. A transmitter sends messages on topics; every receiver that joined the
//! channel gets them once and in order; those that it did not get are reported exactly.
//!
//! ```
//! use libllm::{Context, Delivery, Receiver, Transmitter};
//! use std::time::Duration;
//!
//! # fn main() -> libllm::Result<()> {
//! let mut prices = 0;
//! let context = Context::open()?;
//! let receiver = Receiver::open(&context, "loop://prices:1", |delivery: Delivery| match delivery {
//!     Delivery::Message(message) => prices += message.data().len(),
//!     Delivery::Event(event) => println!("{event}"),
//! })?;
//! let transmitter = Transmitter::open(&context, "loop://prices:1")?;
//! transmitter.topic("bonds")?.send(b"101.5")?;
//! transmitter.wait_for(1, Duration::from_secs(10))?;
//! drop((receiver, transmitter, context));
//! # Ok(())
//! # }
//! ```
//!
//! docs/rust.md is the guide; the manual pages describe each call of the C library, whose units, limits and errors are those here.
#![deny(missing_docs, unsafe_op_in_unsafe_fn)]

extern crate libllm_sys as sys;

mod attributes;
mod connection;
mod context;
mod error;
mod event;
mod filter;
#[rustfmt::skip]
mod generated;
mod log;
mod macros;
mod message;
mod mode;
mod object;
mod options;
mod receiver;
mod replay;
mod store;
mod topic;
mod transmitter;
mod upcalls;

pub use attributes::{Attributes, ReceivedAttributes, Value};
pub use connection::{Answer, Caller, Connection, ConnectionRef, Incoming, Listener, Request};
pub use context::{clock_ns, version, Context, ContextOptions, Counter};
pub use error::{Error, Result};
pub use event::{Bottleneck, Event, Verdict};
pub use filter::Filter;
pub use generated::{
    Acknowledger, EventKind, Flow, JoinElse, JoinMode, KeysMode, LatencyLevel, Level, Limit, Order, Reason, Slow,
    StoreEngine, StoreFull, StoreLevel, Threshold, WaitMode,
};
pub use message::{Message, Messages};
pub use mode::{Allows, Local, Mode, Shared};
pub use options::Options;
pub use receiver::{Delivery, Receiver, ReceiverHandler, Source};
pub use replay::{continue_stream, recordings, Recording, Replay, ReplayOptions};
pub use store::{Store, StoreOptions};
pub use topic::{Assurance, Claim, SendFlags, Topic, TopicFlags};
pub use transmitter::{Congestion, Transmitter};

/// The guide, whose programs are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/rust.md")]
mod guide {}
