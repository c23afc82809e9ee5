//! Where an object's manifest is: a note in the object, else a file in the folder `FARLANE_MANIFESTS`. The host's is in
//! its Welcome.
//!
//! Owns the reading of the bytes, and none of what they say.
//!
//! Source: protos/manifest.md, "Where it is found".

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use manifest::MAX_BYTES;

use super::objects::Object;
use crate::log;

/// A manifest that is there, and not in use yet.
#[derive(Debug)]
pub struct Pending {
    pub(super) object: &'static Object,
    pub(super) content: Vec<u8>,
    pub(super) place: String,
}

/// What the object or the folder has.
pub(super) fn find(object: &'static Object) -> Option<Pending> {
    if let Ok(Some(content)) = object.embedded_manifest() {
        return Some(Pending { object, content, place: "in its note".to_owned() });
    }
    let path = file_for(object)?;
    match read(&path) {
        Ok(content) => Some(Pending { object, content, place: path.display().to_string() }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => {
            log::error(format_args!("cannot read the manifest {}: {error}", path.display()));
            None
        }
    }
}

fn file_for(object: &Object) -> Option<PathBuf> {
    let folder: OsString = std::env::var_os("FARLANE_MANIFESTS").filter(|folder| !folder.is_empty())?;
    Some(Path::new(&folder).join(format!("{}.manifest", object.identity()?.hex())))
}

/// At most one byte more than a manifest may have: the reader names the rule.
fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let file = File::open(path)?;
    let size = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX).min(MAX_BYTES);
    let mut content = Vec::with_capacity(size + 1);
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut content)?;
    Ok(content)
}
