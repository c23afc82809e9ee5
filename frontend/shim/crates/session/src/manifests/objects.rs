//! The ELF objects of the process: which one holds an address, where it is loaded, and its identity
//! (protos/manifest.md).
//!
//! Owns the list of objects that anything was asked about. Nothing is read before the first question. An object is kept
//! for ever once it is listed, and one that a manifest is used for is pinned, so that no other can be loaded in its
//! place ([`Object::pin`]).
//!
//! Locking: one read-write lock around the list; the loader's lock is taken (`dl_iterate_phdr`) under it, never the
//! other way round.

use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{OnceLock, PoisonError, RwLock};

use manifest::Identity;
use sha2::{Digest, Sha256};

mod file;
mod loader;

/// What the contents of an object without a build-id are known by.
const HASHED: [&str; 3] = [".text", ".rodata", ".eh_frame"];
const NOTE_BUILD_ID: u32 = 3;

/// One loaded object.
#[derive(Debug)]
pub struct Object {
    /// As the loader knows it; empty for the program itself.
    name: CString,
    /// What is added to a link-time address.
    pub bias: usize,
    /// Link-time ranges that can be read.
    segments: Vec<(u64, u64)>,
    /// From its note; not when it has none.
    build_id: Option<Identity>,
    /// It names a CUDA runtime as needed, or the one that is linked into it is redirected.
    pub needs_cuda: bool,
    identity: OnceLock<Option<Identity>>,
}

impl Object {
    /// The program, not a library.
    pub fn is_program(&self) -> bool {
        self.name.is_empty()
    }

    pub fn path(&self) -> PathBuf {
        if self.is_program() {
            return PathBuf::from("/proc/self/exe");
        }
        PathBuf::from(OsStr::from_bytes(self.name.as_bytes()))
    }

    /// For the user.
    pub fn shown(&self) -> String {
        let path = self.path();
        let path = if self.is_program() { std::fs::read_link(&path).unwrap_or(path) } else { path };
        path.display().to_string()
    }

    /// The build-id, else the hash of its contents, read from its file once; `None` when that cannot be read.
    pub fn identity(&self) -> Option<Identity> {
        *self.identity.get_or_init(|| self.build_id.or_else(|| hash(&self.path()).ok()))
    }

    pub fn file_size(&self) -> u64 {
        std::fs::metadata(self.path()).map_or(0, |metadata| metadata.len())
    }

    /// The link-time address, when it lies in the object.
    pub fn link_time(&self, address: usize) -> Option<u64> {
        let address = address.wrapping_sub(self.bias) as u64;
        self.holds(address, 1).then_some(address)
    }

    /// Whether `size` bytes at a link-time address can be read.
    pub fn holds(&self, address: u64, size: u64) -> bool {
        let Some(end) = address.checked_add(size) else { return false };
        self.segments.iter().any(|(low, high)| *low <= address && end <= *high)
    }

    /// The descriptor of the object's `.note.farlane`, if it has one.
    pub fn embedded_manifest(&self) -> io::Result<Option<Vec<u8>>> {
        file::embedded_manifest(&File::open(self.path())?)
    }

    /// From now on the object is never unloaded.
    pub fn pin(&self) {
        if !self.is_program() {
            // SAFETY: a name that ends with NUL; the object is loaded, and nothing runs because it is only counted.
            unsafe { libc::dlopen(self.name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE) };
        }
    }
}

fn hash(path: &Path) -> io::Result<Identity> {
    let mut hash = Sha256::new();
    file::each_section(&File::open(path)?, &HASHED, &mut |bytes| hash.update(bytes))?;
    Identity::new(Identity::SHA_256, &hash.finalize()).ok_or(io::ErrorKind::InvalidData.into())
}

#[derive(Default)]
struct Known {
    /// The loader's count of objects it has ever loaded, when the list was made.
    loaded: u64,
    objects: Vec<&'static Object>,
}

static KNOWN: RwLock<Known> = RwLock::new(Known { loaded: 0, objects: Vec::new() });

/// The object that holds the address.
pub fn locate(address: usize) -> Option<&'static Object> {
    let find = |known: &Known| known.objects.iter().rev().find(|o| o.link_time(address).is_some()).copied();
    let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
    let (found, loaded) = (find(&known), known.loaded);
    drop(known);
    if found.is_some() || loaded == loader::count() {
        return found;
    }
    refresh();
    find(&KNOWN.read().unwrap_or_else(PoisonError::into_inner))
}

/// All objects that are loaded now or were before.
pub fn all() -> Vec<&'static Object> {
    if KNOWN.read().unwrap_or_else(PoisonError::into_inner).loaded != loader::count() {
        refresh();
    }
    KNOWN.read().unwrap_or_else(PoisonError::into_inner).objects.clone()
}

fn refresh() {
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    let (loaded, found) = loader::objects();
    for object in found {
        let same = |other: &&&Object| (other.bias, &other.name) == (object.bias, &object.name);
        if known.objects.iter().find(same).is_none() {
            known.objects.push(Box::leak(Box::new(object)));
        }
    }
    known.loaded = loaded;
}

/// The build-id among the notes of a segment.
fn build_id(notes: &[u8]) -> Option<Identity> {
    each_note(notes, |owner, kind, descriptor| {
        (owner == b"GNU\0" && kind == NOTE_BUILD_ID).then(|| Identity::new(Identity::BUILD_ID, descriptor)).flatten()
    })
}

/// The first note that `take` takes.
fn each_note<'a, T>(notes: &'a [u8], mut take: impl FnMut(&[u8], u32, &'a [u8]) -> Option<T>) -> Option<T> {
    let mut rest = notes;
    loop {
        let word = |at: usize| rest.get(at..at + 4)?.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes));
        let (name, size, kind) = (word(0)? as usize, word(4)? as usize, word(8)?);
        let start = 12_usize.checked_add(name.checked_next_multiple_of(4)?)?;
        let (owner, descriptor) = (rest.get(12..12 + name)?, rest.get(start..start.checked_add(size)?)?);
        if let Some(found) = take(owner, kind, descriptor) {
            return Some(found);
        }
        rest = rest.get(start.checked_add(size.checked_next_multiple_of(4)?)?..)?;
    }
}

/// Whether a string of the dynamic section names a CUDA runtime, or the driver API.
fn names_cuda(name: &CStr) -> bool {
    let name = name.to_bytes();
    name.starts_with(b"libcudart.so") || name.starts_with(b"libcuda.so")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(owner: &[u8], kind: u32, descriptor: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [owner.len() as u32, descriptor.len() as u32, kind] {
            bytes.extend(word.to_le_bytes());
        }
        for part in [owner, descriptor] {
            bytes.extend(part);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }

    #[test]
    fn what_needs_a_library_of_either_api_calls_cuda() {
        assert!([c"libcudart.so.13", c"libcudart.so", c"libcuda.so.1"].into_iter().all(names_cuda));
        assert!(![c"libcublas.so.13", c"libcudadevrt.a", c"libc.so.6", c""].into_iter().any(names_cuda));
    }

    #[test]
    fn this_program_is_found_by_an_address_of_its_own() {
        let address = this_program_is_found_by_an_address_of_its_own as fn() as usize;
        let object = locate(address).expect("found");
        assert!(object.is_program());
        let link_time = object.link_time(address).expect("inside");
        assert_eq!(link_time as usize + object.bias, address);
        assert!(object.file_size() > 1000 && object.identity().is_some());
        assert_eq!(locate(8).map(Object::shown), None);
        let library = locate(libc::malloc as *const () as usize).expect("libc");
        assert!(library.shown().contains("libc") && !library.needs_cuda);
        assert!(all().iter().any(|other| other.is_program()));
        assert_eq!(object.embedded_manifest().expect("readable"), None);
    }

    #[test]
    fn an_identity_without_a_build_id_is_the_hash_of_the_contents() {
        let path = Path::new("/proc/self/exe");
        let first = hash(path).expect("an ELF file");
        assert_eq!((first.kind, first.as_bytes().len()), (Identity::SHA_256, 32));
        assert_eq!(hash(path).ok(), Some(first));
        assert!(hash(Path::new("/proc/self/maps")).is_err());
    }

    #[test]
    fn the_build_id_is_found_among_other_notes() {
        let notes = [note(b"GNU\0", 1, &[0; 16]), note(b"GNU", 3, &[1]), note(b"GNU\0", 3, &[7; 20])].concat();
        assert_eq!(build_id(&notes).map(|identity| identity.hex()), Some("07".repeat(20)));
        for length in 0..notes.len() {
            build_id(&notes[..length]);
        }
        assert_eq!(build_id(&note(b"GNU\0", 3, &[7; 33])), None);
        assert_eq!(build_id(&note(b"GNU\0", 3, &[])), None);
        assert_eq!(build_id(&[0xff; 64]), None);
    }
}
