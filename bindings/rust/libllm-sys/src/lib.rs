// SPDX-License-Identifier: Apache-2.0
//! Declarations of libllm's C library, as bindgen writes them. The crate `libllm` is safe, and made of these.
//!
//! The headers and the manual pages describe each call.
#![allow(non_camel_case_types, non_upper_case_globals)]

#[rustfmt::skip]
mod bindings;

pub use bindings::*;

/// As many messages as there are, with `LLM_JOIN_MESSAGES` and `LLM_JOIN_LATEST`.
pub const LLM_JOIN_ALL: u64 = u64::MAX;
