"""Launches of a kernel that are kept ready, and the cost estimate of the next one: whether it is worth helpers.

Owns the estimate and the rule. A helper takes some tens of microseconds to wake up, and as long to be waited for, so a short launch is over sooner on
the thread that launches; on two hyperthreads of one core it stays so for longer. What decides is time, not the number of threads: of the last two launches,
so that a kernel that is short now and then is not kept to one thread.

Which thread runs a block changes no result (launches.py says which kernels are kept to one thread).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from farlane.backend import jit
from farlane.backend.device.base import LaunchShape

if TYPE_CHECKING:
    from farlane.backend.device.sim.runtime.modules import SimFunction

ALONE_NS = 150_000  # on one thread
WAKE_NS = 40_000  # what a launch with helpers takes at least, beside its blocks


class CostEstimate:
    """What a block took in the last two launches of a kernel, in nanoseconds of one thread."""

    __slots__ = ("_before", "_last")

    def __init__(self) -> None:
        self._before = self._last = float("inf")

    def is_short(self, blocks: int) -> bool:
        """Whether so many blocks are likely to be over before helpers are of use."""
        return max(self._before, self._last) * blocks <= ALONE_NS

    def took(self, blocks: int, nanoseconds: int, threads: int) -> None:
        """So many blocks (at least one) took so long on so many threads. On several, how much of it they worked is not known: at most all of it."""
        if threads > 1:
            nanoseconds = max(0, nanoseconds - WAKE_NS) * threads
        self._before, self._last = self._last, nanoseconds / blocks


class Prepared(NamedTuple):
    """A launch of one shape that has passed every check: programs repeat themselves, so the next one need only start."""

    function: SimFunction
    shape: LaunchShape
    kernel: jit.CompiledKernel
    launch: jit.Launch
    helpers: int
    cost: CostEstimate
    cooperative: jit.Cooperative | None = None  # a cooperative launch: all blocks at once
    reserve: jit.Reserve | None = None  # arenas for blocks that others wait for

    @property
    def variables(self) -> list[int]:
        """Addresses of the module's variables that the kernel refers to."""
        addresses = self.function.module.addresses
        return [addresses[index] for index in self.kernel.info.variables]

    @property
    def arenas(self) -> tuple[int, int]:
        """Launches for which this is the same need the same arenas."""
        return id(self.kernel), self.shape.shared_bytes

    @property
    def calls_back(self) -> bool:
        """Whether the kernel asks the host for something on its way, which needs the GIL. One whose assertion fails does so, too, at its end."""
        return self.kernel.info.serial or self.kernel.info.launches

    @property
    def has_blocks(self) -> bool:
        """Whether it holds arenas for many blocks, which no other launch may use."""
        return self.cooperative is not None or self.reserve is not None
