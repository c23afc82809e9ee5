//! What the launcher must know about a program before it starts it: can its CUDA calls be intercepted?
//!
//! The rules and the words are frontend/program.py's.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::elf::{Elf, FLAGS_1};
use crate::error::{UserError, NOT_EXECUTABLE, NOT_FOUND};

const RUNTIME_PREFIX: &str = "libcudart.so.";
const DRIVER: &str = "libcuda.so.1";
const SANITIZER_PREFIX: &str = "libasan.so";
const REGISTER: &str = "__cudaRegisterFatBinary";
const FATBIN_SECTIONS: [&str; 2] = [".nv_fatbin", ".nvFatBinSegment"];
/// A runtime that is linked in has functions that are named so, and this one.
const INTERNAL: &[u8] = b"\0libcudart_static_";
const PUBLIC: &[u8] = b"\0__cudaRegisterFatBinary\0";
const MACHINE: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
/// Whether a runtime that is linked into a program is redirected to ours (crates/redirect).
const REDIRECTS: bool = cfg!(target_arch = "x86_64");
/// DF_1_PIE
const FLAG_EXECUTABLE: u64 = 0x0800_0000;
const EXECUTABLE: u16 = 2;

/// An executable as the launcher sees it. A script has none of it: its interpreter makes the CUDA calls.
#[derive(Debug, Default)]
pub struct Program {
    pub is_elf: bool,
    /// Major versions of the shared CUDA runtimes it is linked to.
    pub runtimes: Vec<String>,
    pub has_kernels: bool,
    /// The CUDA runtime is linked into it.
    pub static_runtime: bool,
    /// Of that runtime there are no symbols by which its functions could be found.
    pub stripped: bool,
    /// No loader starts it, so nothing can be preloaded.
    pub fully_static: bool,
    /// AddressSanitizer's library, when it is linked to it.
    pub sanitizer: Option<String>,
    pub needs_driver: bool,
    /// The loader that starts it.
    pub interpreter: Option<PathBuf>,
}

/// The file that the shell would run.
pub fn find(name: &OsStr) -> Result<PathBuf, UserError> {
    let shown = name.to_string_lossy();
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return match fs::metadata(&path) {
            Err(_) => Err(UserError::new(format!("{shown}: no such file")).status(NOT_FOUND)),
            Ok(status) if status.is_dir() => Err(UserError::new(format!("{shown} is a folder"))
                .advice("Give the program to run after `--`.")
                .status(NOT_EXECUTABLE)),
            Ok(_) if !executable(&path) => Err(UserError::new(format!("{shown} is not executable"))
                .advice(format!("chmod +x {shown}"))
                .status(NOT_EXECUTABLE)),
            Ok(_) => Ok(path),
        };
    }
    let folders = env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let mut places = env::split_paths(&folders).map(|folder| folder.join(name));
    let found = places.find(|path| path.is_file() && executable(path));
    found.ok_or_else(|| UserError::new(format!("{shown}: no such program in PATH")).status(NOT_FOUND))
}

fn executable(path: &Path) -> bool {
    let Ok(name) = std::ffi::CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: a string that ends with NUL.
    unsafe { libc::access(name.as_ptr(), libc::X_OK) == 0 }
}

/// Reads the program's headers.
pub fn inspect(path: &Path) -> Result<Program, UserError> {
    let unreadable = |error| UserError::new(format!("cannot read {}: {error}", path.display()));
    let damaged = |error| {
        UserError::new(format!("{} is a damaged ELF file: {error}", path.display()))
            .advice("Rebuild it.")
            .status(NOT_EXECUTABLE)
    };
    let Some(elf) = Elf::read(File::open(path).map_err(unreadable)?).map_err(damaged)? else {
        return Ok(Program::default());
    };
    if elf.machine != MACHINE {
        let message = format!("{} is built for another processor than this machine's", path.display());
        return Err(UserError::new(message)
            .advice("Farlane runs the program's host code here: build it for this machine.")
            .status(NOT_EXECUTABLE));
    }
    described(&elf).map_err(damaged)
}

fn described(elf: &Elf) -> std::io::Result<Program> {
    let needed = elf.needed()?;
    let mut runtimes: Vec<String> = needed
        .iter()
        .filter_map(|name| name.strip_prefix(RUNTIME_PREFIX))
        .map(|version| version.split('.').next().unwrap_or_default().to_owned())
        .collect();
    runtimes.sort();
    runtimes.dedup();
    let has_kernels = FATBIN_SECTIONS.iter().any(|name| elf.has_section(name));
    let names = elf.symbol_names()?;
    let has = |part: &[u8]| names.windows(part.len()).any(|window| window == part);
    let symbols = has(INTERNAL) && has(PUBLIC);
    let stripped = has_kernels && runtimes.is_empty() && !elf.imports(REGISTER)? && !symbols;
    let interpreter = elf.interpreter()?.map(|path| PathBuf::from(OsStr::from_bytes(&path)));
    let position_independent = elf.dynamic(FLAGS_1)?.iter().any(|flags| flags & FLAG_EXECUTABLE != 0);
    Ok(Program {
        is_elf: true,
        has_kernels,
        static_runtime: symbols || stripped,
        stripped,
        fully_static: interpreter.is_none() && (elf.kind == EXECUTABLE || position_independent),
        sanitizer: needed.iter().find(|name| name.starts_with(SANITIZER_PREFIX)).cloned(),
        needs_driver: needed.iter().any(|name| name == DRIVER),
        runtimes,
        interpreter,
    })
}

/// Checks that the program's CUDA calls can be intercepted; returns a remark for the user.
pub fn require_interceptable(path: &Path, program: &Program, interop: bool) -> Result<Option<String>, UserError> {
    let shown = path.display();
    if changes_identity(path)? {
        let message = format!(
            "{shown} runs under another user's or group's id (set-user-id), so the loader ignores preloaded libraries"
        );
        return Err(UserError::new(message)
            .advice("Run it as that user, or without the set-user-id bit.")
            .status(NOT_EXECUTABLE));
    }
    if program.fully_static && (program.has_kernels || program.static_runtime) {
        let message =
            format!("{shown} is fully static (nvcc -Xcompiler -static), so no library can be preloaded into it");
        return Err(UserError::new(message).advice("Link it with the shared C library.").status(NOT_EXECUTABLE));
    }
    if program.static_runtime && !interop && !REDIRECTS {
        let message = format!(
            "{shown} has the CUDA runtime linked into it, and on this kind of processor that runtime must run as it is, \
             which is switched off"
        );
        return Err(UserError::new(message).advice(
            "Switch it on with FARLANE_INTEROP=1 (docs/explanation/interoperability.md says what it means), or rebuild \
             the program with `nvcc -cudart shared`.",
        ));
    }
    if program.stripped && !interop {
        let message = format!(
            "{shown} has the CUDA runtime linked into it and is stripped, so that runtime must run as it is, which is \
             switched off"
        );
        return Err(UserError::new(message).advice(
            "Switch it on with FARLANE_INTEROP=1 (docs/explanation/interoperability.md says what it means), do not strip the program, \
             or rebuild it with `nvcc -cudart shared`.",
        ));
    }
    let calls_cuda =
        program.has_kernels || !program.runtimes.is_empty() || program.static_runtime || program.needs_driver;
    Ok(match program {
        Program { fully_static: true, .. } => Some(format!(
            "{shown} is a static executable without CUDA; CUDA calls of programs it starts are intercepted"
        )),
        Program { is_elf: true, .. } if !calls_cuda => {
            Some(format!("{shown} is not a CUDA program itself; CUDA calls of libraries it loads are intercepted"))
        }
        _ => None,
    })
}

fn changes_identity(path: &Path) -> Result<bool, UserError> {
    let status = fs::metadata(path).map_err(|e| UserError::new(format!("cannot read {}: {e}", path.display())))?;
    let mode = status.mode();
    // SAFETY: they have no preconditions.
    let (user, group) = unsafe { (libc::getuid(), libc::getgid()) };
    let of_user = mode & libc::S_ISUID != 0 && status.uid() != user;
    let of_group = mode & libc::S_ISGID != 0 && mode & libc::S_IXGRP != 0 && status.gid() != group;
    Ok(of_user || of_group)
}
