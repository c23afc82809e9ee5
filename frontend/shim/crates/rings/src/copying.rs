//! The only place that touches the bytes of a ring: copies between the ring and memory of this process.
//!
//! The crate's page says why these copies are sound while another process changes the ring.

use crate::layout::Ring;

#[cfg(not(miri))]
type Copy = unsafe extern "C" fn(*mut libc::c_void, *const libc::c_void, usize) -> *mut libc::c_void;

/// Loaded with `read_volatile`, so that the compiler does not know what it calls.
#[cfg(not(miri))]
static COPY: Copy = libc::memcpy;

/// # Safety
/// Both ranges lie in mapped memory, do not overlap, and `to` may be written.
#[inline]
#[cfg(not(miri))]
unsafe fn copy(to: *mut u8, from: *const u8, length: usize) {
    // SAFETY: a static of this crate; the call's conditions are the caller's.
    unsafe { (std::ptr::read_volatile(&COPY))(to.cast(), from.cast(), length) };
}

/// Under Miri an ordinary copy, so that it sees what the indices do not order. ThreadSanitizer sees `memcpy`.
///
/// # Safety
/// As above.
#[cfg(miri)]
unsafe fn copy(to: *mut u8, from: *const u8, length: usize) {
    // SAFETY: the caller's.
    unsafe { std::ptr::copy_nonoverlapping(from, to, length) };
}

/// Copies into the ring, from index `index` on.
///
/// # Safety
/// `from` may be read for `length` bytes and lies outside of the ring, whose memory is mapped.
#[inline]
pub(crate) unsafe fn into_ring(ring: &Ring, index: u64, from: *const u8, length: usize) {
    let (first, second) = ring.places(index, length);
    // SAFETY: `places` returns ranges inside the ring; the caller answers for `from`.
    unsafe {
        copy(first.0, from, first.1);
        if second.1 != 0 {
            copy(second.0, from.add(first.1), second.1);
        }
    }
}

/// Copies out of the ring, from index `index` on.
///
/// # Safety
/// `to` may be written for `length` bytes and lies outside of the ring, whose memory is mapped.
#[inline]
pub(crate) unsafe fn out_of_ring(ring: &Ring, index: u64, to: *mut u8, length: usize) {
    let (first, second) = ring.places(index, length);
    // SAFETY: as above.
    unsafe {
        copy(to, first.0, first.1);
        if second.1 != 0 {
            copy(to.add(first.1), second.0, second.1);
        }
    }
}
