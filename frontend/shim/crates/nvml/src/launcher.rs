//! What `farlane run` asks of a host before it starts the program (frontend/steering.py). It stands here because this
//! library asks hosts about themselves already, and is whole in itself.

use client::{describe_host, Access, Config, DescribeReply, Endpoint};
use std::ffi::{c_char, c_int, c_uint, CStr};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::Duration;

/// Whether no device of the host takes machine code: 1 or 0; -1 where no host answers in time.
///
/// # Safety
/// `url` is a C string.
#[no_mangle]
pub unsafe extern "C" fn farlane_takes_ptx_alone(url: *const c_char, milliseconds: c_uint) -> c_int {
    // SAFETY: the caller's promise.
    let url = unsafe { CStr::from_ptr(url) };
    let asked = catch_unwind(AssertUnwindSafe(|| {
        let mut config = Config::new(url.to_str().ok()?.parse::<Endpoint>().ok()?);
        config.access = Access::from_env().ok()?;
        config.connect_timeout = Duration::from_millis(milliseconds.into());
        describe_host(&config).ok()
    }));
    asked.ok().flatten().map_or(-1, |reply| c_int::from(takes_ptx_alone(&reply)))
}

fn takes_ptx_alone(reply: &DescribeReply) -> bool {
    !reply.devices.is_empty() && !reply.devices.iter().any(|device| device.takes_machine_code)
}
