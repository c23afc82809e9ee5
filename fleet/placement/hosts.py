"""The room that each host has, as columns.

Owns capacities, what is reserved of them, and which images each host holds. A policy reads the columns, and only the book
(`book.py`) changes them. One row for each host: `free_memory[row]` and so on; a row is reused when its host has left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]
Column = npt.NDArray[np.float64]

_FIRST_ROWS = 16
IMAGES_LIMIT = 16384  # that are remembered of a host: guests name them


@dataclass(frozen=True)
class Capacity:
    """What a host has."""

    device: str  # "sim", "null", "cupy"
    memory: int  # bytes of device memory
    sessions: int  # at once
    throughput: float = 1.0  # device seconds of work that it does in a second


@dataclass(frozen=True)
class Request:
    """What a session asks for."""

    owner: str
    device: str
    memory: int  # bytes, reserved as long as the session lasts
    load: float = 0.1  # device seconds in a second that it is expected to use
    priority: int = 0  # 0 to 9, the highest first
    images: tuple[str, ...] = ()  # digests of its programs' images


class Hosts:
    """The rows of all hosts."""

    def __init__(self) -> None:
        self.memory = np.zeros(_FIRST_ROWS)
        self.free_memory = np.zeros(_FIRST_ROWS)
        self.slots = np.zeros(_FIRST_ROWS)
        self.free_slots = np.zeros(_FIRST_ROWS)
        self.throughput = np.zeros(_FIRST_ROWS)
        self.load = np.zeros(_FIRST_ROWS)  # the sum of its sessions'
        self._open = np.zeros(_FIRST_ROWS, dtype=bool)
        self._devices: dict[str, Mask] = {}
        self._names: list[str | None] = [None] * _FIRST_ROWS
        self._rows: dict[str, int] = {}
        self._holders: dict[str, set[int]] = {}  # image -> rows
        self._images: list[dict[str, None]] = [{} for _ in range(_FIRST_ROWS)]  # in the order of their last use

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def row(self, name: str) -> int:
        """Raises KeyError."""
        return self._rows[name]

    def name(self, row: int) -> str:
        name = self._names[row]
        assert name is not None
        return name

    def add(self, name: str, capacity: Capacity) -> None:
        """Raises ValueError: there is one of this name, or its capacity is no capacity."""
        if name in self._rows:
            raise ValueError(f"the fleet has a host {name} already")
        if capacity.memory <= 0 or capacity.sessions <= 0 or not capacity.throughput > 0:
            raise ValueError(f"the host {name} has no room: {capacity}")
        if None not in self._names:
            self._grow()
        row = self._names.index(None)
        self._names[row], self._rows[name] = name, row
        self.memory[row] = self.free_memory[row] = capacity.memory
        self.slots[row] = self.free_slots[row] = capacity.sessions
        self.throughput[row], self.load[row] = capacity.throughput, 0.0
        self._devices.setdefault(capacity.device, np.zeros(len(self._names), dtype=bool))[row] = True
        self._open[row] = True

    def remove(self, name: str) -> None:
        """Raises KeyError."""
        row = self._rows.pop(name)
        self._names[row] = None
        self._open[row] = False
        for column in (self.memory, self.free_memory, self.slots, self.free_slots, self.throughput, self.load):
            column[row] = 0.0
        for mask in self._devices.values():
            mask[row] = False
        for image in list(self._images[row]):
            self._drop(row, image)

    def set_open(self, name: str, is_open: bool) -> None:
        """Whether new sessions may go there. Raises KeyError."""
        self._open[self._rows[name]] = is_open

    def is_open(self, name: str) -> bool:
        """Raises KeyError."""
        return bool(self._open[self._rows[name]])

    def reserve(self, row: int, request: Request) -> None:
        self.free_memory[row] -= request.memory
        self.free_slots[row] -= 1
        self.load[row] += request.load
        for image in request.images:
            self.hold(row, image)
        assert self.free_memory[row] >= 0
        assert self.free_slots[row] >= 0

    def release(self, row: int, request: Request) -> None:
        self.free_memory[row] += request.memory
        self.free_slots[row] += 1
        self.load[row] = max(0.0, self.load[row] - request.load)

    def hold(self, row: int, image: str) -> None:
        """The host has this image from now on; one that was named long ago is forgotten where there are too many."""
        held = self._images[row]
        held.pop(image, None)
        held[image] = None
        self._holders.setdefault(image, set()).add(row)
        if len(held) > IMAGES_LIMIT:
            self._drop(row, next(iter(held)))

    def holds(self, row: int, image: str) -> bool:
        return image in self._images[row]

    def fits(self, request: Request) -> Mask:
        """The rows of hosts that have room for it now."""
        of_device = self._devices.get(request.device)
        if of_device is None:
            return np.zeros(len(self._names), dtype=bool)
        return of_device & self._open & (self.free_slots >= 1) & (self.free_memory >= request.memory)

    def able(self, request: Request) -> Mask:
        """The rows of hosts that have room for it once all others are gone."""
        of_device = self._devices.get(request.device)
        if of_device is None:
            return np.zeros(len(self._names), dtype=bool)
        return of_device & self._open & (self.memory >= request.memory)

    def largest_room(self, device: str) -> float:
        """The most free memory of an open host with this device and room for a session; below 0: there is none."""
        of_device = self._devices.get(device)
        if of_device is None:
            return -1.0
        return float(np.max(self.free_memory, where=of_device & self._open & (self.free_slots >= 1), initial=-1.0))

    def held(self, request: Request) -> Column:
        """How many of the request's images each row holds."""
        found = np.zeros(len(self._names))
        for image in request.images:
            for row in self._holders.get(image, ()):
                found[row] += 1
        return found

    def _drop(self, row: int, image: str) -> None:
        del self._images[row][image]
        holders = self._holders[image]
        holders.discard(row)
        if not holders:
            del self._holders[image]

    def _grow(self) -> None:
        size = len(self._names)
        for column in ("memory", "free_memory", "slots", "free_slots", "throughput", "load", "_open"):
            before = getattr(self, column)
            setattr(self, column, np.concatenate([before, np.zeros(size, dtype=before.dtype)]))
        self._devices = {
            name: np.concatenate([mask, np.zeros(size, dtype=bool)]) for name, mask in self._devices.items()
        }
        self._names += [None] * size
        self._images += [{} for _ in range(size)]
