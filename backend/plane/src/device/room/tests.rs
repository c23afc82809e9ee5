//! Allocations in a window of four granules.

use super::*;

const GRANULE: u64 = 2 << 20;

/// A window of four granules.
struct Window {
    base: u64,
    flags: Box<[u8]>,
    room: Room,
    budget: Arc<Budget>,
}

impl Window {
    fn new() -> Self {
        let size = 4 * GRANULE;
        let (none, flags) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
        // SAFETY: a new mapping, which stays until the process ends.
        let place = unsafe { libc::mmap(std::ptr::null_mut(), (size + GRANULE) as usize, none, flags, -1, 0) };
        let base = (place as u64).next_multiple_of(GRANULE);
        let mut flags = vec![0_u8; (size / PAGE) as usize].into_boxed_slice();
        // SAFETY: both stay as long as the window.
        let pages = unsafe { Pages::new(base, size, flags.as_mut_ptr(), None) };
        let budget = Arc::new(Budget::new(size));
        let limits = Limits { base, size, alignment: 1, count: 1000 };
        let allocations = Arc::new(Allocations::new(Arc::default()));
        let room = Room::new(allocations, limits, size, Some(budget.clone()), Some(Arc::new(pages)));
        Self { base, flags, room, budget }
    }

    fn allocate(&self, offset: u64, size: u64) -> Result<(), Refusal<i32>> {
        self.room.allocate(self.base + offset, size, &self.room.plain())
    }

    fn free(&self, offset: u64) -> Result<u64, Refusal<i32>> {
        self.room.free(self.base + offset, &self.room.plain()).map(|ended| ended.size())
    }

    #[allow(clippy::mut_from_ref)]
    fn bytes(&self, offset: u64, size: u64) -> &mut [u8] {
        // SAFETY: the test has allocated them.
        unsafe { std::slice::from_raw_parts_mut((self.base + offset) as *mut u8, size as usize) }
    }

    /// Whether the system lets this process touch a page.
    fn touchable(&self, offset: u64) -> bool {
        let mut pipe = [0; 2];
        // SAFETY: write(2) answers EFAULT for memory that is not accessible.
        unsafe {
            assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
            let written = libc::write(pipe[1], (self.base + offset) as *const libc::c_void, 1);
            libc::close(pipe[0]);
            libc::close(pipe[1]);
            written == 1
        }
    }
}

#[test]
fn new_memory_is_zero_and_freed_pages_are_forbidden() {
    let window = Window::new();
    for _ in 0..100 {
        window.allocate(0, 3 * PAGE).unwrap();
        assert!(window.bytes(0, 3 * PAGE).iter().all(|&byte| byte == 0));
        assert_eq!(&window.flags[..4], [3, 3, 3, 0]);
        window.bytes(0, 3 * PAGE).fill(7);
        assert_eq!(window.free(0), Ok(3 * PAGE));
        assert_eq!(&window.flags[..4], [0; 4]);
    }
    window.allocate(PAGE, PAGE).unwrap(); // the middle of what was kept
    assert!(window.bytes(PAGE, PAGE).iter().all(|&byte| byte == 0));
    window.allocate(0, PAGE).unwrap();
    window.allocate(2 * PAGE, PAGE).unwrap();
    assert!(window.bytes(0, 3 * PAGE).iter().all(|&byte| byte == 0));
    assert_eq!((window.room.used(), window.budget.used()), (3 * PAGE, 3 * PAGE));
}

#[test]
fn what_is_kept_is_bounded_and_large_runs_go_back_at_once() {
    let window = Window::new();
    for page in 0..200 {
        window.allocate(2 * page * PAGE, PAGE).unwrap();
    }
    for page in 0..200 {
        window.free(2 * page * PAGE).unwrap();
    }
    assert!(window.touchable(198 * 2 * PAGE), "a few are kept");
    window.allocate(GRANULE, 2 * GRANULE).unwrap();
    window.bytes(GRANULE, 2 * GRANULE).fill(1);
    window.free(GRANULE).unwrap();
    assert!(!window.touchable(GRANULE) && !window.touchable(3 * GRANULE));
    window.allocate(GRANULE, PAGE).unwrap();
    assert_eq!(window.bytes(GRANULE, 1), [0]);
    window.allocate(0, GRANULE).unwrap();
    assert!(window.bytes(0, GRANULE).iter().all(|&byte| byte == 0));
    window.free(0).unwrap();
    assert!(!window.touchable(0));
}

#[test]
fn neighbours_share_a_page() {
    let window = Window::new();
    window.allocate(0, 100).unwrap();
    window.bytes(0, 200).fill(9);
    window.allocate(100, 100).unwrap();
    assert_eq!((window.bytes(99, 1)[0], window.bytes(100, 1)[0]), (9, 0));
    window.free(0).unwrap();
    assert_eq!(window.flags[0], 3, "the other one has it");
    window.free(100).unwrap();
    assert_eq!(window.flags[0], 0);
}

#[test]
fn what_is_refused_changes_nothing() {
    let window = Window::new();
    assert_eq!(window.allocate(0, 0), Err(Refusal::Range));
    assert_eq!(window.allocate(u64::MAX - window.base, 1), Err(Refusal::Range));
    assert_eq!(window.allocate(0, 4 * GRANULE + 1), Err(Refusal::Range));
    window.allocate(PAGE, PAGE).unwrap();
    assert_eq!(window.allocate(0, PAGE + 1), Err(Refusal::Clash));
    assert_eq!(window.allocate(GRANULE, 3 * GRANULE - 1), Ok(()));
    window.room.set_quota(0);
    assert_eq!(window.allocate(0, 1), Err(Refusal::Quota));
    window.room.set_quota(u64::MAX);
    assert!(window.budget.take(4 * GRANULE - window.budget.used()));
    assert_eq!(window.allocate(0, 1), Err(Refusal::Budget));
    assert_eq!(window.free(0), Err(Refusal::Unknown));
    assert_eq!(window.free(4 * GRANULE), Err(Refusal::Range));
    assert_eq!(window.room.used(), PAGE + 3 * GRANULE - 1);
}
