//! Starts the program with our standard streams, passes signals on, and waits for its end.

use std::ffi::{c_int, OsString};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

use crate::error::{UserError, FAILED, NOT_EXECUTABLE};

const FORWARDED: [c_int; 5] = [libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2];

static PROGRAM: AtomicI32 = AtomicI32::new(0);

extern "C" fn pass_on(signal: c_int) {
    // SAFETY: kill may be called in a signal's handler.
    unsafe { libc::kill(PROGRAM.load(Relaxed), signal) };
}

fn block(how: c_int) {
    // SAFETY: a set that is initialized first.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in FORWARDED {
            libc::sigaddset(&raw mut set, signal);
        }
        libc::sigprocmask(how, &raw const set, std::ptr::null_mut());
    }
}

/// Runs the program; its exit status as a shell has it.
pub fn run(
    path: &Path,
    words: &[OsString],
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<u8, UserError> {
    let failed = |error| UserError::new(format!("cannot run {}: {error}", path.display()));
    // Absolute: a name without a folder would be looked up in PATH.
    let absolute = std::path::absolute(path).map_err(failed)?;
    let mut command = Command::new(absolute);
    command.arg0(&words[0]).args(&words[1..]).env_clear().envs(environment);
    // What arrives before the program has a number waits. The program itself starts with no signal blocked (std's rule).
    block(libc::SIG_BLOCK);
    let mut child = command.spawn().map_err(|error| failed(error).status(NOT_EXECUTABLE))?;
    PROGRAM.store(c_int::try_from(child.id()).map_err(|_| UserError::new("the program has no process"))?, Relaxed);
    for signal in FORWARDED {
        // SAFETY: the handler makes one system call.
        unsafe { libc::signal(signal, pass_on as *const () as libc::sighandler_t) };
    }
    block(libc::SIG_UNBLOCK);
    // The terminal sends it to the program as well.
    // SAFETY: no handler is installed.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
    let status = child.wait().map_err(failed)?;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED))
}
