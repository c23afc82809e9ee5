//! The program's clock functions, when this library is preloaded: a program that measures its GPU work must not see it
//! end before it has.
//!
//! A synchronization that a manifest let the shim answer locally has not happened. With `FARLANE_TIMING=faithful` (the
//! default) the first clock function that the same thread calls afterwards makes it happen; with `throughput` it does
//! not. Nothing else changes: while nothing is owed, a clock function costs one load more. libstdc++'s chrono and the
//! other languages' clocks come through here as well; a program that reads the processor's counter itself (rdtsc), or
//! makes the system call, is not seen.
//!
//! The shim's own reads of the clock come through here too, and change nothing (`permission::before_clock`). No locks,
//! no allocation.

use std::ffi::{c_int, c_void, CStr};
use std::mem::transmute;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering::Relaxed};

use libc::{clock_t, clockid_t, rusage, time_t, timespec, timeval, tms};

use session::{permission, real};

const UNKNOWN: u8 = 0;
const FAITHFUL: u8 = 1;
const THROUGHPUT: u8 = 2;
static TIMING: AtomicU8 = AtomicU8::new(UNKNOWN);

/// The C library's function of a name, looked up when it is first called.
struct Real {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Real {
    const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicPtr::new(null_mut()) }
    }

    #[inline]
    fn get(&self) -> *mut c_void {
        let address = self.address.load(Relaxed);
        if address.is_null() {
            return self.look_up();
        }
        address
    }

    #[cold]
    fn look_up(&self) -> *mut c_void {
        let address = real::function(self.name);
        self.address.store(address, Relaxed);
        address
    }
}

#[inline]
fn before() {
    if permission::synchronization_owed() {
        complete_synchronizations();
    }
}

#[cold]
fn complete_synchronizations() {
    if TIMING.load(Relaxed) == UNKNOWN {
        let timing = match std::env::var("FARLANE_TIMING").as_deref() {
            Ok("throughput") => THROUGHPUT,
            _ => FAITHFUL, // anything else was refused when the session opened
        };
        TIMING.store(timing, Relaxed);
    }
    if TIMING.load(Relaxed) == FAITHFUL {
        permission::before_clock();
    }
}

/// Defines the C function `name`, which does the same as the C library's.
macro_rules! clock {
    ($name:ident ( $($argument:ident : $kind:ty),* ) -> $result:ty, $failure:expr) => {
        #[no_mangle]
        #[allow(clippy::missing_safety_doc)] // C's own
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> $result {
            static REAL: Real = Real::new(match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => c"",
            });
            before();
            let real = REAL.get();
            if real.is_null() {
                return $failure; // no such function in this C library
            }
            // SAFETY: the C library's function of this name, hence of this type; the caller's promises are its.
            unsafe { transmute::<*mut c_void, unsafe extern "C" fn($($kind),*) -> $result>(real)($($argument),*) }
        }
    };
}

clock!(clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int, -1);
clock!(gettimeofday(time: *mut timeval, zone: *mut c_void) -> c_int, -1);
clock!(time(time: *mut time_t) -> time_t, -1);
clock!(clock() -> clock_t, -1);
clock!(timespec_get(time: *mut timespec, base: c_int) -> c_int, 0);
clock!(times(times: *mut tms) -> clock_t, -1);
clock!(getrusage(who: c_int, usage: *mut rusage) -> c_int, -1);
