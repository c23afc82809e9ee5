//! What was counted so far, for the report at the session's end, and the functions that were called and are not
//! supported.
//!
//! Rooms: `trace` (a line for each call), `output` (what kernels print).

pub mod output;
pub mod trace;

use std::ffi::CStr;
use std::sync::Mutex;

use client::CallSummary;

use crate::above::above;
use crate::function::Class;
use crate::{counters, lazy_readback, log, permission};

static UNSUPPORTED: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

/// A function that no row of the API tables supports was called: named once, in the log and the report. A twin for the
/// per-thread default stream goes by its documented name.
pub fn unsupported(symbol: &'static CStr) {
    let symbol = symbol.to_str().unwrap_or("an unknown function");
    let name = symbol.strip_suffix("_ptsz").or_else(|| symbol.strip_suffix("_ptds")).unwrap_or(symbol);
    if trace::on() {
        trace::unsupported(name);
    }
    if let Ok(mut names) = UNSUPPORTED.lock() {
        if !names.contains(&name) {
            names.push(name);
            log::error(format_args!("{name} is not supported yet: it returns cudaErrorNotSupported"));
        }
    }
}

/// What was counted so far.
pub fn summary() -> CallSummary {
    CallSummary {
        local: counters::counted(Class::Local),
        deferred: counters::counted(Class::Deferred),
        sync: counters::counted(Class::Sync),
        unsupported: match UNSUPPORTED.lock() {
            Ok(names) => names.iter().map(|name| (*name).to_owned()).collect(),
            Err(_) => Vec::new(),
        },
        sections: above()
            .map_or_else(Vec::new, |above| above.sections())
            .into_iter()
            .chain(permission::section())
            .chain(permission::deciding::section())
            .chain(lazy_readback::section())
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_functions_are_named_once() {
        unsupported(c"cudaUnheardOf");
        unsupported(c"cudaUnheardOf_ptsz");
        assert_eq!(summary().unsupported.iter().filter(|name| *name == "cudaUnheardOf").count(), 1);
    }
}
