//! What a process with a guest's session gives up (crate `confinement`).

use confinement::Held;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use std::path::PathBuf;

/// From now on the calling thread, and those that it starts, reach these folders alone, and no network: "wholly", "partly" or "not",
/// by what the kernel enforces.
///
/// Raises OSError.
#[pyfunction]
pub fn restrict_files(read: Vec<PathBuf>) -> PyResult<&'static str> {
    let held = confinement::restrict_files(&read).map_err(|error| PyOSError::new_err(error.to_string()))?;
    Ok(match held {
        Held::Wholly => "wholly",
        Held::Partly => "partly",
        Held::Not => "not",
    })
}

/// From now on this process makes the system calls alone that replaying needs.
///
/// Raises OSError.
#[pyfunction]
pub fn restrict_calls() -> PyResult<()> {
    confinement::restrict_calls().map_err(|error| PyOSError::new_err(error.to_string()))
}
