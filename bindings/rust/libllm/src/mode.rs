// SPDX-License-Identifier: Apache-2.0
//! The two ways in which threads use a context.
use std::marker::PhantomData;

/// A context whose loop is the application's. The context, and all that is opened in it, stay on one thread.
#[derive(Debug)]
pub struct Local(PhantomData<*const ()>);

/// A context whose loop runs on a thread of its own. It, and all that is opened in it, may be used by every thread.
#[derive(Debug)]
pub struct Shared(());

/// [`Local`] or [`Shared`].
pub trait Mode: private::Sealed + 'static {}

impl Mode for Local {}
impl Mode for Shared {}

/// Handlers that a context of this mode may have: with [`Local`] those that live as long as the context, with [`Shared`] those that
/// may go to another thread and borrow nothing.
///
/// # Safety
/// Handlers of type `H` run as long as a context `'h` of this mode, on its threads. All types that this is true of have the trait.
pub unsafe trait Allows<'h, H>: Mode {}

unsafe impl<'h, H: 'h> Allows<'h, H> for Local {}
unsafe impl<H: Send + 'static> Allows<'static, H> for Shared {}

mod private {
    pub trait Sealed {}
    impl Sealed for super::Local {}
    impl Sealed for super::Shared {}
}

/// Lifetime and mode of handles. Values that handlers borrow, `'h`, have to live until the last handle is gone, as handlers run while
/// objects are closed: the empty `drop` makes the compiler see to it. `'h` cannot be made shorter, as handlers are added later.
pub(crate) struct Scope<'h, M: Mode>(PhantomData<(Fixed<'h>, M)>);

type Fixed<'h> = fn(&'h ()) -> &'h ();

impl<M: Mode> Scope<'_, M> {
    pub(crate) const NEW: Self = Self(PhantomData);
}

impl<M: Mode> Drop for Scope<'_, M> {
    fn drop(&mut self) {}
}

/// Parts of handles, of which the mode of their [`Scope`] says whether they are `Send` and `Sync`.
#[derive(Clone, Copy)]
pub(crate) struct AsScope<T>(pub(crate) T);

// With Shared the library locks every call, as the loop has a thread of its own, and handlers are Send. With Local the scope is neither.
unsafe impl<T> Send for AsScope<T> {}
unsafe impl<T> Sync for AsScope<T> {}
