//! What the thread that reads a session's stream does when its connection breaks: it connects again, until the grace is over.
//!
//! It has the stream meanwhile: threads of the program that wait rely on it, as on a host that is slow.

use super::reading::{Reading, QUIET};
use crate::connection::bell::NONE;
use crate::connection::resuming::{Failed, Resumption};
use crate::connection::stream::Stream;
use crate::log;
use crate::shared::Shared;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::Arc;
use std::time::Instant;

/// The attempt to resume the session after which a message says what the program waits for.
const TOLD_AT: u32 = 5;

impl Reading {
    /// Puts another connection in the place of one that has broken. False: it has not, or the session is over.
    pub(super) fn resume(
        &self,
        shared: &Shared,
        stream: &mut Stream,
        sockets: [&AtomicI32; 2],
        full: &Arc<AtomicBool>,
    ) -> bool {
        let Some((why, grace)) = stream.broken().map(|(why, grace)| (why.to_owned(), grace)) else { return false };
        self.resuming.store(true, Ordering::SeqCst);
        let began = Instant::now();
        let resumed = self.try_to_resume(shared, stream, &why, began + grace, full);
        self.resuming.store(false, Ordering::SeqCst);
        match resumed {
            Ok(descriptors) => {
                for (socket, descriptor) in sockets.iter().zip(descriptors) {
                    socket.store(descriptor, Ordering::Release);
                }
                let (endpoint, seconds) = (&shared.endpoint, began.elapsed().as_secs_f64());
                log::warn(format_args!(
                    "the connection to {endpoint} broke ({why}) and was resumed after {seconds:.1} s: nothing is lost"
                ));
                true
            }
            Err(last) => {
                shared.fail(&last);
                false
            }
        }
    }

    fn try_to_resume(
        &self,
        shared: &Shared,
        stream: &mut Stream,
        why: &str,
        deadline: Instant,
        full: &Arc<AtomicBool>,
    ) -> Result<[RawFd; 2], String> {
        let mut pauses = Resumption::pauses();
        let mut attempts = 0;
        loop {
            let last = match stream.resume(deadline, full.clone()) {
                Ok(descriptors) => return Ok(descriptors),
                Err(Failed::Ended(words)) => return Err(words),
                Err(Failed::Forever(last)) => return Err(format!("{why}; {last}")),
                Err(Failed::Yet(last)) => last,
                Err(Failed::Elsewhere(_)) => continue, // `attempt` has followed
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || self.closed.load(Ordering::SeqCst) {
                return Err(format!("{why}; it could not be resumed in time: {last}"));
            }
            attempts += 1;
            if attempts == TOLD_AT {
                let (endpoint, seconds) = (&shared.endpoint, left.as_secs());
                log::warn(format_args!(
                    "the connection to {endpoint} broke ({why}): trying to resume it for {seconds} s"
                ));
            }
            self.bell.wait([NONE; 3], Some(pauses.next().unwrap_or(QUIET).min(left)));
        }
    }
}
