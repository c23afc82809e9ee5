//! The functions in the slots of the tables, and what fills the slots that are never called.
//!
//! A slot has no name, so that no row of the API table describes it: nothing is counted, and nothing waits. The
//! functions return `CUresult`s.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_uint, c_ulonglong, c_void};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Mutex;

use abi::driver::{CUcontext, CUdevice, CUfunction, CUmodule, CUresult, CUstream};
use operations::module::loading;
use session::call::{Error, Outcome};
use session::{log, process};

use super::super::contexts::{self, Context};
use super::super::entry::{self, INVALID_HANDLE};
use super::super::{current, give};
use super::integrity;
use super::storage::Destructor;

/// What a slot's function returns; no panic leaves it.
fn answer(body: impl FnOnce() -> Outcome) -> CUresult {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => CUresult::SUCCESS,
        Ok(Err(error)) => entry::result_of(error),
        Err(_) => {
            log::error(format_args!("an export table's function failed inside Farlane's shim (a bug of Farlane)"));
            CUresult(Error::UNKNOWN.0)
        }
    }
}

/// Slots that are never called, as far as is known. One that is called says so once.
pub unsafe extern "C" fn refuse<const TABLE: usize, const SLOT: usize>() -> CUresult {
    static REPORTED: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());
    answer(|| {
        if let Ok(mut reported) = REPORTED.lock() {
            if !reported.contains(&(TABLE, SLOT)) {
                reported.push((TABLE, SLOT));
                let name = super::tables::NAMES[TABLE];
                log::error(format_args!(
                    "slot {SLOT} of the export table {name} is not supported: it returns CUDA_ERROR_NOT_SUPPORTED"
                ));
            }
        }
        Err(Error::NOT_SUPPORTED)
    })
}

/// The context that the handle names, alive or not; null stands for the calling thread's current one.
#[inline]
fn named(handle: CUcontext) -> Outcome<&'static Context> {
    match current::get() {
        Some(context) if handle.is_null() || context.handle() == handle => Ok(context),
        _ if handle.is_null() => Err(entry::INVALID_CONTEXT),
        _ => contexts::find(handle).ok_or(entry::INVALID_CONTEXT),
    }
}

/// The primary context, which is in use from then on: the runtime makes it current without retaining it.
pub unsafe extern "C" fn primary_context(context: *mut CUcontext, device: CUdevice) -> CUresult {
    answer(|| {
        process::check_device(device)?;
        // SAFETY: the runtime's place for the handle.
        unsafe { give(context, contexts::use_primary(device)?.handle()) }
    })
}

/// The calling thread's current context.
pub unsafe extern "C" fn current_context(context: *mut CUcontext) -> CUresult {
    // SAFETY: the library's place for the handle.
    answer(|| unsafe { give(context, current::get().map_or(std::ptr::null_mut(), Context::handle)) })
}

/// Where tools would hook into the runtime: zeroed, so that there are no hooks.
#[repr(transparent)]
struct Hooks<const COUNT: usize>(UnsafeCell<[usize; COUNT]>);

// SAFETY: the shim never touches what is in it.
unsafe impl<const COUNT: usize> Sync for Hooks<COUNT> {}

static MANY_HOOKS: Hooks<1024> = Hooks(UnsafeCell::new([0; 1024]));
static FEW_HOOKS: Hooks<14> = Hooks(UnsafeCell::new([0; 14]));

unsafe fn give_hooks<const COUNT: usize>(
    hooks: &'static Hooks<COUNT>,
    place: *mut *mut c_void,
    count: *mut usize,
) -> CUresult {
    answer(|| {
        // SAFETY: the runtime's places.
        unsafe {
            give(place, hooks.0.get().cast())?;
            give(count, COUNT)
        }
    })
}

pub unsafe extern "C" fn many_hooks(place: *mut *mut c_void, count: *mut usize) -> CUresult {
    // SAFETY: the caller's promise.
    unsafe { give_hooks(&MANY_HOOKS, place, count) }
}

pub unsafe extern "C" fn few_hooks(place: *mut *mut c_void, count: *mut usize) -> CUresult {
    // SAFETY: the caller's promise.
    unsafe { give_hooks(&FEW_HOOKS, place, count) }
}

/// What tools would be told.
pub unsafe extern "C" fn nothing_to_do() -> CUresult {
    CUresult::SUCCESS
}

/// Which processors lie together on the chip. cuBLASLt goes on without where this is refused (as its code of 13.1 reads;
/// it calls the slot without looking whether the table is there).
pub unsafe extern "C" fn places_of_processors() -> CUresult {
    CUresult(Error::NOT_SUPPORTED.0)
}

pub unsafe extern "C" fn storage_put(
    context: CUcontext,
    key: *mut c_void,
    value: *mut c_void,
    destructor: Option<Destructor>,
) -> CUresult {
    answer(|| {
        named(context)?.storage.put(key as usize, value, destructor);
        Ok(())
    })
}

pub unsafe extern "C" fn storage_delete(context: CUcontext, key: *mut c_void) -> CUresult {
    answer(|| if named(context)?.storage.delete(key as usize) { Ok(()) } else { Err(INVALID_HANDLE) })
}

pub unsafe extern "C" fn storage_get(place: *mut *mut c_void, context: CUcontext, key: *mut c_void) -> CUresult {
    answer(|| {
        let value = named(context)?.storage.get(key as usize).ok_or(INVALID_HANDLE)?;
        // SAFETY: the runtime's place for its value.
        unsafe { give(place, value) }
    })
}

/// Whether something is the matter with the context: nothing is.
pub unsafe extern "C" fn check_context(_context: CUcontext, found: *mut c_uint, _more: *mut *const c_void) -> CUresult {
    // SAFETY: the runtime's place for the answer.
    answer(|| unsafe { give(found, 0) })
}

pub unsafe extern "C" fn check_nothing() -> c_int {
    0
}

pub unsafe extern "C" fn check_integrity(version: c_uint, time: c_ulonglong, place: *mut [u64; 2]) -> CUresult {
    // SAFETY: the runtime's place for the answer.
    answer(|| unsafe { give(place, integrity::answer(version, time)?) })
}

pub unsafe extern "C" fn context_id(context: CUcontext, id: *mut c_ulonglong) -> CUresult {
    // SAFETY: the library's place for the number.
    answer(|| unsafe { give(id, named(context)?.id()) })
}

/// What tools know of a stream: nothing.
pub unsafe extern "C" fn stream_tools(_context: CUcontext, _stream: CUstream, place: *mut *mut c_void) -> CUresult {
    // SAFETY: the library's place.
    answer(|| unsafe { give(place, std::ptr::null_mut()) })
}

/// What tools know of an object: nothing.
pub unsafe extern "C" fn object_tools(_context: CUcontext, _object: *mut c_void, id: *mut c_ulonglong) -> CUresult {
    // SAFETY: the library's place.
    answer(|| unsafe { give(id, 0) })
}

/// What a library has called for each function: with its own pointer, the function and the module.
type ForFunction = unsafe extern "C" fn(*mut c_void, CUfunction, CUmodule) -> c_int;

/// Tells the library each function of its module; 1 says that all is well, 0 is an error.
pub unsafe extern "C" fn each_function(
    _context: CUcontext,
    module: CUmodule,
    tell: Option<ForFunction>,
    opaque: *mut c_void,
) -> c_int {
    let mut count = 0;
    answer(|| {
        let tell = tell.ok_or(Error::INVALID_VALUE)?;
        let loaded = loading::find(module as usize)?;
        for name in loading::names(loaded)? {
            let function = loading::kernel(loaded, &name)?.handle();
            // SAFETY: the library's function, with what it gave for it.
            unsafe { tell(opaque, function as CUfunction, module) };
        }
        count = 1;
        Ok(())
    });
    count
}
