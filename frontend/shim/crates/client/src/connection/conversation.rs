//! What a session's connection does between its calls: completes groups by their replies, and sends tapes that have
//! grown old.

use crate::connection::age::RETRY;
use crate::generated_farlane_v1::{host_message, HostMessage, Reply};
use crate::incoming::awaited::Answered;
use crate::log;
use crate::outgoing::outbox::Aged;
use crate::shared::Shared;
use prost::Message;
use std::sync::atomic::Ordering;

const CUDA_ERROR_LAUNCH_FAILURE: i32 = 719;

/// The background thread: sends an old tape if the timer has run out. True when something was sent.
pub(crate) fn serve_timer(shared: &Shared) -> bool {
    if !shared.timer.clear() {
        return false;
    }
    let overdue = shared.overdue.swap(false, Ordering::AcqRel);
    let mut aged = expire(shared);
    if aged == Aged::No && overdue {
        aged = send_aged(shared);
    }
    if aged == Aged::Later {
        shared.overdue.store(true, Ordering::Release);
        if shared.ledger.in_flight().0 == 0 {
            shared.timer.arm(RETRY); // another thread has read the last acknowledgement meanwhile
        }
    }
    aged == Aged::Sent
}

/// Does what a reply says. An old tape that waited for that is sent: here if the calling thread `may_send`, else soon, by
/// the timer's thread. A thread of the program leaves when it has its answer, and who reads a ring waits for no room in
/// the other one: the host may wait for the reader.
///
/// # Errors
/// What the host did against the protocol.
pub(crate) fn handle(shared: &Shared, message: HostMessage, may_send: bool) -> Result<Option<Answered>, String> {
    shared.counters.bytes_down.add(message.encoded_len() as u64);
    let Some(host_message::Kind::Reply(reply)) = message.kind else {
        return Err("protocol error: the host sent something else than a reply".to_owned());
    };
    let acknowledged = complete(shared, &reply).map_err(|violation| format!("protocol error: {violation}"))?;
    if acknowledged.is_some() && shared.overdue.load(Ordering::Acquire) {
        if may_send {
            shared.overdue.store(send_aged(shared) == Aged::Later, Ordering::Release);
        } else {
            shared.timer.arm(RETRY);
        }
    }
    Ok(acknowledged)
}

/// What the reply has answered; `None`: its group goes on.
fn complete(shared: &Shared, reply: &Reply) -> Result<Option<Answered>, crate::incoming::awaited::Violation> {
    let ledger = &shared.ledger;
    if ledger.deliver(reply.group, &reply.results)? || reply.sticky || reply.error != 0 {
        let (context, unwatched) = ledger.take_unwatched_error();
        if reply.sticky {
            // Reported here, or by a result of this group.
            let code = [reply.error, ledger.delivered_error()].into_iter().find(|&code| code != 0);
            shared.contexts.stick(context, code.unwrap_or(CUDA_ERROR_LAUNCH_FAILURE));
        } else if let Some(code) = [unwatched, reply.error].into_iter().find(|&code| code != 0) {
            shared.contexts.defer(context, code);
        }
    }
    if !reply.error_message.is_empty() {
        log::warn(format_args!("{}", reply.error_message));
    }
    shared.output.add(&reply.printed, &reply.complaints);
    if reply.last {
        shared.counters.device_nanoseconds.set(reply.device_nanoseconds);
        shared.stream.acknowledge(reply.group);
        return ledger.acknowledge(reply.group).map(Some);
    }
    Ok(None)
}

fn expire(shared: &Shared) -> Aged {
    match shared.outbox.try_lock() {
        Some(mut outbox) => outbox.expire(&shared.timer, &shared.ledger, &shared.counters),
        None => {
            // Another thread is appending or sending: look again a little later.
            shared.timer.arm(RETRY);
            Aged::No
        }
    }
}

fn send_aged(shared: &Shared) -> Aged {
    match shared.outbox.try_lock() {
        Some(mut outbox) => outbox.send_aged(&shared.ledger, &shared.counters),
        None => Aged::Later,
    }
}
