//! Known cases, and random sequences checked against a model that keeps every live range in a list.

use super::*;

const BASE: u64 = 0x7000_0000_0000;
const MIB: u64 = 1 << 20;

fn allocator(granules: u64) -> Allocator {
    Allocator::new(BASE, 4 * granules * GRANULE, granules * GRANULE)
}

#[test]
fn small_allocations_are_packed_into_one_granule() {
    let mut memory = allocator(4);
    assert_eq!(memory.allocate(1), Ok(BASE));
    assert_eq!(memory.allocate(513), Ok(BASE + 512));
    assert_eq!(memory.allocate(512), Ok(BASE + 1536));
    assert_eq!(memory.available(), 3 * GRANULE);
}

#[test]
fn large_allocations_take_whole_granules() {
    let mut memory = allocator(8);
    memory.allocate(1).unwrap();
    let first = memory.allocate(MIB).unwrap();
    let second = memory.allocate(GRANULE + 1).unwrap();
    assert_eq!((first % GRANULE, second % GRANULE), (0, 0));
    assert_eq!(memory.available(), (8 - 1 - 1 - 2) * GRANULE);
}

#[test]
fn everything_freed_leaves_the_first_state() {
    let mut memory = allocator(8);
    let addresses: Vec<u64> =
        [3, 700_000, 5 * MIB, 1_000_000, 900_000].map(|size| memory.allocate(size).unwrap()).into();
    for address in addresses {
        memory.free(address).unwrap();
    }
    assert_eq!(memory.available(), memory.quota());
    assert!(memory.small.by_address.is_empty() && memory.small.by_size.is_empty());
    assert_eq!(memory.granules.by_address, BTreeMap::from([(BASE, 32 * GRANULE)]));
}

#[test]
fn the_quota_is_the_limit_and_freeing_restores_it() {
    let mut memory = allocator(2);
    let whole = memory.allocate(2 * GRANULE).unwrap();
    assert_eq!(memory.allocate(1), Err(Refused::OutOfMemory));
    assert_eq!(memory.free(whole), Ok(()));
    assert_eq!(memory.allocate(2 * GRANULE + 1), Err(Refused::OutOfMemory));
    assert_eq!(memory.allocate(2 * GRANULE), Ok(whole));
}

#[test]
fn absurd_sizes_are_out_of_memory() {
    let mut memory = Allocator::new(BASE, 1 << 40, u64::MAX);
    for size in [u64::MAX, u64::MAX - GRANULE, 1 << 63, 1 << 41] {
        assert_eq!(memory.allocate(size), Err(Refused::OutOfMemory), "{size:#x}");
    }
}

#[test]
fn a_window_too_small_or_at_null_mints_nothing_wrong() {
    assert_eq!(Allocator::new(BASE, GRANULE - 1, GRANULE).allocate(1), Err(Refused::OutOfMemory));
    assert_eq!(Allocator::new(u64::MAX - 5, u64::MAX, GRANULE).allocate(1), Err(Refused::OutOfMemory));
    assert_eq!(Allocator::new(0, 4 * GRANULE, GRANULE).allocate(1), Ok(GRANULE));
    assert_eq!(Allocator::new(BASE + 1, 4 * GRANULE, GRANULE).allocate(1), Ok(BASE + GRANULE));
}

#[test]
fn double_free_and_foreign_addresses_are_refused() {
    let mut memory = allocator(2);
    let address = memory.allocate(4096).unwrap();
    assert_eq!(memory.free(address + 512), Err(Refused::NotAllocated));
    assert_eq!(memory.free(0x1234), Err(Refused::NotAllocated));
    assert_eq!(memory.free(address), Ok(()));
    assert_eq!(memory.free(address), Err(Refused::NotAllocated));
}

#[test]
fn find_takes_interior_addresses_of_the_requested_size_only() {
    let mut memory = allocator(2);
    let address = memory.allocate(100).unwrap();
    let whole = Some(Allocation { address, size: 100 });
    assert_eq!((memory.find(address), memory.find(address + 99)), (whole, whole));
    assert_eq!((memory.find(address + 100), memory.find(address - 1)), (None, None));
}

/// A small deterministic generator (xorshift64*): failures are reproduced by their seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16) % bound
    }
}

/// Bytes of a small allocation with the space behind it, of a large one without.
fn charged(size: u64, spaced: bool) -> u64 {
    occupied(size).unwrap() + if spaced && size < SMALL_LIMIT { ALIGNMENT } else { 0 }
}

fn granules_of(live: &[Allocation], spaced: bool) -> BTreeSet<u64> {
    let spans = live.iter().map(|a| (a.address / GRANULE, (a.address + charged(a.size, spaced) - 1) / GRANULE));
    spans.flat_map(|(first, last)| first..=last).collect()
}

#[test]
fn random_sequences_agree_with_the_model() {
    for seed in 1..=40 {
        let spaced = seed % 4 == 0;
        let mut random = Random(seed * 0x9E37_79B9);
        let quota = 64;
        let mut memory = allocator(quota);
        memory.spaced = spaced;
        let mut live: Vec<Allocation> = Vec::new();
        for step in 0..600 {
            if random.below(5) < 3 || live.is_empty() {
                let size = match random.below(4) {
                    0 => 1 + random.below(4096),
                    1 => 1 + random.below(SMALL_LIMIT - 1),
                    2 => SMALL_LIMIT + random.below(GRANULE),
                    _ => SMALL_LIMIT - 1 + random.below(3),
                };
                match memory.allocate(size) {
                    Ok(address) => {
                        let bytes = occupied(size).unwrap() + u64::from(spaced);
                        assert_eq!(address % if size < SMALL_LIMIT { ALIGNMENT } else { GRANULE }, 0);
                        assert!(address >= BASE && address + bytes <= BASE + 4 * quota * GRANULE);
                        for other in &live {
                            let end = other.address + occupied(other.size).unwrap() + u64::from(spaced);
                            assert!(address >= end || address + bytes <= other.address, "seed {seed} step {step}");
                        }
                        live.push(Allocation { address, size });
                    }
                    Err(refused) => {
                        assert_eq!(refused, Refused::OutOfMemory);
                        // A quarter of the window may be backed, so only the quota can have refused it.
                        let needed = if size < SMALL_LIMIT { GRANULE } else { occupied(size).unwrap() };
                        assert!(memory.available() < needed, "seed {seed} step {step}");
                    }
                }
            } else {
                let index = random.below(live.len() as u64) as usize;
                let gone = live.swap_remove(index);
                assert_eq!(memory.free(gone.address), Ok(()));
                assert_eq!(memory.find(gone.address), None);
            }
            let used = memory.quota() - memory.available();
            assert_eq!(used, granules_of(&live, spaced).len() as u64 * GRANULE, "seed {seed} step {step}");
            if let Some(probe) = live.get(random.below(live.len().max(1) as u64) as usize) {
                assert_eq!(memory.find(probe.address + random.below(probe.size)), Some(*probe));
            }
        }
        for gone in live {
            memory.free(gone.address).unwrap();
        }
        assert_eq!(memory.granules.by_address, BTreeMap::from([(BASE, 4 * quota * GRANULE)]), "seed {seed}");
    }
}

#[test]
fn reserved_memory_costs_quota_while_it_is_backed() {
    let mut memory = allocator(4);
    let (one, two) = (memory.reserve(3 * GRANULE).unwrap(), memory.reserve(3 * GRANULE).unwrap());
    assert!(one != two && memory.find(two + 1).is_some());
    assert_eq!(memory.available(), 4 * GRANULE);
    memory.back(one).unwrap();
    memory.back(one).unwrap();
    assert_eq!((memory.available(), memory.back(two)), (GRANULE, Err(Refused::OutOfMemory)));
    memory.unback(one).unwrap();
    memory.unback(one).unwrap();
    memory.back(two).unwrap();
    assert_eq!(memory.available(), GRANULE);
    memory.free(one).unwrap();
    memory.free(two).unwrap();
    assert_eq!((memory.available(), memory.reserve(5 * GRANULE)), (4 * GRANULE, Err(Refused::OutOfMemory)));
    assert_eq!(memory.granules.by_address.len(), 1);
}

#[test]
fn small_reserved_memory_costs_quota_at_once() {
    let mut memory = allocator(1);
    let small = memory.reserve(100).unwrap();
    assert_eq!(memory.available(), 0);
    memory.unback(small).unwrap();
    memory.back(small).unwrap();
    memory.free(small).unwrap();
    assert_eq!(memory.available(), GRANULE);
}

#[test]
fn reservations_cost_no_quota_and_leave_addresses_to_allocations() {
    let mut memory = Allocator::new(BASE, 100 * GRANULE, 10 * GRANULE);
    let end = BASE + 100 * GRANULE;
    let large = memory.take_range(60 * GRANULE, GRANULE, 0).unwrap();
    assert_eq!((large, memory.available()), (end - 60 * GRANULE, memory.quota()));
    assert_eq!(memory.find(large), None);
    assert_eq!(memory.take_range(21 * GRANULE, GRANULE, 0), Err(Refused::OutOfMemory), "twice the quota is left");
    let small = memory.take_range(4096, GRANULE, 0).unwrap();
    assert_eq!(small, large - GRANULE);
    assert_eq!(memory.allocate(10 * GRANULE), Ok(BASE));
    assert_eq!(memory.free(large), Err(Refused::NotAllocated));
    memory.give_range(large, 60 * GRANULE);
    memory.give_range(small, 4096);
    assert_eq!(memory.take_range(80 * GRANULE, GRANULE, 0), Ok(end - 80 * GRANULE));
}

#[test]
fn reservations_are_aligned_and_take_free_hints() {
    let mut memory = Allocator::new(BASE, 100 * GRANULE, GRANULE);
    let aligned = memory.take_range(GRANULE, 16 * GRANULE, 0).unwrap();
    assert_eq!(aligned % (16 * GRANULE), 0);
    let hint = BASE + 50 * GRANULE;
    assert_eq!(memory.take_range(4 * GRANULE, GRANULE, hint), Ok(hint));
    for taken in [hint, hint + 3 * GRANULE, hint - GRANULE, hint + 4096, 4096, BASE + 99 * GRANULE] {
        let elsewhere = memory.take_range(2 * GRANULE, GRANULE, taken).unwrap();
        assert_ne!(elsewhere, taken);
        memory.give_range(elsewhere, 2 * GRANULE);
    }
    memory.give_range(hint, 4 * GRANULE);
    assert_eq!(memory.take_range(2 * GRANULE, 2 * GRANULE, hint), Ok(hint));
    assert_eq!(memory.take_range(GRANULE, 1 << 60, 0), Err(Refused::OutOfMemory));
    assert_eq!(memory.take_range(u64::MAX, GRANULE, 0), Err(Refused::OutOfMemory));
}
