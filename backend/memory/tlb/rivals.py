"""The hierarchies that a directory is compared with, derived from its spec: all else equal.

none            no sharing, every reply fills, least recently used goes: the fair baseline
larger          the same, with the directory's bits spent on the private TLB
probe           asks all neighbours within a radius, without a directory
oracle          knows at no cost which private TLB has a page, now; no contention on the network
perfect         every request is a private hit
"""

from __future__ import annotations

import dataclasses

from farlane.backend.memory.tlb.spec import Policy, Spec


def baseline(spec: Spec) -> Spec:
    """No sharing."""
    return dataclasses.replace(spec, sharing="none", policy=Policy())


def larger(spec: Spec) -> Spec:
    """No sharing, and a private TLB larger by as many entries as the directory's bits would make, rounded up to whole sets."""
    extra = -(-spec.directory_bits // spec.private_entry_bits)
    sets = -(-(spec.private.entries + extra) // spec.private.ways)
    private = dataclasses.replace(spec.private, entries=sets * spec.private.ways)
    return dataclasses.replace(baseline(spec), private=private)


def probe(spec: Spec, radius: int = 1) -> Spec:
    """Every miss asks all neighbours."""
    return dataclasses.replace(baseline(spec), sharing="probe", probe_radius=radius)


def oracle(spec: Spec) -> Spec:
    """A peer that has the page serves every miss, unless the shared TLB would serve it no later."""
    directory = dataclasses.replace(spec.directory, route="cheapest")
    return dataclasses.replace(baseline(spec), sharing="oracle", directory=directory)


def perfect(spec: Spec) -> Spec:
    """Nothing ever misses."""
    return dataclasses.replace(baseline(spec), sharing="perfect")


def rivals(spec: Spec) -> dict[str, Spec]:
    """All of them, by name."""
    return {
        "none": baseline(spec),
        "larger": larger(spec),
        "probe": probe(spec),
        "oracle": oracle(spec),
        "perfect": perfect(spec),
    }
