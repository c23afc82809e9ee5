//! The codes of launches as an embedded runtime expects them.
//!
//! A runtime hands a launch's code to the program as it is, and asks nothing further: of the driver it expects its own codes, 9 for a shape that no
//! launch can have and 98 for a function that is none, where a program of the driver API reads 1 and 400. A runtime tells itself apart when it
//! fetches its functions: it asks cuGetProcAddress for an empty name first, then for all its functions, then for an export table.

use std::cell::Cell;
use std::ffi::{c_uint, c_void, CStr};

use abi::driver::{CUfunction, CUkernel, CUlaunchConfig, CUresult, CUstream};
use session::function::DefaultStream;

use super::super::generated_exports as exports;

thread_local! {
    /// A runtime is fetching its functions.
    static FETCHING: Cell<bool> = const { Cell::new(false) };
    /// The call is a runtime's.
    static OWN: Cell<bool> = const { Cell::new(false) };
}

/// Whether the call that fails is one of those whose codes are the runtime's own.
pub fn are_the_runtimes() -> bool {
    OWN.get()
}

/// The runtime has its functions.
pub fn fetched() {
    FETCHING.set(false);
}

fn with_own(call: impl FnOnce() -> CUresult) -> CUresult {
    OWN.set(true);
    let result = call();
    OWN.set(false);
    result
}

/// What a search of that name gives a runtime in place of the public function.
pub fn instead(name: &CStr, default: DefaultStream) -> Option<*mut c_void> {
    if name.is_empty() {
        FETCHING.set(true);
    }
    if !FETCHING.get() {
        return None;
    }
    let per_thread = default == DefaultStream::PerThread;
    let either = |legacy: *const (), other: *const ()| if per_thread { other } else { legacy };
    let function = match name.to_bytes() {
        b"cuLaunchKernel" => either(launch as *const (), launch_per_thread as *const ()),
        b"cuLaunchKernelEx" => either(launch_ex as *const (), launch_ex_per_thread as *const ()),
        b"cuLaunchCooperativeKernel" => either(cooperative as *const (), cooperative_per_thread as *const ()),
        b"cuKernelGetFunction" => kernel_function as *const (),
        _ => return None,
    };
    Some(function.cast_mut().cast())
}

macro_rules! functions {
    ($($name:ident = $public:ident($($argument:ident: $kind:ty),*);)*) => {$(
        // The parameters are NVIDIA's to choose.
        #[allow(clippy::too_many_arguments)]
        unsafe extern "C" fn $name($($argument: $kind),*) -> CUresult {
            // SAFETY: the runtime's promise, which is that of the public function.
            with_own(|| unsafe { exports::$public($($argument),*) })
        }
    )*};
}

type Parameters = *mut *mut c_void;

#[rustfmt::skip]
functions! {
    launch = farlane_cuLaunchKernel(f: CUfunction, gx: c_uint, gy: c_uint, gz: c_uint, bx: c_uint, by: c_uint, bz: c_uint, bytes: c_uint, stream: CUstream, parameters: Parameters, extra: Parameters);
    launch_per_thread = farlane_cuLaunchKernel_ptsz(f: CUfunction, gx: c_uint, gy: c_uint, gz: c_uint, bx: c_uint, by: c_uint, bz: c_uint, bytes: c_uint, stream: CUstream, parameters: Parameters, extra: Parameters);
    launch_ex = farlane_cuLaunchKernelEx(config: *const CUlaunchConfig, f: CUfunction, parameters: Parameters, extra: Parameters);
    launch_ex_per_thread = farlane_cuLaunchKernelEx_ptsz(config: *const CUlaunchConfig, f: CUfunction, parameters: Parameters, extra: Parameters);
    cooperative = farlane_cuLaunchCooperativeKernel(f: CUfunction, gx: c_uint, gy: c_uint, gz: c_uint, bx: c_uint, by: c_uint, bz: c_uint, bytes: c_uint, stream: CUstream, parameters: Parameters);
    cooperative_per_thread = farlane_cuLaunchCooperativeKernel_ptsz(f: CUfunction, gx: c_uint, gy: c_uint, gz: c_uint, bx: c_uint, by: c_uint, bz: c_uint, bytes: c_uint, stream: CUstream, parameters: Parameters);
    kernel_function = farlane_cuKernelGetFunction(function: *mut CUfunction, kernel: CUkernel);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_gets_functions_of_its_own_until_it_has_them() {
        let ask = |name: &CStr| instead(name, DefaultStream::Legacy);
        assert_eq!(ask(c"cuLaunchKernel"), None);
        assert_eq!(ask(c""), None);
        assert!(ask(c"cuLaunchKernel").is_some());
        assert_ne!(ask(c"cuLaunchKernel"), instead(c"cuLaunchKernel", DefaultStream::PerThread));
        assert_eq!(ask(c"cuMemAlloc"), None);
        fetched();
        assert_eq!(ask(c"cuLaunchKernel"), None);
    }

    #[test]
    fn its_calls_alone_have_its_codes() {
        assert!(!are_the_runtimes());
        assert_eq!(with_own(|| CUresult(i32::from(are_the_runtimes()))), CUresult(1));
        assert!(!are_the_runtimes());
    }
}
