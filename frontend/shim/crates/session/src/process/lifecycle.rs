//! Fork, exit, unloading: what happens to the process state when the process does something to itself.
//!
//! *Nothing* happens in a process that makes no CUDA call: handlers are installed when the first image is registered
//! (fork) and when the session opens (exit). Neither starts a thread or opens a file.
//!
//! - fork: the child of a process whose session was open, or being opened, is marked; every call in it that would touch
//!   the session returns cudaErrorInitializationError (3), as CUDA does, and the session is abandoned without a word to
//!   the host. The parent is unharmed. A child forked before the session was opened opens its own. The registry's lock
//!   is held across the fork, so that the child never inherits it locked by a thread that it does not have.
//! - exit: an `atexit` handler, registered when the session opens and hence run before the destructors that were
//!   registered before main, only notes that the process is ending (images are unregistered from then on without
//!   telling the host, which drops them with the session). The session itself is finished by this library's own
//!   destructor, which runs after those of the program and its libraries: a program's static destructors may still use
//!   CUDA.
//! - `_exit`, `quick_exit`, a fatal signal: nothing runs; recorded work that was not sent is lost, which no program can
//!   observe without a synchronizing call; the host frees the session when the connection closes.
//! - `dlclose` of a library with images: its `__cudaUnregisterFatBinary` closes the module (registration.rs). This
//!   library itself is linked with `-z nodelete`: its threads' code must not vanish.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::Once;

use crate::above::above;
use crate::call::Error;
use crate::{lazy_readback, log, manifests, output, process, report, trace};

/// cudaErrorInitializationError: what CUDA returns in a child forked after initialization.
pub const INITIALIZATION_ERROR: Error = Error::INITIALIZATION_ERROR;
/// cudaErrorCudartUnloading: what calls return once the session is finished.
pub const UNLOADING: Error = Error::CUDART_UNLOADING;

static FORKED_CHILD: AtomicBool = AtomicBool::new(false);
static EXITING: AtomicBool = AtomicBool::new(false);
static FINISHED: AtomicBool = AtomicBool::new(false);

/// Whether this process is the child of a fork that happened after the session was opened.
#[inline]
pub fn is_forked_child() -> bool {
    FORKED_CHILD.load(Relaxed)
}

/// Whether the process has begun to exit.
pub fn is_exiting() -> bool {
    EXITING.load(Acquire)
}

/// Whether the session is over.
#[inline]
pub fn is_finished() -> bool {
    FINISHED.load(Relaxed)
}

/// The error of a call that needs the session in a process that may not have one any more.
#[inline]
pub fn check_alive() -> Result<(), Error> {
    if is_forked_child() {
        return Err(INITIALIZATION_ERROR);
    }
    if is_finished() {
        return Err(UNLOADING);
    }
    Ok(())
}

/// Installs the fork handlers, once.
pub fn watch_forks() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handlers are functions of this library, which is never unloaded.
        let status =
            unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork_in_parent), Some(after_fork_in_child)) };
        if status != 0 {
            crate::log::warn(format_args!(
                "cannot watch for forks (error {status}): do not use CUDA in forked children"
            ));
        }
    });
}

/// Installs the exit handler, once.
pub fn watch_exit() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: as in watch_forks.
        if unsafe { libc::atexit(at_exit) } != 0 {
            crate::log::debug(format_args!("cannot watch for the exit of the process"));
        }
    });
}

extern "C" fn before_fork() {
    lazy_readback::before_fork();
    if let Some(above) = above() {
        above.before_fork();
    }
}

extern "C" fn after_fork_in_parent() {
    lazy_readback::after_fork_in_parent();
    if let Some(above) = above() {
        above.after_fork();
    }
}

extern "C" fn after_fork_in_child() {
    if process::was_touched() {
        FORKED_CHILD.store(true, Release);
        manifests::abandon();
        if let Some(session) = process::any_session() {
            session.abandon_after_fork();
        }
    }
    lazy_readback::after_fork_in_child();
    if let Some(above) = above() {
        above.after_fork();
    }
}

extern "C" fn at_exit() {
    EXITING.store(true, Release);
}

/// The library's destructor: ends the session, after every destructor of the program.
extern "C" fn finish() {
    if is_forked_child() || FINISHED.load(Acquire) {
        return;
    }
    if let Some(session) = process::any_session() {
        EXITING.store(true, Release);
        if client::is_inside() {
            log::error(format_args!(
                "a signal's handler ends the program in the middle of a CUDA call: its work is not waited for"
            ));
            return;
        }
        // No thread is left to see a panic here.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            lazy_readback::end();
            let mut summary = report::summary();
            if session.checks() {
                let errors = session.finish_checks().unwrap_or(1); // a host that is gone has told nothing
                summary.sections.push(client::Section { name: "check", counts: vec![("errors", errors)] });
            }
            manifests::abandon(); // the session's end completes everything owed
            session.finish(&summary);
            output::show();
        }));
    }
    FINISHED.store(true, Release);
    trace::finish();
    client::spans::finish(&process::program_name());
}

#[used]
#[link_section = ".fini_array"]
static FINISH: extern "C" fn() = finish;
