//! Each thread's stack of contexts, of which the top one is current.
//!
//! The runtime API makes the primary context current where a thread has none; it does so with the first call that needs
//! the device. The stack is the thread's own (`own`): no lock.

use std::cell::{Cell, RefCell};

use session::call::{Error, Outcome};
use session::contexts as tape_contexts;
use session::process;
use session::thread_state::{Slot, Use};

use crate::contexts::{self, Context};
use crate::entry;

/// A thread's contexts. The top one lies apart: every call looks at it.
#[derive(Default)]
struct Stack {
    top: Cell<Option<&'static Context>>,
    below: RefCell<Vec<Option<&'static Context>>>,
}

static STACK: Slot<Stack> = Slot::new(Use::Contexts);

/// Deeper than any program nests; a program that pushes without end is stopped here.
const DEEPEST: usize = 1 << 16;

/// The calling thread's current context, alive or not.
#[inline]
pub fn get() -> Option<&'static Context> {
    STACK.with(|stack| stack.top.get()).flatten()
}

/// The number on the tape of the context that the calling thread works for; the primary one where there is none alive.
pub fn tape_number() -> u32 {
    get().filter(|context| context.is_alive()).map_or(tape_contexts::PRIMARY, Context::tape)
}

/// What the runtime API requires: that the current context was not destroyed. It makes the primary one current where
/// there is none.
///
/// # Errors
/// CUDA_ERROR_CONTEXT_IS_DESTROYED.
#[inline]
pub fn admit_runtime() -> Outcome {
    if tape_contexts::several() && get().is_some_and(|context| !context.primary && !context.is_alive()) {
        return Err(entry::CONTEXT_IS_DESTROYED);
    }
    Ok(())
}

/// The calling thread's current context.
///
/// # Errors
/// cudaErrorInitializationError before cuInit, CUDA_ERROR_INVALID_CONTEXT without one, CUDA_ERROR_CONTEXT_IS_DESTROYED.
#[inline]
pub fn require() -> Outcome<&'static Context> {
    match get() {
        Some(context) if context.is_alive() => Ok(context),
        other => Err(missing(other)),
    }
}

#[cold]
fn missing(current: Option<&'static Context>) -> Error {
    match current {
        Some(_) => entry::CONTEXT_IS_DESTROYED,
        None if entry::is_initialized() => entry::INVALID_CONTEXT,
        None => Error::INITIALIZATION_ERROR,
    }
}

/// Puts the context on top of the calling thread's stack.
///
/// # Errors
/// cudaErrorInvalidValue after 65,536 of them.
pub fn push(context: &'static Context) -> Outcome {
    STACK
        .with(|stack| {
            let mut below = stack.below.borrow_mut();
            if below.len() >= DEEPEST {
                return Err(Error::INVALID_VALUE);
            }
            below.push(stack.top.replace(Some(context)));
            Ok(())
        })
        .unwrap_or(Ok(()))
}

/// Takes the top context from the calling thread's stack.
///
/// # Errors
/// CUDA_ERROR_INVALID_CONTEXT when there is none.
pub fn pop() -> Outcome<&'static Context> {
    let popped = STACK.with(|stack| {
        let below = stack.below.borrow_mut().pop().flatten();
        stack.top.replace(below)
    });
    popped.flatten().ok_or(entry::INVALID_CONTEXT)
}

/// Replaces the calling thread's current context; `None` takes the top one from the stack.
pub fn set(context: Option<&'static Context>) {
    match context {
        Some(_) => {
            STACK.with(|stack| stack.top.set(context));
        }
        None => drop(pop()),
    }
}

/// A call of the runtime API that needs the device has succeeded: the thread has a context from now on.
#[inline]
pub fn runtime_used() {
    STACK.with(|stack| {
        if !stack.top.get().is_some_and(Context::is_in_use) {
            bind_primary(stack);
        }
    });
}

#[cold]
fn bind_primary(stack: &Stack) {
    if let Ok(context) = contexts::use_primary(process::current_device()) {
        stack.top.set(Some(context));
    }
}
