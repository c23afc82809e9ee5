//! Receiving a message of which a part goes where it belongs, while the other side still writes the rest.

use std::time::Instant;
use tape::BULK_BYTES;

/// Where a part of a message goes.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// Where in the message it begins, not behind what was looked at.
    pub start: usize,
    pub size: usize,
    /// So many bytes may be written there until the message has been received.
    pub to: *mut u8,
}

/// What is looked at of a message that may have a part with a place.
const BEGINNING: usize = 128;

/// Says where a part of a message goes.
pub type Placing<'a> = &'a mut dyn FnMut(&[u8], usize) -> Option<Place>;

/// Receives a message into `message`. The deadline is for it to begin: what has been read of one is not lost. True: a part has gone to its place, and only what follows it is there.
pub(crate) fn received(
    receiver: &mut rings::Receiver,
    message: &mut Vec<u8>,
    deadline: Option<Instant>,
    place: Option<Placing<'_>>,
) -> Result<bool, rings::Error> {
    let length = receiver.next(deadline)?;
    if let Some(place) = place.filter(|_| length >= BULK_BYTES as u64) {
        message.resize(BEGINNING, 0);
        receiver.read(message, None)?;
        if let Some(Place { start, size, to }) = place(message, usize::try_from(length).unwrap_or(usize::MAX)) {
            let early = &message[start..];
            // SAFETY: so many bytes may be written there (Place), and rings are no device's memory.
            unsafe {
                early.as_ptr().copy_to_nonoverlapping(to, early.len());
                receiver.read_to(to.add(early.len()), size - early.len(), None)?;
            }
            message.clear();
            receiver.rest(message, None)?;
            return Ok(true);
        }
    }
    receiver.rest(message, None)?;
    Ok(false)
}
