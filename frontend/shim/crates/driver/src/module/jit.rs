//! Options of loads and of the linker: which are known, and the logs that the program wants filled.
//!
//! What only says how to compile (registers, optimization, debug information, targets) is a hint, and passed over: the
//! host compiles for its own device. Source: CUDA driver API, CUjit_option.

use std::ffi::{c_int, c_uint, c_void};
use std::fmt::Write;
use std::sync::Arc;

use abi::driver::{
    CUjit_option, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, CU_JIT_INFO_LOG_BUFFER,
    CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, CU_JIT_LOG_VERBOSE, CU_JIT_WALL_TIME,
};
use operations::module::Refused;
use session::call::{Error, Outcome};

/// Options of cuda.h of CUDA 13.5 are below this.
const OPTIONS: CUjit_option = 36;
/// More than there are kinds of them.
const MOST_OPTIONS: c_uint = 128;
/// The highest level of optimization, and the number of strategies and of cache modes.
const LIMITS: [(CUjit_option, usize); 3] = [(7, 4), (10, 1), (14, 2)];

/// A log of the program's.
#[derive(Clone, Copy, Debug)]
struct Log {
    buffer: *mut u8,
    room: usize,
    /// Where the length that was written goes.
    length: *mut *mut c_void,
}

impl Default for Log {
    fn default() -> Log {
        Log { buffer: std::ptr::null_mut(), room: 0, length: std::ptr::null_mut() }
    }
}

impl Log {
    /// As much of the text as there is room for, with its NUL.
    fn write(&self, text: &str) {
        let mut length = 0;
        if !self.buffer.is_null() && self.room > 0 {
            length = text.len().min(self.room - 1);
            // SAFETY: the program says that there is so much room.
            unsafe {
                text.as_ptr().copy_to_nonoverlapping(self.buffer, length);
                self.buffer.add(length).write(0);
            }
        }
        if !self.length.is_null() {
            // SAFETY: the option's own place in the program's array.
            unsafe { self.length.write(length as *mut c_void) };
        }
    }
}

/// The logs that the options name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Logs {
    error: Log,
    info: Log,
    /// The info log has what each kernel needs.
    verbose: bool,
}

// SAFETY: the program keeps the places until the linker ends, whichever of its threads calls.
unsafe impl Send for Logs {}

impl Logs {
    /// Reads the options.
    ///
    /// # Errors
    /// cudaErrorInvalidValue for an option that there is not, or a value that it cannot have.
    ///
    /// # Safety
    /// There are as many options and values, and the logs' buffers have the room that they say.
    pub unsafe fn read(count: c_uint, options: *const CUjit_option, values: *mut *mut c_void) -> Outcome<Logs> {
        let mut logs = Logs::default();
        if count == 0 {
            return Ok(logs);
        }
        if options.is_null() || values.is_null() || count > MOST_OPTIONS {
            return Err(Error::INVALID_VALUE);
        }
        for index in 0..count as usize {
            // SAFETY: the caller's promise.
            let (option, place) = unsafe { (options.add(index).read(), values.add(index)) };
            // SAFETY: as above.
            let value = unsafe { place.read() } as usize;
            match option {
                CU_JIT_ERROR_LOG_BUFFER => logs.error.buffer = value as *mut u8,
                CU_JIT_INFO_LOG_BUFFER => logs.info.buffer = value as *mut u8,
                CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES => {
                    (logs.error.room, logs.error.length) = (value as u32 as usize, place)
                }
                CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES => {
                    (logs.info.room, logs.info.length) = (value as u32 as usize, place)
                }
                CU_JIT_LOG_VERBOSE => logs.verbose = value as c_int != 0,
                // SAFETY: as above. The host compiles when a kernel is launched first: no time has passed.
                CU_JIT_WALL_TIME => unsafe { place.cast::<f32>().write(0.0) },
                other if !(0..OPTIONS).contains(&other) => return Err(Error::INVALID_VALUE),
                other if LIMITS.iter().any(|(limited, most)| *limited == other && value as c_int as usize > *most) => {
                    return Err(Error::INVALID_VALUE);
                }
                _ => {}
            }
        }
        Ok(logs)
    }

    /// Fills the logs with what came of it.
    pub fn tell<T>(&self, outcome: Result<T, Refused>) -> Outcome<T> {
        self.tell_code(outcome, |_| None)
    }

    /// The same for code: with CU_JIT_LOG_VERBOSE, the info log describes its contents.
    pub fn tell_code<T>(
        &self,
        outcome: Result<T, Refused>,
        contents: impl FnOnce(&T) -> Option<Arc<image::Module>>,
    ) -> Outcome<T> {
        let wanted = outcome.as_ref().ok().filter(|_| self.verbose && !self.info.buffer.is_null());
        self.info.write(&wanted.and_then(contents).map_or_else(String::new, |contents| describe(&contents)));
        self.error.write(outcome.as_ref().err().map_or("", |refused| &refused.message));
        Ok(outcome?)
    }
}

/// A line for the variables and one for each kernel, by name. Registers are told where the image has machine code, or
/// limits them.
fn describe(contents: &image::Module) -> String {
    let mut kernels: Vec<_> = contents.kernels.iter().collect();
    kernels.sort_unstable_by_key(|(name, _)| *name);
    let bytes: u64 = contents.variables.values().map(|variable| variable.size).sum();
    let mut text = format!(
        "info    : {} variables of {bytes} bytes, {} of them constant\n",
        contents.variables.len(),
        contents.constant_bytes
    );
    for (name, kernel) in kernels {
        // Writing to a string does not fail.
        let _ = match kernel {
            Err(reason) => writeln!(text, "info    : kernel '{name}': {reason}"),
            Ok(kernel) => {
                let registers = match (kernel.registers, kernel.max_registers) {
                    (Some(used), _) => format!(", {used} registers"),
                    (None, Some(most)) => format!(", at most {most} registers"),
                    (None, None) => String::new(),
                };
                writeln!(
                    text,
                    "info    : kernel '{name}': {} bytes of parameters, {} of shared memory, {} of local memory{registers}",
                    kernel.parameter_bytes, kernel.static_shared_bytes, kernel.local_bytes
                )
            }
        };
    }
    text
}
