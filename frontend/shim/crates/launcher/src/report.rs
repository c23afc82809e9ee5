//! The report of a run: the sum of what the shim counted in each of the program's processes.
//!
//! The form, as JSON and as text, is frontend/report.py's.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{json, Map, Value};

use crate::error::UserError;

const CLASSES: [&str; 3] = ["local", "deferred", "sync"];
const COUNTS: [&str; 5] = ["round_trips", "groups", "bytes_up", "bytes_down", "flow_waits"];

/// A folder of our own for the processes' reports, removed when it is dropped.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Result<Self, UserError> {
        let pattern = std::env::temp_dir().join("farlane-report-XXXXXX");
        let failed =
            |error| UserError::new(format!("cannot make a folder in {}: {error}", std::env::temp_dir().display()));
        let name = std::ffi::CString::new(pattern.into_os_string().into_encoded_bytes())
            .map_err(|error| failed(error.into()))?;
        let mut name = name.into_bytes_with_nul();
        // SAFETY: a string that ends with NUL, which the function changes in place.
        if unsafe { libc::mkdtemp(name.as_mut_ptr().cast()) }.is_null() {
            return Err(failed(std::io::Error::last_os_error()));
        }
        name.pop();
        // SAFETY: it was a path's bytes, and six of them are letters and digits now.
        Ok(Self(unsafe { std::ffi::OsString::from_encoded_bytes_unchecked(name) }.into()))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Counts of one run.
#[derive(Default)]
pub struct Report {
    mode: String,
    counts: [u64; COUNTS.len()],
    calls: [u64; CLASSES.len()],
    device_seconds: f64,
    unsupported: Vec<String>,
    sections: Map<String, Value>,
    processes: u64,
    wall_seconds: f64,
    exit_status: u8,
}

impl Report {
    /// Sums the files that the processes left. A damaged one counts as none: its process was killed.
    pub fn collect(folder: &Path, mode: &str, wall: Duration, exit_status: u8) -> Self {
        let mut report =
            Self { mode: mode.to_owned(), wall_seconds: wall.as_secs_f64(), exit_status, ..Self::default() };
        let mut files: Vec<PathBuf> =
            fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        files.sort();
        for file in files.iter().filter(|file| file.extension().is_some_and(|kind| kind == "json")) {
            let content = fs::read(file).ok().and_then(|text| serde_json::from_slice::<Value>(&text).ok());
            if let Some(counted) = content {
                let _ = report.add(&counted);
            }
        }
        report
    }

    fn add(&mut self, shim: &Value) -> Option<()> {
        let mut counts = [0; COUNTS.len()];
        for (count, name) in counts.iter_mut().zip(COUNTS) {
            *count = shim.get(name)?.as_u64()?;
        }
        let mut calls = [0; CLASSES.len()];
        for (count, name) in calls.iter_mut().zip(CLASSES) {
            *count = shim.get("calls")?.get(name)?.as_u64()?;
        }
        let device_seconds = shim.get("device_seconds")?.as_f64()?;
        let unsupported = shim.get("unsupported")?.as_array()?;
        self.counts.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        self.calls.iter_mut().zip(calls).for_each(|(sum, count)| *sum += count);
        self.device_seconds += device_seconds;
        self.unsupported.extend(unsupported.iter().filter_map(Value::as_str).map(str::to_owned));
        self.unsupported.sort();
        self.unsupported.dedup();
        for (name, values) in shim.as_object()?.iter().filter(|(name, _)| *name != "calls") {
            let Some(values) = values.as_object() else { continue };
            let section = self.sections.entry(name.clone()).or_insert_with(|| json!({}));
            for (count, value) in values {
                let sum = section.get(count).and_then(Value::as_i64).unwrap_or(0) + value.as_i64().unwrap_or(0);
                section[count] = sum.into();
            }
        }
        self.processes += 1;
        Some(())
    }

    /// Whether checks of kernels have found errors.
    pub fn found_errors(&self) -> bool {
        let errors = self.sections.get("check").and_then(|section| section.get("errors"));
        errors.and_then(Value::as_i64).is_some_and(|count| count != 0)
    }

    fn count(&self, name: &str) -> u64 {
        COUNTS.iter().position(|known| *known == name).map_or(0, |at| self.counts[at])
    }

    /// The report as a JSON document.
    pub fn json(&self) -> String {
        let calls: Map<String, Value> =
            CLASSES.iter().zip(self.calls).map(|(name, count)| ((*name).to_owned(), count.into())).collect();
        let document = json!({
            "mode": self.mode,
            "round_trips": self.count("round_trips"),
            "calls": calls,
            "groups": self.count("groups"),
            "bytes_up": self.count("bytes_up"),
            "bytes_down": self.count("bytes_down"),
            "flow_waits": self.count("flow_waits"),
            "wall_seconds": self.wall_seconds,
            "device_seconds": self.device_seconds,
            "processes": self.processes,
            "unsupported": self.unsupported,
            "sections": self.sections,
            "exit_status": self.exit_status,
        });
        format!("{document:#}\n")
    }

    /// The report for people.
    pub fn text(&self) -> String {
        let mut text = format!("farlane report (defer={})\n", self.mode);
        let mut line = |name: &str, value: String, more: &str| {
            let _ = writeln!(text, "  {name:<14} {value:>12}{more}");
        };
        let classes: Vec<String> =
            CLASSES.iter().zip(self.calls).map(|(name, count)| format!("{} {name}", grouped(count))).collect();
        line("CUDA calls", grouped(self.calls.iter().sum()), &format!("   {}", classes.join(", ")));
        line("round trips", grouped(self.count("round_trips")), "");
        line("groups", grouped(self.count("groups")), "");
        let down = format!("   up, {} down", grouped(self.count("bytes_down")));
        line("bytes", grouped(self.count("bytes_up")), &down);
        line("wall time", format!("{:.3}", self.wall_seconds), " s");
        line("device time", format!("{:.3}", self.device_seconds), " s");
        for (name, counts) in &self.sections {
            let counts: Vec<(&String, u64)> = counts
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, value)| (name, value.as_u64().unwrap_or(0)))
                .collect();
            if counts.iter().any(|(_, value)| *value != 0) {
                let words: Vec<String> = counts
                    .iter()
                    .map(|(name, value)| format!("{} {}", grouped(*value), name.replace('_', " ")))
                    .collect();
                let _ = writeln!(text, "  {name:<12} {}", words.join(", "));
            }
        }
        if self.count("flow_waits") != 0 {
            let _ = writeln!(text, "  waits for credit {:>10}", grouped(self.count("flow_waits")));
        }
        if self.processes != 1 {
            let none = if self.processes == 0 { "   (no CUDA call was made)" } else { "" };
            let _ = writeln!(text, "  processes      {:>12}{none}", grouped(self.processes));
        }
        if !self.unsupported.is_empty() {
            let _ = writeln!(text, "  not supported  {}", self.unsupported.join(", "));
        }
        text
    }
}

/// A number with a comma between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position != 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_several_processes_are_summed_and_damaged_ones_left_out() {
        let folder = Folder::new().expect("a folder");
        let one = json!({"round_trips": 2, "groups": 3, "bytes_up": 1_234_567, "bytes_down": 5, "flow_waits": 0,
            "calls": {"local": 1, "deferred": 1000, "sync": 2}, "device_seconds": 0.5, "unsupported": ["cudaB"],
            "loops": {"recorded": 4}, "check": {"errors": 1}});
        for (name, text) in [("1.json", one.to_string()), ("2.json", one.to_string()), ("3.json", "{".to_owned())] {
            fs::write(folder.path().join(name), text).expect("written");
        }
        let report = Report::collect(folder.path(), "loops", Duration::from_millis(1500), 7);
        let document: Value = serde_json::from_str(&report.json()).expect("JSON");
        assert_eq!(document["round_trips"], 4);
        assert_eq!(document["calls"], json!({"local": 2, "deferred": 2000, "sync": 4}));
        assert_eq!(document["sections"], json!({"loops": {"recorded": 8}, "check": {"errors": 2}}));
        assert_eq!((&document["processes"], &document["exit_status"]), (&json!(2), &json!(7)));
        assert!(report.found_errors());
        assert!(report.text().contains("  bytes             2,469,134   up, 10 down\n"), "{}", report.text());
        let path = folder.path().to_owned();
        drop(folder);
        assert!(!path.exists());
    }
}
