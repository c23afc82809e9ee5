//! Which manifests are in use, and the sites that they describe.
//!
//! Owns where manifests come from (a note in the object, the folder `FARLANE_MANIFESTS`, the host's welcome), what is
//! said about those that cannot be used, and the table from return addresses to sites. Owns neither what a site permits
//! (`permission`) nor the format (crate `manifest`). Only in mode `loops`; in the others nothing is looked for.
//!
//! Everything here is kept for ever: a site is found by address without a lock in most cases (`permission` keeps each
//! thread's recent ones), and its object is pinned. Objects loaded after the handshake are looked at when the first
//! call comes from them.
//!
//! Locking: one read-write lock around the table; the list of objects (`objects`) is locked under none.
//!
//! Source: protos/manifest.md, "Identity", "Where it is found".

pub mod objects;

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, PoisonError, RwLock};

use client::{Mode, Session};
use manifest::code::Expression;
use manifest::{Manifest, CONDITIONAL, DEFER_READ, DESCRIBED, HAS_MANAGED_VARIABLES, LAUNCH, LOCAL_SYNC, MAX_BYTES};
use slices::form::Call;
use slices::Slice;

use self::objects::Object;
use crate::permission::deciding::Sliced;
use crate::{frame, log};

/// A manifest in use.
#[derive(Debug)]
pub struct Used {
    pub manifest: Manifest,
    pub object: &'static Object,
    pub loops: Vec<Loop>,
}

/// What a manifest says of one loop.
#[derive(Debug)]
pub struct Loop {
    pub parent: Option<u32>,
    /// Position of the last site of the body that runs in every iteration.
    pub last_position: Option<u16>,
    /// The launches by position, where an iteration may be predicted: each runs in every iteration, the first one
    /// first, and nothing else makes records.
    pub launches: Vec<manifest::Site>,
    /// That was not tried yet.
    pub predictable: AtomicBool,
    /// Dense over all manifests.
    pub number: u32,
}

/// A place in the program that a manifest describes.
#[derive(Debug)]
pub struct Site {
    pub used: &'static Used,
    pub entry: manifest::Site,
    /// The entry's expressions, decoded.
    pub more: Option<Expression>,
    pub remaining: Option<Expression>,
    /// Dense over all manifests.
    pub number: u32,
    /// What begins here.
    sliced: Option<&'static Sliced>,
}

impl Site {
    /// The slice that begins here.
    #[inline]
    pub fn sliced(&self) -> Option<&'static Sliced> {
        self.sliced
    }

    pub fn in_loop(&self) -> &'static Loop {
        &self.used.loops[self.entry.in_loop as usize]
    }

    /// Whether the site is of the loop that another site is of, or of one inside it.
    pub fn is_within_loop_of(&self, other: &Site) -> bool {
        std::ptr::eq(self.used, other.used)
            && (self.entry.in_loop == other.entry.in_loop
                || self.used.manifest.is_within(self.entry.in_loop, other.entry.in_loop))
    }

    /// Whether it is the first call of every iteration of its loop.
    pub fn begins_iteration(&self) -> bool {
        self.entry.position == 0 && self.entry.flags & CONDITIONAL == 0
    }

    /// Whether it is the last call of an iteration of its loop.
    pub fn ends_iteration(&self) -> bool {
        self.in_loop().last_position == Some(self.entry.position)
    }
}

/// A copy to the host that may wait until the next call that waits.
#[derive(Debug)]
pub struct Joining {
    pub copy: manifest::JoinedCopy,
    pub object: &'static Object,
}

/// What manifests say of a return address.
#[derive(Debug, Clone, Copy, Default)]
pub struct Found {
    pub site: Option<&'static Site>,
    pub joining: Option<&'static Joining>,
}

/// Launches of an iteration that is predicted.
const MOST_PREDICTED: usize = 16;

#[derive(Default)]
struct Table {
    sites: HashMap<usize, &'static Site>,
    joining: HashMap<usize, &'static Joining>,
    looked_at: HashSet<usize>,
}

static TABLE: RwLock<Option<Table>> = RwLock::new(None);
/// Whether any call has to be looked up.
static ACTIVE: AtomicBool = AtomicBool::new(false);
/// A manifest in use says that its object has managed variables.
static MANAGED: AtomicBool = AtomicBool::new(false);
static NUMBERS: AtomicU32 = AtomicU32::new(0);
static OBJECTS: AtomicU64 = AtomicU64::new(0);
static LOOPS: AtomicU32 = AtomicU32::new(0);
static SLICES: AtomicU64 = AtomicU64::new(0);

/// Whether sites are looked up at all.
#[inline]
pub fn active() -> bool {
    ACTIVE.load(Relaxed)
}

/// In the child of a fork, which has no session, and when the session ends.
pub fn abandon() {
    ACTIVE.store(false, Release);
}

pub fn any_managed() -> bool {
    MANAGED.load(Acquire)
}

/// Objects with a manifest, their loops, their sites.
pub fn counts() -> (u64, u64, u64) {
    (OBJECTS.load(Relaxed), LOOPS.load(Relaxed).into(), NUMBERS.load(Relaxed).into())
}

/// Before the handshake: finds the objects that call CUDA and their manifests; the answer is for Hello.
pub fn prepare(mode: Mode) -> Vec<client::Object> {
    if mode != Mode::Loops || std::env::var_os("FARLANE_MANIFESTS").is_some_and(|folder| folder == "off") {
        return Vec::new();
    }
    ACTIVE.store(true, Release);
    let mut named = Vec::new();
    for object in objects::all().into_iter().filter(|object| object.is_program() || object.needs_cuda) {
        let Some(identity) = object.identity() else { continue };
        let has_manifest = look_at(object);
        named.push(client::Object { identity: identity.as_bytes().to_vec(), size: object.file_size(), has_manifest });
    }
    named
}

/// After the handshake: takes the host's manifests, and sends it the objects that it wants.
pub fn opened(session: &Session) {
    if session.mode() != Mode::Loops {
        return;
    }
    let known = objects::all();
    let with_identity = |wanted: &[u8]| {
        let same = |object: &&&Object| object.identity().is_some_and(|identity| identity.as_bytes() == wanted);
        known.iter().filter(|object| object.is_program() || object.needs_cuda).find(same).copied()
    };
    let welcome = session.welcome();
    for sent in &welcome.manifests {
        if let Some(object) = with_identity(&sent.identity) {
            adopt(object, &sent.content, "from the host");
        }
    }
    let wanted = welcome.wanted_objects.iter();
    session.send_objects(wanted.filter_map(|wanted| Some((wanted.clone(), with_identity(wanted)?.path()))).collect());
}

/// The site that a call comes from.
pub fn find(address: usize) -> Option<&'static Site> {
    look_up(address).site
}

/// What manifests say of the call that returns there.
pub fn look_up(address: usize) -> Found {
    if address == 0 {
        return Found::default();
    }
    let known = || {
        let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
        table.as_ref().map_or_else(Found::default, |table| Found {
            site: table.sites.get(&address).copied(),
            joining: table.joining.get(&address).copied(),
        })
    };
    let found = known();
    if found.site.is_some() || found.joining.is_some() {
        return found;
    }
    let Some(object) = objects::locate(address) else { return found };
    let new = {
        let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
        !table.as_ref().is_some_and(|table| table.looked_at.contains(&key(object)))
    };
    if new && look_at(object) {
        known()
    } else {
        found
    }
}

fn key(object: &'static Object) -> usize {
    std::ptr::from_ref(object) as usize
}

/// Looks for a manifest in the object and in the folder; whether there is one, and it is used.
fn look_at(object: &'static Object) -> bool {
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    if !table.get_or_insert_default().looked_at.insert(key(object)) {
        return false;
    }
    drop(table);
    if let Ok(Some(content)) = object.embedded_manifest() {
        return adopt(object, &content, "in its note");
    }
    let Some(path) = file_for(object) else { return false };
    match read(&path) {
        Ok(content) => adopt(object, &content, &path.display().to_string()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
        Err(error) => {
            log::error(format_args!("cannot read the manifest {}: {error}", path.display()));
            false
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

/// Puts a manifest to use, unless it is broken or another object's.
fn adopt(object: &'static Object, content: &[u8], place: &str) -> bool {
    let manifest = match Manifest::parse(content) {
        Ok(manifest) => manifest,
        Err(broken) => {
            log::error(format_args!("the manifest of {} ({place}) is not used: {broken}", object.shown()));
            return false;
        }
    };
    let Some(identity) = object.identity() else { return false };
    if manifest.identity != identity {
        log::warn(format_args!(
            "the manifest of {} ({place}) is ignored: it is for {}, not for {}",
            object.shown(),
            manifest.identity.hex(),
            identity.hex()
        ));
        return false;
    }
    object.pin();
    if manifest.flags & HAS_MANAGED_VARIABLES != 0 {
        MANAGED.store(true, Release);
    }
    let loops = loops_of(&manifest);
    OBJECTS.fetch_add(1, Relaxed);
    let used: &'static Used = Box::leak(Box::new(Used { manifest, object, loops }));
    let slices = slices_of(used);
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    let Table { sites, joining, .. } = table.get_or_insert_default();
    for copy in used.manifest.joined() {
        let address = object.bias.wrapping_add(copy.return_address as usize);
        joining.insert(address, Box::leak(Box::new(Joining { copy: copy.clone(), object })));
    }
    for entry in used.manifest.sites() {
        let address = object.bias.wrapping_add(entry.return_address as usize);
        let number = NUMBERS.fetch_add(1, Relaxed);
        let expression = |code: Option<u32>| used.manifest.expression(code?);
        let (more, remaining) = (expression(entry.more), expression(entry.remaining));
        let sliced = slices.get(&entry.return_address).copied();
        sites.insert(address, Box::leak(Box::new(Site { used, entry, more, remaining, number, sliced })));
    }
    if log::level() >= log::Level::Info {
        log::info(format_args!("the manifest of {} is used ({place})", object.shown()));
    }
    true
}

/// The slices by their entries. One that cannot be read is left out, and so is that of a loop whose copies to the host
/// may all wait by the manifest's permissions: it costs no more where the program makes it.
fn slices_of(used: &'static Used) -> HashMap<u64, &'static Sliced> {
    let mut found = HashMap::new();
    let deferring = used.manifest.sites().filter(|site| site.permissions & DEFER_READ != 0);
    let deferring: HashSet<u64> = deferring.map(|site| site.return_address).collect();
    let to_host = |call: &&Call| {
        let copies = call.name.contains("Memcpy") && !call.name.contains("ToSymbol");
        copies && call.arguments.iter().all(|argument| argument.number != 0)
    };
    for (in_loop, bytes) in used.manifest.slices() {
        match Slice::read(bytes) {
            Ok(slice) if slice.calls.iter().filter(to_host).all(|call| deferring.contains(&call.site)) => {}
            Ok(slice) => {
                let number = SLICES.fetch_add(1, Relaxed);
                let sliced = Sliced { slice: Arc::new(slice), bytes, in_loop, number };
                found.insert(sliced.slice.entry, &*Box::leak(Box::new(sliced)));
            }
            Err(malformed) => {
                log::warn(format_args!("a slice in the manifest of {} is not used: {malformed}", used.object.shown()));
            }
        }
    }
    if !found.is_empty() {
        frame::save_arguments();
    }
    found
}

/// Whether a call from the site is answered here, as far as can be told.
fn makes_no_record(manifest: &Manifest, site: &manifest::Site) -> bool {
    site.permissions & LOCAL_SYNC != 0 || matches!(manifest.name_of(site), "cudaGetLastError" | "cudaPeekAtLastError")
}

fn loops_of(manifest: &Manifest) -> Vec<Loop> {
    let number = || LOOPS.fetch_add(1, Relaxed);
    let new = |each: manifest::Loop| Loop {
        parent: each.parent,
        last_position: None,
        launches: Vec::new(),
        predictable: AtomicBool::new(each.flags & DESCRIBED != 0),
        number: number(),
    };
    let mut loops: Vec<Loop> = manifest.loops().map(new).collect();
    for outer in manifest.loops().filter_map(|each| each.parent) {
        let Some(outer) = loops.get_mut(outer as usize) else { continue };
        *outer.predictable.get_mut() = false;
    }
    for site in manifest.sites() {
        let Some(each) = loops.get_mut(site.in_loop as usize) else { continue };
        if site.flags & CONDITIONAL == 0 {
            each.last_position = each.last_position.max(Some(site.position));
        }
        let predictable = each.predictable.get_mut();
        *predictable &= each.launches.len() < MOST_PREDICTED;
        if site.flags & (CONDITIONAL | LAUNCH) == LAUNCH {
            each.launches.push(site);
        } else {
            *predictable &= site.flags & CONDITIONAL == 0 && makes_no_record(manifest, &site);
        }
    }
    for each in &mut loops {
        each.launches.sort_unstable_by_key(|site| site.position);
        let rising = each.launches.windows(2).all(|pair| pair[0].position < pair[1].position);
        if !rising || each.launches.first().is_none_or(|first| first.position > 0) || !*each.predictable.get_mut() {
            *each.predictable.get_mut() = false;
            each.launches = Vec::new();
        }
    }
    loops
}
