//! What the background thread does while a session is open: completes groups by their replies and sends tapes that have
//! grown old.

use crate::connection::age::RETRY;
use crate::connection::transport::describe;
use crate::generated_farlane_v1::{host_message, HostMessage, Reply};
use crate::log;
use crate::outgoing::outbox::Aged;
use crate::shared::Shared;
use prost::Message;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::Ordering;
use tokio::io::unix::AsyncFd;
use tokio::io::Interest;
use tonic::Streaming;

const CUDA_ERROR_LAUNCH_FAILURE: i32 = 719;

/// Returns when the host has ended the stream, or with the reason why nothing more can be expected from it.
pub(crate) async fn converse(shared: &Shared, replies: &mut Streaming<HostMessage>) -> Result<(), String> {
    let timer = watch(shared).map_err(|error| format!("cannot watch the timer: {error}"))?;
    loop {
        tokio::select! {
            biased;
            message = replies.message() => {
                let Some(message) = message.map_err(|status| describe(&status))? else {
                    return Ok(());
                };
                handle(shared, message)?;
            }
            ready = timer.readable() => {
                ready.map_err(|error| format!("cannot watch the timer: {error}"))?.clear_ready();
                shared.timer.clear();
                let overdue = shared.overdue.swap(false, Ordering::AcqRel);
                if expire(shared) || overdue && send_aged(shared) {
                    shared.overdue.store(true, Ordering::Release);
                    if shared.ledger.in_flight().0 == 0 {
                        shared.timer.arm(RETRY); // another thread has read the last acknowledgement meanwhile
                    }
                }
            }
        }
    }
}

/// Does what a reply says, and sends an old tape that waited for that.
///
/// # Errors
/// What the host did against the protocol.
pub(crate) fn handle(shared: &Shared, message: HostMessage) -> Result<(), String> {
    shared.counters.bytes_down.add(message.encoded_len() as u64);
    let Some(host_message::Kind::Reply(reply)) = message.kind else {
        return Err("protocol error: the host sent something else than a reply".to_owned());
    };
    let acknowledged = complete(shared, &reply).map_err(|violation| format!("protocol error: {violation}"))?;
    if acknowledged && shared.overdue.load(Ordering::Acquire) {
        if shared.reading.is_some() {
            // Who reads a ring waits for no room in the other one: the host may wait for the reader. The timer's thread sends.
            shared.timer.arm(RETRY);
        } else {
            shared.overdue.store(send_aged(shared), Ordering::Release);
        }
    }
    Ok(())
}

/// True when the reply acknowledged its group.
fn complete(shared: &Shared, reply: &Reply) -> Result<bool, crate::incoming::awaited::Violation> {
    let ledger = &shared.ledger;
    ledger.deliver(reply.group, &reply.results)?;
    let (unwatched, context) = (ledger.take_unwatched_error(), ledger.context());
    if reply.sticky {
        // Reported here, or by a result of this group.
        let code = [reply.error, ledger.delivered_error()].into_iter().find(|&code| code != 0);
        shared.contexts.stick(context, code.unwrap_or(CUDA_ERROR_LAUNCH_FAILURE));
    } else if let Some(code) = [unwatched, reply.error].into_iter().find(|&code| code != 0) {
        shared.contexts.defer(context, code);
    }
    if !reply.error_message.is_empty() {
        log::warn(format_args!("{}", reply.error_message));
    }
    shared.output.add(&reply.printed, &reply.complaints);
    if reply.last {
        shared.counters.device_nanoseconds.set(reply.device_nanoseconds);
        ledger.acknowledge(reply.group)?;
    }
    Ok(reply.last)
}

/// True when the tape is old, but must wait for an acknowledgement.
fn expire(shared: &Shared) -> bool {
    match shared.outbox.try_lock() {
        Some(mut outbox) => outbox.expire(&shared.timer, &shared.ledger, &shared.counters) == Aged::Later,
        None => {
            // Somebody is appending or sending: look again a little later.
            shared.timer.arm(RETRY);
            false
        }
    }
}

fn send_aged(shared: &Shared) -> bool {
    match shared.outbox.try_lock() {
        Some(mut outbox) => outbox.send_aged(&shared.ledger, &shared.counters) == Aged::Later,
        None => true,
    }
}

struct Watched(RawFd);

impl AsRawFd for Watched {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

fn watch(shared: &Shared) -> io::Result<AsyncFd<Watched>> {
    let watched = Watched(shared.timer.as_raw_fd());
    // SAFETY: the descriptor is `shared`'s, which outlives the conversation.
    unsafe { AsyncFd::register_with_interest(watched, Interest::READABLE) }.map_err(|error| error.into_parts().1)
}
