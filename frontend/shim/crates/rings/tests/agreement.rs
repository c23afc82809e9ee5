//! What an accepting side refuses: agreements and descriptors of a hostile peer.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rings::{accept, offer, Error, Options, Violation};

const SEALS: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
const SIZE: usize = 4096 + 2 * 4096;

fn agreement(capacities: [u64; 2]) -> Vec<u8> {
    [*b"FARLRING", 1u64.to_le_bytes(), capacities[0].to_le_bytes(), capacities[1].to_le_bytes()].concat()
}

fn memfd(size: usize, seals: i32, flags: u32) -> OwnedFd {
    // SAFETY: new descriptors, which become owned.
    unsafe {
        let number = libc::memfd_create(c"test".as_ptr(), libc::MFD_ALLOW_SEALING | flags);
        assert!(number >= 0);
        assert_eq!(libc::ftruncate(number, size as i64), 0);
        assert_eq!(libc::fcntl(number, libc::F_ADD_SEALS, seals), 0);
        OwnedFd::from_raw_fd(number)
    }
}

fn send(socket: &UnixStream, bytes: &[u8], descriptors: &[RawFd]) {
    let mut vector = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut buffer = [0u64; 32];
    let size = size_of_val(descriptors) as u32;
    // SAFETY: a header that names buffers of this function, with room for the descriptors.
    unsafe {
        let mut header = std::mem::zeroed::<libc::msghdr>();
        header.msg_iov = &mut vector;
        header.msg_iovlen = 1;
        if size != 0 {
            header.msg_control = buffer.as_mut_ptr().cast();
            header.msg_controllen = libc::CMSG_SPACE(size) as usize;
            let control = libc::CMSG_FIRSTHDR(&header);
            (*control).cmsg_level = libc::SOL_SOCKET;
            (*control).cmsg_type = libc::SCM_RIGHTS;
            (*control).cmsg_len = libc::CMSG_LEN(size) as usize;
            std::ptr::copy_nonoverlapping(descriptors.as_ptr(), libc::CMSG_DATA(control).cast(), descriptors.len());
        }
        assert_eq!(libc::sendmsg(socket.as_raw_fd(), &header, libc::MSG_NOSIGNAL), bytes.len() as isize);
    }
}

fn soon() -> Option<Instant> {
    Some(Instant::now() + Duration::from_millis(100))
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// What accepting these bytes and descriptors says, without a descriptor left over.
fn accepted(bytes: &[u8], descriptors: &[RawFd]) -> Result<(), Error> {
    let (theirs, mine) = UnixStream::pair().unwrap();
    send(&theirs, bytes, descriptors);
    drop(theirs);
    accept(mine, &Options { largest: 1 << 20, ..Options::default() }, soon()).map(drop)
}

/// One test, because it counts the process's descriptors.
#[test]
fn only_what_was_agreed_is_mapped() {
    let good = memfd(SIZE, SEALS, 0);
    let fd = good.as_raw_fd();
    let open = open_descriptors();
    let right = agreement([4096, 4096]);
    assert_eq!(accepted(&right, &[fd]), Ok(()));
    assert_eq!(accepted(&right, &[fd, fd]), Err(Violation::Descriptors(2).into()));
    assert!(matches!(accepted(&right, &[fd; 60]), Err(Error::Violation(Violation::Descriptors(_)))));
    assert_eq!(accepted(&right, &[]), Err(Violation::Descriptors(0).into()));
    assert_eq!(accepted(&right[..31], &[fd]), Err(Error::PeerGone));
    assert_eq!(open_descriptors(), open);

    let mut wrong = right.clone();
    wrong[0] ^= 1;
    assert!(matches!(accepted(&wrong, &[fd]), Err(Error::Violation(Violation::Magic(_)))));
    wrong = right.clone();
    wrong[8] = 2;
    assert_eq!(accepted(&wrong, &[fd]), Err(Violation::Version(2).into()));
    wrong = right.clone();
    wrong[12] = 1;
    assert!(matches!(accepted(&wrong, &[fd]), Err(Error::Violation(Violation::Version(_)))));
    for capacity in [0, 1, 2048, 4097, 3 << 12, 2 << 20, 1 << 40, 1 << 63, u64::MAX] {
        assert_eq!(accepted(&agreement([capacity, 4096]), &[fd]), Err(Violation::Capacity(capacity).into()));
        assert_eq!(accepted(&agreement([4096, capacity]), &[fd]), Err(Violation::Capacity(capacity).into()));
    }

    let refused = |file: &dyn AsRawFd| accepted(&right, &[file.as_raw_fd()]).unwrap_err();
    assert_eq!(refused(&memfd(SIZE - 4096, SEALS, 0)), Violation::Size { needed: 12288, size: 8192 }.into());
    assert_eq!(refused(&memfd(SIZE + 1, SEALS, 0)), Violation::Size { needed: 12288, size: 12289 }.into());
    for missing in [libc::F_SEAL_SHRINK, libc::F_SEAL_GROW, libc::F_SEAL_SEAL] {
        assert!(matches!(refused(&memfd(SIZE, SEALS & !missing, 0)), Error::Violation(Violation::Seals(_))));
    }
    assert!(matches!(refused(&memfd(SIZE, SEALS | libc::F_SEAL_WRITE, 0)), Error::Violation(Violation::Seals(_))));
    assert_eq!(refused(&memfd(0, SEALS, libc::MFD_HUGETLB)), Violation::NoSharedMemory.into());
    for path in ["/dev/null", "/proc/self/exe", "/"] {
        assert_eq!(refused(&File::open(path).unwrap()), Violation::NoSharedMemory.into(), "{path}");
    }
    assert_eq!(refused(&UnixStream::pair().unwrap().0), Violation::NoSharedMemory.into());
    let readable = File::open(format!("/proc/self/fd/{fd}")).unwrap();
    assert_eq!(refused(&readable), Error::System("mmap", libc::EACCES));
    drop(readable);

    // 20,000 random agreements.
    let mut state = 1u64;
    for _ in 0..fuzzing::inputs(20_000) {
        let mut bytes = right.clone();
        for _ in 0..=state >> 33 & 3 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            bytes[(state >> 40) as usize % 32] = (state >> 50) as u8;
        }
        let result = accepted(&bytes, &[fd]);
        assert!(
            matches!(result, Ok(()) | Err(Error::Violation(_))) && result.is_ok() == (bytes == right),
            "{bytes:?} {result:?}"
        );
    }

    // In pieces, and not at all.
    let (mut theirs, mine) = UnixStream::pair().unwrap();
    send(&theirs, &right[..5], &[fd]);
    let mut late = theirs.try_clone().unwrap();
    let rest = right[5..].to_vec();
    let thread = std::thread::spawn(move || rest.iter().for_each(|byte| late.write_all(&[*byte]).unwrap()));
    assert!(
        accept(mine.try_clone().unwrap(), &Options::default(), Some(Instant::now() + Duration::from_secs(20))).is_ok()
    );
    thread.join().unwrap();
    theirs.write_all(&right[..9]).unwrap();
    assert_eq!(accept(mine, &Options::default(), soon()).err(), Some(Error::TimedOut));
    drop(theirs);
    assert_eq!(open_descriptors(), open);

    // The offering side: wrong capacities, and a peer that has gone.
    let (theirs, mine) = UnixStream::pair().unwrap();
    let odd = Options { outgoing: 5000, ..Options::default() };
    assert_eq!(offer(mine.try_clone().unwrap(), &odd, soon()).err(), Some(Violation::Capacity(5000).into()));
    drop(theirs);
    assert_eq!(offer(mine, &Options::default(), soon()).err(), Some(Error::PeerGone));
}
