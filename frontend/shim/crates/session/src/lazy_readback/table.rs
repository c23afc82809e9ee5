//! Which blocks have a lazy readback, and what is known of the places in the program that copies come from. Plain data,
//! under one lock (the room's).
//!
//! A readback goes Free -> Setting -> Standing -> Ending -> Free; only its thread of the moment takes a step. `users`
//! are calls that are about to record a copy into its store: no readback ends before they have.

use super::place::{Block, Candidates};

/// Readbacks at the same time.
pub const MOST: usize = 64;
/// Places in the program that are remembered.
const SITES: usize = 256;
/// Fewer copies than this for a touch are a loss: what a touch costs is a round trip and more.
const WORTH: u32 = 4;
/// So many losses, or refusals, and the place is given up.
const PATIENCE: u8 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Free,
    Setting,
    Standing,
    Ending,
}

#[derive(Debug, Clone, Copy)]
pub struct Readback {
    pub state: State,
    pub start: usize,
    pub end: usize,
    /// Where its pages are.
    pub store: usize,
    pub users: usize,
    /// The last copy into it.
    pub sequence: u64,
    /// Where that came from.
    pub site: usize,
}

/// One place in the program.
#[derive(Debug, Clone, Copy)]
struct Site {
    at: usize,
    /// Copies since it was first seen, and since a readback that has one of them was last touched.
    seen: u32,
    since: u32,
    losses: u8,
    refusals: u8,
}

/// What is to become of a copy, as far as its place in the program says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is known yet.
    First,
    GivenUp,
    Lazy,
}

#[derive(Debug)]
pub struct Table {
    pub readbacks: [Readback; MOST],
    sites: [Site; SITES],
    pub candidates: Candidates,
    /// Calls under way that read or write memory of the program.
    pub inside: usize,
}

const NO_READBACK: Readback =
    Readback { state: State::Free, start: 0, end: 0, store: 0, users: 0, sequence: 0, site: 0 };
const NO_SITE: Site = Site { at: 0, seen: 0, since: 0, losses: 0, refusals: 0 };

impl Readback {
    fn meets(&self, start: usize, end: usize) -> bool {
        self.state != State::Free && self.start < end && start < self.end
    }
}

impl Table {
    pub const fn new() -> Self {
        Self { readbacks: [NO_READBACK; MOST], sites: [NO_SITE; SITES], candidates: Candidates::new(), inside: 0 }
    }

    /// A readback that has a byte of `[start, end)`.
    pub fn meeting(&self, start: usize, end: usize) -> Option<usize> {
        self.readbacks.iter().position(|readback| readback.meets(start, end))
    }

    /// The readback that stands and has all of `[start, end)`.
    pub fn standing(&self, start: usize, end: usize) -> Option<usize> {
        let stands =
            |readback: &Readback| readback.state == State::Standing && readback.start <= start && end <= readback.end;
        self.readbacks.iter().position(stands)
    }

    /// A place for a readback of the block; `None` when there is none, or another readback has a byte of it.
    pub fn claim(&mut self, block: Block) -> Option<usize> {
        if self.meeting(block.start, block.end).is_some() {
            return None;
        }
        let index = self.readbacks.iter().position(|readback| readback.state == State::Free)?;
        self.readbacks[index] = Readback { state: State::Setting, start: block.start, end: block.end, ..NO_READBACK };
        Some(index)
    }

    pub fn free(&mut self, index: usize) {
        self.readbacks[index] = NO_READBACK;
    }

    /// `None`: there are too many.
    fn site(&mut self, at: usize) -> Option<&mut Site> {
        // Calls are at least 5 bytes long.
        let first = (at >> 2) % SITES;
        let fits = |index: &usize| [0, at].contains(&self.sites[*index].at);
        let index = (0..SITES).map(|step| (first + step) % SITES).find(fits)?;
        let site = &mut self.sites[index];
        site.at = at;
        Some(site)
    }

    /// A copy comes from there; `in_loop`: from a place that is known to be in a loop.
    pub fn copy_from(&mut self, at: usize, in_loop: bool) -> Verdict {
        let Some(site) = self.site(at) else { return Verdict::GivenUp };
        site.seen = site.seen.saturating_add(1);
        if site.losses >= PATIENCE || site.refusals >= PATIENCE {
            Verdict::GivenUp
        } else if site.seen == 1 && !in_loop {
            Verdict::First
        } else {
            Verdict::Lazy
        }
    }

    /// The copy goes into the readback's store.
    pub fn goes_to(&mut self, index: usize, at: usize) {
        if let Some(site) = self.site(at) {
            site.since = site.since.saturating_add(1);
        }
        let readback = &mut self.readbacks[index];
        readback.users += 1;
        readback.site = at;
    }

    pub fn refused(&mut self, at: usize) {
        if let Some(site) = self.site(at) {
            site.refusals = site.refusals.saturating_add(1);
        }
    }

    /// The readback's block is touched. True when the place that its copies came from is given up for it.
    pub fn touched(&mut self, index: usize) -> bool {
        let at = self.readbacks[index].site;
        let Some(site) = self.site(at) else { return false };
        site.losses = if site.since < WORTH { site.losses.saturating_add(1) } else { 0 };
        site.since = 0;
        site.losses == PATIENCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: Block = Block { start: 0x1000, end: 0x4000 };

    fn table() -> Box<Table> {
        Box::new(Table::new())
    }

    #[test]
    fn readbacks_do_not_overlap_and_only_one_that_stands_is_used() {
        let mut table = table();
        assert_eq!(table.claim(BLOCK), Some(0));
        assert_eq!(table.claim(Block { start: 0x3000, end: 0x5000 }), None);
        assert_eq!(table.claim(Block { start: 0x4000, end: 0x5000 }), Some(1));
        assert_eq!((table.standing(0x1000, 0x1001), table.meeting(0x1000, 0x1001)), (None, Some(0)));
        table.readbacks[0].state = State::Standing;
        assert_eq!((table.standing(0x1000, 0x4000), table.standing(0x1000, 0x4001)), (Some(0), None));
        assert_eq!((table.meeting(0, 0x1000), table.meeting(0x5000, usize::MAX)), (None, None));
        table.free(0);
        assert_eq!(table.meeting(0, 0x4000), None);
    }

    #[test]
    fn there_are_only_so_many() {
        let mut table = table();
        for number in 0..MOST {
            let block = Block { start: number * 0x1000, end: (number + 1) * 0x1000 };
            assert_eq!(table.claim(block), Some(number));
        }
        assert_eq!(table.claim(Block { start: 0x100_0000, end: 0x100_1000 }), None);
    }

    #[test]
    fn a_place_is_given_up_after_touches_that_follow_few_copies() {
        let mut table = table();
        let index = table.claim(BLOCK).expect("free");
        assert_eq!(table.copy_from(500, false), Verdict::First);
        assert_eq!(table.copy_from(900, true), Verdict::Lazy);
        let mut round = |copies: u32| {
            for _ in 0..copies {
                assert_eq!(table.copy_from(500, false), Verdict::Lazy);
                table.goes_to(index, 500);
            }
            table.touched(index)
        };
        assert!(!round(1) && !round(3));
        assert!(!round(WORTH), "that was worth it");
        assert!(!round(1) && !round(1) && round(1));
        assert_eq!(table.copy_from(500, true), Verdict::GivenUp);
        assert_eq!(table.copy_from(900, true), Verdict::Lazy);
    }

    #[test]
    fn places_do_not_take_each_others_and_what_is_too_much_is_given_up() {
        let mut table = table();
        for number in 1..=SITES {
            assert_eq!(table.copy_from(number * 4 * SITES, false), Verdict::First);
        }
        for number in 1..=SITES {
            assert_eq!(table.copy_from(number * 4 * SITES, false), Verdict::Lazy);
        }
        assert_eq!(table.copy_from(3, true), Verdict::GivenUp);
    }

    #[test]
    fn a_place_whose_memory_is_refused_is_given_up() {
        let mut table = table();
        for _ in 0..PATIENCE {
            assert_eq!(table.copy_from(500, true), Verdict::Lazy);
            table.refused(500);
        }
        assert_eq!(table.copy_from(500, true), Verdict::GivenUp);
    }
}
