//! The program's live allocations, for a tool in the same process: the pytest plugin asks what a test has left (frontend/pytest_plugin.py).
//!
//! No function of CUDA's. Opens no session: where none is open, nothing is allocated.

use super::addresses;

/// Writes start and size of the live allocations in device memory, as many as there is room for, and returns how many there are.
///
/// # Safety
/// `list` has room for `room` pairs of numbers.
#[no_mangle]
pub unsafe extern "C" fn farlane_allocations(list: *mut [u64; 2], room: usize) -> usize {
    let Some(addresses) = addresses::known() else { return 0 };
    let live = addresses.lock();
    let found = live.allocator.starts().filter_map(|start| live.allocator.find(start));
    let mut count = 0;
    for allocation in found {
        if count < room {
            // SAFETY: the caller's promise.
            unsafe { list.add(count).write([allocation.address, allocation.size]) };
        }
        count += 1;
    }
    count
}
