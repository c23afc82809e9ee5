//! The shared memory: made and sealed, or received and checked, then mapped; and how a child of a fork is kept away
//! from it.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Error, Violation};

const SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
const NO_WRITING: libc::c_int = libc::F_SEAL_WRITE | libc::F_SEAL_FUTURE_WRITE;
const PAGE: usize = 4096;

/// A mapping of the shared memory.
pub(crate) struct Memory {
    base: NonNull<u8>,
    size: usize,
    /// 1, on a page that a fork wipes.
    here: NonNull<AtomicU32>,
    #[cfg(test)]
    plain: bool,
}

// SAFETY: an address and a size; what lies there is reached through `Ring`.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// A new sealed memfd of `size` bytes.
pub(crate) fn create(size: usize) -> Result<OwnedFd, Error> {
    const NOEXEC_SEAL: libc::c_uint = 8; // Linux 6.3: without it some systems refuse, before it the flag is not known
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    let name = c"farlane-rings";
    // SAFETY: a name that ends with zero.
    let mut number = unsafe { libc::memfd_create(name.as_ptr(), flags | NOEXEC_SEAL) };
    if number < 0 {
        // SAFETY: as above.
        number = unsafe { libc::memfd_create(name.as_ptr(), flags) };
    }
    if number < 0 {
        return Err(Error::last("memfd_create"));
    }
    // SAFETY: the descriptor is new and has no other owner.
    let file = unsafe { OwnedFd::from_raw_fd(number) };
    // SAFETY: plain system calls on that descriptor.
    if unsafe { libc::ftruncate(number, size as libc::off_t) } < 0 {
        return Err(Error::last("ftruncate"));
    }
    // SAFETY: as above.
    if unsafe { libc::fcntl(number, libc::F_ADD_SEALS, SEALS) } < 0 {
        return Err(Error::last("F_ADD_SEALS"));
    }
    Ok(file)
}

/// Whether a received descriptor is ordinary shared memory of that size which cannot change its size any more.
pub(crate) fn check(file: &OwnedFd, needed: usize) -> Result<(), Error> {
    let number = file.as_raw_fd();
    // SAFETY: zeroed is a valid value of both structures, and the calls fill them.
    let (mut system, mut status) = unsafe { (std::mem::zeroed::<libc::statfs>(), std::mem::zeroed::<libc::stat>()) };
    // SAFETY: the structures are this function's.
    if unsafe { libc::fstatfs(number, &mut system) } < 0 {
        return Err(Error::last("fstatfs"));
    }
    // Huge pages of hugetlbfs can be lacking at the time of an access, which then raises SIGBUS.
    if system.f_type != libc::TMPFS_MAGIC {
        return Err(Violation::NoSharedMemory.into());
    }
    // SAFETY: a plain system call.
    let seals = unsafe { libc::fcntl(number, libc::F_GET_SEALS) };
    if seals < 0 {
        return Err(Violation::NoSharedMemory.into());
    }
    if seals & SEALS != SEALS || seals & NO_WRITING != 0 {
        return Err(Violation::Seals(seals).into());
    }
    // SAFETY: the structure is this function's.
    if unsafe { libc::fstat(number, &mut status) } < 0 {
        return Err(Error::last("fstat"));
    }
    if status.st_size as u64 != needed as u64 {
        return Err(Violation::Size { needed: needed as u64, size: status.st_size as u64 }.into());
    }
    Ok(())
}

fn map(size: usize, flags: libc::c_int, file: libc::c_int, advice: libc::c_int) -> Result<NonNull<u8>, Error> {
    // SAFETY: a new mapping where the kernel likes, so it changes no other.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), size, libc::PROT_READ | libc::PROT_WRITE, flags, file, 0) };
    let Some(base) = NonNull::new(base.cast::<u8>()).filter(|_| base != libc::MAP_FAILED) else {
        return Err(Error::last("mmap"));
    };
    // SAFETY: the mapping just made.
    if unsafe { libc::madvise(base.as_ptr().cast(), size, advice) } < 0 {
        let error = Error::last("madvise");
        // SAFETY: as above; it is not used.
        unsafe { libc::munmap(base.as_ptr().cast(), size) };
        return Err(error);
    }
    Ok(base)
}

impl Memory {
    /// Maps a file that [`create`] made or [`check`] has passed.
    pub fn map(file: &OwnedFd, size: usize) -> Result<Self, Error> {
        // The wiped page comes first: a child of a fork between the two sees zero and touches nothing.
        let private = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let here = map(PAGE, private, -1, libc::MADV_WIPEONFORK)?.cast::<AtomicU32>();
        // SAFETY: a page of our own.
        unsafe { here.as_ref() }.store(1, Ordering::Relaxed);
        match map(size, libc::MAP_SHARED, file.as_raw_fd(), libc::MADV_DONTFORK) {
            Ok(base) => Ok(Memory {
                base,
                size,
                here,
                #[cfg(test)]
                plain: false,
            }),
            Err(error) => {
                // SAFETY: made above, not used any more.
                unsafe { libc::munmap(here.as_ptr().cast(), PAGE) };
                Err(error)
            }
        }
    }

    /// Memory of this process alone, for both sides in one process under Miri and ThreadSanitizer.
    #[cfg(test)]
    pub fn plain(size: usize) -> Self {
        let allocate = |size| {
            let layout = std::alloc::Layout::from_size_align(size, PAGE).unwrap();
            // SAFETY: the size is not zero.
            NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) }).unwrap()
        };
        let here = allocate(PAGE).cast::<AtomicU32>();
        // SAFETY: just allocated.
        unsafe { here.as_ref() }.store(1, Ordering::Relaxed);
        Memory { base: allocate(size), size, here, plain: true }
    }

    #[inline]
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    #[cfg(test)]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Whether this process has the mapping: not so in the child of a fork.
    #[inline]
    pub fn is_here(&self) -> bool {
        // SAFETY: a child has this page, too; there it holds zeros.
        unsafe { self.here.as_ref() }.load(Ordering::Relaxed) == 1
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        #[cfg(test)]
        if self.plain {
            for (base, size) in [(self.base.as_ptr(), self.size), (self.here.as_ptr().cast(), PAGE)] {
                // SAFETY: allocated by `plain` with this size.
                unsafe { std::alloc::dealloc(base, std::alloc::Layout::from_size_align(size, PAGE).unwrap()) };
            }
            return;
        }
        if self.is_here() {
            // SAFETY: this process's own mapping; every user of it holds a reference to this object.
            unsafe { libc::munmap(self.base.as_ptr().cast(), self.size) };
        }
        // SAFETY: as above, and a child has it, too.
        unsafe { libc::munmap(self.here.as_ptr().cast(), PAGE) };
    }
}
