//! Which images the host holds, by digest.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::mapped::Map;
use super::table;
use super::Module;

type Digests = Mutex<Option<HashSet<[u8; 32]>>>;

/// Digests of the images that the host holds.
static HOST_HAS: Digests = Mutex::new(None);
/// Those that Hello named.
static IN_HELLO: Digests = Mutex::new(None);

/// Hello names images up to this size, and up to this many bytes in all: naming one takes reading it, and libraries
/// have hundreds, of which a program uses a few. What is not named is cut to what the device runs, hashed and asked for
/// when something of it is needed.
const ANNOUNCED_UP_TO: usize = 1 << 20;
const ANNOUNCED_IN_ALL: usize = 4 << 20;
/// What a host takes.
const MOST_ANNOUNCED: usize = 4096;

/// The digests of what was registered so far and has kernels or variables, for Hello: the smaller images first.
pub fn digests_for_hello() -> Vec<[u8; 32]> {
    let modules = table::with(|table| table.modules());
    if modules.is_empty() {
        return Vec::new();
    }
    let map = Map::read();
    let sized = |module: &'static Module| Some((module.bytes_for_hello(&map)?, module));
    let mut sizes: Vec<_> =
        modules.into_iter().filter_map(sized).filter(|(bytes, _)| *bytes <= ANNOUNCED_UP_TO).collect();
    sizes.sort_unstable_by_key(|(bytes, _)| *bytes);
    let mut left = ANNOUNCED_IN_ALL;
    let fits = |(bytes, _): &(usize, _)| left.checked_sub(*bytes).inspect(|rest| left = *rest).is_some();
    let named = sizes.into_iter().take_while(fits).map(|(_, module)| module);
    let digests: HashSet<_> = named.flat_map(|module| module.digests_for_hello(&map)).take(MOST_ANNOUNCED).collect();
    *lock(&IN_HELLO) = Some(digests.clone());
    digests.into_iter().collect()
}

/// Whether Hello named this image: the host's answer then tells whether it holds it.
pub fn was_in_hello(digest: &[u8; 32]) -> bool {
    lock(&IN_HELLO).as_ref().is_some_and(|digests| digests.contains(digest))
}

/// Notes that the host holds these images.
pub fn host_knows<D: AsRef<[u8]>>(digests: &[D]) {
    let mut known = lock(&HOST_HAS);
    let known = known.get_or_insert_with(HashSet::new);
    known.extend(digests.iter().filter_map(|digest| <[u8; 32]>::try_from(digest.as_ref()).ok()));
}

/// Whether the host holds an image.
pub fn host_has(digest: &[u8; 32]) -> bool {
    lock(&HOST_HAS).as_ref().is_some_and(|known| known.contains(digest))
}

fn lock(digests: &'static Digests) -> MutexGuard<'static, Option<HashSet<[u8; 32]>>> {
    digests.lock().unwrap_or_else(PoisonError::into_inner)
}
