//! Which payloads the host keeps, and under which number.
//!
//! A payload's name is 128 bits of BLAKE3 under a key that this process has drawn at random and never sends: a
//! program's input cannot be made to collide. Names never leave the guest; the host sees numbers.
//!
//! Bounded: kept bytes by the host's budget, numbers by the tape's limit, payloads seen but not kept by `SEEN`. The
//! least recently used goes first.
//!
//! Naming costs the guest a pass over the bytes and keeping costs the host a copy, so a program that sends nothing
//! twice should not pay for long. After `PATIENCE` new payloads in a row a payload is first *sketched* (a few of its
//! words): one whose sketch is new is new, and not even named. One whose sketch is known is named and kept; when that
//! goes on without finding anything, because few words change, names are only remembered, and a payload is kept when
//! its name comes the second time.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

/// Numbers are 0 to this, exclusive.
pub const MAX_NUMBERS: u32 = limits::PAYLOAD_NUMBERS as u32;
/// Payloads of fewer bytes are not worth a name, larger ones do not fit a record.
pub const KEPT_BYTES: std::ops::RangeInclusive<usize> = 1024..=limits::PAYLOAD_BYTES;
/// New payloads in a row after which new ones are no longer kept at first sight.
const PATIENCE: u32 = 8;
/// Names remembered of payloads that are not kept, and sketches.
const SEEN: usize = 16384;
/// Words of a payload in its sketch.
const SKETCHED: usize = 32;

/// A few words of a payload, mixed. Equal payloads have equal sketches; others may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sketch(u64);

impl Sketch {
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut sum = (bytes.len() as u64).wrapping_mul(FACTOR);
        let mut add = |word: &[u8]| {
            let word = word.first_chunk::<8>().map_or(0, |word| u64::from_le_bytes(*word));
            sum = (sum.rotate_left(29) ^ word).wrapping_mul(FACTOR);
        };
        let step = (bytes.len() / SKETCHED).max(8);
        bytes.chunks(step).take(SKETCHED).for_each(&mut add);
        add(bytes.last_chunk::<8>().unwrap_or(&[0; 8]));
        Self(sum)
    }
}

/// A payload's content, as far as this process can tell contents apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Name([u8; 16]);

/// Gives names. Without a lock: many threads may ask at once.
#[derive(Debug, Clone)]
pub struct Namer {
    key: [u8; 32],
}

impl Namer {
    /// With a fresh key; `None` when the system gives no random bytes.
    #[must_use]
    pub fn new() -> Option<Self> {
        let mut key = [0u8; 32];
        // SAFETY: the buffer has the length given.
        let filled = unsafe { libc::getrandom(key.as_mut_ptr().cast(), key.len(), 0) };
        (usize::try_from(filled) == Ok(key.len())).then_some(Self { key })
    }

    #[must_use]
    pub fn name(&self, bytes: &[u8]) -> Name {
        let hash = blake3::keyed_hash(&self.key, bytes);
        let mut name = [0; 16];
        name.copy_from_slice(&hash.as_bytes()[..16]);
        Name(name)
    }
}

/// What to do with a payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The host has it under this number.
    Kept(u32),
    /// The host is to drop these numbers, then keep it under this one.
    Keep { number: u32, drop: Vec<u32> },
    /// Not worth keeping (yet).
    Pass,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    /// None: seen, not kept.
    number: Option<u32>,
    bytes: usize,
    used: u64,
}

/// The book.
#[derive(Debug)]
pub struct Cache {
    budget: u64,
    held: u64,
    entries: HashMap<Name, Entry>,
    kept: BTreeMap<u64, Name>,
    seen: BTreeMap<u64, Name>,
    free: Vec<u32>,
    next: u32,
    clock: u64,
    sketches: HashSet<Sketch>,
    sketch_order: VecDeque<Sketch>,
    new_in_a_row: u32,
    named_in_vain: u32,
}

impl Cache {
    /// `budget`: bytes that the host keeps for this session (Welcome.payload_cache_bytes).
    #[must_use]
    pub fn new(budget: u64) -> Self {
        Self {
            budget,
            held: 0,
            entries: HashMap::new(),
            kept: BTreeMap::new(),
            seen: BTreeMap::new(),
            free: Vec::new(),
            next: 0,
            clock: 0,
            sketches: HashSet::new(),
            sketch_order: VecDeque::new(),
            new_in_a_row: 0,
            named_in_vain: 0,
        }
    }

    /// Whether a payload of `bytes` bytes is worth a name: `decide` is to be asked. If not, it is new.
    pub fn expects(&mut self, sketch: Sketch, bytes: usize) -> bool {
        if !KEPT_BYTES.contains(&bytes) || bytes as u64 > self.budget {
            return false;
        }
        if !self.sketches.insert(sketch) {
            return true;
        }
        self.sketch_order.push_back(sketch);
        if self.sketch_order.len() > SEEN {
            if let Some(oldest) = self.sketch_order.pop_front() {
                self.sketches.remove(&oldest);
            }
        }
        self.new_in_a_row < PATIENCE
    }

    /// Decides on a payload of `bytes` bytes, and takes what it says as done.
    pub fn decide(&mut self, name: Name, bytes: usize) -> Decision {
        if !KEPT_BYTES.contains(&bytes) || bytes as u64 > self.budget {
            return Decision::Pass;
        }
        self.clock += 1;
        match self.entries.get_mut(&name) {
            Some(entry) if entry.bytes != bytes => Decision::Pass, // not within anybody's power, and still no harm
            Some(Entry { number: Some(number), used, .. }) => {
                let number = *number;
                self.kept.remove(used);
                *used = self.clock;
                self.kept.insert(self.clock, name);
                (self.new_in_a_row, self.named_in_vain) = (0, 0);
                Decision::Kept(number)
            }
            Some(entry) => {
                self.seen.remove(&entry.used);
                (self.new_in_a_row, self.named_in_vain) = (0, 0);
                self.keep(name, bytes)
            }
            None => {
                self.new_in_a_row = self.new_in_a_row.saturating_add(1);
                if self.new_in_a_row > PATIENCE {
                    self.named_in_vain = self.named_in_vain.saturating_add(1);
                }
                if self.named_in_vain > PATIENCE {
                    self.remember(name, bytes);
                    return Decision::Pass;
                }
                self.keep(name, bytes)
            }
        }
    }

    /// Bytes that the host keeps now.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.held
    }

    fn keep(&mut self, name: Name, bytes: usize) -> Decision {
        let mut drop = Vec::new();
        while self.held + bytes as u64 > self.budget || (self.free.is_empty() && self.next == MAX_NUMBERS) {
            let Some((_, oldest)) = self.kept.pop_first() else { break };
            let Some(Entry { number: Some(number), bytes, .. }) = self.entries.remove(&oldest) else { continue };
            self.held -= bytes as u64;
            self.free.push(number);
            drop.push(number);
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        });
        self.held += bytes as u64;
        self.kept.insert(self.clock, name);
        self.entries.insert(name, Entry { number: Some(number), bytes, used: self.clock });
        Decision::Keep { number, drop }
    }

    fn remember(&mut self, name: Name, bytes: usize) {
        if self.seen.len() == SEEN {
            if let Some((_, oldest)) = self.seen.pop_first() {
                self.entries.remove(&oldest);
            }
        }
        self.seen.insert(self.clock, name);
        self.entries.insert(name, Entry { number: None, bytes, used: self.clock });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn name(number: u64) -> Name {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        Name(bytes)
    }

    #[test]
    fn the_second_time_it_is_there() {
        let mut cache = Cache::new(1 << 20);
        assert_eq!(cache.decide(name(1), 4096), Decision::Keep { number: 0, drop: vec![] });
        assert_eq!(cache.decide(name(2), 4096), Decision::Keep { number: 1, drop: vec![] });
        assert_eq!(cache.decide(name(1), 4096), Decision::Kept(0));
        assert_eq!(cache.held(), 8192);
    }

    #[test]
    fn small_large_and_over_budget_payloads_pass() {
        let mut cache = Cache::new(8192);
        for bytes in [0, 1023, 8193, (1 << 20) + 1] {
            assert_eq!(cache.decide(name(9), bytes), Decision::Pass, "{bytes}");
        }
        assert_eq!(Cache::new(0).decide(name(9), 4096), Decision::Pass);
    }

    #[test]
    fn the_least_recently_used_goes() {
        let mut cache = Cache::new(3 * 4096);
        for number in 0..3 {
            cache.decide(name(number), 4096);
        }
        assert_eq!(cache.decide(name(0), 4096), Decision::Kept(0));
        assert_eq!(cache.decide(name(3), 8192), Decision::Keep { number: 2, drop: vec![1, 2] });
        assert_eq!(cache.decide(name(0), 4096), Decision::Kept(0));
        assert_eq!(cache.held(), 3 * 4096);
    }

    /// As the shim asks: sketch, then name.
    fn ask(cache: &mut Cache, number: u64, sketch: u64) -> Decision {
        if cache.expects(Sketch(sketch), 4096) {
            cache.decide(name(number), 4096)
        } else {
            Decision::Pass
        }
    }

    #[test]
    fn a_program_that_repeats_nothing_soon_names_and_keeps_nothing() {
        let mut cache = Cache::new(1 << 30);
        let mut kept = 0;
        for number in 0..100_000u64 {
            kept += u32::from(ask(&mut cache, number, number) != Decision::Pass);
        }
        assert_eq!(kept, PATIENCE);
        assert_eq!((cache.entries.len(), cache.sketches.len(), cache.sketch_order.len()), (kept as usize, SEEN, SEEN));
        // The second time it is kept, the third time it is there, and new ones are kept at once again.
        assert!(matches!(ask(&mut cache, 99_999, 99_999), Decision::Keep { .. }));
        assert!(matches!(ask(&mut cache, 99_999, 99_999), Decision::Kept(_)));
        assert!(matches!(ask(&mut cache, 200_000, 200_000), Decision::Keep { .. }));
    }

    #[test]
    fn a_program_that_changes_few_words_soon_keeps_nothing() {
        let mut cache = Cache::new(1 << 30);
        let mut kept = 0;
        for number in 0..100_000u64 {
            kept += u32::from(ask(&mut cache, number, 1) != Decision::Pass);
        }
        assert_eq!(kept, 2 * PATIENCE);
        assert!(cache.entries.len() <= SEEN + kept as usize);
        assert!(matches!(ask(&mut cache, 99_999, 1), Decision::Keep { .. }));
        assert!(matches!(ask(&mut cache, 99_999, 1), Decision::Kept(_)));
    }

    #[test]
    fn sketches_are_of_the_length_and_of_words_from_all_over() {
        let bytes = vec![7u8; 100_000];
        assert_eq!(Sketch::of(&bytes), Sketch::of(&bytes.clone()));
        assert_ne!(Sketch::of(&bytes), Sketch::of(&bytes[1..]));
        for at in [0, 50_000, 99_999] {
            let mut other = bytes.clone();
            other[at] = 8;
            assert_ne!(Sketch::of(&bytes), Sketch::of(&other), "{at}");
        }
        for length in [0, 1, 7, 8, 9, 255] {
            let _ = Sketch::of(&bytes[..length]);
        }
    }

    /// The host's half, as tape.md has it: refuses what a host refuses.
    #[derive(Default)]
    struct Host {
        kept: HashMap<u32, (u64, usize)>,
    }

    #[test]
    fn whatever_comes_the_host_agrees() {
        let budget = 64 << 10;
        let (mut cache, mut host) = (Cache::new(budget), Host::default());
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let mut reused = 0;
        for _ in 0..200_000 {
            let content = random() % 40;
            let bytes = 1024 + (content as usize * 977) % 9000;
            match cache.decide(name(content), bytes) {
                Decision::Kept(number) => {
                    assert_eq!(host.kept.get(&number), Some(&(content, bytes)));
                    reused += 1;
                }
                Decision::Keep { number, drop } => {
                    for number in drop {
                        assert!(host.kept.remove(&number).is_some());
                    }
                    assert!(host.kept.insert(number, (content, bytes)).is_none());
                    assert!(number < MAX_NUMBERS);
                }
                Decision::Pass => {}
            }
            let held: u64 = host.kept.values().map(|(_, bytes)| *bytes as u64).sum();
            assert!(held <= budget && held == cache.held());
        }
        assert!(reused > 10_000, "{reused}");
    }

    #[test]
    fn names_depend_on_every_byte_and_on_the_key() {
        let namer = Namer::new().expect("random bytes");
        let bytes = vec![7u8; 5000];
        let mut names = HashSet::from([namer.name(&bytes)]);
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert!(names.insert(namer.name(&other)), "byte {at}");
        }
        assert_ne!(Namer::new().expect("random bytes").name(&bytes), namer.name(&bytes));
    }
}
