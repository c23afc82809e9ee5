//! The loader's auditing interface (LD_AUDIT): objects are redirected as soon as all that belong to one load are
//! mapped, before they are relocated and before any constructor. Sees the program, the libraries it needs, and what
//! `dlopen` opens.
//!
//! It also leads what looks for NVIDIA's driver library to Farlane's, where there is one, whatever the paths say.

use core::cell::UnsafeCell;
use core::ffi::{c_char, c_long, c_uint, CStr};
use core::ptr;

use crate::file::ObjectFile;
use crate::loaded::{Farlane, LinkMap};
use crate::message;
use crate::redirecting;
use crate::system;

/// The interface's first version, which every C library accepts.
const VERSION: c_uint = 1;
const BASE_NAMESPACE: c_long = 0;
const CONSISTENT: c_uint = 0;
const AS_ASKED: c_uint = 1;
/// More than one load brings.
const MOST_WAITING: usize = 4096;
const LONGEST_PATH: usize = 4096;

const DRIVER: &[u8] = b"libcuda.so";
const DRIVER_SONAME: &[u8] = b"libcuda.so.1";

struct State {
    farlane: Farlane,
    /// Mapped and not looked at yet.
    waiting: [*const LinkMap; MOST_WAITING],
    count: usize,
    /// The path of Farlane's driver library.
    driver: [u8; LONGEST_PATH],
}

struct Locked(UnsafeCell<State>);

// SAFETY: used only while the loader's lock is held, which is whenever it calls an auditor.
unsafe impl Sync for Locked {}

static STATE: Locked = Locked(UnsafeCell::new(State {
    farlane: Farlane::NONE,
    waiting: [ptr::null(); MOST_WAITING],
    count: 0,
    driver: [0; LONGEST_PATH],
}));

/// # Safety
/// The loader's lock is held, and the borrow ends before the auditing function returns.
unsafe fn state() -> &'static mut State {
    // SAFETY: the caller's promise.
    unsafe { &mut *STATE.0.get() }
}

impl State {
    fn opened(&mut self, map: &'static LinkMap) {
        self.farlane.note(map);
        if map.is_named(b"libfarlane_core.so") {
            self.find_driver(map.name().to_bytes());
        }
        if let Some(place) = self.waiting.get_mut(self.count) {
            *place = ptr::from_ref(map);
            self.count += 1;
        }
    }

    fn closed(&mut self, map: &LinkMap) {
        for waiting in self.waiting.iter_mut().take(self.count).filter(|waiting| ptr::eq(**waiting, map)) {
            *waiting = ptr::null();
        }
        redirecting::forget(map, &self.farlane);
    }

    fn all_mapped(&mut self) {
        for waiting in self.waiting.iter().take(self.count) {
            // SAFETY: mapped, and not closed since (`closed`).
            if let Some(map) = unsafe { waiting.as_ref() } {
                redirecting::redirect(map, &self.farlane);
            }
        }
        self.count = 0;
    }

    /// The driver library beside the core.
    fn find_driver(&mut self, core: &[u8]) {
        let folder = core.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        let path = core.get(..folder).unwrap_or_default().iter().chain(DRIVER_SONAME).chain(b"\0");
        for (place, byte) in self.driver.iter_mut().zip(path) {
            *place = *byte;
        }
        let found = CStr::from_bytes_until_nul(&self.driver).is_ok_and(|path| folder > 0 && system::exists(path));
        if !found {
            self.driver = [0; LONGEST_PATH];
        }
    }

    /// Where to look for a library instead.
    fn search(&self, name: &CStr, by: *const LinkMap) -> Option<*const c_char> {
        let path = name.to_bytes();
        let base =
            path.iter().rposition(|byte| *byte == b'/').map_or(path, |at| path.get(at + 1..).unwrap_or_default());
        if base != DRIVER && base != DRIVER_SONAME {
            return None;
        }
        if self.driver.first() != Some(&0) {
            return Some(self.driver.as_ptr().cast());
        }
        // SAFETY: the object that looks for it, which is loaded.
        if let Some(by) = unsafe { by.as_ref() } {
            explain(by);
        }
        None
    }
}

/// An object looks for the driver, which is not there: says why if it is a runtime without symbols.
fn explain(by: &LinkMap) {
    let Some(file) = ObjectFile::open(by) else { return };
    let stripped = file.symbols().is_none() && !by.needs(b"libcudart.so");
    if stripped && file.has_section(b".nvFatBinSegment") {
        let name = by.name().to_bytes();
        message::warn(if name.is_empty() { b"this program" } else { name }, message::STRIPPED);
    }
}

/// # Safety
/// Called by the loader.
#[no_mangle]
pub unsafe extern "C" fn la_version(_offered: c_uint) -> c_uint {
    VERSION
}

/// # Safety
/// Called by the loader.
#[no_mangle]
pub unsafe extern "C" fn la_objopen(map: *const LinkMap, namespace: c_long, cookie: *mut usize) -> c_uint {
    // SAFETY: the loader's description, which lives until la_objclose; the loader's lock is held.
    if let (Some(map), BASE_NAMESPACE) = (unsafe { map.as_ref() }, namespace) {
        // SAFETY: as above.
        unsafe {
            *cookie = ptr::from_ref(map) as usize;
            state().opened(map);
        }
    }
    0 // no call between objects is audited
}

/// # Safety
/// Called by the loader.
#[no_mangle]
pub unsafe extern "C" fn la_activity(_cookie: *mut usize, flag: c_uint) {
    if flag == CONSISTENT {
        // SAFETY: the loader's lock is held.
        unsafe { state().all_mapped() };
    }
}

/// # Safety
/// Called by the loader.
#[no_mangle]
pub unsafe extern "C" fn la_objclose(cookie: *mut usize) -> c_uint {
    // SAFETY: what la_objopen has put there; the loader's lock is held.
    unsafe {
        if let Some(map) = (*cookie as *const LinkMap).as_ref() {
            state().closed(map);
        }
    }
    0
}

/// # Safety
/// Called by the loader.
#[no_mangle]
pub unsafe extern "C" fn la_objsearch(name: *const c_char, cookie: *mut usize, flag: c_uint) -> *const c_char {
    if name.is_null() || flag & AS_ASKED == 0 {
        return name;
    }
    // SAFETY: the loader's string, and what la_objopen has put there; the loader's lock is held.
    unsafe { state().search(CStr::from_ptr(name), *cookie as *const LinkMap) }.unwrap_or(name)
}
