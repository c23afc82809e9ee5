"""One core: what its resident blocks use together (shared-memory slots, registers, threads, blocks), and those who wait for it.

A block is resident when all four are there. The head of the FIFO waits for all of them at once, so that it holds nothing while it waits; those
behind it wait too. Releases come before allocations.

Source: CUDA C++ Programming Guide, "Occupancy"; slots: docs/explanation/systems.md, S5.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from farlane.backend.memory.slots.allocator import SlotAllocator, SlotError, SlotState
from farlane.backend.memory.slots.policies import Policy, Span


@dataclass(frozen=True)
class CoreSpec:
    """What a core has. A slot has `slot_bytes` of shared memory; registers are given by `register_granule` per warp."""

    slots: int = 128
    slot_bytes: int = 512
    registers: int = 65536
    register_granule: int = 256
    threads: int = 2048
    blocks: int = 32

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value < 1:
                raise SlotError(f"{name} = {value}: at least 1 is needed")


class Demand(NamedTuple):
    """What a block needs: bytes of shared memory, registers per thread, threads."""

    shared_bytes: int
    registers: int
    threads: int


class Use(NamedTuple):
    """A demand in a core's units."""

    slots: int
    registers: int
    threads: int


def use(demand: Demand, spec: CoreSpec) -> Use:
    """Raises SlotError, naming the resource, when an empty core could not hold the block."""
    warps = -(-demand.threads // 32)
    per_warp = -(-32 * demand.registers // spec.register_granule) * spec.register_granule
    found = Use(-(-demand.shared_bytes // spec.slot_bytes), warps * per_warp, 32 * warps)
    for name, wanted, there in (
        ("slots of shared memory", found.slots, spec.slots),
        ("registers", found.registers, spec.registers),
        ("threads", found.threads, spec.threads),
    ):
        if wanted > there:
            raise SlotError(f"a block needs {wanted} {name}, a core has {there}")
    return found


@dataclass
class CoreState:
    """What changes. `resident` and `waiting` are by the number of the block."""

    slots: SlotState
    resident: dict[int, Use] = field(default_factory=dict)
    waiting: deque[tuple[int, Use]] = field(default_factory=deque)

    def to_json(self) -> dict[str, Any]:
        return {
            "slots": self.slots.to_json(),
            "resident": {str(block): uses._asdict() for block, uses in self.resident.items()},
            "waiting": [[block, uses._asdict()] for block, uses in self.waiting],
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> CoreState:
        return cls(
            SlotState.from_json(data["slots"]),
            {int(block): Use(**uses) for block, uses in data["resident"].items()},
            deque((int(block), Use(**uses)) for block, uses in data["waiting"]),
        )


class Core:
    """Mechanism: asks the slots' policy, counts the rest."""

    def __init__(self, spec: CoreSpec, policy: Policy, state: CoreState | None = None) -> None:
        self.spec = spec
        self.state = state or CoreState(SlotState((1 << spec.slots) - 1))
        self._slots = SlotAllocator(spec.slots, policy, self.state.slots)
        self._registers = sum(uses.registers for uses in self.state.resident.values())
        self._threads = sum(uses.threads for uses in self.state.resident.values())

    def step(self, ended: Iterable[int] = (), arrived: Iterable[tuple[int, Use]] = ()) -> list[tuple[int, Span | None]]:
        """Blocks that ended leave; then those who wait enter in order. Returns (block, its slots or None where it needs none) of those who entered."""
        state = self.state
        freed = []
        for block in ended:
            uses = state.resident.pop(block)
            self._registers -= uses.registers
            self._threads -= uses.threads
            if uses.slots:
                freed.append(block)
        self._slots.step(freed)
        state.waiting.extend(arrived)
        entered: list[tuple[int, Span | None]] = []
        while state.waiting:
            block, uses = state.waiting[0]
            if (
                len(state.resident) >= self.spec.blocks
                or self._registers + uses.registers > self.spec.registers
                or self._threads + uses.threads > self.spec.threads
            ):
                break
            span: Span | None = None
            if uses.slots:
                placed = self._slots.step(requests=[(block, uses.slots)])
                if not placed:
                    state.slots.waiting.clear()  # it waits here, for everything together
                    break
                span = placed[0][1]
            state.waiting.popleft()
            state.resident[block] = uses
            self._registers += uses.registers
            self._threads += uses.threads
            entered.append((block, span))
        return entered

    def used_slots(self) -> int:
        return self._slots.used()
