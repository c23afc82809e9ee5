"""Compute capabilities that the simulated device can have, and what differs between them.

Owns one table. Does not own what is the same on all of them (`specification.py`).

Source: CUDA programming guide, "Technical specifications per compute capability" and "Arithmetic instructions".
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Capability:
    """What a multiprocessor has, and what a block may have; shared memory in KiB."""

    threads: int  # resident on a multiprocessor
    blocks: int  # resident on a multiprocessor
    shared: int  # of a multiprocessor
    shared_opt_in: int  # the most of a block, when the program asks for more than 48
    shared_reserved: int  # what the system takes of each block
    single_to_double: int  # throughput of float over that of double
    clusters: bool

    @property
    def tensor_maps(self) -> bool:
        """Tensor copies came with clusters."""
        return self.clusters


CAPABILITIES: dict[tuple[int, int], Capability] = {
    (7, 5): Capability(1024, 16, 64, 64, 0, 32, clusters=False),
    (8, 0): Capability(2048, 32, 164, 163, 1, 2, clusters=False),
    (8, 6): Capability(1536, 16, 100, 99, 1, 64, clusters=False),
    (9, 0): Capability(2048, 32, 228, 227, 1, 2, clusters=True),
    (12, 0): Capability(1536, 24, 100, 99, 1, 64, clusters=True),
}
DEFAULT = (12, 0)


def names() -> list[str]:
    return [f"{major}.{minor}" for major, minor in CAPABILITIES]


def parse(text: str) -> tuple[int, int]:
    """The capability that a user has written.

    Raises:
        ValueError: there is none of that name; the message says which there are.
    """
    for capability, name in zip(CAPABILITIES, names(), strict=True):
        if text == name:
            return capability
    raise ValueError(f"the simulated device has no compute capability {text!r}; choose one of {', '.join(names())}")
