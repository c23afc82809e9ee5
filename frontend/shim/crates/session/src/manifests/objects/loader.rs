//! What the dynamic loader knows: objects, where they are, their program headers in memory.
//!
//! Everything read here is mapped by the loader and stays so during `dl_iterate_phdr`, which holds its lock.
//! Crate `redirect`, which is loaded before, notes in `farlane_redirected` whose runtime it has redirected.

use std::ffi::{c_int, c_void, CStr};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::slice;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use libc::{dl_phdr_info, PF_R, PT_DYNAMIC, PT_LOAD, PT_NOTE};

use super::{build_id, names_cuda, Object};

const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_STRSZ: u64 = 10;
/// More than any object has.
const MOST_ENTRIES: usize = 4096;

/// As many as `redirect` assumes (`MOST_REDIRECTED`).
const MOST: usize = 256;

/// The biases of redirected objects, with bit 0 set; zero where there is none. Written by the other library, under the
/// loader's lock, before any constructor of the object.
#[no_mangle]
pub static farlane_redirected: [AtomicUsize; MOST] = [const { AtomicUsize::new(0) }; MOST];

/// How many objects were ever loaded.
pub fn count() -> u64 {
    let mut count = 0;
    iterate(&mut |info| {
        count = info.dlpi_adds;
        false
    });
    count
}

/// The same, and what is loaded now.
pub fn objects() -> (u64, Vec<Object>) {
    let (mut count, mut found) = (0, Vec::new());
    let mut redirected: Option<Vec<usize>> = None; // read under the loader's lock
    iterate(&mut |info| {
        count = info.dlpi_adds;
        // SAFETY: the loader's own description of a loaded object.
        found.extend(unsafe { object(info, redirected.get_or_insert_with(self::redirected)) });
        true
    });
    (count, found)
}

/// What is in `farlane_redirected`.
fn redirected() -> Vec<usize> {
    farlane_redirected.iter().map(|bias| bias.load(Relaxed)).filter(|bias| *bias != 0).collect()
}

/// Calls `visit` for each object, until it says false.
fn iterate(visit: &mut dyn FnMut(&dl_phdr_info) -> bool) {
    unsafe extern "C" fn next(info: *mut dl_phdr_info, _size: usize, data: *mut c_void) -> c_int {
        // SAFETY: `data` is what is passed below; the loader passes a valid description.
        let (visit, info) = unsafe { (&mut *data.cast::<&mut dyn FnMut(&dl_phdr_info) -> bool>(), &*info) };
        let more = catch_unwind(AssertUnwindSafe(|| visit(info))).unwrap_or(false);
        c_int::from(!more)
    }
    let mut visit = visit;
    // SAFETY: `next` is called during this call only.
    unsafe { libc::dl_iterate_phdr(Some(next), (&raw mut visit).cast()) };
}

/// `redirected`: of the objects whose calls to the runtime that is linked into them come here, as in
/// `farlane_redirected`.
///
/// # Safety
/// `info` describes an object that is loaded and stays so during the call.
unsafe fn object(info: &dl_phdr_info, redirected: &[usize]) -> Option<Object> {
    if info.dlpi_phdr.is_null() || info.dlpi_name.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let (headers, name) = unsafe {
        (slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)), CStr::from_ptr(info.dlpi_name))
    };
    let bias = info.dlpi_addr as usize;
    let readable = |header: &&libc::Elf64_Phdr| header.p_type == PT_LOAD && header.p_flags & PF_R != 0;
    let segments: Vec<_> = headers
        .iter()
        .filter(readable)
        .filter_map(|header| Some((header.p_vaddr, header.p_vaddr.checked_add(header.p_memsz)?)))
        .collect();
    let mut object = Object {
        name: name.to_owned(),
        bias,
        segments,
        build_id: None,
        needs_cuda: redirected.contains(&(bias | 1)),
        identity: std::sync::OnceLock::new(),
    };
    for header in headers {
        if !object.holds(header.p_vaddr, header.p_memsz) {
            continue; // not in memory
        }
        let start = bias.wrapping_add(header.p_vaddr as usize) as *const u8;
        if header.p_type == PT_NOTE && object.build_id.is_none() {
            // SAFETY: inside a readable segment.
            object.build_id = build_id(unsafe { slice::from_raw_parts(start, header.p_memsz as usize) });
        }
        if header.p_type == PT_DYNAMIC {
            let entries = (header.p_memsz as usize / 16).min(MOST_ENTRIES);
            // SAFETY: inside a readable segment, and aligned by the linker.
            let dynamic = unsafe { slice::from_raw_parts(start.cast::<[u64; 2]>(), entries) };
            object.needs_cuda |= object.needs(dynamic);
        }
    }
    Some(object)
}

impl Object {
    fn needs(&self, dynamic: &[[u64; 2]]) -> bool {
        let value = |tag: u64| dynamic.iter().find(|entry| entry[0] == tag).map(|entry| entry[1]);
        let (Some(table), Some(size)) = (value(DT_STRTAB), value(DT_STRSZ)) else { return false };
        // The loader has added the bias to the table's address, for most objects.
        let unbiased = table.wrapping_sub(self.bias as u64);
        let Some(table) = [unbiased, table].into_iter().find(|table| self.holds(*table, size)) else { return false };
        // SAFETY: inside a readable segment.
        let strings =
            unsafe { slice::from_raw_parts((self.bias as u64).wrapping_add(table) as *const u8, size as usize) };
        let needed = dynamic.iter().take_while(|entry| entry[0] != 0).filter(|entry| entry[0] == DT_NEEDED);
        needed
            .filter_map(|entry| strings.get(usize::try_from(entry[1]).ok()?..))
            .filter_map(|rest| CStr::from_bytes_until_nul(rest).ok())
            .any(names_cuda)
    }
}
