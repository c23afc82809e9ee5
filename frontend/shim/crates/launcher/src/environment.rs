//! The environment of a guest process: what the loader preloads, and the shim's variables.
//!
//! The order of the libraries and the variables are frontend/shim_library.py's.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use client::{Endpoint, Mode};

use crate::error::UserError;
use crate::options::Options;
use crate::program::Program;

const CORE: &str = "libfarlane_core.so";
const REDIRECT: &str = "libfarlane_redirect.so";
const DRIVER: &str = "libcuda.so.1";
const RUNTIMES: [&str; 2] = ["12", "13"];
/// Lists of the loader's that name our files.
const LISTS: [&str; 3] = ["LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT"];
const LOADER: &str =
    if cfg!(target_arch = "aarch64") { "/lib/ld-linux-aarch64.so.1" } else { "/lib64/ld-linux-x86-64.so.2" };

type Variables = BTreeMap<OsString, OsString>;

/// What a guest's environment depends on.
pub struct Guest<'a> {
    pub options: &'a Options,
    pub libraries: &'a Path,
    pub program: &'a Program,
    /// Where its processes leave their reports.
    pub reports: &'a Path,
}

impl Guest<'_> {
    /// The deferral mode: the one that is asked for, else FARLANE_DEFER's, else loops.
    pub fn mode(&self) -> Result<Mode, UserError> {
        let named = env::var("FARLANE_DEFER").ok().filter(|name| !name.is_empty());
        let wanted = self.options.defer.clone().or(named).unwrap_or_else(|| "loops".to_owned());
        wanted.parse().map_err(|_| {
            UserError::wrong_call(format!("{wanted} is no deferral mode")).advice("One of none, calls, loops.")
        })
    }
}

/// The folder of the shim: the one that is named, else the launcher's own, else `../lib/farlane` beside that.
pub fn libraries(options: &Options) -> Result<PathBuf, UserError> {
    let places = match &options.libraries {
        Some(folder) => vec![folder.clone()],
        None => {
            let launcher = env::current_exe()
                .map_err(|error| UserError::new(format!("cannot tell where this program is: {error}")))?;
            let folder = launcher.parent().unwrap_or(Path::new("/")).to_owned();
            vec![folder.clone(), folder.join("../lib/farlane")]
        }
    };
    let found = places.iter().find(|folder| folder.join(CORE).is_file()).and_then(|folder| folder.canonicalize().ok());
    found.ok_or_else(|| {
        let names: Vec<String> = places.iter().map(|folder| folder.display().to_string()).collect();
        UserError::new(format!("the shim is not there: no {CORE} in {}", names.join(" or ")))
            .advice("Install farlane-guest, or name the shim's folder with --libraries.")
    })
}

/// Whether Farlane answers the interoperability handshake of NVIDIA's runtime: FARLANE_INTEROP.
pub fn interop() -> Result<bool, UserError> {
    match env::var_os("FARLANE_INTEROP").filter(|value| !value.is_empty()) {
        None => Ok(false),
        Some(value) if value == "1" || value == "0" => Ok(value == "1"),
        Some(value) => {
            Err(UserError::wrong_call(format!("FARLANE_INTEROP={} is neither 1 nor 0", value.to_string_lossy())))
        }
    }
}

/// The environment in which the program's CUDA calls go to the host.
pub fn of_guest(base: impl Iterator<Item = (OsString, OsString)>, guest: &Guest) -> Result<Variables, UserError> {
    let (options, folder) = (guest.options, guest.libraries);
    let mut variables: Variables = base.collect();
    for name in LISTS {
        leave_out_ours(&mut variables, name, folder);
    }
    let host = options.host.clone().or_else(|| variables.get(OsStr::new("FARLANE_HOST")).cloned()).unwrap_or_default();
    require_host(&host)?;
    let preloaded = preload(folder, guest.program)?;
    prepend(&mut variables, "LD_PRELOAD", &preloaded);
    prepend(&mut variables, "LD_LIBRARY_PATH", &[folder.into()]);
    let redirect = folder.join(REDIRECT);
    if redirect.exists() {
        prepend(&mut variables, "LD_AUDIT", &[redirect.into()]);
        if auditing_slows_calls(guest.program) {
            variables.insert("LD_BIND_NOW".into(), "1".into());
        }
    }
    let mut set = |name: &str, value: OsString| variables.insert(name.into(), value);
    set("FARLANE_HOST", host);
    set("FARLANE_DEFER", guest.mode()?.as_str().into());
    set("FARLANE_REPORT", guest.reports.join("%p.json").into());
    if let Some(file) = &options.ca {
        set("FARLANE_CA", absolute(file)?);
    }
    if options.no_manifest {
        set("FARLANE_MANIFESTS", "off".into());
    }
    if options.guards {
        set("FARLANE_GUARDS", "on".into());
    }
    for (name, value) in [
        ("FARLANE_TIMING", &options.timing),
        ("FARLANE_TRANSPORT", &options.transport),
        ("FARLANE_CHECK", &options.checks),
        ("FARLANE_PRIORITY", &options.priority),
    ] {
        if let Some(value) = value {
            set(name, value.into());
        }
    }
    if let Some(file) = &options.token_file {
        set("FARLANE_TOKEN_FILE", absolute(file)?);
        variables.remove(OsStr::new("FARLANE_TOKEN")); // it would come first
    }
    Ok(variables)
}

fn require_host(host: &OsStr) -> Result<(), UserError> {
    if host.is_empty() {
        return Err(UserError::wrong_call("no host given").advice("Give --host, or set FARLANE_HOST."));
    }
    let parsed = host.to_str().map(str::parse::<Endpoint>);
    match parsed {
        Some(Ok(_)) => Ok(()),
        Some(Err(error)) => Err(UserError::wrong_call(error.to_string())),
        None => Err(UserError::wrong_call(format!("{} is not the address of a host", host.to_string_lossy()))),
    }
}

/// The program's runtimes first, then the others, which libraries that it opens may have linked into them.
fn preload(folder: &Path, program: &Program) -> Result<Vec<OsString>, UserError> {
    if let Some(unknown) = program.runtimes.iter().find(|major| !RUNTIMES.contains(&major.as_str())) {
        return Err(UserError::new(format!("the program is linked to libcudart.so.{unknown}"))
            .advice("Farlane replaces CUDA runtimes 12 and 13: rebuild the program with one of those."));
    }
    let own = program.runtimes.iter().map(String::as_str);
    let others = RUNTIMES.into_iter().filter(|major| !program.runtimes.iter().any(|own| own == major));
    let mut found: Vec<OsString> = program.sanitizer.iter().map(OsString::from).collect();
    // The core by its own name as well: its clock functions come before the C library's only in that way.
    found.push(folder.join(CORE).into());
    found.extend(own.chain(others).map(|major| folder.join(format!("libcudart.so.{major}")).into()));
    found.push(folder.join(DRIVER).into());
    Ok(found)
}

fn prepend(variables: &mut Variables, name: &str, first: &[OsString]) {
    let rest = variables.get(OsStr::new(name)).filter(|value| !value.is_empty()).cloned();
    let parts: Vec<OsString> = first.iter().cloned().chain(rest).collect();
    variables.insert(name.into(), parts.join(OsStr::new(":")));
}

/// A guest that starts the launcher has our files in its lists already.
fn leave_out_ours(variables: &mut Variables, name: &str, folder: &Path) {
    let Some(value) = variables.get(OsStr::new(name)) else { return };
    let ours = |part: &OsStr| Path::new(part) == folder || Path::new(part).parent() == Some(folder);
    let parts = value.as_bytes().split(|byte| *byte == b':').map(OsStr::from_bytes);
    let kept: Vec<&OsStr> = parts.filter(|part| !part.is_empty() && !ours(part)).collect();
    let kept = kept.join(OsStr::new(":"));
    if kept.is_empty() {
        variables.remove(OsStr::new(name));
    } else {
        variables.insert(name.into(), kept);
    }
}

fn absolute(file: &OsStr) -> Result<OsString, UserError> {
    let path = std::path::absolute(file);
    path.map(|path| path.into_os_string())
        .map_err(|error| UserError::new(format!("{}: {error}", file.to_string_lossy())))
}

/// Before glibc 2.35 an auditor makes each call of a lazily bound function slow (glibc's bug 15533). The loader is part
/// of glibc, and has symbols of that version from then on.
fn auditing_slows_calls(program: &Program) -> bool {
    let loader = program.interpreter.clone().unwrap_or_else(|| PathBuf::from(LOADER));
    fs::read(loader).is_ok_and(|content| !content.windows(12).any(|window| window == b"\0GLIBC_2.35\0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_in_a_guest_has_our_files_once() {
        let (options, folder, reports) = (Options::default(), PathBuf::from("/f/lib"), PathBuf::from("/r"));
        let program = Program { is_elf: true, runtimes: vec!["13".into()], ..Program::default() };
        let guest = Guest { options: &options, libraries: &folder, program: &program, reports: &reports };
        let base = [("FARLANE_HOST", "unix:///s"), ("LD_PRELOAD", "/other.so"), ("LD_LIBRARY_PATH", ":/x:")];
        let base = base.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let once = of_guest(base.into_iter(), &guest).expect("valid");
        let expected =
            "/f/lib/libfarlane_core.so:/f/lib/libcudart.so.13:/f/lib/libcudart.so.12:/f/lib/libcuda.so.1:/other.so";
        assert_eq!(once[OsStr::new("LD_PRELOAD")], expected);
        assert_eq!(once[OsStr::new("LD_LIBRARY_PATH")], "/f/lib:/x");
        assert_eq!(once[OsStr::new("FARLANE_REPORT")], "/r/%p.json");
        let twice = of_guest(once.clone().into_iter(), &guest).expect("valid");
        assert_eq!(twice, once);
    }

    #[test]
    fn a_host_must_be_named() {
        for (host, part) in [("", "no host given"), ("gpu-host", "not the address"), ("grpc://h", "no port")] {
            let error = require_host(OsStr::new(host)).expect_err(host);
            assert!(error.to_string().contains(part), "{error}");
        }
        assert_eq!(require_host(OsStr::new("farlane+tls://10.0.2.2:7070")), Ok(()));
    }
}
