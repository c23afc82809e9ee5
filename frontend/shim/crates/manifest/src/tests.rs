//! The reader on good, damaged and random manifests.

mod expressions;

use crate::sample::{nested, seal, Sample};
use crate::{Machine, Manifest, DEFER_READ, LOCAL_SYNC, MAX_BYTES};

/// Registers are 100 times their number; memory is its address.
struct Numbers;

impl Machine for Numbers {
    fn register(&self, number: u8) -> Option<u64> {
        Some(u64::from(number) * 100)
    }

    fn frame(&self, offset: u32, size: u8) -> Option<u64> {
        (offset < 60000).then(|| u64::from(offset) << 8 | u64::from(size))
    }

    fn global(&self, address: u64, _size: u8) -> Option<u64> {
        (address != 0).then_some(address)
    }
}

/// A generator that needs no crate (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

#[test]
fn a_manifest_is_read() {
    let manifest = Manifest::parse(nested().bytes()).expect("good");
    assert_eq!(manifest.identity.hex(), "ab".repeat(20));
    let sites: Vec<_> = manifest.sites().collect();
    assert_eq!(sites.iter().map(|site| site.return_address).collect::<Vec<_>>(), [0x1010, 0x1020, 0x2000]);
    assert_eq!((sites[0].permissions, sites[1].permissions), (LOCAL_SYNC, DEFER_READ));
    assert_eq!(sites[0].more, None);
    assert_eq!(manifest.name_of(&sites[1]), "cudaMemcpy");
    assert_eq!(manifest.proof_of(&sites[1]), Some("the destination is not read"));
    assert_eq!(manifest.proof_of(&sites[2]), None);
    assert_eq!(manifest.expression(sites[1].remaining.unwrap()).unwrap().evaluate(&Numbers), Some(1199));
    assert_eq!(manifest.expression(sites[1].more.unwrap()).unwrap().evaluate(&Numbers), Some(1));
    let arguments: Vec<_> = manifest.arguments(&sites[1]).collect();
    assert_eq!(arguments.iter().map(|a| (a.index, a.kind, a.value)).collect::<Vec<_>>()[5], (5, 5, -5));
    assert_eq!(arguments.len(), 6);
    let inner = manifest.loop_at(2).unwrap();
    assert_eq!((inner.parent, inner.class, inner.line, manifest.function_of(&inner)), (Some(0), 1, 77, "main"));
    let within: Vec<_> = [(0, 0), (1, 0), (2, 0), (2, 1), (0, 1), (2, 2), (9, 0)]
        .map(|(inner, outer)| manifest.is_within(inner, outer))
        .to_vec();
    assert_eq!(within, [true, true, true, false, false, true, false]);
}

#[test]
fn a_site_is_found_by_its_return_address() {
    let manifest = Manifest::parse(nested().bytes()).expect("good");
    for (index, site) in (0..).zip(manifest.sites()) {
        assert_eq!(manifest.site_at(site.return_address).map(|(at, found)| (at, found.name)), Some((index, site.name)));
    }
    assert_eq!(manifest.site_count(), 3);
    assert!([0, 0x100F, 0x1011, 0x1021, 0x2001, u64::MAX].iter().all(|address| manifest.site_at(*address).is_none()));
}

#[test]
fn whose_manifest_bytes_are_is_told_by_their_header() {
    let bytes = nested().bytes();
    let identity = Manifest::parse(&bytes).expect("good").identity;
    assert!(Manifest::is_of(&bytes, &identity));
    let mut damaged = bytes.clone();
    *damaged.last_mut().expect("bytes") ^= 1; // that is for `parse`
    assert!(Manifest::is_of(&damaged, &identity) && Manifest::parse(&damaged).is_err());
    for at in [0, 8, 12, 24, 25, 32] {
        let mut other = bytes.clone();
        other[at] ^= 0x40;
        assert!(!Manifest::is_of(&other, &identity), "{at}");
    }
    assert!((0..bytes.len()).all(|length| !Manifest::is_of(&bytes[..length], &identity)));
}

#[test]
fn an_empty_manifest_is_a_manifest() {
    assert_eq!(Manifest::parse(Sample::default().bytes()).map(|manifest| manifest.sites().count()), Ok(0));
}

#[test]
fn each_broken_rule_is_named() {
    let good = nested();
    let rule = |bytes: Vec<u8>| Manifest::parse(&bytes).expect_err("broken").rule;
    let poked = |at: usize, value: u8| {
        let mut bytes = good.bytes();
        bytes[at] = value;
        if !(16..24).contains(&at) {
            seal(&mut bytes);
        }
        rule(bytes)
    };
    let site = |index: usize| 88 + 40 * index;
    let in_loop = |index: usize| site(3) + 32 * index;
    for (at, value, words) in [
        (0, 0, "FARLANEM"),
        (8, 0, "version"),
        (8, 5, "version"),
        (12, 0, "length"),
        (16, 0, "checksum"),
        (24, 3, "identity is a build-id"),
        (25, 0, "identity is a build-id"),
        (25, 33, "identity is a build-id"),
        (63, 1, "padded"),
        (28, 8, "flags"),
        (26, 1, "reserved"),
        (84, 1, "reserved"),
        (64, 4, "tables fill"),
        (76, 200, "tables fill"),
        (site(1) + 1, 0, "rising"),
        (site(0) + 8, 3, "loop exists"),
        (site(0) + 14, 8, "flags and permissions"),
        (site(0) + 15, 8, "flags and permissions"),
        (site(1) + 16, 1, "operation"),
        (site(1) + 18, 1, "END"),
        (site(1) + 24, 1, "start of one"),
        (site(1) + 36, 7, "arguments exist"),
        (in_loop(0) + 16, 0, "parent"),
        (in_loop(1) + 16, 1, "parent"),
        (in_loop(1) + 20, 5, "class"),
        (in_loop(3) + 1, 6, "argument's kind"),
        (in_loop(3) + 2, 3, "argument's kind"),
        (in_loop(3) + 3, 1, "argument's kind"),
        (in_loop(3) + 4, 1, "version 2"),
    ] {
        let found = poked(at, value);
        assert!(found.contains(words), "{at} = {value}: {found}");
    }
    let mut long = good.bytes();
    long.push(0);
    assert!(rule(long).contains("length"));
    assert!(rule(vec![0; MAX_BYTES + 1]).contains("16 MiB"));
    assert!(rule(b"FARLANEM".to_vec()).contains("header"));
    let mut texts = nested();
    texts.texts.push(0xff);
    assert!(rule(texts.bytes()).contains("UTF-8"));
    let mut padding = nested();
    padding.code.push(0);
    let mut bytes = padding.bytes();
    let end = bytes.len() - padding.texts.len().next_multiple_of(8) - 1;
    bytes[end] = 1;
    seal(&mut bytes);
    assert!(rule(bytes).contains("padding"));
}

#[test]
fn slices_stand_behind_the_tables_from_version_3_on() {
    let good = nested().bytes();
    let with = |version: u8, said: u32| {
        let mut bytes = good.clone();
        bytes[8] = version;
        bytes.extend([7; 16]);
        let length = bytes.len() as u32;
        bytes[12..16].copy_from_slice(&length.to_le_bytes());
        bytes[84..88].copy_from_slice(&said.to_le_bytes());
        seal(&mut bytes);
        Manifest::parse(&bytes)
    };
    let (plain, sliced) = (Manifest::parse(&good).expect("good"), with(3, 16).expect("good"));
    assert_eq!(plain.sites().count(), sliced.sites().count());
    for (version, said, words) in
        [(2, 16, "reserved"), (3, 8, "tables fill"), (3, 24, "tables fill"), (3, 0, "tables fill")]
    {
        let found = with(version, said).expect_err("broken").rule;
        assert!(found.contains(words), "{version} {said}: {found}");
    }
}

#[test]
fn first_values_are_read_from_version_2_on() {
    let good = nested();
    let argument = 88 + 40 * 3 + 32 * 3 + 16;
    let with = |width: u8, first: u32| {
        let mut bytes = good.bytes();
        bytes[8] = 2;
        bytes[argument + 2] = width;
        bytes[argument + 4..argument + 8].copy_from_slice(&first.to_le_bytes());
        seal(&mut bytes);
        Manifest::parse(&bytes)
    };
    let first = |manifest: &Manifest| {
        let arguments: Vec<_> =
            manifest.sites().flat_map(|site| manifest.arguments(&site).collect::<Vec<_>>()).collect();
        arguments[1].first
    };
    assert_eq!(first(&with(4, 0).expect("good")), None);
    let code = good.sites[1][16..20].try_into().map(u32::from_le_bytes).unwrap();
    let manifest = with(8, code + 1).expect("good");
    assert_eq!(manifest.expression(first(&manifest).unwrap()).unwrap().evaluate(&Numbers), Some(1));
    for (width, first, words) in [(0, code + 1, "has a width"), (4, code + 2, ""), (4, u32::MAX, "")] {
        let found = with(width, first).expect_err("broken").rule;
        assert!(found.contains(words), "{width} {first}: {found}");
    }
}

/// Everything that a user of a manifest can ask.
fn use_all(manifest: &Manifest) -> usize {
    let mut seen = 0;
    for site in manifest.sites() {
        seen += manifest.name_of(&site).len() + manifest.proof_of(&site).map_or(0, str::len);
        seen += manifest.arguments(&site).count();
        for code in [site.more, site.remaining].into_iter().flatten() {
            seen += usize::from(manifest.expression(code).unwrap().evaluate(&Numbers).is_some());
        }
        seen += usize::from(manifest.is_within(site.in_loop, 0));
    }
    seen + manifest.loops().map(|each| manifest.function_of(&each).len()).sum::<usize>()
}

#[test]
fn damaged_manifests_are_refused_or_read_and_never_panic() {
    let mut random = Random(2);
    let good = nested().bytes();
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..fuzzing::inputs(60_000) {
        let mut bytes = good.clone();
        for _ in 0..=random.below(3) {
            match random.below(4) {
                0 => bytes.truncate(random.below(bytes.len()) + 1),
                1 => bytes.extend(vec![random.next() as u8; random.below(64)]),
                _ => {
                    let at = random.below(bytes.len());
                    bytes[at] = if random.below(2) == 0 { random.next() as u8 } else { 0xff };
                }
            }
        }
        if bytes.len() >= 16 && random.below(4) > 0 {
            let length = bytes.len() as u32;
            bytes[12..16].copy_from_slice(&length.to_le_bytes());
        }
        seal(&mut bytes);
        match Manifest::parse(&bytes) {
            Ok(manifest) => {
                accepted += 1;
                use_all(&manifest);
            }
            Err(broken) => {
                refused += 1;
                assert!(!broken.to_string().is_empty());
            }
        }
    }
    assert!(accepted > 1_000 && refused > 10_000, "{accepted} {refused}");
}

#[test]
fn random_bytes_are_refused() {
    let mut random = Random(3);
    for _ in 0..fuzzing::inputs(20_000) {
        let length = random.below(400);
        let mut bytes: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        if length >= 88 {
            bytes[..12].copy_from_slice(b"FARLANEM\x01\0\0\0");
            bytes[12..16].copy_from_slice(&(length as u32).to_le_bytes());
            bytes[24..26].copy_from_slice(&[1, 32]);
            bytes[64..88].fill(0);
            bytes[64] = random.below(8) as u8;
            bytes[68] = random.below(8) as u8;
            seal(&mut bytes);
        }
        if let Ok(manifest) = Manifest::parse(&bytes) {
            use_all(&manifest);
        }
    }
}

#[test]
fn a_manifest_whose_entries_share_a_long_text_is_read_in_linear_time() {
    let mut sample = Sample::default();
    let name = sample.text(&"x".repeat(65_535));
    sample.add_loop(u32::MAX, name);
    for address in 0..200_000 {
        sample.add_site(address, 0, [0, u32::MAX, u32::MAX, name, name, 0, 0]);
    }
    assert_eq!(Manifest::parse(sample.bytes()).map(|manifest| manifest.sites().count()), Ok(200_000));
}
