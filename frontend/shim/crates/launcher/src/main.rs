//! `farlane-run`: starts a CUDA program with the shim, for guests without Python.
//!
//! Does what `farlane run --host` does (frontend/commands/run.py), with the same options, messages and exit statuses,
//! in a static program. What it leaves out: an embedded host, the analysis of programs (the host analyses what this
//! guest's shim offers it), `nvidia-smi`, and the steering of compilers.
//!
//! Exit statuses: the program's own; 128 + N when signal N ended it; 2 for a wrong call; 125 when the launcher cannot
//! start it; 126 and 127 as a shell has them.

mod elf;
mod environment;
mod error;
mod options;
mod process;
mod program;
mod report;

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use crate::environment::Guest;
use crate::error::UserError;
use crate::options::{Asked, Options, Target};
use crate::report::Report;

fn main() -> ExitCode {
    match options::parse(std::env::args_os().skip(1)).and_then(|asked| match asked {
        Asked::Help => Ok(print(options::HELP)),
        Asked::Version => Ok(print(concat!("farlane-run ", env!("CARGO_PKG_VERSION"), "\n"))),
        Asked::Run(options) => run(&options),
    }) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            eprintln!("farlane-run: {error}");
            ExitCode::from(error.status)
        }
    }
}

fn print(text: &str) -> u8 {
    print!("{text}");
    0
}

fn run(options: &Options) -> Result<u8, UserError> {
    let libraries = environment::libraries(options)?;
    let path = program::find(&options.words[0])?;
    let inspected = program::inspect(&path)?;
    let interop = environment::interop()?;
    if let Some(remark) = program::require_interceptable(&path, &inspected, interop)? {
        eprintln!("farlane-run: {remark}");
    }
    let reports = report::Folder::new()?;
    let guest = Guest { options, libraries: &libraries, program: &inspected, reports: reports.path() };
    let environment = environment::of_guest(std::env::vars_os(), &guest)?;
    let started = Instant::now();
    let status = process::run(&path, &options.words, environment)?;
    let report = Report::collect(reports.path(), guest.mode()?.as_str(), started.elapsed(), status);
    write(&report, options.report.as_ref())?;
    Ok(options.error_exit_code.filter(|_| report.found_errors()).unwrap_or(status))
}

fn write(report: &Report, target: Option<&Target>) -> Result<(), UserError> {
    let to_file = |path: &Path, text: String| {
        std::fs::write(path, text)
            .map_err(|e| UserError::new(format!("cannot write the report to {}: {e}", path.display())))
    };
    match target {
        None => Ok(()),
        Some(Target::Text) => {
            eprint!("{}", report.text());
            Ok(())
        }
        Some(Target::StandardOutput) => {
            print!("{}", report.json());
            Ok(())
        }
        Some(Target::File(path)) => to_file(path, report.json()),
    }
}
