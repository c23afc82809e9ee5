//! Sends the files of objects that the host wants to analyze, in the background.
//!
//! A thread of its own reads a file and hands its parts to the connection, with pauses, so that the program's work goes
//! in between. When the session ends what is left is given a moment without pauses, and then dropped: the host asks
//! again in a later session. A file that cannot be read, or that changes its length, is left out.

use crate::connection::thread::spawn;
use crate::generated_farlane_v1::{guest_message::Kind, ObjectPart};
use crate::shared::Shared;
use crate::status::Phase;
use crate::{log, Session};
use parking_lot::{Condvar, Mutex};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const PART_BYTES: usize = 64 << 10;
/// Between two parts: at most 32 MB in a second.
const PAUSE: Duration = Duration::from_millis(2);
/// How long the end of the session waits for what is left.
const LAST_MOMENT: Duration = Duration::from_millis(40);
/// The largest file that is sent.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// One upload: whether it goes on, and whether it is in a hurry.
#[derive(Debug, Default)]
pub(crate) struct Upload {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default, Clone, Copy)]
struct State {
    running: bool,
    hurry: bool,
    stop: bool,
}

impl Upload {
    /// The session ends: waits a moment for what is left.
    pub(crate) fn finish(&self) {
        let mut state = self.state.lock();
        state.hurry = true;
        self.changed.notify_all();
        if state.running {
            self.changed.wait_while_for(&mut state, |state| state.running, LAST_MOMENT);
        }
        state.stop = true;
    }

    /// False: stop.
    fn pause(&self) -> bool {
        let mut state = self.state.lock();
        if !state.hurry {
            self.changed.wait_for(&mut state, PAUSE);
        }
        !state.stop
    }
}

impl Session {
    /// Sends the files, each under its object's identity. Returns at once; to be called once.
    pub fn send_objects(&self, objects: Vec<(Vec<u8>, PathBuf)>) {
        if objects.is_empty() {
            return;
        }
        let (shared, upload) = (self.shared().clone(), self.upload().clone());
        upload.state.lock().running = true;
        let thread = {
            let upload = upload.clone();
            move || {
                for (identity, path) in objects {
                    if let Err(error) = send(&shared, &upload, &identity, &path) {
                        log::info(format_args!("{} is not sent to the host: {error}", path.display()));
                    }
                }
                upload.state.lock().running = false;
                upload.changed.notify_all();
            }
        };
        if let Err(error) = spawn(c"farlane-objects", thread) {
            log::info(format_args!("no object is sent to the host: {error}"));
            upload.state.lock().running = false;
        }
    }
}

fn send(shared: &Arc<Shared>, upload: &Upload, identity: &[u8], path: &Path) -> std::io::Result<()> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    if size > MAX_FILE_BYTES {
        return Err(std::io::Error::other(format!("it has {size} bytes")));
    }
    let mut left = size;
    loop {
        let mut data = vec![0; PART_BYTES.min(usize::try_from(left).unwrap_or(PART_BYTES))];
        file.read_exact(&mut data)?;
        left -= data.len() as u64;
        let part = ObjectPart { identity: identity.to_vec(), data, last: left == 0 };
        if shared.status.get() != Phase::Running && shared.status.get() != Phase::Finishing {
            return Ok(());
        }
        shared.outbox.lock().post_aside(Kind::ObjectPart(part), &shared.counters);
        if left == 0 || !upload.pause() {
            return Ok(());
        }
    }
}
