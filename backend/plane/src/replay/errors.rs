//! The errors of a session: the deferred one that was not told yet, the sticky one, and those of the contexts that are lost.
//!
//! Work, handles and memory are the same for all contexts of a session: what belongs to which is the guest's knowledge.
//!
//! Source: protos/tape.md, "Errors" and "Contexts".

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use tape::operations::code;
use tape::Row;

/// Lost contexts that have not ended: bounds what a guest can make the host remember.
pub const LOST_LIMIT: usize = 1 << 16;
const UNKNOWN: i32 = 999;

/// A CUDA result that is not success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CudaError {
    /// The cudaError_t.
    pub code: i32,
    /// What was wrong; names what the guest can recognise.
    pub message: String,
    /// The context is lost with it.
    pub sticky: bool,
}

impl CudaError {
    /// A device has broken its contract.
    #[must_use]
    pub fn ours(message: String) -> Self {
        Self { code: UNKNOWN, message: format!("internal error of the host: {message}"), sticky: true }
    }
}

/// How a session stands, as others see it while it is replayed. Any thread may ask.
#[derive(Debug, Default)]
pub struct Standing {
    /// The context whose records follow is lost.
    pub lost: AtomicBool,
    /// A deferred error was not told yet.
    pub deferred: AtomicBool,
    /// Deferred errors so far.
    pub failures: AtomicU64,
    /// The guest is gone.
    pub interrupted: AtomicBool,
    /// Counts what ends objects that launches were resolved to.
    pub resolved: AtomicU64,
    /// Some allocation was refused: what touches it fails.
    pub poisoned: AtomicBool,
}

/// See the module's page.
pub(crate) struct Errors {
    standing: Arc<Standing>,
    /// Of the context whose records follow.
    sticky: Option<CudaError>,
    deferred: Option<CudaError>,
    /// The message of one that a result has told.
    delivered: String,
    current: u32,
    /// The guest has named a context.
    several: bool,
    /// By context, without the current one.
    lost: HashMap<u32, CudaError>,
}

impl Errors {
    pub(crate) fn new(standing: Arc<Standing>) -> Self {
        Self {
            standing,
            sticky: None,
            deferred: None,
            delivered: String::new(),
            current: 0,
            several: false,
            lost: HashMap::new(),
        }
    }

    pub(crate) const fn is_lost(&self) -> bool {
        self.sticky.is_some()
    }

    /// Whether some context is lost.
    pub(crate) fn has_lost(&self) -> bool {
        self.sticky.is_some() || !self.lost.is_empty()
    }

    /// The context whose records follow, where the guest has named one.
    pub(crate) const fn named(&self) -> Option<u32> {
        if self.several {
            Some(self.current)
        } else {
            None
        }
    }

    /// What an operation fails with before it is looked at.
    pub(crate) fn refusal(&self, row: &Row) -> Option<CudaError> {
        let sticky = self.sticky.as_ref()?;
        // The records that a REPEAT stands for fail one by one: each has a result of its own.
        let goes_on =
            matches!(row.code, code::DEVICE_RESET | code::REPEAT) || row.host_only || (self.several && row.bookkeeping);
        (!goes_on).then(|| CudaError { code: sticky.code, message: "the session is lost".into(), sticky: true })
    }

    /// Records of this context follow. `anew`: it begins again.
    pub(crate) fn enter(&mut self, context: u32, anew: bool) -> Result<(), String> {
        if let Some(sticky) = self.sticky.take() {
            self.lost.insert(self.current, sticky);
        }
        (self.current, self.several) = (context, true);
        let entered = self.lost.remove(&context);
        if self.lost.len() > LOST_LIMIT {
            return Err(format!("more than {LOST_LIMIT} contexts are lost, none of them ended"));
        }
        self.sticky = entered.filter(|_| !anew);
        self.publish();
        Ok(())
    }

    /// DEVICE_RESET.
    pub(crate) fn reset(&mut self) {
        self.sticky = None;
        self.lost.clear();
        self.drop_sticky_deferred();
        self.publish();
    }

    /// The current context is lost with this error. False: it was before.
    pub(crate) fn lose(&mut self, error: &CudaError) -> bool {
        if self.sticky.is_some() {
            return false;
        }
        self.sticky = Some(error.clone());
        self.publish();
        true
    }

    /// Keeps an error until it is reported. False: another one is kept.
    pub(crate) fn defer(&mut self, error: CudaError) -> bool {
        if self.deferred.is_some() {
            return false;
        }
        self.deferred = Some(error);
        self.standing.failures.fetch_add(1, Ordering::Relaxed);
        self.publish();
        true
    }

    /// The deferred error, for a result that tells it.
    pub(crate) fn deliver(&mut self) -> Option<CudaError> {
        let error = self.deferred.take()?;
        self.delivered.clone_from(&error.message);
        self.publish();
        Some(error)
    }

    /// A result has told the sticky error.
    pub(crate) fn drop_sticky_deferred(&mut self) {
        if self.deferred.as_ref().is_some_and(|error| error.sticky) {
            self.deferred = None;
            self.publish();
        }
    }

    /// The error to report with a group: the sticky one as long as it lasts, else the first one that was not told. The message of a sticky
    /// one is given once: a guest that goes on would log it with every group.
    pub(crate) fn take(&mut self) -> Option<CudaError> {
        let deferred = self.deferred.take();
        if deferred.is_some() {
            self.publish();
        }
        let Some(sticky) = &mut self.sticky else {
            return deferred;
        };
        let message = std::mem::take(&mut sticky.message);
        Some(CudaError { code: sticky.code, message, sticky: true })
    }

    /// The message of a deferred error that a result has told since the last call, for the guest's log.
    pub(crate) fn take_delivered(&mut self) -> String {
        std::mem::take(&mut self.delivered)
    }

    fn publish(&self) {
        self.standing.lost.store(self.sticky.is_some(), Ordering::Relaxed);
        self.standing.deferred.store(self.deferred.is_some(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tape::rows::row;

    fn error(code: i32, sticky: bool) -> CudaError {
        CudaError { code, message: "why".into(), sticky }
    }

    #[test]
    fn lost_contexts_are_bounded() {
        let mut errors = Errors::new(Arc::default());
        for context in 16..16 + LOST_LIMIT as u32 {
            errors.enter(context, false).unwrap();
            errors.lose(&error(700, true));
        }
        errors.enter(0, false).unwrap();
        errors.lose(&error(700, true));
        assert!(errors.enter(1, false).unwrap_err().contains("lost"));
    }

    #[test]
    fn bookkeeping_does_no_work() {
        for working in [code::LAUNCH, code::WRITE, code::READ, code::COPY, code::MEMSET, code::EVENT_RECORD] {
            assert!(!row(working).unwrap().bookkeeping);
        }
        assert!(row(code::ALLOCATE).unwrap().bookkeeping && row(code::PHYSICAL_MAP).unwrap().bookkeeping);
    }

    #[test]
    fn a_sticky_error_is_told_each_time_and_explained_once() {
        let mut errors = Errors::new(Arc::default());
        assert!(errors.lose(&error(700, true)) && !errors.lose(&error(719, true)));
        assert_eq!(errors.take(), Some(error(700, true)));
        assert_eq!(errors.take(), Some(CudaError { code: 700, message: String::new(), sticky: true }));
        assert_eq!(errors.refusal(row(code::LAUNCH).unwrap()).map(|refused| refused.code), Some(700));
        assert_eq!(errors.refusal(row(code::MODULE_BEGIN).unwrap()), None, "uploads go on");
        errors.reset();
        assert_eq!((errors.take(), errors.refusal(row(code::LAUNCH).unwrap())), (None, None));
    }

    #[test]
    fn the_first_deferred_error_is_told_once() {
        let mut errors = Errors::new(Arc::default());
        assert!(errors.defer(error(1, false)) && !errors.defer(error(2, false)));
        assert_eq!(errors.deliver(), Some(error(1, false)));
        assert_eq!((errors.take(), errors.take_delivered()), (None, "why".to_owned()));
        assert_eq!((errors.deliver(), errors.take_delivered()), (None, String::new()));
    }
}
