//! The system's page size: what is mapped, and protected from the program, at once. Kernels for AArch64 have pages of 4,
//! 16 or 64 KiB.

/// Bytes of a page.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub const fn size() -> usize {
    4096
}

/// Bytes of a page.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub fn size() -> usize {
    // SAFETY: it has no preconditions.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}
