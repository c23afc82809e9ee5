//! Which images the host holds, by digest.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::mapped::Map;
use super::table;

type Digests = Mutex<Option<HashSet<[u8; 32]>>>;

/// Digests of the images that the host holds.
static HOST_HAS: Digests = Mutex::new(None);
/// Those that Hello named.
static IN_HELLO: Digests = Mutex::new(None);

/// The digests of everything registered so far that has kernels or variables, for Hello.
pub fn digests_for_hello() -> Vec<[u8; 32]> {
    let modules = table::with(|table| table.modules());
    if modules.is_empty() {
        return Vec::new();
    }
    let map = Map::read();
    let digests: HashSet<_> = modules.into_iter().filter_map(|module| module.digest_for_hello(&map)).collect();
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
