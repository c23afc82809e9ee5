//! Where a module's image is in memory, and its digest.
//!
//! A wrapper of version 1 points to one container. One of version 2 (`nvcc -rdc=true`) points to the device-linked
//! machine code and to the containers it was linked from: the first is taken when the device runs it, otherwise the
//! others that the device can run: they travel as one joined image, which the host links.

use std::borrow::Cow;
use std::fmt;

use image::{container_length, Container, Error, Target, Wrapper, CONTAINER_HEADER, WRAPPER_SIZE};

use crate::module::mapped::{self, Map};
use session::{callers, frame};

const MOST_LINKED: u64 = image::MOST_PARTS as u64;

/// Where an image comes from.
#[derive(Debug)]
pub enum Origin {
    /// The address that was passed to `__cudaRegisterFatBinary`.
    Wrapper(usize),
    /// A fat binary that was loaded at run time and stays in the program's memory.
    Memory(&'static [u8]),
    /// Loaded at run time, in memory of ours.
    Bytes(Vec<u8>),
}

/// An image that was found.
#[derive(Debug)]
pub struct Source {
    pub digest: [u8; 32],
    /// For wrappers: the container in the program's memory, which stays there until it is unregistered, or what several
    /// were joined to.
    container: Cow<'static, [u8]>,
    /// What the host gets of it: the entry that its device runs, where there are others.
    cut: Option<Vec<u8>>,
}

impl Origin {
    /// The fat binary, where it is known to be one that lies in memory.
    pub fn container(&self) -> Option<&[u8]> {
        match self {
            Origin::Memory(container) => Some(container),
            Origin::Bytes(bytes) => container_length(bytes).is_ok().then_some(bytes),
            Origin::Wrapper(_) => None,
        }
    }

    /// Whether the choice of the image depends on the device: not for the plain kind.
    pub fn needs_device(&self, map: &Map) -> bool {
        match self {
            Origin::Bytes(_) | Origin::Memory(_) => false,
            Origin::Wrapper(address) => read_wrapper(map, *address).is_ok_and(|wrapper| wrapper.to_link.is_some()),
        }
    }
}

/// Who makes the current call, for messages about what it loads.
pub fn loader() -> String {
    callers::file_at(frame::site()).map_or_else(|| "the program".to_owned(), |file| file.display().to_string())
}

/// Names the file that the image came with, or, of one loaded at run time, that of the code that makes the current
/// call.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = match self {
            Origin::Wrapper(address) => *address,
            Origin::Memory(container) => container.as_ptr() as usize,
            Origin::Bytes(_) => return write!(f, "an image that {} loads", loader()),
        };
        let file = callers::file_at(address).map(|file| file.display().to_string());
        write!(f, "the GPU code of {}", file.unwrap_or_else(|| "an unknown file".to_owned()))
    }
}

impl Origin {
    /// How long a registered image is, as far as its headers tell.
    pub fn registered_bytes(&self, map: &Map) -> Option<usize> {
        let Origin::Wrapper(address) = self else { return None };
        let wrapper = read_wrapper(map, *address).ok()?;
        container_length(read(map, wrapper.container, CONTAINER_HEADER, "the fat binary").ok()?).ok()
    }
}

impl Origin {
    /// The image, where it is in memory of ours.
    fn own(&self) -> Option<&[u8]> {
        match self {
            Origin::Bytes(bytes) => Some(bytes),
            Origin::Wrapper(_) | Origin::Memory(_) => None,
        }
    }
}

impl Source {
    /// Finds the image. Without a target, which [`Origin::needs_device`] may ask for, the host gets the whole of it.
    pub fn find(origin: &Origin, target: Option<&Target>, map: &Map) -> Result<Source, Error> {
        let container = locate(origin, target, map)?;
        let bytes = origin.own().unwrap_or(&container);
        let cut = target.and_then(|target| image::cut(bytes, target));
        let digest = image::digest(cut.as_deref().unwrap_or(bytes));
        Ok(Source { digest, container, cut })
    }

    /// The digests of what devices get of an image, where that is less than the whole.
    pub fn digests_of_cuts(origin: &Origin, map: &Map) -> Option<Vec<[u8; 32]>> {
        let container = locate(origin, None, map).ok()?;
        image::digests_of_cuts(origin.own().unwrap_or(&container))
    }

    /// The bytes that the host gets.
    pub fn sent<'a>(&'a self, origin: &'a Origin) -> Result<&'a [u8], Error> {
        self.cut.as_deref().map_or_else(|| self.bytes(origin), Ok)
    }

    /// The image's bytes, where they are still there: the object that they are part of may have been unloaded since
    /// they were found.
    pub fn bytes<'a>(&'a self, origin: &'a Origin) -> Result<&'a [u8], Error> {
        if let Some(bytes) = origin.own() {
            return Ok(bytes);
        }
        match &self.container {
            Cow::Owned(joined) => Ok(joined),
            Cow::Borrowed(container) => {
                let readable = mapped::around(container.as_ptr() as u64).map_or(0, |memory| memory.readable);
                let gone = || Error::Malformed("the fat binary is no longer in memory".to_owned());
                (readable >= container.len()).then_some(*container).ok_or_else(gone)
            }
        }
    }
}

/// The image in the program's memory; nothing where it is in memory of ours.
fn locate(origin: &Origin, target: Option<&Target>, map: &Map) -> Result<Cow<'static, [u8]>, Error> {
    let address = match origin {
        Origin::Wrapper(address) => *address,
        Origin::Bytes(_) => return Ok(Cow::Borrowed(&[])),
        // The object that it was part of may have been unloaded.
        Origin::Memory(container) => {
            return read(map, container.as_ptr() as u64, container.len(), "the fat binary").map(Cow::Borrowed);
        }
    };
    let wrapper = read_wrapper(map, address)?;
    let first = read_container(map, wrapper.container)?;
    match (wrapper.to_link, target) {
        (Some(array), Some(target)) => choose_linked(map, first, array, target),
        _ => Ok(Cow::Borrowed(first)),
    }
}

fn choose_linked(map: &Map, linked: &'static [u8], array: u64, target: &Target) -> Result<Cow<'static, [u8]>, Error> {
    let meant = |image: &&'static [u8]| Container::parse(image).is_ok_and(|container| container.is_meant_for(target));
    let runs = |image: &&'static [u8]| Container::parse(image).is_ok_and(|container| container.runs_on(target));
    if meant(&linked) {
        return Ok(Cow::Borrowed(linked));
    }
    let (mut usable, mut others, mut first) = (Vec::new(), Vec::new(), None);
    for index in 0..MOST_LINKED {
        let entry = read(map, array + index * 8, 8, "the list of containers to link")?;
        let address = u64::from_le_bytes(entry.try_into().unwrap_or_default());
        if address == 0 {
            break;
        }
        let container = read_container(map, address)?;
        first.get_or_insert(container);
        usable.extend(Some(container).filter(meant));
        others.extend(Some(container).filter(runs));
    }
    // Those that only a device runs that takes any PTX: all or none, so that no function is linked twice.
    if usable.is_empty() {
        usable = others;
    }
    Ok(match usable[..] {
        [only] => Cow::Borrowed(only),
        // Reading it will say what is there and what the device takes.
        [] if is_empty(linked) => Cow::Borrowed(first.unwrap_or(linked)),
        [] => Cow::Borrowed(linked),
        _ => Cow::Owned(image::join(&usable)),
    })
}

fn is_empty(image: &[u8]) -> bool {
    image.len() <= CONTAINER_HEADER
}

fn read_wrapper(map: &Map, address: usize) -> Result<Wrapper, Error> {
    Wrapper::parse(read(map, address as u64, WRAPPER_SIZE, "the fat binary wrapper")?)
}

fn read_container(map: &Map, address: u64) -> Result<&'static [u8], Error> {
    let header = read(map, address, CONTAINER_HEADER, "the fat binary")?;
    read(map, address, container_length(header)?, "the fat binary")
}

fn read(map: &Map, address: u64, length: usize, what: &str) -> Result<&'static [u8], Error> {
    // SAFETY: what the program registered stays as it is until it is unregistered.
    unsafe { map.slice(address, length) }
        .ok_or_else(|| Error::Malformed(format!("{what} of {length} bytes at {address:#x} is not readable memory")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Target = Target { compute: (7, 5), takes_ptx: true, takes_machine_code: false, takes_any_ptx: false };

    /// A container with one stored PTX entry, or none.
    fn container(architecture: Option<u32>) -> Vec<u8> {
        let mut entry = Vec::new();
        if let Some(architecture) = architecture {
            entry.extend([1, 0, 1, 1]);
            entry.extend(64u32.to_le_bytes());
            entry.resize(28, 0);
            entry.extend(architecture.to_le_bytes());
            entry.resize(64, 0);
        }
        let mut image = 0xBA55_ED50u32.to_le_bytes().to_vec();
        image.extend([1, 0, 16, 0]);
        image.extend((entry.len() as u64).to_le_bytes());
        image.extend(entry);
        image
    }

    fn wrapper(version: u32, container: &[u8], array: &[u64]) -> Vec<u8> {
        let mut wrapper = 0x4662_43B1u32.to_le_bytes().to_vec();
        wrapper.extend(version.to_le_bytes());
        wrapper.extend((container.as_ptr() as u64).to_le_bytes());
        wrapper.extend((array.as_ptr() as u64).to_le_bytes());
        wrapper
    }

    fn find(wrapper: &[u8]) -> Result<Vec<u8>, Error> {
        let origin = Origin::Wrapper(wrapper.as_ptr() as usize);
        Source::find(&origin, Some(&TARGET), &Map::read())?.bytes(&origin).map(<[u8]>::to_vec)
    }

    #[test]
    fn a_plain_wrapper_names_its_container() {
        let image = container(Some(75));
        let plain = wrapper(1, &image, &[]);
        assert_eq!(find(&plain).unwrap(), image);
        assert!(!Origin::Wrapper(plain.as_ptr() as usize).needs_device(&Map::read()));
    }

    #[test]
    fn of_what_was_linked_the_usable_ones_are_taken() {
        let (empty, usable, other) = (container(None), container(Some(70)), container(Some(121)));
        let addresses =
            |images: &[&Vec<u8>]| -> Vec<u64> { images.iter().map(|image| image.as_ptr() as u64).chain([0]).collect() };
        let one = addresses(&[&other, &usable]);
        assert_eq!(find(&wrapper(2, &empty, &one)).unwrap(), usable);
        let two = addresses(&[&usable, &usable]);
        assert_eq!(find(&wrapper(2, &empty, &two)).unwrap(), image::join(&[&usable, &usable]));
        assert_eq!(find(&wrapper(2, &usable, &two)).unwrap(), usable);
        let none = addresses(&[&other]);
        assert_eq!(find(&wrapper(2, &empty, &none)).unwrap(), other);
        let linked = wrapper(2, &empty, &none);
        assert!(Origin::Wrapper(linked.as_ptr() as usize).needs_device(&Map::read()));
    }

    #[test]
    fn addresses_that_lead_nowhere_are_errors() {
        let map = Map::read();
        assert!(Source::find(&Origin::Wrapper(0), None, &map).is_err());
        assert!(Source::find(&Origin::Wrapper(4096), None, &map).is_err());
        let image = container(Some(75));
        let mut nowhere = wrapper(1, &image, &[]);
        nowhere[8..16].copy_from_slice(&0x10u64.to_le_bytes());
        assert!(find(&nowhere).is_err());
        let mut huge = container(Some(75));
        huge[8..16].copy_from_slice(&(1u64 << 30).to_le_bytes());
        let points_to_huge = wrapper(1, &huge, &[]);
        // A gigabyte behind a test's own bytes is not all mapped.
        assert!(find(&points_to_huge).is_err());
    }
}
