//! What Linux gives for lazy readbacks: userfaultfd, and mremap that leaves the old addresses behind without pages.
//!
//! A readback takes the pages of a range away in one step, with what is in them, to another place of the process (the
//! *store*): who writes to the range meanwhile has done so before, or waits. A touch of the range (the program's,
//! or a system call's on its behalf) then sleeps in the kernel until the pages are back, which again is one step. No
//! signal is involved, and the range keeps its mapping, so nothing else can be mapped there.
//!
//! A touch in a system call is only seen by a descriptor that an unprivileged process may be refused
//! (`vm.unprivileged_userfaultfd`, `/dev/userfaultfd`, CAP_SYS_PTRACE); the other kind, where such a call fails with
//! EFAULT, is of no use here. Linux 5.7 or newer.
//!
//! Source: userfaultfd(2), ioctl_userfaultfd(2), mremap(2).

use std::ffi::{c_int, c_void};
use std::io::{Error, ErrorKind};

pub const PAGE: usize = 4096;

const API: u64 = 0xAA;
const UFFDIO_API: u64 = 0xC018_AA3F;
const UFFDIO_REGISTER: u64 = 0xC020_AA00;
const UFFDIO_UNREGISTER: u64 = 0x8010_AA01;
const UFFDIO_WAKE: u64 = 0x8010_AA02;
const UFFDIO_COPY: u64 = 0xC028_AA03;
const USERFAULTFD_IOC_NEW: u64 = 0xAA00;
const REGISTER_MISSING: u64 = 1;
const EVENT_PAGEFAULT: u8 = 0x12;
const MREMAP_DONTUNMAP: c_int = 4;
/// Ranges that lie alike within this much are moved by tables of pages, not page by page.
const TABLE: usize = 2 << 20;

/// The descriptor. It lives as long as the process.
#[derive(Debug)]
pub struct Userfault(c_int);

impl Userfault {
    /// `None` where the kernel has no such thing, or does not let this process have it.
    pub fn open() -> Option<Self> {
        // SAFETY: no pointers.
        let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC) };
        let fd = if fd >= 0 { fd } else { Self::from_device()? };
        let opened = Self(c_int::try_from(fd).ok()?);
        let mut handshake = [API, 0, 0];
        opened.control(UFFDIO_API, handshake.as_mut_ptr()).then_some(opened)
    }

    /// Who may open the device may have a descriptor.
    fn from_device() -> Option<i64> {
        // SAFETY: a name that ends with NUL; no pointers in the request.
        unsafe {
            let device = libc::open(c"/dev/userfaultfd".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
            if device < 0 {
                return None;
            }
            let fd = libc::ioctl(device, USERFAULTFD_IOC_NEW, libc::O_CLOEXEC);
            libc::close(device);
            (fd >= 0).then_some(fd.into())
        }
    }

    fn control(&self, request: u64, words: *mut u64) -> bool {
        // SAFETY: the callers pass what the request takes.
        unsafe { libc::ioctl(self.0, request, words) == 0 }
    }

    /// Takes the pages of `[start, start + length)` away. Where they are now; `None` when the range is not one private
    /// mapping of memory.
    pub fn take(&self, start: usize, length: usize) -> Option<usize> {
        let store = reserve(start, length)?;
        let mut request = [start as u64, length as u64, REGISTER_MISSING, 0];
        if !self.control(UFFDIO_REGISTER, request.as_mut_ptr()) {
            // SAFETY: reserved just now, and known to this function alone.
            unsafe { libc::syscall(libc::SYS_munmap, store, length) };
            return None;
        }
        if move_pages(start, length, store, MREMAP_DONTUNMAP) {
            return Some(store);
        }
        // The store may be unmapped by now, and its addresses another thread's: they are not touched again.
        self.control(UFFDIO_UNREGISTER, [start as u64, length as u64].as_mut_ptr());
        None
    }

    /// Puts the pages back, and lets go on the threads that wait for them.
    pub fn give_back(&self, start: usize, length: usize, store: usize) {
        // The mapping at the old place is exchanged, unless the program has changed it meanwhile: then only what is in
        // it.
        if is_as_it_was(start, length) && move_pages(store, length, start, 0) {
            self.wake(start, length);
            return;
        }
        self.copy_back(start, length, store);
        self.control(UFFDIO_UNREGISTER, [start as u64, length as u64].as_mut_ptr());
        // SAFETY: the store is the readback's.
        unsafe { libc::syscall(libc::SYS_munmap, store, length) };
    }

    /// Page by page: the kernel takes no more at once than lies in one mapping.
    fn copy_back(&self, start: usize, length: usize, store: usize) {
        let mut at = 0;
        while at < length {
            let mut request = [(start + at) as u64, (store + at) as u64, PAGE as u64, 0, 0];
            let copied = self.control(UFFDIO_COPY, request.as_mut_ptr());
            match Error::last_os_error().raw_os_error() {
                _ if copied => at += PAGE,
                Some(libc::EAGAIN | libc::EINTR) => {}
                // Not there any more.
                Some(libc::ENOENT | libc::EEXIST) => at += PAGE,
                _ => {
                    // The program's memory cannot be had again: nothing that it could do would be right.
                    crate::log::error(format_args!(
                        "lazy readbacks: memory cannot be put back: {}",
                        Error::last_os_error()
                    ));
                    std::process::abort();
                }
            }
        }
    }

    /// Lets go on the threads that wait for the range; without its pages they wait again.
    pub fn wake(&self, start: usize, length: usize) {
        self.control(UFFDIO_WAKE, [start as u64, length as u64].as_mut_ptr());
    }

    /// Waits for the next touch; its address. `None`: there are none any more.
    pub fn next(&self) -> Option<usize> {
        let mut message = [0_u64; 4];
        loop {
            // SAFETY: a place for one message.
            let got = unsafe { libc::syscall(libc::SYS_read, self.0, message.as_mut_ptr(), size_of_val(&message)) };
            if got == size_of_val(&message) as i64 && message[0].to_le_bytes()[0] == EVENT_PAGEFAULT {
                return Some(message[2] as usize);
            }
            if got < 0 && Error::last_os_error().kind() != ErrorKind::Interrupted {
                return None;
            }
        }
    }
}

/// Whether the readback's range is still in one mapping, readable and writable. Readbacks side by side are one mapping
/// to the kernel.
fn is_as_it_was(start: usize, length: usize) -> bool {
    let end = start + length;
    std::fs::read_to_string("/proc/self/maps").is_ok_and(|maps| {
        maps.lines()
            .filter(|line| super::place::bounds(line).is_some_and(|(low, high)| low <= start && end <= high))
            .any(|line| line.split_ascii_whitespace().nth(1) == Some("rw-p"))
    })
}

/// Free addresses, which lie to their tables of pages as the range does.
fn reserve(start: usize, length: usize) -> Option<usize> {
    let whole = length.checked_add(TABLE)?;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: new addresses; what is cut off is of them.
    unsafe {
        let place = libc::syscall(libc::SYS_mmap, 0_usize, whole, libc::PROT_NONE, flags, -1_i64, 0_usize);
        if place == -1 {
            return None;
        }
        let place = place as usize;
        let store = place + start.wrapping_sub(place) % TABLE;
        for (from, to) in [(place, store), (store + length, place + whole)] {
            if from < to {
                libc::syscall(libc::SYS_munmap, from, to - from);
            }
        }
        Some(store)
    }
}

fn move_pages(from: usize, length: usize, to: usize, flags: c_int) -> bool {
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | flags;
    // SAFETY: the callers say that `to` is theirs to map, and the pages of `from` theirs to move.
    let moved = unsafe { libc::syscall(libc::SYS_mremap, from, length, length, flags, to as *mut c_void) };
    moved as usize == to
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use std::time::Duration;

    /// Pages of their own, all of them with a number but the last, which was never touched.
    fn memory(pages: usize) -> usize {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new memory.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), pages * PAGE, access, flags, -1, 0) } as usize;
        for page in 0..pages - 1 {
            // SAFETY: in the memory.
            unsafe { ((start + page * PAGE) as *mut u8).write(page as u8 + 1) };
        }
        start
    }

    fn byte(address: usize) -> u8 {
        // SAFETY: the tests pass addresses of their memory.
        unsafe { (address as *const u8).read_volatile() }
    }

    #[test]
    fn pages_are_elsewhere_while_a_readback_has_them_and_back_with_what_was_written_there() {
        let Some(kernel) = Userfault::open() else { return }; // tests/e2e/loops/test_guards.py says when that is so
        let start = memory(6);
        let store = kernel.take(start, 5 * PAGE).expect("a mapping of memory");
        assert_eq!((byte(store), byte(store + 3 * PAGE), byte(store + 4 * PAGE)), (1, 4, 5));
        assert_eq!(byte(start + 5 * PAGE), 0, "it is not the readback's");
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let touch = scope.spawn(|| {
                let seen = byte(start + 3 * PAGE);
                assert!(done.load(SeqCst), "a touch waits");
                seen
            });
            assert_eq!(kernel.next(), Some(start + 3 * PAGE));
            std::thread::sleep(Duration::from_millis(2));
            // SAFETY: the store is this test's.
            unsafe { ((store + 3 * PAGE) as *mut u8).write(99) };
            done.store(true, SeqCst);
            kernel.give_back(start, 5 * PAGE, store);
            assert_eq!(touch.join().expect("no panic"), 99);
        });
        assert_eq!((byte(start), byte(start + 4 * PAGE), byte(start + 5 * PAGE)), (1, 5, 0));
    }

    #[test]
    fn a_system_call_waits_as_well() {
        let Some(kernel) = Userfault::open() else { return };
        let start = memory(3);
        let store = kernel.take(start, 3 * PAGE).expect("a mapping of memory");
        let mut ends = [0; 2];
        // SAFETY: two places.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        std::thread::scope(|scope| {
            // SAFETY: the memory has so many bytes.
            let sent = scope.spawn(|| unsafe { libc::syscall(libc::SYS_write, ends[1], start + PAGE, 2 * PAGE) });
            assert!(kernel.next().is_some_and(|address| address / PAGE == start / PAGE + 1));
            kernel.give_back(start, 3 * PAGE, store);
            assert_eq!(sent.join().expect("no panic"), 2 * PAGE as i64);
        });
        let mut first = 0_u8;
        // SAFETY: a place for one byte.
        assert_eq!(unsafe { libc::read(ends[0], (&raw mut first).cast(), 1) }, 1);
        assert_eq!(first, 2);
    }

    #[test]
    fn what_the_program_does_to_the_mapping_meanwhile_stays() {
        let Some(kernel) = Userfault::open() else { return };
        let start = memory(6);
        let store = kernel.take(start, 5 * PAGE).expect("a mapping of memory");
        // SAFETY: pages of the test's memory.
        unsafe {
            libc::mprotect((start + PAGE) as *mut c_void, PAGE, libc::PROT_READ);
            let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let other = (start + 3 * PAGE) as *mut c_void;
            assert_eq!(libc::mmap(other, PAGE, access, flags | libc::MAP_FIXED, -1, 0), other);
            other.cast::<u8>().write(77);
        }
        kernel.give_back(start, 5 * PAGE, store);
        assert_eq!([0, 1, 2, 3, 4].map(|page| byte(start + page * PAGE)), [1, 2, 3, 77, 5]);
        let maps = std::fs::read_to_string("/proc/self/maps").expect("this process's");
        let one = format!("{:x}-{:x} r--p ", start + PAGE, start + 2 * PAGE);
        assert!(maps.contains(&one), "{maps}");
    }

    #[test]
    fn what_is_no_private_mapping_is_refused_and_left_as_it_is() {
        let Some(kernel) = Userfault::open() else { return };
        let start = memory(4);
        // SAFETY: pages of the test's memory.
        unsafe { libc::mprotect((start + PAGE) as *mut c_void, PAGE, libc::PROT_READ) };
        assert_eq!(kernel.take(start, 3 * PAGE), None, "two mappings");
        assert_eq!((byte(start), byte(start + PAGE), byte(start + 2 * PAGE)), (1, 2, 3));
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        // SAFETY: new memory.
        let shared = unsafe { libc::mmap(std::ptr::null_mut(), PAGE, libc::PROT_READ, flags, -1, 0) } as usize;
        let taken = kernel.take(shared, PAGE);
        if let Some(store) = taken {
            kernel.give_back(shared, PAGE, store); // a newer kernel can; `place` does not ask for it
        }
        assert_eq!(byte(shared), 0);
    }
}
