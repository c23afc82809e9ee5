//! Which code of an image a device runs.
//!
//! The rule of the CUDA programming guide ("Application compatibility", "PTX compatibility"), and the host's too
//! (backend/fatbin/choice.py): machine code runs on its own major architecture from its minor on; PTX on every later
//! one; with the suffix `f` only within its major architecture; with `a` on exactly its own. Machine code is preferred
//! where the device takes it; then the highest architecture wins; between equals the plain one.
//!
//! A device that takes any PTX (the simulated one) runs what a GPU refuses where an image has nothing else: the PTX of
//! the lowest architecture above its own, plain before `f` and `a`, else that with a suffix of the highest below.

use crate::container::{Container, Entry, Kind, Reach};
use crate::error::Error;
use crate::module::Module;

/// What a device can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Major and minor compute capability.
    pub compute: (u32, u32),
    pub takes_ptx: bool,
    pub takes_machine_code: bool,
    /// Where an image has no PTX for it, PTX of another architecture.
    pub takes_any_ptx: bool,
}

impl Target {
    fn architecture(&self) -> u32 {
        self.compute.0.saturating_mul(10).saturating_add(self.compute.1)
    }

    /// Where PTX that is not for the device stands among the device's choices, the first one first.
    fn distance(&self, entry: &Entry<'_>) -> (bool, bool, u32, Reach) {
        let above = entry.architecture > self.architecture();
        let distance = if above { entry.architecture } else { u32::MAX - entry.architecture };
        (entry.reach != Reach::Forward, !above, distance, entry.reach)
    }

    fn runs_ptx(&self, architecture: u32, reach: Reach) -> bool {
        let device = self.architecture();
        match reach {
            Reach::Forward => architecture <= device,
            Reach::Family => architecture <= device && architecture / 10 == self.compute.0,
            Reach::Exact => architecture == device,
        }
    }

    fn matches_machine_code(&self, architecture: u32, reach: Reach) -> bool {
        match reach {
            Reach::Exact => architecture == self.architecture(),
            _ => architecture <= self.architecture() && architecture / 10 == self.compute.0,
        }
    }
}

/// The entry that the device runs.
pub(crate) fn choose<'c, 'a>(container: &'c Container<'a>, target: &Target) -> Result<&'c Entry<'a>, Error> {
    meant(container, target)
        .or_else(|| other_ptx(container, target))
        .ok_or_else(|| nothing_for(target, container.entries.iter().map(describe)))
}

/// The entry that every device of the target's kind runs.
pub(crate) fn meant<'c, 'a>(container: &'c Container<'a>, target: &Target) -> Option<&'c Entry<'a>> {
    let code = target.takes_machine_code.then(|| nearest_machine_code(container, target)).flatten();
    let ptx = || {
        best(container, |entry| {
            target.takes_ptx && entry.kind == Kind::Ptx && target.runs_ptx(entry.architecture, entry.reach)
        })
    };
    code.or_else(ptx)
}

/// The PTX that a device runs where nothing is meant for it, if it takes any.
fn other_ptx<'c, 'a>(container: &'c Container<'a>, target: &Target) -> Option<&'c Entry<'a>> {
    let ptx = container.entries.iter().filter(|entry| target.takes_any_ptx && entry.kind == Kind::Ptx);
    ptx.min_by_key(|entry| target.distance(entry))
}

/// The machine code that comes nearest to the device's, whether or not the device takes any.
pub(crate) fn nearest_machine_code<'c, 'a>(container: &'c Container<'a>, target: &Target) -> Option<&'c Entry<'a>> {
    best(container, |entry| {
        entry.kind == Kind::MachineCode && target.matches_machine_code(entry.architecture, entry.reach)
    })
}

pub(crate) fn check_ptx(module: &Module, reach: Reach, target: &Target) -> Result<(), Error> {
    if target.takes_any_ptx || target.takes_ptx && target.runs_ptx(module.architecture, reach) {
        return Ok(());
    }
    Err(nothing_for(target, [format!("PTX for {}", named("compute", module.architecture, reach))].into_iter()))
}

pub(crate) fn check_machine_code(module: &Module, target: &Target) -> Result<(), Error> {
    if target.takes_machine_code && target.matches_machine_code(module.architecture, Reach::Forward) {
        return Ok(());
    }
    let kernels = some_names(module.kernels.keys().map(String::as_str).collect());
    Err(nothing_for(target, [format!("machine code for sm_{}{kernels}", module.architecture)].into_iter()))
}

fn best<'c, 'a>(container: &'c Container<'a>, usable: impl Fn(&Entry<'a>) -> bool) -> Option<&'c Entry<'a>> {
    let usable = container.entries.iter().filter(|entry| usable(entry));
    usable.max_by_key(|entry| (entry.architecture, entry.reach == Reach::Forward))
}

fn describe(entry: &Entry<'_>) -> String {
    match entry.kind {
        Kind::Ptx => format!("PTX for {}", named("compute", entry.architecture, entry.reach)),
        Kind::MachineCode => format!("machine code for {}", named("sm", entry.architecture, entry.reach)),
        Kind::Other(kind) => format!("an entry of unknown kind {kind}"),
    }
}

fn named(prefix: &str, architecture: u32, reach: Reach) -> String {
    let suffix = match reach {
        Reach::Forward => "",
        Reach::Family => "f",
        Reach::Exact => "a",
    };
    format!("{prefix}_{architecture}{suffix}")
}

/// Kernels for a message: ` (a, b, c and 7 more)`, in order of their names; nothing for none.
#[must_use]
pub fn some_names(mut names: Vec<&str>) -> String {
    const SHOWN: usize = 3;
    if names.is_empty() {
        return String::new();
    }
    names.sort_unstable();
    let more = names.len().saturating_sub(SHOWN);
    names.truncate(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!(" ({}{more})", names.join(", "))
}

fn nothing_for(target: &Target, holds: impl Iterator<Item = String>) -> Error {
    const SHOWN: usize = 12;
    let mut all: Vec<String> = Vec::new();
    for held in holds {
        if !all.contains(&held) && all.len() < SHOWN {
            all.push(held);
        }
    }
    let held = if all.is_empty() { "no device code".to_owned() } else { all.join(", ") };
    let (major, minor) = target.compute;
    let (ptx, other) = if target.takes_any_ptx {
        ("PTX for any architecture".to_owned(), "compute_XY")
    } else {
        (format!("PTX up to compute_{major}{minor}"), "architecture up to the device's")
    };
    let takes = match (target.takes_ptx, target.takes_machine_code) {
        (true, true) => format!("{ptx} and machine code for sm_{major}{minor}"),
        (true, false) => format!("{ptx}, and no machine code"),
        (false, _) => format!("machine code for sm_{major}{minor}"),
    };
    Error::NoUsableEntry(format!(
        "the image holds {held}; the device takes {takes}: build with -gencode arch=compute_75,code=compute_75 \
         (or another {other})"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{container, entry};

    const A: u64 = 0x10_0000;
    const F: u64 = 0x20_0000;

    fn chosen(
        entries: &[Vec<u8>],
        compute: (u32, u32),
        takes_ptx: bool,
        takes_machine_code: bool,
    ) -> Result<String, Error> {
        let image = container(entries);
        let container = Container::parse(&image).unwrap();
        let target = Target { compute, takes_ptx, takes_machine_code, takes_any_ptx: false };
        choose(&container, &target).map(describe)
    }

    fn everything() -> Vec<Vec<u8>> {
        vec![
            entry(2, 75, 0, b""),
            entry(2, 86, 0, b""),
            entry(1, 60, 0, b""),
            entry(1, 80, 0, b""),
            entry(1, 90, A, b""),
            entry(1, 90, 0, b""),
            entry(1, 100, F, b""),
            entry(9, 75, 0, b""),
        ]
    }

    #[test]
    fn the_highest_ptx_that_the_device_reaches() {
        let cases = [
            ((7, 5), "PTX for compute_60"),
            ((8, 9), "PTX for compute_80"),
            ((9, 0), "PTX for compute_90"),
            ((10, 3), "PTX for compute_100f"),
            ((12, 0), "PTX for compute_90"),
        ];
        for (compute, expected) in cases {
            assert_eq!(chosen(&everything(), compute, true, false).unwrap(), expected, "{compute:?}");
        }
    }

    #[test]
    fn machine_code_comes_first_where_the_device_takes_it() {
        assert_eq!(chosen(&everything(), (8, 9), true, true).unwrap(), "machine code for sm_86");
        assert_eq!(chosen(&everything(), (8, 0), true, true).unwrap(), "PTX for compute_80");
        assert_eq!(chosen(&everything(), (7, 5), false, true).unwrap(), "machine code for sm_75");
    }

    /// The same cases as `test_any_ptx` of tests/unit/fatbin/test_choice.py: guest and host agree.
    #[test]
    fn any_ptx_where_nothing_else_is_there() {
        let (plain, family, exact) = (|n| entry(1, n, 0, b""), |n| entry(1, n, F, b""), |n| entry(1, n, A, b""));
        let cases = [
            ((9, 0), vec![plain(120), plain(100), plain(80)], "compute_80"),
            ((9, 0), vec![plain(120), plain(100), exact(90)], "compute_90a"),
            ((7, 5), vec![plain(120), plain(80), plain(90)], "compute_80"),
            ((7, 5), vec![exact(80), family(100), plain(120)], "compute_120"),
            ((9, 0), vec![exact(100), family(100), exact(80)], "compute_100f"),
            ((9, 0), vec![exact(120), family(100), exact(100)], "compute_100f"),
            ((12, 0), vec![exact(90), exact(100), family(100)], "compute_100f"),
            ((12, 0), vec![exact(80), exact(90)], "compute_90a"),
        ];
        for (compute, entries, expected) in cases {
            let image = container(&[vec![entry(2, 90, 0, b"")], entries].concat());
            let target = Target { compute, takes_ptx: true, takes_machine_code: false, takes_any_ptx: true };
            let found = choose(&Container::parse(&image).unwrap(), &target).map(describe).unwrap();
            assert_eq!(found, format!("PTX for {expected}"), "{compute:?}");
        }
        let target = Target { compute: (9, 0), takes_ptx: true, takes_machine_code: false, takes_any_ptx: true };
        let code = container(&[entry(2, 80, 0, b""), entry(2, 90, A, b"")]);
        let error = choose(&Container::parse(&code).unwrap(), &target).unwrap_err().to_string();
        assert!(error.contains("machine code for sm_80, machine code for sm_90a; the device takes PTX"), "{error}");
    }

    #[test]
    fn what_is_missing_is_said() {
        let error = chosen(&[entry(2, 90, 0, b"")], (7, 5), true, false).unwrap_err().to_string();
        assert!(error.contains("machine code for sm_90") && error.contains("PTX up to compute_75"), "{error}");
        let error = chosen(&[], (7, 5), true, false).unwrap_err().to_string();
        assert!(error.contains("no device code"), "{error}");
        assert!(chosen(&[entry(1, 90, A, b"")], (9, 1), true, true).is_err());
    }
}
