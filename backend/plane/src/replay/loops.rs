//! Loops of the tape: TEMPLATE, REPEAT, CONDITIONAL, SLICE, WHILE.
//!
//! - [`columns`]: a REPEAT's columns, checked, and what they hold in an iteration
//! - [`template`]: a TEMPLATE's content, checked
//! - [`turns`]: iterations that are to be done, and the values of their holes
//! - [`store`]: the templates of a session
//! - [`plans`]: which loops a device repeats by itself
//! - [`upcoming`]: the launches that come next
//! - [`saving`]: what a saved session keeps of them
//! - `walking`: iterations, walked or given to the device
//! - `slices`: SLICEs, checked; `deciding`: iterations that a slice decides
//!
//! Source: protos/tape.md, "Loops", "Slices" and "Conditions".

pub mod columns;
mod deciding;
pub mod plans;
pub mod saving;
mod slices;
pub(crate) mod store;
pub mod template;
pub(crate) mod turns;
pub mod upcoming;
mod walking;

use crate::device::direct::Direct;
use deciding::Deciding;
use plans::{Plans, Worth};
use slices::{Sliced, Slices};
use std::time::Instant;

/// When a device is asked to repeat a loop.
#[derive(Debug, Clone, Copy)]
pub struct Prices {
    /// The plane does records by itself.
    pub by_plane: Worth,
    /// The control plane does them.
    pub by_control: Worth,
}

impl Prices {
    fn of(&self, direct: &Direct) -> Worth {
        if direct.is_enabled() {
            self.by_plane
        } else {
            self.by_control
        }
    }
}

/// The loops of one session. `H` is what the control plane has made of a template.
pub(crate) struct Loops<H> {
    pub(crate) templates: store::Templates,
    pub(crate) plans: Plans<H>,
    slices: Slices,
    /// The loop of the last WHILE.
    deciding: Option<Deciding>,
    /// When a WHILE has sent results.
    sent: Option<Instant>,
    prices: Prices,
    /// An outer loop has looked ahead.
    expected: bool,
    /// CONDITIONALs within each other that are being replayed.
    conditions: usize,
    /// Bodies that are filled next.
    spare: Vec<Vec<u8>>,
}

impl<H> Loops<H> {
    pub(crate) fn new(prices: Prices) -> Self {
        Self {
            templates: store::Templates::default(),
            plans: Plans::default(),
            slices: Slices::default(),
            deciding: None,
            sent: None,
            prices,
            expected: false,
            conditions: 0,
            spare: vec![],
        }
    }

    /// The loop of the last WHILE cannot go on, if it is one of these.
    fn end_deciding(&mut self, ends: impl FnOnce(&Sliced) -> bool) {
        self.deciding.take_if(|deciding| ends(deciding.sliced()));
    }

    /// A WHILE without its flag is refused: there is no loop to go on with.
    pub(crate) fn refuse_while(&mut self, flags: u16) {
        if flags & deciding::CONTINUED == 0 {
            self.deciding = None;
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
