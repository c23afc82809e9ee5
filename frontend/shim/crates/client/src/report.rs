//! The report a session leaves behind: one JSON object, written whole or not at all.

pub(crate) mod counters;
pub mod log;
pub(crate) mod remote;
pub mod spans;

use crate::{Counters, Mode};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;
use std::{fs, io, process};

/// What the layer above counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallSummary {
    pub local: u64,
    pub deferred: u64,
    pub sync: u64,
    /// Names of the functions that were called and are not supported.
    pub unsupported: Vec<String>,
    /// Counts of the parts of the shim that not every session uses.
    pub sections: Vec<Section>,
}

/// Named counts that one part of the shim reports, such as `payloads`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    pub name: &'static str,
    pub counts: Vec<(&'static str, u64)>,
}

/// The report as JSON. A program that never opened a session reports empty `counters`.
#[must_use]
pub fn render(mode: Mode, counters: &Counters, calls: &CallSummary, wall: Duration) -> String {
    let mut text = String::with_capacity(512);
    // Writing into a String cannot fail.
    let _ = write!(
        text,
        "{{\"mode\":\"{}\",\"round_trips\":{},\"calls\":{{\"local\":{},\"deferred\":{},\"sync\":{}}},\"groups\":{},\
         \"bytes_up\":{},\"bytes_down\":{},\"wall_seconds\":{:.6},\"device_seconds\":{:.9},\"flow_waits\":{},\
         \"unsupported\":[",
        mode.as_str(),
        counters.round_trips.get(),
        calls.local,
        calls.deferred,
        calls.sync,
        counters.groups.get(),
        counters.bytes_up.get(),
        counters.bytes_down.get(),
        wall.as_secs_f64(),
        Duration::from_nanos(counters.device_nanoseconds.get()).as_secs_f64(),
        counters.flow_waits.get(),
    );
    for (index, name) in calls.unsupported.iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        push_string(&mut text, name);
    }
    text.push(']');
    for section in &calls.sections {
        let _ = write!(text, ",\"{}\":{{", section.name);
        for (index, (name, value)) in section.counts.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            let _ = write!(text, "{comma}\"{name}\":{value}");
        }
        text.push('}');
    }
    text.push_str("}\n");
    text
}

fn push_string(text: &mut String, value: &str) {
    text.push('"');
    for character in value.chars() {
        match character {
            '"' | '\\' => {
                text.push('\\');
                text.push(character);
            }
            control if control < ' ' => {
                let _ = write!(text, "\\u{:04x}", u32::from(control));
            }
            plain => text.push(plain),
        }
    }
    text.push('"');
}

/// Writes `report` beside `path` and renames it, so that a reader never sees half of it. A device or a FIFO is written
/// to, and of a symbolic link the target is replaced.
///
/// # Errors
/// What the file system says.
pub fn write(path: &Path, report: &str) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return fs::OpenOptions::new().write(true).open(path)?.write_all(report.as_bytes());
    }
    let target = fs::canonicalize(path);
    let path = target.as_deref().unwrap_or(path); // nothing is there yet
    let mut scratch = path.as_os_str().to_owned();
    scratch.push(format!(".{}.tmp", process::id()));
    let write = |scratch: &Path| {
        let mut file = fs::File::create(scratch)?;
        file.write_all(report.as_bytes())?;
        fs::rename(scratch, path)
    };
    let scratch = Path::new(&scratch);
    write(scratch).inspect_err(|_| {
        let _ = fs::remove_file(scratch);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_has_every_field_and_escapes_names() {
        let counters = Counters::default();
        counters.round_trips.add(3);
        counters.device_nanoseconds.set(1_500_000_000);
        let calls = CallSummary {
            local: 1,
            deferred: 2,
            sync: 4,
            unsupported: vec!["a\"\\\n".into(), "cudaX".into()],
            sections: vec![Section { name: "payloads", counts: vec![("kept", 2), ("reused", 5)] }],
        };
        let report = render(Mode::Calls, &counters, &calls, Duration::from_millis(2500));
        assert_eq!(
            report,
            concat!(
                r#"{"mode":"calls","round_trips":3,"calls":{"local":1,"deferred":2,"sync":4},"groups":0,"bytes_up":0,"#,
                r#""bytes_down":0,"wall_seconds":2.500000,"device_seconds":1.500000000,"flow_waits":0,"#,
                r#""unsupported":["a\"\\\u000a","cudaX"],"payloads":{"kept":2,"reused":5}}"#,
                "\n"
            )
        );
    }

    #[test]
    fn report_is_written_whole_and_leaves_nothing_beside_it() {
        let folder = std::env::temp_dir().join(format!("farlane-report-{}", process::id()));
        fs::create_dir_all(&folder).expect("folder");
        let path = folder.join("report.json");
        write(&path, "old").expect("written");
        write(&path, "new").expect("replaced");
        assert_eq!(fs::read_to_string(&path).expect("read"), "new");
        assert_eq!(fs::read_dir(&folder).expect("list").count(), 1);
        let link = folder.join("link");
        std::os::unix::fs::symlink("report.json", &link).expect("link");
        write(&link, "through").expect("written");
        assert!(fs::symlink_metadata(&link).expect("link").is_symlink());
        assert_eq!(fs::read_to_string(&path).expect("read"), "through");
        assert!(write(&folder.join("missing/report.json"), "x").is_err());
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn a_fifo_gets_the_report_and_stays() {
        use std::os::unix::fs::FileTypeExt;
        let folder = std::env::temp_dir().join(format!("farlane-fifo-{}", process::id()));
        fs::create_dir_all(&folder).expect("folder");
        let fifo = folder.join("fifo");
        assert!(process::Command::new("mkfifo").arg(&fifo).status().expect("mkfifo").success());
        let reader = std::thread::spawn({
            let fifo = fifo.clone();
            move || fs::read_to_string(fifo).expect("read")
        });
        write(&fifo, "report").expect("written");
        assert_eq!(reader.join().expect("reader"), "report");
        assert!(fs::metadata(&fifo).expect("fifo").file_type().is_fifo());
        fs::remove_dir_all(&folder).expect("removed");
    }
}
