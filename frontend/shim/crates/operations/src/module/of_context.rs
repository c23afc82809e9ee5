//! A word that each context of the process has for itself, as long as its epoch lasts: a handle of the tape, a setting.

use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Release};
use std::sync::{Mutex, MutexGuard, PoisonError};

use session::contexts;

/// A word for each context.
#[derive(Debug, Default)]
pub struct OfContext {
    /// The epoch and the word that were set last.
    last: AtomicU64,
    /// Those of other epochs, where there are several contexts.
    others: Mutex<Vec<(u32, u32)>>,
}

/// Epochs whose words are kept: those of contexts that have ended are the first to go.
const MOST_EPOCHS: usize = 64;

impl OfContext {
    /// The word, when it was set in the epoch of the context that the calling thread works for.
    #[inline]
    pub fn get(&self) -> Option<u32> {
        let (value, epoch) = (self.last.load(Acquire), contexts::epoch());
        if (value >> 32) as u32 == epoch {
            return Some(value as u32);
        }
        if !contexts::several() {
            return None;
        }
        lock(&self.others).iter().find(|(of, _)| *of == epoch).map(|(_, word)| *word)
    }

    pub fn set(&self, word: u32) {
        self.set_in(contexts::epoch(), word);
    }

    pub fn set_in(&self, epoch: u32, word: u32) {
        let mut others = lock(&self.others);
        if contexts::several() {
            let last = self.last.load(Acquire);
            others.retain(|(of, _)| *of != epoch && *of != (last >> 32) as u32);
            others.push(((last >> 32) as u32, last as u32));
            others.push((epoch, word));
            if others.len() > MOST_EPOCHS {
                others.remove(0);
            }
        }
        self.last.store(u64::from(epoch) << 32 | u64::from(word), Release);
    }

    /// The context's is unknown again: what it was.
    pub fn take(&self) -> Option<u32> {
        let known = self.get()?;
        let epoch = contexts::epoch();
        let mut others = lock(&self.others);
        others.retain(|(of, _)| *of != epoch);
        let value = self.last.load(Acquire);
        if (value >> 32) as u32 == epoch {
            self.last.store(others.last().map_or(0, |(of, word)| u64::from(*of) << 32 | u64::from(*word)), Release);
        }
        Some(known)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Held by tests that reset, or that must not be reset meanwhile.
#[cfg(test)]
pub static RESETTING: Mutex<()> = Mutex::new(());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_makes_every_handle_unknown() {
        let _alone = lock(&RESETTING);
        let minted = OfContext::default();
        assert_eq!(minted.get(), None);
        minted.set(17);
        assert_eq!(minted.get(), Some(17));
        contexts::device_was_reset();
        assert_eq!(minted.get(), None);
        minted.set(18);
        assert_eq!((minted.take(), minted.get()), (Some(18), None));
    }
}
