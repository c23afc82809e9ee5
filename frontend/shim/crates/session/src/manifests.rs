//! Which manifests are in use, and the sites that they describe.
//!
//! Owns when manifests are looked for and put to use, what is said about those that cannot be used, and the table from
//! return addresses to sites. Owns neither where a manifest is (`sources`) nor what a site permits (`permission`) nor
//! the format (crate `manifest`). Only in mode `loops`; in the others nothing is looked for.
//!
//! Everything here is kept for ever: a site is found by address without a lock in most cases (`permission` keeps each
//! thread's recent ones), and its object is pinned. Objects loaded after the handshake are looked at when the first
//! call comes from them. A site, its expressions and its slice are decoded when the first call comes from it: most of
//! a manifest is about loops that a run does not enter.
//!
//! Locking: one read-write lock around the table; the list of objects (`objects`) is locked under none.
//!
//! Source: protos/manifest.md, "Identity", "Where it is found".

pub mod objects;
mod sources;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, PoisonError, RwLock};

use client::{Mode, Session};
use manifest::code::Expression;
use manifest::{Manifest, CONDITIONAL, DEFER_READ, DESCRIBED, HAS_MANAGED_VARIABLES, LAUNCH, LOCAL_SYNC};
use slices::form::Call;
use slices::Slice;

use self::objects::Object;
use self::sources::Pending;
use crate::permission::deciding::Sliced;
use crate::{frame, log};

/// A manifest in use.
#[derive(Debug)]
pub struct Used {
    pub manifest: Manifest,
    pub object: &'static Object,
    pub loops: Vec<Loop>,
    /// The number of its first site.
    first_number: u32,
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
    /// Where it is the first call of every iteration of its loop: the loop's number and 1; else 0.
    pub begins: u32,
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
    /// By the object's key.
    used: HashMap<usize, &'static Used>,
    /// What calls have come from, by return address.
    found: HashMap<usize, Found>,
    looked_at: HashSet<usize>,
}

static TABLE: RwLock<Option<Table>> = RwLock::new(None);
/// Whether any call has to be looked up.
static ACTIVE: AtomicBool = AtomicBool::new(false);
/// A manifest in use says that its object has managed variables.
static MANAGED: AtomicBool = AtomicBool::new(false);
static NUMBERS: AtomicU32 = AtomicU32::new(0);
/// Sites that a call has come from.
static MET: AtomicU64 = AtomicU64::new(0);
static OBJECTS: AtomicU64 = AtomicU64::new(0);
static LOOPS: AtomicU32 = AtomicU32::new(0);
static SLICES: AtomicU64 = AtomicU64::new(0);

/// The analyzer reads machine code of x86-64 alone, and only there calls have sites (`frame`).
const APPLY: bool = cfg!(target_arch = "x86_64");

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

/// For the report: objects with a manifest, their loops, their sites, and those of which a call has come.
pub fn counts() -> [(&'static str, u64); 4] {
    let (loops, sites) = (LOOPS.load(Relaxed).into(), NUMBERS.load(Relaxed).into());
    [("objects", OBJECTS.load(Relaxed)), ("loops", loops), ("sites", sites), ("sites_met", MET.load(Relaxed))]
}

/// Before the handshake: finds the objects that call CUDA and their manifests; the answer is for Hello, and for
/// `put_to_use`.
pub fn prepare(mode: Mode) -> (Vec<client::Object>, Vec<Pending>) {
    let off = || std::env::var_os("FARLANE_MANIFESTS").is_some_and(|folder| folder == "off");
    if mode != Mode::Loops || !APPLY || off() {
        return (Vec::new(), Vec::new());
    }
    ACTIVE.store(true, Release);
    let (mut named, mut pending) = (Vec::new(), Vec::new());
    for object in objects::all().into_iter().filter(|object| object.is_program() || object.needs_cuda) {
        let Some(identity) = object.identity() else { continue };
        let found = manifest_of(object);
        let has_manifest = found.as_ref().is_some_and(|found| Manifest::is_of(&found.content, &identity));
        named.push(client::Object { identity: identity.as_bytes().to_vec(), size: object.file_size(), has_manifest });
        pending.extend(found);
    }
    (named, pending)
}

/// While the host answers Hello: puts to use what `prepare` has found.
pub fn put_to_use(pending: impl IntoIterator<Item = Pending>) {
    for Pending { object, content, place } in pending {
        adopt(object, content.into(), &place);
    }
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
            adopt(object, (&sent.content).into(), "from the host");
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
    let known = {
        let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
        table.as_ref().and_then(|table| table.found.get(&address)).copied()
    };
    known.unwrap_or_else(|| first_from(address))
}

/// The same of an address from which no call has come that a manifest describes.
#[cold]
fn first_from(address: usize) -> Found {
    let Some(object) = objects::locate(address) else { return Found::default() };
    let new = {
        let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
        !table.as_ref().is_some_and(|table| table.looked_at.contains(&key(object)))
    };
    if new {
        put_to_use(manifest_of(object));
    }
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    let Table { used, found, .. } = table.get_or_insert_default();
    let Some(used) = used.get(&key(object)).copied() else { return Found::default() };
    if let Some(other) = found.get(&address) {
        return *other; // another thread came first
    }
    let new = used.at(address.wrapping_sub(object.bias) as u64);
    if new.site.is_some() || new.joining.is_some() {
        found.insert(address, new);
    }
    new
}

fn key(object: &'static Object) -> usize {
    std::ptr::from_ref(object) as usize
}

/// What there is of the object, the first time that it is asked.
fn manifest_of(object: &'static Object) -> Option<Pending> {
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    if !table.get_or_insert_default().looked_at.insert(key(object)) {
        return None;
    }
    drop(table);
    sources::find(object)
}

/// Puts a manifest to use, unless it is broken or another object's.
fn adopt(object: &'static Object, content: Cow<'_, [u8]>, place: &str) {
    let manifest = match Manifest::parse(content) {
        Ok(manifest) => manifest,
        Err(broken) => {
            log::error(format_args!("the manifest of {} ({place}) is not used: {broken}", object.shown()));
            return;
        }
    };
    let Some(identity) = object.identity() else { return };
    if manifest.identity != identity {
        log::warn(format_args!(
            "the manifest of {} ({place}) is ignored: it is for {}, not for {}",
            object.shown(),
            manifest.identity.hex(),
            identity.hex()
        ));
        return;
    }
    object.pin();
    if manifest.flags & HAS_MANAGED_VARIABLES != 0 {
        MANAGED.store(true, Release);
    }
    let loops = loops_of(&manifest);
    OBJECTS.fetch_add(1, Relaxed);
    if manifest.slices().next().is_some() {
        frame::save_arguments();
    }
    let first_number = NUMBERS.fetch_add(manifest.site_count(), Relaxed);
    let used: &'static Used = Box::leak(Box::new(Used { manifest, object, loops, first_number }));
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    table.get_or_insert_default().used.insert(key(object), used);
    drop(table);
    if log::level() >= log::Level::Info {
        log::info(format_args!("the manifest of {} is used ({place})", object.shown()));
    }
}

impl Used {
    /// What it says of the call that returns to an address of the file; once for each.
    fn at(&'static self, return_address: u64) -> Found {
        let expression = |code: Option<u32>| self.manifest.expression(code?);
        let site = self.manifest.site_at(return_address).map(|(index, entry)| {
            let (more, remaining) = (expression(entry.more), expression(entry.remaining));
            MET.fetch_add(1, Relaxed);
            let (number, sliced) = (self.first_number + index, self.slice_at(return_address));
            let first = entry.position == 0 && entry.flags & CONDITIONAL == 0;
            let begins = if first { self.loops[entry.in_loop as usize].number + 1 } else { 0 };
            &*Box::leak(Box::new(Site { used: self, entry, more, remaining, number, begins, sliced }))
        });
        let joining = self.manifest.joined_at(return_address).map(|copy| {
            let joining = Joining { copy: copy.clone(), object: self.object };
            &*Box::leak(Box::new(joining))
        });
        Found { site, joining }
    }

    /// The slice that begins there, the innermost loop's of several. One that cannot be read is left out, and so is
    /// that of a loop whose copies to the host may all wait by the manifest's permissions: it costs no more where the
    /// program makes it.
    fn slice_at(&'static self, entry: u64) -> Option<&'static Sliced> {
        let beginning = |(_, bytes): &(u32, &[u8])| Slice::entry_of(bytes) == Some(entry);
        let (in_loop, bytes, slice) =
            self.manifest.slices().filter(beginning).fold(None, |best, (in_loop, bytes)| {
                let slice = match Slice::read(bytes) {
                    Ok(slice) => slice,
                    Err(malformed) => {
                        let shown = self.object.shown();
                        log::warn(format_args!("a slice in the manifest of {shown} is not used: {malformed}"));
                        return best;
                    }
                };
                let waits = slice.calls.iter().filter(|call| is_to_host(call)).all(|call| {
                    self.manifest.site_at(call.site).is_some_and(|(_, site)| site.permissions & DEFER_READ != 0)
                });
                if waits {
                    best
                } else {
                    Some((in_loop, bytes, slice))
                }
            })?;
        let number = SLICES.fetch_add(1, Relaxed);
        Some(&*Box::leak(Box::new(Sliced::new(Arc::new(slice), bytes, in_loop, number))))
    }
}

/// Whether a slice's call copies to the host.
fn is_to_host(call: &Call) -> bool {
    let copies = call.name.contains("Memcpy") && !call.name.contains("ToSymbol");
    copies && call.arguments.iter().all(|argument| argument.number != 0)
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
