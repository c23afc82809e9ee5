//! The reference count of nvmlInit and nvmlShutdown, the devices that the host had at the first, and the last
//! measurement.

use crate::answer::{enter, Code, DRIVER_NOT_LOADED, GPU_IS_LOST, INVALID_ARGUMENT, UNINITIALIZED};
use client::{describe_host, log, Config, DescribeReply, DeviceDescription};
use std::ffi::{c_uint, c_void, CStr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// nvmlDevice_t: no address of anything.
pub type Handle = *mut c_void;

const FIRST_HANDLE: usize = 0x4e56_4d00;
const CORE: &CStr = c"libfarlane_core.so";
const INIT_FLAGS: c_uint = 3; // NVML_INIT_FLAG_NO_GPUS, NVML_INIT_FLAG_NO_ATTACH
/// Utilization is what was done in at least this time.
const SAMPLE: Duration = Duration::from_millis(100);

struct State {
    count: u64,
    config: Option<Config>,
    devices: Vec<DeviceDescription>,
    /// Uptime of the host, and how long it had worked until then.
    sample: Option<(f64, u64)>,
    percent: c_uint,
}

static STATE: Mutex<State> =
    Mutex::new(State { count: 0, config: None, devices: Vec::new(), sample: None, percent: 0 });

fn lock() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[no_mangle]
pub extern "C" fn nvmlInit_v2() -> Code {
    nvmlInitWithFlags(0)
}

#[no_mangle]
pub extern "C" fn nvmlInit() -> Code {
    nvmlInitWithFlags(0)
}

/// Returns NVML_ERROR_DRIVER_NOT_LOADED where no host answers, and writes the reason to standard error.
#[no_mangle]
pub extern "C" fn nvmlInitWithFlags(flags: c_uint) -> Code {
    enter(|| {
        if flags & !INIT_FLAGS != 0 {
            return Err(INVALID_ARGUMENT);
        }
        let mut state = lock();
        if state.count == 0 {
            let described = Config::from_env()
                .map_err(|error| error.to_string())
                .and_then(|config| Ok((describe_host(&config).map_err(|error| error.to_string())?, config)));
            let (reply, config) = described.map_err(|message| {
                log::error(format_args!("NVML: {message}"));
                DRIVER_NOT_LOADED
            })?;
            state.devices = reply.devices;
            state.config = Some(config);
            state.sample = None;
        }
        state.count += 1;
        Ok(())
    })
}

#[no_mangle]
pub extern "C" fn nvmlShutdown() -> Code {
    enter(|| {
        let mut state = lock();
        state.count = state.count.checked_sub(1).ok_or(UNINITIALIZED)?;
        Ok(())
    })
}

fn initialized() -> Result<MutexGuard<'static, State>, Code> {
    let state = lock();
    if state.count == 0 {
        return Err(UNINITIALIZED);
    }
    Ok(state)
}

pub fn devices() -> Result<Vec<DeviceDescription>, Code> {
    Ok(initialized()?.devices.clone())
}

pub fn handle(index: usize) -> Handle {
    (FIRST_HANDLE + index) as Handle
}

/// The device of a handle, and its number.
pub fn device(handle: Handle) -> Result<(usize, DeviceDescription), Code> {
    let devices = devices()?;
    let index = (handle as usize).checked_sub(FIRST_HANDLE).ok_or(INVALID_ARGUMENT)?;
    let found = devices.into_iter().nth(index).ok_or(INVALID_ARGUMENT)?;
    Ok((index, found))
}

/// What the host says now, when it has done what this process has recorded: memory that the program just allocated is
/// in use.
pub fn ask() -> Result<DescribeReply, Code> {
    let config = initialized()?.config.clone().ok_or(UNINITIALIZED)?;
    finish_recorded();
    describe_host(&config).map_err(|error| {
        log::error(format_args!("NVML: {error}"));
        GPU_IS_LOST
    })
}

/// Waits until the host has done what this process's CUDA calls have recorded, where the process has loaded the core.
fn finish_recorded() {
    // SAFETY: the names are C strings; nothing is loaded; the function's type is the core's (crate `session`, work.rs).
    unsafe {
        let core = libc::dlopen(CORE.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY);
        if core.is_null() {
            return;
        }
        let fence = libc::dlsym(core, c"farlane_fence".as_ptr());
        if !fence.is_null() {
            std::mem::transmute::<*mut c_void, extern "C" fn()>(fence)();
        }
        libc::dlclose(core);
    }
}

/// Of the time since the last question, or of a tenth of a second, the part in which the device worked. `None`: the
/// host does not know.
pub fn utilization() -> Result<Option<c_uint>, Code> {
    let mut reply = ask()?;
    let before = initialized()?.sample;
    let (since, done) = match before {
        Some(sample) => sample,
        None => {
            let Some(busy) = reply.busy_nanoseconds else { return Ok(None) };
            let first = (reply.uptime_seconds, busy);
            std::thread::sleep(SAMPLE);
            reply = ask()?;
            first
        }
    };
    let Some(busy) = reply.busy_nanoseconds else { return Ok(None) };
    let mut state = initialized()?;
    let seconds = reply.uptime_seconds - since;
    if seconds >= SAMPLE.as_secs_f64() {
        state.sample = Some((reply.uptime_seconds, busy));
        state.percent = percent(busy.saturating_sub(done), seconds);
    }
    Ok(Some(state.percent))
}

/// Sessions that work at the same time are no more than one device.
fn percent(nanoseconds: u64, seconds: f64) -> c_uint {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)] // between 0 and 100
    let part = (nanoseconds as f64 / (seconds * 1e7)).clamp(0.0, 100.0).round() as c_uint;
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_time() {
        assert_eq!(percent(500_000_000, 1.0), 50);
        assert_eq!(percent(0, 0.1), 0);
        assert_eq!(percent(3_000_000_000, 1.0), 100);
    }

    #[test]
    fn nothing_works_before_the_beginning() {
        assert_eq!(nvmlShutdown(), UNINITIALIZED);
        assert_eq!(devices().err(), Some(UNINITIALIZED));
        assert_eq!(nvmlInitWithFlags(8), INVALID_ARGUMENT);
    }
}
