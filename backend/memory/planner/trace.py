"""What a program accesses: objects with sizes, and steps that touch some of them at once.

A step is a kernel launch or a copy: all its objects must be in device memory together. `reads`: the step needs what the object held before; an access that
only writes replaces all of it. An object begins without content (nothing has to be fetched for its first access) unless its first access reads, which is
taken to mean that its content is on the host. What an object holds after its last access is not needed, unless it is `kept`.

`Trace.from_json` reads untrusted files: everything is bounded, and what is wrong is named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

MOST_OBJECTS = 100_000
MOST_ACCESSES = 5_000_000
MOST_BYTES = 1 << 57


class TraceError(ValueError):
    """A trace that means nothing."""


@dataclass(frozen=True, slots=True)
class Access:
    """One object in one step."""

    object: int
    reads: bool = True
    writes: bool = False


@dataclass(frozen=True)
class Trace:
    """`sizes`: bytes of each object, by number. `steps`: in order; within a step no object twice. `memory`: device bytes. `kept`: needed at the end."""

    sizes: Sequence[int]
    steps: Sequence[Sequence[Access]]
    memory: int
    kept: frozenset[int] = field(default_factory=frozenset)
    names: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.memory < 1:
            raise TraceError(f"a device memory of {self.memory} bytes")
        if len(self.sizes) > MOST_OBJECTS:
            raise TraceError(f"{len(self.sizes)} objects, at most {MOST_OBJECTS} are planned")
        if self.names and len(self.names) != len(self.sizes):
            raise TraceError(f"{len(self.names)} names for {len(self.sizes)} objects")
        for number, size in enumerate(self.sizes):
            if not 0 < size < MOST_BYTES:
                raise TraceError(f"object {number} has {size} bytes")
        total = 0
        for place, step in enumerate(self.steps):
            total += len(step)
            objects = {access.object for access in step}
            if len(objects) != len(step):
                raise TraceError(f"step {place} names an object twice")
            unknown = [number for number in objects if not 0 <= number < len(self.sizes)]
            if unknown:
                raise TraceError(f"step {place} accesses object {unknown[0]} of {len(self.sizes)}")
            needed = sum(self.sizes[number] for number in objects)
            if needed > self.memory:
                raise TraceError(f"step {place} needs {needed} bytes at once, the device has {self.memory}")
        if total > MOST_ACCESSES:
            raise TraceError(f"{total} accesses, at most {MOST_ACCESSES} are planned")
        if any(not 0 <= number < len(self.sizes) for number in self.kept):
            raise TraceError("an object that is kept does not exist")

    @cached_property
    def accesses(self) -> list[list[tuple[int, Access]]]:
        """For each object its (step, access), in order."""
        found: list[list[tuple[int, Access]]] = [[] for _ in self.sizes]
        for place, step in enumerate(self.steps):
            for access in step:
                found[access.object].append((place, access))
        return found

    @property
    def footprint(self) -> int:
        """Bytes of all objects that are accessed."""
        return sum(size for size, accesses in zip(self.sizes, self.accesses, strict=True) if accesses)

    def name(self, number: int) -> str:
        return self.names[number] if self.names else f"object {number}"

    def to_json(self) -> dict[str, Any]:
        return {
            "memory": self.memory,
            "objects": [
                {"name": self.name(number), "bytes": size, "kept": number in self.kept}
                for number, size in enumerate(self.sizes)
            ],
            "steps": [
                [[access.object, ("r" if access.reads else "") + ("w" if access.writes else "")] for access in step]
                for step in self.steps
            ],
        }

    @classmethod
    def from_json(cls, data: Any) -> Trace:
        """The form that `to_json` writes: `objects` of {bytes, name?, kept?}, `steps` of lists of [object, "r" | "w" | "rw" | ""]. Raises TraceError."""
        data = _with_keys(data, "the trace", ("memory", "objects", "steps"))
        objects = [
            _with_keys(each, f"object {n}", ("name", "bytes", "kept"))
            for n, each in enumerate(_typed(data.get("objects"), list, "objects"))
        ]
        sizes = [_typed(each.get("bytes"), int, f"bytes of object {n}") for n, each in enumerate(objects)]
        steps = []
        for place, step in enumerate(_typed(data.get("steps"), list, "steps")):
            steps.append([_access(each, place) for each in _typed(step, list, f"step {place}")])
        return cls(
            sizes,
            steps,
            _typed(data.get("memory"), int, "memory"),
            frozenset(number for number, each in enumerate(objects) if _kept(each, number)),
            [_typed(each.get("name", f"object {n}"), str, f"name of object {n}") for n, each in enumerate(objects)],
        )


def _with_keys(data: Any, what: str, keys: tuple[str, ...]) -> dict[str, Any]:
    """A JSON object without other keys: a misspelt one would change the plan without a word."""
    found: dict[str, Any] = _typed(data, dict, what)
    for key in found:
        if key not in keys:
            raise TraceError(f"{what}: no such key as {str(key)[:60]!r}; there are {', '.join(keys)}")
    return found


def _kept(data: dict[str, Any], number: int) -> bool:
    value = data.get("kept", False)
    if not isinstance(value, bool):
        raise TraceError(f"kept of object {number}: true or false is expected, not {str(value)[:60]!r}")
    return value


def _access(data: Any, place: int) -> Access:
    pair = _typed(data, list, f"an access of step {place}")
    if len(pair) != 2 or type(pair[0]) is not int or pair[1] not in ("r", "w", "rw", ""):
        raise TraceError(f'step {place}: {str(pair)[:60]} is no [object, "r" | "w" | "rw" | ""]')
    return Access(pair[0], "r" in pair[1], "w" in pair[1])


def _typed(value: Any, kind: type, what: str) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        names: Mapping[type, str] = {dict: "an object", list: "a list", int: "a whole number", str: "a text"}
        raise TraceError(f"{what}: {names[kind]} is expected, not {str(value)[:60]!r}")
    return value
