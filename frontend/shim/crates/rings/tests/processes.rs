//! Two processes: this test program starts itself again as the other side, which does what its role says.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rings::{accept, offer, pair, Error, Options, Rings, Waiting};

const ROLE: &str = "FARLANE_RINGS_ROLE";

fn options() -> Options {
    Options { outgoing: 64 << 10, incoming: 16 << 10, ..Options::default() }
}

/// A deadline far beyond what a test takes, so that a fault fails and does not hang.
fn patience() -> Option<Instant> {
    Some(Instant::now() + Duration::from_secs(60))
}

/// Starts the other side, whose socket is its standard input.
fn start(role: &str, options: &Options) -> (Rings, Child) {
    let (mine, theirs) = UnixStream::pair().unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_other_side", "--ignored", "--quiet"])
        .env(ROLE, role)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    (offer(mine, options, patience()).unwrap(), child)
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

fn patterned(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|place| (place % 251) as u8 ^ seed).collect()
}

/// No test: what [`start`] runs in a process of its own.
#[test]
#[ignore = "the other side of the tests here"]
fn the_other_side() {
    let role = std::env::var(ROLE).expect("started by another test");
    // SAFETY: the socket that `start` has put there, used once.
    let socket = unsafe { UnixStream::from_raw_fd(0) };
    let waiting = if role == "echo asleep" { Waiting::Sleep } else { Waiting::Adaptive };
    let mut rings = accept(socket, &Options { waiting, ..options() }, patience()).unwrap();
    match role.as_str() {
        "echo" | "echo asleep" => {
            let mut bytes = Vec::new();
            while rings.receiver.receive(&mut bytes, None).is_ok() {
                rings.sender.send(&[&bytes], None).unwrap();
            }
        }
        "half a message" => {
            rings.sender.send(&[b"whole"], None).unwrap();
            rings.sender.begin(1 << 20, None).unwrap();
            rings.sender.write(&patterned(3000, 9), None).unwrap();
            std::thread::sleep(Duration::from_secs(600));
        }
        "silent" => std::thread::sleep(Duration::from_secs(600)),
        _ => panic!("no such role: {role}"),
    }
}

fn echo(role: &str, waiting: Waiting) {
    let (mut rings, mut child) = start(role, &Options { waiting, ..options() });
    let mut answer = Vec::new();
    for (turn, length) in
        [0, 1, 7, 8, 9, 4095, 16 << 10, 10, (16 << 10) - 8, 3, 16_377].into_iter().cycle().take(500).enumerate()
    {
        let bytes = patterned(length, turn as u8);
        rings.sender.send(&[&bytes[..length / 2], &bytes[length / 2..]], patience()).unwrap();
        rings.receiver.receive(&mut answer, patience()).unwrap();
        assert_eq!(answer, bytes);
    }
    // Many times both capacities.
    let bytes = patterned(5 << 20, 3);
    rings.sender.send(&[&bytes], patience()).unwrap();
    rings.receiver.receive(&mut answer, patience()).unwrap();
    assert!(answer == bytes);
    drop(rings);
    assert!(child.wait().unwrap().success());
}

#[test]
fn messages_of_all_lengths_cross() {
    echo("echo", Waiting::Adaptive);
}

#[test]
fn messages_cross_between_sides_that_sleep() {
    echo("echo asleep", Waiting::Sleep);
}

#[test]
fn a_peer_killed_in_the_middle_of_a_message_is_noticed_soon() {
    for waiting in [Waiting::Adaptive, Waiting::Sleep, Waiting::Spin] {
        let (mut rings, child) = start("half a message", &Options { waiting, ..options() });
        let mut bytes = Vec::new();
        rings.receiver.receive(&mut bytes, patience()).unwrap();
        assert_eq!(bytes, b"whole");
        assert_eq!(rings.receiver.next(patience()), Ok(1 << 20));
        let mut begun = vec![0; 3000];
        rings.receiver.read(&mut begun, patience()).unwrap();
        assert_eq!(begun, patterned(3000, 9));
        let killed = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            kill(child);
            Instant::now()
        });
        assert_eq!(rings.receiver.read(&mut begun, patience()), Err(Error::PeerGone));
        let late = Instant::now().saturating_duration_since(killed.join().unwrap());
        assert!(late < Duration::from_millis(500), "{waiting:?}: {late:?}");
        assert_eq!(rings.receiver.remaining(), (1 << 20) - 3000);
        assert!(rings.handle.peer_is_gone());
    }
}

#[test]
fn a_peer_that_dies_ends_a_send_into_a_full_ring() {
    let (mut rings, child) = start("silent", &options());
    assert_eq!(rings.sender.try_send(&[&[0; 60 << 10]]), Ok(true));
    let sending = std::thread::spawn(move || rings.sender.send(&[&[0; 60 << 10]], patience()));
    std::thread::sleep(Duration::from_millis(30));
    assert!(!sending.is_finished());
    kill(child);
    assert_eq!(sending.join().unwrap(), Err(Error::PeerGone));
}

/// What the child of a fork finds, as an exit status: 0 if all is as it must be. No allocation before the fork's own
/// checks.
fn child_of_a_fork(rings: Rings, address: *mut u8) -> i32 {
    let Rings { mut sender, mut receiver, handle } = rings;
    let mut residency = 0;
    // SAFETY: it has no preconditions.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let place = (address as usize / page * page) as *mut libc::c_void;
    // SAFETY: asks about an address; writes one byte, which is this function's.
    let mapped = unsafe { libc::mincore(place, 1, &raw mut residency) } == 0;
    let used = [
        sender.try_send(&[b"x"]).err(),
        sender.write(&[], None).err(),
        receiver.arrived().err(),
        receiver.next(None).err(),
        receiver.piece(None).err(),
    ];
    handle.interrupt();
    handle.close_in_child();
    // Something else may lie at the addresses now; dropping the rings must leave it alone.
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: a new mapping, where nothing is.
    let other = unsafe { libc::mmap(place, page, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    drop((sender, receiver, handle));
    // SAFETY: as above.
    let kept = unsafe { libc::mincore(place, 1, &raw mut residency) } == 0;
    let right = !mapped && used.iter().all(|used| *used == Some(Error::Forked)) && other == place && kept;
    i32::from(!right)
}

#[test]
fn the_child_of_a_fork_has_no_rings_and_does_not_disturb() {
    let (mut mine, mut theirs) = pair(&options()).unwrap();
    mine.sender.begin(10, None).unwrap();
    let address = mine.sender.space(None).unwrap().start;
    let (done, wait) = UnixStream::pair().unwrap();
    // SAFETY: the child makes system calls and calls of the rings, then ends without running anything else.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let status = child_of_a_fork(mine, address);
        let mut byte = 0u8;
        // SAFETY: waits for the parent's end of the socket; the child ends itself.
        unsafe {
            libc::write(done.as_raw_fd(), (&raw const status).cast(), 1);
            libc::close(wait.as_raw_fd());
            libc::read(done.as_raw_fd(), (&raw mut byte).cast(), 1);
            libc::_exit(status);
        }
    }
    let mut status = 9u8;
    // SAFETY: reads one byte, which is this function's.
    assert_eq!(unsafe { libc::read(wait.as_raw_fd(), (&raw mut status).cast(), 1) }, 1);
    assert_eq!(status, 0);
    mine.sender.write(&[4; 10], None).unwrap();
    let mut bytes = Vec::new();
    theirs.receiver.receive(&mut bytes, patience()).unwrap();
    assert_eq!(bytes, [4; 10]);
    // The child lives and has closed its copy of the socket of `mine`, so that the end of `mine` is seen.
    assert!(!theirs.handle.peer_is_gone());
    drop(mine);
    // Another test may be starting a process right now, which has a copy of everything for a moment.
    let until = patience().unwrap();
    while !theirs.handle.peer_is_gone() && Instant::now() < until {
        std::thread::yield_now();
    }
    assert!(theirs.handle.peer_is_gone());
    assert_eq!(theirs.receiver.next(patience()), Err(Error::PeerGone));
    drop((done, wait));
    let mut ended = -1;
    // SAFETY: waits for the child above.
    assert_eq!(unsafe { libc::waitpid(child, &mut ended, 0) }, child);
    assert_eq!(ended, 0);
}
