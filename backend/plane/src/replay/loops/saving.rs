//! What a saved session keeps of its loops: records that give templates and slices again, and where loops stand.
//!
//! What is read back obeys the rules of tape.md, as if the guest had sent it. Plans are made anew.

use super::deciding::Deciding;
use super::Loops;

/// Where the loops of a session stand.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Of templates: the number, the columns that a continued REPEAT goes on with, and the iteration that it begins with.
    pub continuing: Vec<(u32, Vec<u8>, u64)>,
    /// The last WHILE, which has stopped: its slice, and its answer.
    pub decided: Option<(u32, u64)>,
}

/// A loop that a slice decides is not at its end: the guest may go on with it.
#[derive(Debug)]
pub struct InFlight;

impl<H> Loops<H> {
    /// The TEMPLATE and SLICE records that give them again, in this order.
    pub(crate) fn records(&self) -> Vec<Vec<u8>> {
        let templates = self.templates.all();
        let templates = templates.iter().map(|template| template.record());
        templates.chain(self.slices.all().iter().map(|sliced| sliced.record())).collect()
    }

    pub(crate) fn standing(&self) -> Result<Standing, InFlight> {
        let decided = match &self.deciding {
            None => None,
            Some(deciding) => Some(deciding.answer().ok_or(InFlight)?),
        };
        Ok(Standing { continuing: self.templates.continuing(), decided })
    }

    /// The templates and slices are given: the loops stand so.
    pub(crate) fn stand(&mut self, standing: Standing) -> Result<(), String> {
        for (number, columns, next) in &standing.continuing {
            self.templates.go_on(*number, columns, *next)?;
        }
        if let Some((number, answer)) = standing.decided {
            let stopped = Deciding::stopped(self.slices.get(number)?, answer);
            self.deciding = Some(stopped.ok_or_else(|| format!("slice {number} cannot stop with {answer:#x}"))?);
        }
        Ok(())
    }
}
