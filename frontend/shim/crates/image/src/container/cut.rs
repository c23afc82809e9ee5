//! What the host gets of an image: of a fat binary the entry that its device runs, as it is stored there, in a
//! container of its own.
//!
//! A library's fat binaries have code for many architectures, of which a device runs one. The cut is made before the
//! image gets its digest, so that images with the same code for the device are the same image, whatever else they hold.

use std::borrow::Cow;

use super::joined;
use crate::container::{container_length, Container, Entry, Kind, CONTAINER_HEADER, CONTAINER_MAGIC};
use crate::digest;
use crate::select::{self, Target};

/// The image without what the target does not run. `None` where there is nothing to leave out, and for what is damaged
/// or has nothing for the target: reading the whole tells what is wrong with it.
#[must_use]
pub fn cut(image: &[u8], target: &Target) -> Option<Vec<u8>> {
    if !joined::is_joined(image) {
        return cut_container(image, target);
    }
    let cut = |part| cut_container(part, target).map_or(Cow::Borrowed(part), Cow::Owned);
    let parts: Vec<Cow<'_, [u8]>> = joined::parts(image).ok()?.into_iter().map(cut).collect();
    let any = parts.iter().any(|part| matches!(part, Cow::Owned(_)));
    any.then(|| joined::join(&parts.iter().map(AsRef::as_ref).collect::<Vec<_>>()))
}

/// The digests of what some device gets of the image, without knowing which: one for each entry that holds code. `None`
/// where there is nothing to leave out.
#[must_use]
pub fn digests_of_cuts(image: &[u8]) -> Option<Vec<[u8; 32]>> {
    let container = divisible(image)?;
    let code = container.entries.iter().filter(|entry| !matches!(entry.kind, Kind::Other(_)));
    Some(code.map(|entry| digest::digest_of_two(&header(image, entry), entry.whole)).collect())
}

fn cut_container(data: &[u8], target: &Target) -> Option<Vec<u8>> {
    let container = divisible(data)?;
    let chosen = select::choose(&container, target).ok()?;
    Some([&header(data, chosen)[..], chosen.whole].concat())
}

/// The container that `data` begins with, where it is more than one entry, or more follows.
fn divisible(data: &[u8]) -> Option<Container<'_>> {
    let container = Container::parse(data).ok()?;
    let more = container.entries.len() > 1 || container_length(data).is_ok_and(|length| length < data.len());
    more.then_some(container)
}

/// The header of the container that has this entry alone.
fn header(data: &[u8], entry: &Entry<'_>) -> [u8; CONTAINER_HEADER] {
    let mut header = [0; CONTAINER_HEADER];
    header[..4].copy_from_slice(&CONTAINER_MAGIC.to_le_bytes());
    header[4..6].copy_from_slice(&data[4..6]);
    header[6..8].copy_from_slice(&(CONTAINER_HEADER as u16).to_le_bytes());
    header[8..].copy_from_slice(&(entry.whole.len() as u64).to_le_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{container, entry};

    const LZ4: u64 = 0x2000;
    const TARGET: Target = Target { compute: (9, 0), takes_ptx: true, takes_machine_code: false, takes_any_ptx: false };

    fn several() -> (Vec<u8>, Vec<u8>) {
        let chosen = entry(1, 80, LZ4, b"compressed");
        let others = [entry(2, 90, 0, b"cubin"), chosen.clone(), entry(1, 120, 0, b"later"), entry(8, 90, 0, b"else")];
        (container(&others), container(&[chosen]))
    }

    #[test]
    fn a_container_is_cut_to_what_the_target_runs() {
        let (whole, chosen) = several();
        assert_eq!(cut(&whole, &TARGET), Some(chosen.clone()));
        assert_eq!(cut(&chosen, &TARGET), None, "nothing to leave out");
        assert_eq!(cut(&[&chosen[..], b"more"].concat(), &TARGET), Some(chosen));
        assert_eq!(cut(&container(&[entry(2, 90, 0, b""), entry(2, 80, 0, b"")]), &TARGET), None);
        for length in 0..whole.len() {
            assert_eq!(cut(&whole[..length], &TARGET), None, "{length}");
        }
    }

    #[test]
    fn the_parts_of_a_joined_image_are_cut() {
        let (whole, chosen) = several();
        let text: &[u8] = b".version 8.0";
        assert_eq!(cut(&joined::join(&[&whole, text]), &TARGET), Some(joined::join(&[&chosen, text])));
        assert_eq!(cut(&joined::join(&[&chosen, text]), &TARGET), None);
        assert_eq!(cut(&joined::join(&[&whole, text])[..40], &TARGET), None);
    }

    #[test]
    fn whatever_device_it_is_the_digest_is_among_those_named_ahead() {
        let (whole, chosen) = several();
        let named = digests_of_cuts(&whole).unwrap();
        assert_eq!(named.len(), 3);
        for (compute, takes_machine_code) in [((8, 0), false), ((9, 0), false), ((9, 0), true), ((12, 0), false)] {
            let sent = cut(&whole, &Target { compute, takes_machine_code, ..TARGET }).unwrap();
            assert!(named.contains(&crate::digest(&sent)), "{compute:?}");
        }
        assert_eq!(digests_of_cuts(&chosen), None);
        assert_eq!(digests_of_cuts(b"no image"), None);
    }
}
