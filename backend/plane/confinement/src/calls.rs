//! seccomp: the system calls that are left.
//!
//! A list of what may be called, for what is not on it may be anything. What is refused fails with EPERM, as if the process
//! had no right to it, so that a library that only tries goes on. What is on it is what replaying needs: memory, threads, descriptors that
//! are there, clocks, and files opened to be read. Not on it: making sockets, connecting, other processes (exec, fork, ptrace, signals, their
//! memory), changing files, namespaces, keys, BPF, io_uring.

use crate::Failed;
use libc::c_long;
use seccompiler::{
    apply_filter_all_threads, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};
use std::collections::BTreeMap;

/// Whatever their arguments are.
#[rustfmt::skip]
const ALLOWED: &[c_long] = &[
    // memory
    libc::SYS_mmap, libc::SYS_munmap, libc::SYS_mprotect, libc::SYS_mremap, libc::SYS_madvise, libc::SYS_brk, libc::SYS_mincore,
    libc::SYS_msync, libc::SYS_membarrier, libc::SYS_memfd_create, libc::SYS_ftruncate, libc::SYS_fallocate, libc::SYS_mlock,
    libc::SYS_munlock,
    // this process's threads
    libc::SYS_futex, libc::SYS_set_robust_list, libc::SYS_get_robust_list, libc::SYS_rseq, libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity, libc::SYS_sched_getparam, libc::SYS_sched_getscheduler, libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min, libc::SYS_gettid, libc::SYS_exit, libc::SYS_exit_group, libc::SYS_restart_syscall,
    libc::SYS_arch_prctl, libc::SYS_set_tid_address, libc::SYS_getcpu,
    // this process's signals
    libc::SYS_rt_sigaction, libc::SYS_rt_sigprocmask, libc::SYS_rt_sigreturn, libc::SYS_rt_sigpending, libc::SYS_rt_sigtimedwait,
    libc::SYS_sigaltstack,
    // time
    libc::SYS_clock_gettime, libc::SYS_clock_getres, libc::SYS_clock_nanosleep, libc::SYS_nanosleep, libc::SYS_gettimeofday,
    libc::SYS_time, libc::SYS_times, libc::SYS_setitimer, libc::SYS_timerfd_create, libc::SYS_timerfd_settime,
    libc::SYS_timerfd_gettime,
    // descriptors that are open, and those that lead nowhere else
    libc::SYS_read, libc::SYS_write, libc::SYS_readv, libc::SYS_writev, libc::SYS_pread64, libc::SYS_pwrite64, libc::SYS_preadv,
    libc::SYS_pwritev, libc::SYS_lseek, libc::SYS_close, libc::SYS_close_range, libc::SYS_dup, libc::SYS_dup2, libc::SYS_dup3,
    libc::SYS_pipe2, libc::SYS_eventfd2, libc::SYS_epoll_create1, libc::SYS_epoll_ctl, libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2, libc::SYS_poll, libc::SYS_ppoll, libc::SYS_select, libc::SYS_pselect6,
    libc::SYS_fstat,
    // sockets that are open
    libc::SYS_sendmsg, libc::SYS_recvmsg, libc::SYS_sendto, libc::SYS_recvfrom, libc::SYS_shutdown, libc::SYS_getsockopt,
    libc::SYS_setsockopt, libc::SYS_getsockname, libc::SYS_getpeername,
    // files, to look at: Landlock says which
    libc::SYS_newfstatat, libc::SYS_statx, libc::SYS_stat, libc::SYS_lstat, libc::SYS_access, libc::SYS_faccessat,
    libc::SYS_faccessat2, libc::SYS_readlink, libc::SYS_readlinkat, libc::SYS_getdents64, libc::SYS_getcwd, libc::SYS_statfs,
    libc::SYS_fstatfs,
    // what the system is
    libc::SYS_getrandom, libc::SYS_getpid, libc::SYS_getppid, libc::SYS_getuid, libc::SYS_geteuid, libc::SYS_getgid,
    libc::SYS_getegid, libc::SYS_getrusage, libc::SYS_getrlimit, libc::SYS_uname, libc::SYS_sysinfo,
];

const THREAD: u64 = (libc::CLONE_VM | libc::CLONE_SIGHAND | libc::CLONE_THREAD) as u64;
const CHANGING: u64 = (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC | libc::O_APPEND) as u64;
#[rustfmt::skip]
const DESCRIPTOR_COMMANDS: &[i32] = &[
    libc::F_DUPFD, libc::F_GETFD, libc::F_SETFD, libc::F_GETFL, libc::F_SETFL, libc::F_DUPFD_CLOEXEC, libc::F_ADD_SEALS,
    libc::F_GET_SEALS,
];
const TERMINAL_COMMANDS: &[u64] = &[libc::FIONBIO, libc::FIOCLEX, libc::FIONREAD, libc::TCGETS];

/// From now on no thread of this process makes other system calls than the list's, nor gains privileges.
pub fn restrict_calls() -> Result<(), Failed> {
    // Threads are made by clone: what clone3 is asked for lies in memory, where a filter does not see it.
    let without = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    apply(without, SeccompAction::Allow, SeccompAction::Errno(libc::ENOSYS as u32))?;
    let mut rules = by_arguments()?;
    rules.extend(ALLOWED.iter().chain(&[libc::SYS_clone3]).map(|&call| (call, Vec::new())));
    apply(rules, SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Allow)
}

fn apply(
    rules: BTreeMap<c_long, Vec<SeccompRule>>,
    otherwise: SeccompAction,
    matching: SeccompAction,
) -> Result<(), Failed> {
    let filter = SeccompFilter::new(rules, otherwise, matching, TargetArch::x86_64).map_err(failed)?;
    let program: BpfProgram = filter.try_into().map_err(failed)?;
    apply_filter_all_threads(&program).map_err(failed)
}

fn failed(error: impl std::fmt::Display) -> Failed {
    Failed(format!("seccomp: {error}"))
}

/// What is allowed with some arguments only.
fn by_arguments() -> Result<BTreeMap<c_long, Vec<SeccompRule>>, Failed> {
    let own = u64::from(std::process::id());
    Ok(BTreeMap::from([
        (libc::SYS_clone, vec![rule(0, SeccompCmpOp::MaskedEq(THREAD), THREAD)?]),
        (libc::SYS_openat, vec![rule(2, SeccompCmpOp::MaskedEq(CHANGING), 0)?]),
        (libc::SYS_open, vec![rule(1, SeccompCmpOp::MaskedEq(CHANGING), 0)?]),
        (libc::SYS_tgkill, vec![rule(0, SeccompCmpOp::Eq, own)?]),
        (libc::SYS_prctl, vec![rule(0, SeccompCmpOp::Eq, libc::PR_SET_NAME as u64)?]),
        (libc::SYS_sched_setscheduler, vec![giving_way()?]),
        // The calling thread alone: between the processors that it may use (crate rings).
        (libc::SYS_sched_setaffinity, vec![rule(0, SeccompCmpOp::Eq, 0)?]),
        (libc::SYS_prlimit64, vec![rule(2, SeccompCmpOp::Eq, 0)?]),
        (libc::SYS_fcntl, any(1, DESCRIPTOR_COMMANDS.iter().map(|&command| command as u64))?),
        (libc::SYS_ioctl, any(1, TERMINAL_COMMANDS.iter().copied())?),
    ]))
}

/// The calling thread alone, and never before other processes' threads.
fn giving_way() -> Result<SeccompRule, Failed> {
    let equal = |argument, value| {
        SeccompCondition::new(argument, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, value).map_err(failed)
    };
    SeccompRule::new(vec![equal(0, 0)?, equal(1, u64::from(libc::SCHED_IDLE.unsigned_abs()))?]).map_err(failed)
}

fn rule(argument: u8, operation: SeccompCmpOp, value: u64) -> Result<SeccompRule, Failed> {
    // Flags are int, a process's number as well; the whole word counts where that would let something by.
    let width =
        if matches!(operation, SeccompCmpOp::MaskedEq(_)) { SeccompCmpArgLen::Qword } else { SeccompCmpArgLen::Dword };
    let width = if value == 0 { SeccompCmpArgLen::Qword } else { width };
    let condition = SeccompCondition::new(argument, width, operation, value).map_err(failed)?;
    SeccompRule::new(vec![condition]).map_err(failed)
}

fn any(argument: u8, values: impl Iterator<Item = u64>) -> Result<Vec<SeccompRule>, Failed> {
    values.map(|value| rule(argument, SeccompCmpOp::Eq, value)).collect()
}
