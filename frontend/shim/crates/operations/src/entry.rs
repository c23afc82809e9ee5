//! What the calls of both APIs have in common: counting, the place in the program, panics, sticky errors, captures.
//!
//! Owns the conventions between the faces and the operations; owns no function's behaviour. No panic leaves it: it
//! becomes cudaErrorUnknown, logged with the function's name.
//!
//! Order of checks, for functions of class deferred or sync: a forked child first, then a sticky error of the session,
//! then the function itself. Functions of class local decide for themselves what they need (`session::process::session`
//! tells a child apart). Source: CUDA runtime API, "Error Handling"; house rule 7.

use std::panic::{catch_unwind, AssertUnwindSafe};

use client::spans;
use session::call::{Error, Outcome};
use session::frame::{self, Part};
use session::function::{Class, Function, Operation};
use session::permission::deciding;
use session::{above, counters, lifecycle, log, output, permission, process, trace};

use crate::above::OPERATIONS;
use crate::graph::capture;
use crate::testing;

/// Runs one call. `first` is what an API requires of all of its calls.
#[inline]
pub fn pass(function: Function, first: impl FnOnce() -> Outcome, body: impl FnOnce() -> Outcome) -> Outcome {
    let (class, operation) = (function.class(), function.operation());
    counters::count(class);
    let span = spans::begin();
    let call = || {
        begin(function, operation);
        let outcome = first().and_then(|()| admit(function, operation, class)).and_then(|()| {
            if deciding::waits() {
                crate::deciding::begin();
            }
            body()
        });
        end(operation, outcome.err());
        if let Some(began) = span {
            spans::call(function.name(), began);
        }
        outcome
    };
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| Err(report_panic(function)))
}

/// Runs one call that returns no result code; after a panic it returns `otherwise`.
#[inline]
pub fn pass_value<T>(function: Function, otherwise: T, body: impl FnOnce() -> T) -> T {
    let operation = function.operation();
    counters::count(function.class());
    let span = spans::begin();
    let call = || {
        begin(function, operation);
        if deciding::waits() {
            crate::deciding::begin();
        }
        let value = body();
        end(operation, None);
        if let Some(began) = span {
            spans::call(function.name(), began);
        }
        value
    };
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| {
        report_panic(function);
        otherwise
    })
}

/// Notes where the call comes from.
#[inline]
fn begin(function: Function, operation: Operation) {
    above::install(&OPERATIONS);
    frame::begin(Part::of(operation));
    if trace::on() {
        trace::call(function);
    }
    permission::arrive(operation);
}

/// The call is done, perhaps with an error.
#[inline]
fn end(operation: Operation, error: Option<Error>) {
    if error.is_some_and(|error| error != Error::NOT_READY) {
        permission::failed();
    }
    output::after(operation);
    permission::leave(operation);
}

#[inline]
fn admit(function: Function, operation: Operation, class: Class) -> Outcome {
    testing::admit(function)?;
    if capture::any() {
        capture::admit(operation)?;
    }
    if class == Class::Local {
        return Ok(());
    }
    if lifecycle::is_forked_child() {
        return Err(lifecycle::INITIALIZATION_ERROR);
    }
    match process::opened_session().and_then(client::Session::sticky) {
        // A reset, and the end of the context, is how a program leaves a sticky error behind.
        Some(code) if operation != Operation::DeviceReset => Err(Error(code)),
        _ => Ok(()),
    }
}

#[cold]
fn report_panic(function: Function) -> Error {
    log::error(format_args!(
        "{} failed inside Farlane's shim (a bug of Farlane, not of the program); it returns cudaErrorUnknown",
        function.name()
    ));
    Error::UNKNOWN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_unknown_error() {
        assert_eq!(pass(Function::cudaGetDevice, || Ok(()), || panic!("a test panics")), Err(Error::UNKNOWN));
        assert_eq!(pass_value(Function::__cudaInitModule, 7, || panic!("a test panics")), 7);
    }

    #[test]
    fn calls_are_counted_by_class() {
        let before = counters::counted(Class::Local);
        assert_eq!(pass(Function::cudaGetDevice, || Ok(()), || Ok(())), Ok(()));
        assert!(counters::counted(Class::Local) > before);
    }
}
