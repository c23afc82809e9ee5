//! What a guest finds in place of compilers to machine code because its device takes PTX alone: nvJitLink's library,
//! NVRTC's functions.
//!
//! cuda.core, which Numba links its kernels with, uses the driver's linker where nvJitLink lacks the functions that it
//! looks for; that one takes PTX. So who opens nvJitLink gets this library in its place, which has none of them, when
//! it is preloaded and the device takes no machine code. (A caller for which opening the file fails gives up: it has seen
//! the file.) NVIDIA's own libraries (cuSPARSE, cuSOLVER), which need it for other things, name it among what they
//! need, or ask for it themselves, and get it. On a real GPU, and with `FARLANE_STEERING=off`, everybody does.
//!
//! NVRTC has PTX for each program that it compiles, whatever the architecture. So a program that looks for
//! `nvrtcGetCUBIN` gets `nvrtcGetPTX`, which takes the same arguments, where `FARLANE_STEERING=ptx` says so: the
//! launcher has asked the host (frontend/steering.py). A lookup of a function must not connect. Who looks for a product
//! of cuBLAS's gets the one of `cublas`.
//!
//! The C library's `dlopen` and `dlsym` look at who calls them. So calls are passed on by a jump: the caller stays the
//! program's. That is done on x86-64 alone: elsewhere `dlopen` and `dlsym` are the C library's.

#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]

use std::ffi::{c_char, c_int, c_void, CStr};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};
use std::sync::Once;

use session::process::{self, Device};
use session::{callers, log};

use crate::cublas;

/// The C library's; set before anything jumps there.
static REAL: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
static REAL_DLSYM: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

const STEERED: &[u8] = b"libnvJitLink.so";
/// How the names of NVIDIA's libraries begin, which get what they ask for.
const NVIDIAS: [&str; 2] = ["libcu", "libnv"];
/// What is opened in its place: this library, which is loaded already.
const IN_ITS_PLACE: &CStr = c"libfarlane_core.so";

/// The C function `dlopen`, which does the same as the C library's but for what is steered.
///
/// # Safety
/// As the C library's.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[no_mangle]
pub unsafe extern "C" fn dlopen(file: *const c_char, mode: c_int) -> *mut c_void {
    std::arch::naked_asm!(
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "mov rdx, [rsp + 24]", // the return address
        "call {choose}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "mov rdi, rax",
        "mov rax, [rip + {real}]",
        "jmp rax",
        choose = sym choose,
        real = sym REAL,
    )
}

/// The file to open for a caller that asks for `file`.
extern "C" fn choose(file: *const c_char, _mode: c_int, caller: *const c_void) -> *const c_char {
    if REAL.load(Relaxed).is_null() {
        REAL.store(session::real::dlopen(), Relaxed);
    }
    // SAFETY: not null, so the program says that it is a string.
    let steered = !file.is_null() && is_steered(unsafe { CStr::from_ptr(file) });
    if !steered || callers::is_of(caller as usize, &NVIDIAS) || !takes_ptx_alone() {
        return file;
    }
    static REPORTED: Once = Once::new();
    REPORTED.call_once(|| log::info(format_args!("nvJitLink is left out: the device takes PTX and no machine code")));
    IN_ITS_PLACE.as_ptr()
}

/// The C function `dlsym`, which does the same as the C library's but for what is steered.
///
/// # Safety
/// As the C library's.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[no_mangle]
pub unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    std::arch::naked_asm!(
        "sub rsp, 8",
        "call {choose}",
        "add rsp, 8",
        "mov rdi, rax",
        "mov rsi, rdx",
        "mov rax, [rip + {real}]",
        "jmp rax",
        choose = sym choose_name,
        real = sym REAL_DLSYM,
    )
}

/// Where to look, and for what: returned in two registers.
#[repr(C)]
pub struct Lookup(*mut c_void, *const c_char);

/// What to look for when a caller looks for `name`.
extern "C" fn choose_name(handle: *mut c_void, name: *const c_char) -> Lookup {
    if REAL_DLSYM.load(Relaxed).is_null() {
        REAL_DLSYM.store(session::real::dlsym(), Relaxed);
    }
    if name.is_null() {
        return Lookup(handle, name);
    }
    // SAFETY: the program says that it is a string.
    let asked = unsafe { CStr::from_ptr(name) };
    if handle != libc::RTLD_NEXT && cublas::NAMES.contains(&asked.to_bytes()) {
        // This library's, which is preloaded.
        return Lookup(libc::RTLD_DEFAULT, name);
    }
    Lookup(handle, instead_of(asked).map_or(name, CStr::as_ptr))
}

/// The function for PTX in the place of one of NVRTC's for machine code, if the guest is steered.
pub fn instead_of(name: &CStr) -> Option<&'static CStr> {
    let found = match name.to_bytes() {
        b"nvrtcGetCUBIN" => c"nvrtcGetPTX",
        b"nvrtcGetCUBINSize" => c"nvrtcGetPTXSize",
        _ => return None,
    };
    std::env::var_os("FARLANE_STEERING").is_some_and(|setting| setting == "ptx").then_some(found)
}

fn is_steered(file: &CStr) -> bool {
    let path = file.to_bytes();
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    name.starts_with(STEERED)
}

/// Asks the host, if no thread has: who opens nvJitLink or multiplies is about to use the device.
pub fn takes_ptx_alone() -> bool {
    callers::may_be_steered() && process::device().is_ok_and(Device::takes_ptx_alone)
}
