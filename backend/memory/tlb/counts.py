"""What a model counts, for one kernel or summed over many."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass
class Counts:
    """Whole numbers only, so that two runs can be compared for equality. Cycles are the model's."""

    requests: int = 0
    private_hits: int = 0
    merged: int = 0  # joined a miss of the same core that was under way
    misses: int = 0  # private misses that went out: one per page and stay in the MSHR
    directory_hits: int = 0  # the directory named a peer
    bypassed: int = 0  # it did, and the shared TLB was nearer
    peer_requests: int = 0
    peer_hits: int = 0  # misses that a peer served
    peer_misses: int = 0  # requests to peers that did not have the page (any more)
    shared_accesses: int = 0
    shared_hits: int = 0
    shared_merged: int = 0  # joined a walk that was under way for another core
    walks: int = 0
    walk_reads: int = 0  # entries of the page table read
    walk_cache_hits: int = 0  # walks that began below the root
    faults: int = 0  # walks that found nothing
    fills: int = 0
    fills_refused: int = 0
    evictions: int = 0
    spared: int = 0  # candidates passed over because they are shared
    messages: int = 0
    hops: int = 0
    update_messages: int = 0  # directory updates, one per receiver
    latency: int = 0  # sum over requests, from wanting to look up to having the answer
    stall_cycles: int = 0  # part of it: waiting for an MSHR
    network_wait: int = 0  # messages waiting for links and for the port of the private TLB they ask
    shared_wait: int = 0  # requests waiting for a port of the shared TLB, or because the page-walk buffer is full
    walk_wait: int = 0  # walks waiting for a walker
    walk_cycles: int = 0  # walkers at work
    cycles: int = 0  # from the first request to the last answer

    @property
    def mean_latency(self) -> float:
        """Cycles per request."""
        return self.latency / self.requests if self.requests else 0.0

    @property
    def peer_share(self) -> float:
        """Of the private misses, those that a peer served."""
        return self.peer_hits / self.misses if self.misses else 0.0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(a + b for a, b in zip(dataclasses.astuple(self), dataclasses.astuple(other), strict=True)))


NAMES = tuple(field.name for field in dataclasses.fields(Counts))
