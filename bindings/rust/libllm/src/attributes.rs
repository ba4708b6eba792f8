// SPDX-License-Identifier: Apache-2.0
//! Attributes of messages.
use std::marker::PhantomData;
use std::slice;

use crate::message::bytes;

/// The value of a property.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value<'a> {
    /// A number of 32 bits.
    Int32(i32),
    /// A number of 64 bits.
    Int64(i64),
    /// A floating-point number.
    Double(f64),
    /// Bytes.
    Bytes(&'a [u8]),
    /// A value of a type that a later library has.
    Unknown(u32),
}

impl<'a> Value<'a> {
    /// # Safety
    /// The bytes of the property, if it has some, are valid for `'a`.
    pub(crate) unsafe fn new(raw: &sys::llm_property) -> Self {
        unsafe {
            match raw.type_ {
                sys::LLM_PROPERTY_INT32 => Self::Int32(raw.value.int32),
                sys::LLM_PROPERTY_INT64 => Self::Int64(raw.value.int64),
                sys::LLM_PROPERTY_DOUBLE => Self::Double(raw.value.float64),
                sys::LLM_PROPERTY_BYTES => Self::Bytes(bytes(raw.value.bytes.data, raw.value.bytes.size as usize)),
                other => Self::Unknown(other),
            }
        }
    }

    fn raw(self, code: u16) -> sys::llm_property {
        let mut raw: sys::llm_property = unsafe { std::mem::zeroed() };
        raw.code = code;
        match self {
            Self::Int32(int32) => {
                raw.type_ = sys::LLM_PROPERTY_INT32;
                raw.value.int32 = int32;
            }
            Self::Int64(int64) => {
                raw.type_ = sys::LLM_PROPERTY_INT64;
                raw.value.int64 = int64;
            }
            Self::Double(float64) => {
                raw.type_ = sys::LLM_PROPERTY_DOUBLE;
                raw.value.float64 = float64;
            }
            Self::Bytes(value) => {
                raw.type_ = sys::LLM_PROPERTY_BYTES;
                raw.value.bytes.data = value.as_ptr().cast();
                // More than an attribute may have is refused by the library, whatever it is.
                raw.value.bytes.size = value.len().try_into().unwrap_or(u32::MAX);
            }
            Self::Unknown(other) => raw.type_ = other,
        }
        raw
    }
}

/// Attributes of a message that is sent, for receivers with a filter.
///
/// ```
/// use libllm::{Attributes, Value};
/// let attributes = Attributes::new().label(7).property(1, Value::Double(1.25)).property(2, Value::Bytes(b"EUR"));
/// ```
#[derive(Clone)]
pub struct Attributes<'a> {
    raw: sys::llm_attributes,
    properties: Vec<sys::llm_property>,
    borrowed: PhantomData<&'a [u8]>,
}

impl<'a> Attributes<'a> {
    /// Label 0, no bits and no properties.
    pub fn new() -> Self {
        Self { raw: crate::options::filled(sys::llm_attributes_init), properties: Vec::new(), borrowed: PhantomData }
    }

    /// The label.
    #[must_use]
    pub fn label(mut self, label: u32) -> Self {
        self.raw.label = label;
        self
    }

    /// The bitmap, all bits of these bytes: bit n is bit n % 8, from the lowest, of byte n / 8.
    #[must_use]
    pub fn bitmap(mut self, bitmap: &'a [u8]) -> Self {
        self.raw.bitmap = bitmap.as_ptr().cast();
        self.raw.bitmap_bits = bits(bitmap);
        self
    }

    /// One more property. Allocates.
    #[must_use]
    pub fn property(mut self, code: u16, value: Value<'a>) -> Self {
        self.properties.push(value.raw(code));
        self
    }

    pub(crate) fn raw(&self) -> sys::llm_attributes {
        let mut raw = self.raw;
        raw.properties = self.properties.as_ptr();
        raw.properties_count = self.properties.len() as u32;
        raw
    }
}

impl Default for Attributes<'_> {
    fn default() -> Self {
        Self::new()
    }
}

/// The number of bits in a bitmap; of one that is too long, a number that the library refuses.
pub(crate) fn bits(bitmap: &[u8]) -> u32 {
    u32::try_from(bitmap.len()).ok().and_then(|bytes| bytes.checked_mul(8)).unwrap_or(u32::MAX)
}

/// Attributes of a message that was received.
#[derive(Clone, Copy)]
pub struct ReceivedAttributes<'a> {
    raw: sys::llm_attributes,
    borrowed: PhantomData<&'a [u8]>,
}

impl<'a> ReceivedAttributes<'a> {
    /// # Safety
    /// The bitmap and the properties are valid for `'a`.
    pub(crate) unsafe fn new(raw: sys::llm_attributes) -> Self {
        Self { raw, borrowed: PhantomData }
    }

    /// The label.
    pub fn label(&self) -> u32 {
        self.raw.label
    }

    /// Number of bits in the bitmap.
    pub fn bitmap_bits(&self) -> u32 {
        self.raw.bitmap_bits
    }

    /// The bitmap.
    pub fn bitmap(&self) -> &'a [u8] {
        unsafe { bytes(self.raw.bitmap, (self.raw.bitmap_bits as usize + 7) / 8) }
    }

    /// Number of properties.
    pub fn properties_count(&self) -> u32 {
        self.raw.properties_count
    }

    /// The properties of a replayed message. Those of a received one are found by [`Message::property`](crate::Message::property).
    pub fn properties(&self) -> impl Iterator<Item = (u16, Value<'a>)> + 'a {
        let all: &'a [sys::llm_property] = if self.raw.properties.is_null() {
            &[]
        } else {
            unsafe { slice::from_raw_parts(self.raw.properties, self.raw.properties_count as usize) }
        };
        all.iter().map(|raw| (raw.code, unsafe { Value::new(raw) }))
    }
}
