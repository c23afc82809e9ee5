//! Loops of the tape: TEMPLATE, REPEAT, CONDITIONAL.
//!
//! - [`columns`]: a REPEAT's columns, checked, and what they hold in an iteration
//! - [`template`]: a TEMPLATE's content, checked
//! - [`turns`]: iterations that are to be done, and where the values of their holes come from
//! - [`store`]: the templates of a session
//! - [`plans`]: which loops a device repeats by itself
//! - [`upcoming`]: the launches that come next
//! - `walking`: iterations, walked or given to the device
//!
//! Source: protos/tape.md, "Loops" and "Conditions".

pub mod columns;
pub mod plans;
pub(crate) mod store;
pub mod template;
pub(crate) mod turns;
pub mod upcoming;
mod walking;

use crate::device::direct::Direct;
use plans::{Plans, Worth};

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
            prices,
            expected: false,
            conditions: 0,
            spare: vec![],
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
