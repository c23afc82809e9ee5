//! Process state: the session, the devices it described, each thread's current device, minted handles.
//!
//! Owns the only session of the process and when it is opened: on the first call that needs it, never at load. What
//! follows from the handshake (devices, window, quota) is answered from here without the network. Does not own streams,
//! allocations or modules; their families mint their handles here.
//!
//! Opening happens once, by whichever thread comes first; others wait for it. A session that cannot be opened stays so:
//! the reason is on stderr once, every call that needs a device returns the same error. Ordering: the digests of
//! everything registered so far travel in Hello, so that the first kernel of a known image costs no further round trip.
//!
//! Rooms: `lifecycle` (fork, exit), `mappings` (the process's memory), `real` (functions of other libraries that this
//! one defines as well).

pub mod lifecycle;
pub mod mappings;
pub mod real;

use std::cell::Cell;
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::OnceLock;

use crate::above::above;
use crate::call::{Error, Outcome};
use crate::{lazy_readback, log, manifests, output};
use client::{Config, DeviceDescription, HelloInfo, Session};

/// What the handshake reported about one device.
#[derive(Debug)]
pub struct Device {
    pub description: DeviceDescription,
    /// Major and minor compute capability.
    pub compute: (u32, u32),
    attributes: HashMap<i32, i32>,
}

impl Device {
    /// A `cudaDeviceAttr`; `None` when the host did not say.
    #[inline]
    pub fn attribute(&self, attribute: i32) -> Option<i32> {
        self.attributes.get(&attribute).copied()
    }

    /// Whether it executes PTX and no machine code, as the simulated device does.
    pub fn takes_ptx_alone(&self) -> bool {
        self.description.takes_ptx && !self.description.takes_machine_code
    }
}

struct Opened {
    session: Session,
    devices: Vec<Device>,
}

static OPENED: OnceLock<Result<Opened, Error>> = OnceLock::new();
/// Set before opening begins: what a fork has to know.
static TOUCHED: AtomicBool = AtomicBool::new(false);

thread_local! {
    static CURRENT_DEVICE: Cell<i32> = const { Cell::new(0) };
}

/// The session, opened now if it was not.
///
/// # Errors cudaErrorInitializationError in a forked child, cudaErrorCudartUnloading at the end of the process, or why
/// there is no session.
#[inline(always)]
pub fn session() -> Outcome<&'static Session> {
    Ok(&opened()?.session)
}

/// The session if it is open and usable; never opens it.
#[inline]
pub fn opened_session() -> Option<&'static Session> {
    if lifecycle::check_alive().is_err() {
        return None;
    }
    any_session()
}

/// The session if there ever was one, whatever became of the process since. For lifecycle only.
#[inline]
pub fn any_session() -> Option<&'static Session> {
    OPENED.get().and_then(|opened| opened.as_ref().ok()).map(|opened| &opened.session)
}

/// All devices of the session, in CUDA's order. At least one.
pub fn devices() -> Outcome<&'static [Device]> {
    Ok(&opened()?.devices)
}

/// The calling thread's current device.
#[inline]
pub fn device() -> Outcome<&'static Device> {
    let opened = opened()?;
    usize::try_from(current_device()).ok().and_then(|number| opened.devices.get(number)).ok_or(Error::INVALID_DEVICE)
}

/// The device of that number.
///
/// # Errors
/// cudaErrorInvalidDevice when the session has no such device.
pub fn device_of(number: i32) -> Outcome<&'static Device> {
    let devices = devices()?;
    usize::try_from(number).ok().and_then(|number| devices.get(number)).ok_or(Error::INVALID_DEVICE)
}

/// Whether the session has a device of that number.
///
/// # Errors
/// As `device_of`.
pub fn check_device(number: i32) -> Outcome {
    device_of(number).map(drop)
}

/// The number of the calling thread's current device.
#[inline]
pub fn current_device() -> i32 {
    CURRENT_DEVICE.try_with(Cell::get).unwrap_or(0)
}

/// Makes `number` the calling thread's current device (cudaSetDevice).
///
/// # Errors
/// cudaErrorInvalidDevice when the session has no such device.
pub fn set_current_device(number: i32) -> Outcome {
    check_device(number)?;
    let _ = CURRENT_DEVICE.try_with(|slot| slot.set(number));
    Ok(())
}

/// Whether the session was ever opened, or opening has begun.
pub fn was_touched() -> bool {
    TOUCHED.load(Acquire)
}

/// Kinds of handles; each has its own numbers (tape.md, "Handles").
#[derive(Clone, Copy, Debug)]
pub enum HandleKind {
    Stream = 0,
    Event = 1,
    Module = 2,
    Function = 3,
    Variable = 4,
}

const FIRST_HANDLE: u32 = 16;
const LAST_HANDLE: u32 = (1 << 31) - 1;

static NEXT_HANDLE: [AtomicU32; 5] = [const { AtomicU32::new(FIRST_HANDLE) }; 5];

/// A handle that was never minted before in this process.
///
/// # Errors
/// cudaErrorMemoryAllocation after 2^31 - 16 handles of one kind.
pub fn mint(kind: HandleKind) -> Outcome<u32> {
    next(&NEXT_HANDLE[kind as usize])
}

#[allow(deprecated)] // newer compilers call it try_update; 1.88 does not know that name
fn next(counter: &AtomicU32) -> Outcome<u32> {
    counter
        .fetch_update(Relaxed, Relaxed, |next| (next <= LAST_HANDLE).then_some(next + 1))
        .map_err(|_| Error::MEMORY_ALLOCATION)
}

#[inline(always)]
fn opened() -> Outcome<&'static Opened> {
    lifecycle::check_alive()?;
    OPENED.get_or_init(open).as_ref().map_err(|error| *error)
}

#[cold]
fn open() -> Result<Opened, Error> {
    lifecycle::watch_forks();
    TOUCHED.store(true, Release);
    let config = Config::from_env().map_err(|error| {
        log::error(format_args!("{error}"));
        Error::NO_DEVICE
    })?;
    clock_setting()?;
    lazy_readback::configure(config.mode)?;
    let found = Cell::new(Vec::new());
    let hello = || {
        let (objects, pending) = manifests::prepare(config.mode);
        found.set(pending);
        HelloInfo {
            program: program_name(),
            pid: std::process::id(),
            module_digests: above().map_or_else(Vec::new, |above| above.image_digests()),
            objects,
            checks: config.checks.clone(),
            priority: config.priority,
        }
    };
    let meanwhile = || manifests::put_to_use(found.take());
    let session = Session::open_while(&config, hello, meanwhile).map_err(|error| {
        log::error(format_args!("{error}"));
        Error::DEVICES_UNAVAILABLE
    })?;
    session.set_origin(crate::work::origin);
    output::opened(session.checks());
    if let Some(above) = above() {
        above.host_holds(&session.welcome().known_modules);
    }
    manifests::opened(&session);
    let devices: Vec<Device> = session.welcome().devices.iter().map(describe).collect();
    if devices.is_empty() {
        log::error(format_args!("the host has no device"));
        return Err(Error::NO_DEVICE);
    }
    lifecycle::watch_exit();
    let welcome = session.welcome();
    log::info(format_args!(
        "session {} on {} (host {}): device {}, {} of its images known",
        welcome.session,
        config.endpoint,
        welcome.host_version,
        devices[0].description.name,
        welcome.known_modules.len()
    ));
    Ok(Opened { session, devices })
}

/// A wrong setting is reported before anything runs.
fn clock_setting() -> Outcome {
    match std::env::var("FARLANE_TIMING").as_deref() {
        Ok("" | "faithful" | "throughput") | Err(_) => Ok(()),
        Ok(other) => {
            log::error(format_args!("FARLANE_TIMING is \"{other}\": it must be faithful or throughput"));
            Err(Error::NO_DEVICE)
        }
    }
}

fn describe(description: &DeviceDescription) -> Device {
    Device {
        compute: (description.compute_major, description.compute_minor),
        attributes: description.attributes.iter().map(|(attribute, value)| (*attribute, *value)).collect(),
        description: description.clone(),
    }
}

pub fn program_name() -> String {
    let path = std::env::current_exe().ok();
    let name = path.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| "unknown".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_start_at_16_and_run_out_at_the_end() {
        let counter = AtomicU32::new(FIRST_HANDLE);
        assert_eq!(next(&counter), Ok(16));
        assert_eq!(next(&counter), Ok(17));
        counter.store(LAST_HANDLE, Relaxed);
        assert_eq!(next(&counter), Ok(LAST_HANDLE));
        assert_eq!(next(&counter), Err(Error::MEMORY_ALLOCATION));
        assert_eq!(next(&counter), Err(Error::MEMORY_ALLOCATION));
    }
}
