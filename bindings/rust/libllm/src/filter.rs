// SPDX-License-Identifier: Apache-2.0
//! Filters of receivers.
use std::ffi::CString;

use crate::attributes::bits;
use crate::{context, error, Result};

/// Conditions that messages have to meet to be delivered. Without any, every message is.
///
/// ```
/// use libllm::Filter;
/// let filter = Filter::new().label(0xff, 0x07).selector("price > 1.5 AND currency = 'EUR'", &[("price", 1), ("currency", 2)]);
/// ```
#[derive(Clone, Default)]
pub struct Filter {
    labels: Vec<sys::llm_label_match>,
    bitmap_mask: Vec<u8>,
    bitmap_match: Option<Vec<u8>>,
    selector: Option<String>,
    names: Vec<(String, u16)>,
}

impl Filter {
    /// No condition.
    pub fn new() -> Self {
        Self::default()
    }

    /// Labels of which `label & mask == value`; of several, one has to match.
    #[must_use]
    pub fn label(mut self, mask: u32, value: u32) -> Self {
        self.labels.push(sys::llm_label_match { mask, match_: value });
        self
    }

    /// Bitmaps that have at least one bit of the mask.
    #[must_use]
    pub fn any_bit(mut self, mask: &[u8]) -> Self {
        self.bitmap_mask = mask.to_vec();
        self.bitmap_match = None;
        self
    }

    /// Bitmaps of which `bitmap & mask == value`. The two are equally long.
    #[must_use]
    pub fn bits(mut self, mask: &[u8], value: &[u8]) -> Self {
        self.bitmap_mask = mask.to_vec();
        self.bitmap_match = Some(value.to_vec());
        self
    }

    /// A condition over properties, which it calls by these names: llm_receiver_filter(3) describes the language.
    #[must_use]
    pub fn selector(mut self, selector: &str, names: &[(&str, u16)]) -> Self {
        self.selector = Some(selector.to_owned());
        self.names = names.iter().map(|(name, code)| ((*name).to_owned(), *code)).collect();
        self
    }

    /// Sets the filter of a receiver, which copies it.
    pub(crate) unsafe fn set(&self, receiver: *mut sys::llm_receiver) -> Result<()> {
        let selector = self.selector.as_deref().map(context::text).transpose()?;
        let texts = self.names.iter().map(|(name, _)| context::text(name)).collect::<Result<Vec<CString>>>()?;
        let names: Vec<_> = texts
            .iter()
            .zip(&self.names)
            .map(|(name, (_, code))| sys::llm_property_name { name: name.as_ptr(), code: *code })
            .collect();
        let mut raw = crate::options::filled(sys::llm_filter_init);
        raw.labels = self.labels.as_ptr();
        raw.labels_count = self.labels.len() as u32;
        if !self.bitmap_mask.is_empty() {
            raw.bitmap_bits = bits(&self.bitmap_mask);
            raw.bitmap_mask = self.bitmap_mask.as_ptr().cast();
        }
        if let Some(value) = &self.bitmap_match {
            if value.len() != self.bitmap_mask.len() {
                return Err(crate::Error::InvalidArgument);
            }
            raw.bitmap_match = value.as_ptr().cast();
        }
        if let Some(selector) = &selector {
            raw.selector = selector.as_ptr();
            raw.names = names.as_ptr();
            raw.names_count = names.len() as u32;
        }
        error::done(unsafe { sys::llm_receiver_filter(receiver, &raw) })
    }
}
