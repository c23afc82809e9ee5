//! What cuGetProcAddress finds: the entries of libcuda.so.1, by documented name, version of CUDA, and default stream.
//!
//! The library tells the core where its table of entries is when it is loaded (thin_libraries.py: the layout is there).
//! A program that asks through the runtime API alone need not have loaded it: then it is opened from beside the core,
//! by its path.

use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicPtr, Ordering::Acquire};
use std::sync::OnceLock;

use session::callers;
use session::function::DefaultStream;

const LIBRARY: &str = "libcuda.so.1";

/// A line of the library's table.
#[repr(C)]
pub struct Line {
    documented: *const c_char,
    since: u64,
    legacy: *const c_void,
    per_thread: *const c_void,
}

// SAFETY: pointers into a library that is never unloaded, which nothing writes.
unsafe impl Sync for Line {}

/// The table of the loaded libcuda.so.1; null before it is loaded.
#[no_mangle]
#[allow(non_upper_case_globals)] // a name of the C ABI
pub static farlane_driver_entries: AtomicPtr<Line> = AtomicPtr::new(ptr::null_mut());

/// What a search gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    At(*mut c_void),
    /// The function is there, but newer than the version that was asked for.
    TooNew,
    Unknown,
}

/// The lines, without the last one, which is null.
fn lines() -> &'static [Line] {
    static LINES: OnceLock<&'static [Line]> = OnceLock::new();
    let known = farlane_driver_entries.load(Acquire);
    if known.is_null() {
        open();
    }
    let first = farlane_driver_entries.load(Acquire);
    if first.is_null() {
        return &[];
    }
    LINES.get_or_init(|| {
        let mut count = 0;
        // SAFETY: the table ends with a line without a name.
        unsafe {
            while !(*first.add(count)).documented.is_null() {
                count += 1;
            }
            slice::from_raw_parts(first, count)
        }
    })
}

/// Loads libcuda.so.1 from the folder that the core is in; its constructor tells where its table is.
#[cold]
fn open() {
    let Some(core) = callers::file_at(ptr::from_ref(&farlane_driver_entries) as usize) else { return };
    let Ok(path) = CString::new(core.with_file_name(LIBRARY).as_os_str().as_bytes()) else { return };
    // SAFETY: a library of ours, which only tells its table.
    if unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) }.is_null() {
        session::log::error(format_args!("{LIBRARY} is not beside the core library: the driver API is not there"));
    }
}

/// The entry of that name for a program that was built with that version of CUDA.
pub fn find(name: &CStr, version: c_int, default: DefaultStream) -> Found {
    let all = lines();
    // SAFETY: names of the table are strings.
    let order = |line: &Line| unsafe { CStr::from_ptr(line.documented) }.cmp(name);
    let start = all.partition_point(|line| order(line).is_lt());
    let same = all[start..].iter().take_while(|line| order(line).is_eq());
    let mut found = Found::Unknown;
    for line in same {
        if i64::from(version) < line.since.cast_signed() {
            if found == Found::Unknown {
                found = Found::TooNew;
            }
            break;
        }
        let per_thread = default == DefaultStream::PerThread && !line.per_thread.is_null();
        found = Found::At(if per_thread { line.per_thread } else { line.legacy }.cast_mut());
    }
    found
}
