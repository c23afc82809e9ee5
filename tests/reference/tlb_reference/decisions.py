"""The decisions of S3, as pure functions: whom to ask, whether to fill, whom to evict.

The reference calls these. The fast model has the same decisions compiled (compiled/private.py), and the property tests hold it to them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from farlane.backend.memory.tlb.mesh import distance
from farlane.backend.memory.tlb.spec import Spec


def choose_target(spec: Spec, core: int, holders: Sequence[int], shared: bool) -> int | None:
    """Which of the holders, lowest number first, to ask; None to ask the shared TLB instead.

    `first` is S3.3 as it stands. `nearest` takes the fewest hops. `cheapest` is nearest unless the shared TLB has the page and answers no later.
    """
    if spec.directory.route == "first":
        return holders[0]
    columns = spec.network.columns
    target = min(holders, key=lambda other: (distance(core, other, columns), other))
    if spec.directory.route == "cheapest" and shared:
        cycles = 2 * distance(core, target, columns) * spec.network.hop_cycles + spec.private.latency
        if spec.shared.latency <= cycles:
            return None
    return target


def may_fill(spec: Spec, from_peer: bool, replies: int, room: bool, shared_entries: int) -> bool:
    """Whether a reply fills the private TLB. `shared_entries`: how many of the TLB's entries other cores hold too (S3.5).

    An entry that is free is always filled from the shared TLB: nothing is lost by it, and without it no count would ever leave zero.
    """
    policy = spec.policy
    if from_peer:
        return policy.peer_fill > 0 and replies >= policy.peer_fill
    return (
        room or policy.fill == "always" or (policy.fill == "shared-entries" and shared_entries >= policy.fill_threshold)
    )


def choose_victim(spec: Spec, by_use: Sequence[int], degrees: Mapping[int, int]) -> tuple[int, int]:
    """(the entry to evict, candidates spared before it) of a full set, whose pages come least recently used first (S3.6)."""
    policy = spec.policy
    order = list(by_use) if policy.eviction == "lru" else list(reversed(by_use))
    if not policy.spare_degree:
        return order[0], 0
    candidates = order[: policy.candidates]
    for spared, page in enumerate(candidates):
        if degrees[page] < policy.spare_degree:
            return page, spared
    return order[0], len(candidates)
