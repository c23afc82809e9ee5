//! What a saved session keeps of its replay, between two groups: the number of the next one, contexts, loops.
//!
//! There no deferred error waits and no result: each group's end has reported them. A session whose context is lost is not saved.

use super::loops::saving::{InFlight, Standing};
use super::Replay;

/// See the module's page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    pub group: u64,
    /// The context whose records follow, where the guest has named one.
    pub context: Option<u32>,
    /// TEMPLATE and SLICE records.
    pub records: Vec<Vec<u8>>,
    pub loops: Standing,
    /// For how long the device has worked.
    pub nanoseconds: u64,
}

impl<L, H> Replay<L, H> {
    /// Whether it is between two groups.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.group_bytes == 0 && self.placed.is_none() && self.results.len() == 0
    }

    /// What is kept of it.
    ///
    /// # Errors
    /// Why it cannot be saved now.
    pub fn save(&self) -> Result<Saved, String> {
        if !self.is_at_rest() {
            return Err("it is in the middle of a group".to_owned());
        }
        if self.errors.has_lost() {
            return Err("a context of it is lost by an error".to_owned());
        }
        let in_flight = |InFlight| "a loop that the host leads is not at its end".to_owned();
        Ok(Saved {
            group: self.group,
            context: self.errors.named(),
            records: self.loops.records(),
            loops: self.loops.standing().map_err(in_flight)?,
            nanoseconds: self.nanoseconds + self.direct.nanoseconds(),
        })
    }

    /// Goes on where a saved one stopped; its records have been replayed.
    ///
    /// # Errors
    /// What of it cannot be.
    pub fn go_on(&mut self, group: u64, context: Option<u32>, loops: Standing) -> Result<(), String> {
        if group == 0 {
            return Err("groups are numbered from 1".to_owned());
        }
        if let Some(context) = context {
            self.errors.enter(context, false)?;
        }
        self.loops.stand(loops)?;
        self.group = group;
        Ok(())
    }
}
