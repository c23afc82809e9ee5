//! Lines for the user on stderr: "farlane: <object>: <what>".

use crate::plan::{Major, Refusal};
use crate::system;

const LONGEST: usize = 1024;

/// What a refusal means for the user.
pub fn of(refusal: Refusal) -> &'static [u8] {
    match refusal {
        Refusal::Incomplete => {
            b"the CUDA runtime is linked into it, but part of its symbol table is missing (strip -x), so its CUDA calls are not \
              redirected; keep the symbols, or link it with nvcc -cudart shared"
        }
        Refusal::Old => {
            b"the CUDA runtime that is linked into it is older than CUDA 12, so its CUDA calls are not redirected; \
              rebuild it with CUDA 12 or 13"
        }
        Refusal::NoLibrary(Major::Twelve) => {
            b"the CUDA runtime is linked into it, and Farlane's libcudart.so.12 is not in the process, so its CUDA calls are \
              not redirected; preload it"
        }
        Refusal::NoLibrary(Major::Thirteen) => {
            b"the CUDA runtime is linked into it, and Farlane's libcudart.so.13 is not in the process, so its CUDA calls are \
              not redirected; preload it"
        }
        Refusal::Unexpected => {
            b"the CUDA runtime that is linked into it is not laid out as NVIDIA's are, so its CUDA calls are not redirected; \
              link it with nvcc -cudart shared"
        }
    }
}

pub const MEMORY: &[u8] =
    b"its code in memory cannot be changed or is not its file's, so its CUDA calls are not redirected; \
    link it with nvcc -cudart shared";
pub const STRIPPED: &[u8] =
    b"it looks for the CUDA driver, and has a CUDA runtime linked into it without a symbol table (stripped), \
    so its CUDA calls are not redirected; do not strip it, or link it with nvcc -cudart shared";

/// Writes one line.
pub fn warn(object: &[u8], what: &[u8]) {
    let mut line = [0; LONGEST];
    let mut length = 0;
    for part in [b"farlane: ", object, b": ", what, b"\n"] {
        for byte in part {
            if let Some(place) = line.get_mut(length) {
                *place = *byte;
                length += 1;
            }
        }
    }
    system::say(line.get(..length).unwrap_or_default());
}
