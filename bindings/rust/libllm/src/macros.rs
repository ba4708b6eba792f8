// SPDX-License-Identifier: Apache-2.0
//! Macros of the tables in `generated.rs`.

/// An enum that the library gives to applications. A later library may have more values.
macro_rules! given {
    ($(#[$about:meta])* $name:ident: $raw:ident { $($(#[$text:meta])* $variant:ident = $constant:ident,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$text])* $variant,)*
            /// A number of a later library.
            Unknown($raw),
        }

        impl $name {
            pub(crate) fn from_raw(raw: $raw) -> Self {
                match raw {
                    $($constant => Self::$variant,)*
                    other => Self::Unknown(other),
                }
            }

            #[allow(dead_code)]
            pub(crate) fn raw(self) -> $raw {
                match self {
                    $(Self::$variant => $constant,)*
                    Self::Unknown(other) => other,
                }
            }
        }
    };
}

/// An enum that applications give to the library.
macro_rules! taken {
    ($(#[$about:meta])* $name:ident: $raw:ident { $($(#[$text:meta])* $variant:ident = $constant:ident,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$text])* $variant,)*
        }

        impl $name {
            pub(crate) fn raw(self) -> $raw {
                match self {
                    $(Self::$variant => $constant,)*
                }
            }
        }
    };
}

/// Setters of [`Options`](crate::Options), one for each row of `LLM_OPTIONS`.
macro_rules! options {
    ($($(#[$text:meta])* $name:ident: $kind:ident $($word:ident)?;)*) => {
        impl crate::Options {
            $(crate::macros::option!($(#[$text])* $name: $kind $($word)?);)*
        }
    };
}

macro_rules! option {
    ($(#[$text:meta])* $name:ident: word $word:ident) => {
        $(#[$text])*
        #[must_use]
        pub fn $name(mut self, value: $word) -> Self {
            self.raw.$name = value.raw();
            self
        }
    };
    ($(#[$text:meta])* $name:ident: str) => {
        $(#[$text])*
        #[must_use]
        pub fn $name(mut self, value: &str) -> Self {
            self.wrong |= !crate::options::copy_text(&mut self.raw.$name, value);
            self
        }
    };
    ($(#[$text:meta])* $name:ident: $kind:ident) => {
        $(#[$text])*
        #[must_use]
        pub fn $name(mut self, value: $kind) -> Self {
            self.raw.$name = value;
            self
        }
    };
}

pub(crate) use {given, option, options, taken};
