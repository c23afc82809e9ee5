"""What a TLB hierarchy is made of: frozen, typed, checked; every field has its key in the configuration file.

A field's metadata bounds it; `config.py` checks files against it, and a spec built by hand is checked here in the same way.
"""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Iterable
from typing import Any, Literal

from farlane.backend.memory.paging.spec import ADDRESS_BITS, PAGE_4K, PAGE_BYTES, levels_of, shift_of

Scheme = Literal["none", "directory", "probe", "oracle", "perfect"]
Route = Literal["first", "nearest", "cheapest"]
FillRule = Literal["always", "never", "shared-entries"]
Order = Literal["lru", "mru"]


def number(default: int, low: int, high: int) -> Any:
    """A whole number and its bounds."""
    return dataclasses.field(default=default, metadata={"low": low, "high": high})


def choice(default: int, values: tuple[int, ...]) -> Any:
    """A whole number of a list."""
    return dataclasses.field(default=default, metadata={"values": values})


def name(default: str, values: Iterable[str]) -> Any:
    """A name of a list that another module has, such as its policies."""
    return dataclasses.field(default=default, metadata={"values": tuple(values)})


class SpecError(ValueError):
    """A wrong value; the message names the key."""


@functools.cache
def hints_of(kind: Any) -> dict[str, Any]:
    """The types of a class's fields."""
    return typing.get_type_hints(kind)


def check(spec: Any, prefix: str) -> None:
    """Raises SpecError at the first field whose value is of the wrong type or out of bounds."""
    kind: Any = type(spec)
    hints = hints_of(kind)
    for field in dataclasses.fields(spec):
        value, key, hint = getattr(spec, field.name), f"{prefix}{field.name}", hints[field.name]
        if dataclasses.is_dataclass(hint):
            if type(value) is not hint:
                raise SpecError(f"{key}: expected a table, got {value!r}")
            check(value, f"{key}.")
        elif typing.get_origin(hint) is Literal or hint is str:
            names = field.metadata["values"] if hint is str else typing.get_args(hint)
            if value not in names or not isinstance(value, str):
                raise SpecError(f"{key}: expected one of {', '.join(map(repr, names))}, got {value!r}")
        elif hint is int:
            if isinstance(value, bool) or not isinstance(value, int):
                raise SpecError(f"{key}: expected a whole number, got {value!r}")
            values = field.metadata.get("values")
            if values is not None and value not in values:
                raise SpecError(f"{key}: expected one of {', '.join(map(str, values))}, got {value}")
            if values is None and not field.metadata["low"] <= value <= field.metadata["high"]:
                raise SpecError(f"{key}: expected {field.metadata['low']} to {field.metadata['high']}, got {value}")
        else:  # pragma: no cover - a mistake in this file
            raise TypeError(f"{key}: a spec has numbers, names and tables only")


@dataclasses.dataclass(frozen=True)
class Private:
    """The TLB of each core. `mshr` pages may be on their way to a core at once, with `waiting` requests for them."""

    entries: int = number(32, 1, 1 << 16)
    ways: int = number(32, 1, 1 << 16)
    latency: int = number(1, 1, 1000)
    mshr: int = number(16, 1, 256)
    waiting: int = number(64, 1, 1 << 16)


@dataclasses.dataclass(frozen=True)
class Shared:
    """The TLB behind all cores; it accepts `ports` requests in a cycle. Least recently used goes first."""

    entries: int = number(512, 1, 1 << 20)
    ways: int = number(16, 1, 1 << 12)
    latency: int = number(10, 1, 10_000)
    ports: int = number(4, 1, 1024)


@dataclasses.dataclass(frozen=True)
class Walk:
    """The page-walk buffer and its walkers. A walk takes `fixed_cycles`, and `level_cycles` for each entry it reads."""

    walkers: int = number(8, 1, 1024)
    queue: int = number(64, 1, 1 << 12)
    level_cycles: int = number(100, 0, 100_000)
    fixed_cycles: int = number(0, 0, 100_000)
    cache_entries: int = number(128, 0, 1 << 16)


@dataclasses.dataclass(frozen=True)
class Network:
    """The mesh of the private TLBs, `columns` wide; a link takes one message each `link_cycles`."""

    columns: int = number(8, 1, 256)
    hop_cycles: int = number(1, 1, 1000)
    link_cycles: int = number(1, 1, 1000)


@dataclasses.dataclass(frozen=True)
class Directory:
    """The directory beside each private TLB; it knows the TLBs at most `radius` hops away, `update_cycles` late."""

    entries: int = number(128, 1, 1 << 16)
    ways: int = number(16, 1, 1 << 12)
    latency: int = number(0, 0, 1000)
    radius: int = number(2, 1, 510)
    update_cycles: int = number(8, 0, 1000)
    route: Route = "first"


@dataclasses.dataclass(frozen=True)
class Policy:
    """When a private TLB takes an entry, and which one goes for it.

    `fill` is about replies of the shared TLB; `peer_fill` is the how-many-eth reply of a peer that fills, 0 for none. Eviction proposes `candidates`
    entries in the order named and spares those whose sharing degree is `spare_degree` or more; 0 spares none.
    """

    fill: FillRule = "always"
    fill_threshold: int = number(2, 1, 1 << 16)
    peer_fill: int = number(1, 0, 7)
    eviction: Order = "lru"
    candidates: int = number(4, 1, 64)
    spare_degree: int = number(0, 0, 256)


@dataclasses.dataclass(frozen=True)
class Spec:
    """A whole hierarchy. `sharing` says how a private miss looks for a peer; `probe_radius` belongs to the scheme of that name."""

    cores: int = number(64, 1, 256)
    page_bytes: int = choice(PAGE_4K, PAGE_BYTES)
    sharing: Scheme = "none"
    probe_radius: int = number(1, 1, 16)
    private: Private = dataclasses.field(default_factory=Private)
    shared: Shared = dataclasses.field(default_factory=Shared)
    walk: Walk = dataclasses.field(default_factory=Walk)
    network: Network = dataclasses.field(default_factory=Network)
    directory: Directory = dataclasses.field(default_factory=Directory)
    policy: Policy = dataclasses.field(default_factory=Policy)

    def __post_init__(self) -> None:
        self.check()

    def check(self, prefix: str = "") -> None:
        """Raises SpecError; `prefix` goes before the keys named."""
        check(self, prefix)
        for name in ("private", "shared", "directory"):
            part = getattr(self, name)
            if part.entries % part.ways:
                raise SpecError(
                    f"{prefix}{name}.ways: {part.entries} entries are no whole number of sets of {part.ways}"
                )
        if self.cores % self.network.columns:
            raise SpecError(
                f"{prefix}network.columns: {self.cores} cores fill no mesh of {self.network.columns} columns"
            )

    @property
    def page_shift(self) -> int:
        """log2 of the page size."""
        return shift_of(self.page_bytes)

    @property
    def levels(self) -> int:
        """Entries that a full walk reads."""
        return levels_of(self.page_bytes)

    # What it costs in bits, for comparisons at equal cost

    @property
    def private_entry_bits(self) -> int:
        """Virtual page, physical page, valid, writable, and its place in the order of use."""
        order = (self.private.ways - 1).bit_length()
        return 2 * (ADDRESS_BITS - self.page_shift) + 2 + order

    @property
    def directory_entry_bits(self) -> int:
        """Virtual page, one bit per core, the bit of the shared TLB, valid, order of use, and the counter of peers' replies."""
        order = (self.directory.ways - 1).bit_length()
        counter = self.policy.peer_fill.bit_length() if self.policy.peer_fill > 1 else 0
        return ADDRESS_BITS - self.page_shift + self.cores + 2 + order + counter

    @property
    def directory_bits(self) -> int:
        """Of one core; 0 without directories."""
        return self.directory.entries * self.directory_entry_bits if self.sharing == "directory" else 0
