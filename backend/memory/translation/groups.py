"""A mapping group, and what a lookup means.

A group maps `length` bytes from `start` to `physical`, linearly. Groups may overlap. Of the enabled groups that hold an address, the one with the
lowest priority number translates it: priority 0 comes first. Priorities are distinct, those of disabled groups too, so that enabling a group
never makes two answers possible.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

ADDRESS_BITS = 57  # what five levels of page tables reach


class TranslationError(ValueError):
    """A group or an edit that the table cannot have."""


class Translation(NamedTuple):
    """Where an address is, and the group that says so."""

    physical: int
    group: int


@dataclass(frozen=True, slots=True)
class Group:
    """Addresses `start` to `start + length - 1` are at `physical` and on. Bytes."""

    number: int
    start: int
    physical: int
    length: int
    priority: int
    enabled: bool = True

    def __post_init__(self) -> None:
        if self.length < 1:
            raise TranslationError(f"group {self.number}: a length of {self.length} bytes")
        for name, address in (("start", self.start), ("physical", self.physical)):
            if address < 0 or address + self.length > 1 << ADDRESS_BITS:
                raise TranslationError(
                    f"group {self.number}: {name} {address:#x} with {self.length:#x} bytes is outside {ADDRESS_BITS} bits"
                )
        if self.priority < 0:
            raise TranslationError(f"group {self.number}: priority {self.priority} is negative")

    @property
    def end(self) -> int:
        return self.start + self.length

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
