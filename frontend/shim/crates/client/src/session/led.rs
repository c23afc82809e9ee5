//! What the layer above asks of loops that the host leads (`leading`).

use super::Session;
use crate::outgoing::lead::Lead;
use crate::{Decided, Failure, Mode};

/// The first version of the tape with slices.
const WITH_SLICES: u32 = 6;

impl Session {
    /// Has the host lead a loop, at whose entry the calling thread is. False: it does not.
    ///
    /// # Errors
    /// [`Failure::Dead`].
    pub fn lead(&self, lead: Lead) -> Result<bool, Failure> {
        self.shared.lead(lead, self.decided == Decided::Verify, self.lead_time)
    }

    /// Whether loops that have a slice are led by the host, or compared with it.
    #[must_use]
    pub fn can_lead(&self) -> bool {
        let wanted = match self.decided {
            Decided::Auto => self.welcome.tape_version >= WITH_SLICES,
            Decided::Off => false,
            Decided::Verify => true,
        };
        wanted && self.mode == Mode::Loops
    }

    /// Whether what proofs say is compared with what the program does.
    #[must_use]
    pub fn verifies(&self) -> bool {
        self.decided == Decided::Verify
    }

    /// A proof of the analyzer's is broken: the session ends.
    #[cold]
    pub fn break_off(&self, why: &str) {
        let _ = self.shared.break_off(why);
    }

    /// Whether the host leads a loop.
    #[must_use]
    #[inline]
    pub fn is_led(&self) -> bool {
        self.shared.is_led()
    }

    /// The calling thread is at the entry of a loop: whether it is in one that the host leads.
    #[must_use]
    pub fn is_followed(&self) -> bool {
        self.shared.is_followed()
    }

    /// Whether a loop (`Lead::key`) is not led any more: its slice was stuck at once each time.
    pub fn gives_up(&self, key: u64) -> bool {
        self.shared.gives_up(key)
    }

    /// Whether a loop has come to its end in its first iteration the last times, and is so led from the second one on.
    /// What is compared is so from the first.
    pub fn is_short(&self, key: u64) -> bool {
        !self.verifies() && self.shared.is_short(key)
    }

    /// A call of the program has failed.
    pub fn call_failed(&self) {
        if self.shared.is_led() {
            self.shared.call_failed();
        }
    }
}
