"""Which memory a session of the simulated device gets: all that it allocates, or less than that (memory/managed.py).

Owns the choice, by the device's options.
"""

from __future__ import annotations

from pathlib import Path

from farlane.backend.device.base import Window
from farlane.backend.device.sim.memory.memory import Memory
from farlane.backend.device.sim.memory.space import Physical
from farlane.backend.device.sim.observers.observer import Observers
from farlane.backend.device.sim.options import Oversubscription
from farlane.backend.plane import Budget


def open_memory(
    quota: int,
    budget: Budget,
    physical: Physical,
    oversubscription: Oversubscription | None,
    number: int,
    observers: Observers,
    place: Window | None = None,
) -> Memory:
    """The memory of session `number`, and what records its trace. `place`: where it was at another host."""
    if oversubscription is None or not oversubscription.active:
        return Memory(quota, budget, physical, place)

    from farlane.backend.device.sim.memory.managed import ManagedMemory

    memory = ManagedMemory(quota, budget, physical, oversubscription)
    if oversubscription.trace:
        from farlane.backend.device.sim.observers.tracing import TraceRecorder

        observers.add(TraceRecorder(Path(oversubscription.trace.replace("{}", str(number))), memory))
        memory.residency.on_touch = observers.touched
    return memory
