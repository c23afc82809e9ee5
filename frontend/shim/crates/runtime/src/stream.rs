//! What of the stream family speaks of the runtime API's result codes.

use std::ffi::{c_uint, c_void};

use abi::{cudaStreamCallback_t, cudaStream_t, CudaError};
use operations::stream::then;
use session::call::{Error, Outcome};
use session::function::DefaultStream;

pub unsafe fn cudaStreamAddCallback(
    default: DefaultStream,
    stream: cudaStream_t,
    callback: cudaStreamCallback_t,
    userData: *mut c_void,
    flags: c_uint,
) -> Outcome {
    let Some(callback) = callback.filter(|_| flags == 0) else {
        return Err(Error::INVALID_VALUE);
    };
    then(default, stream, move |waited| {
        let status = waited.err().map_or(CudaError::SUCCESS, |error| CudaError(error.0));
        // SAFETY: the program says that it is such a function.
        unsafe { callback(stream, status, userData) };
    })
}
