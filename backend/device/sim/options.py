"""What sessions of the simulated device do beside running: model the memory system, get by with less device memory.

Owns these two parts of the options (device/options.py) and their checks. What is done about them (modelling.py,
managed.py) is imported where it is asked for: a host that starts for one short program need not load it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from farlane.backend.device.options import DeviceOptions
from farlane.backend.memory.paging.spec import PAGE_2M
from farlane.backend.memory.replacement import POLICIES
from farlane.backend.memory.switching import DELAYED, RULES

if TYPE_CHECKING:
    from farlane.backend.memory.config import Config


@dataclass(frozen=True)
class Settings:
    """`memory`: a preset, or a configuration file. `model`: False records nothing but what `trace` and `accesses` need. `report`: where to."""

    memory: str
    report: str
    trace: str | None = None
    accesses: str | None = None
    tlb: bool = True
    fast: bool = False

    @staticmethod
    def load(path: str) -> Settings:
        """Raises ValueError, naming the file, for what is no such file."""
        try:
            values = json.loads(Path(path).read_text(encoding="utf-8"))
            return Settings(**values)
        except (OSError, ValueError, TypeError) as error:
            raise ValueError(f"the model's settings, {path}: {error}") from None

    def configuration(self) -> Config:
        """Raises ConfigError."""
        from farlane.backend.memory import config

        return config.preset(self.memory) if self.memory in config.presets() else config.load(self.memory)


@dataclass(frozen=True)
class Oversubscription:
    """What sessions get beside their quota.

    Args:
        memory: device memory of a session, a multiple of 2 MiB; None: as much as its quota.
        policy: who goes when it is full (memory/replacement.py); None: the default.
        trace: where to write what a session accesses; `{}` in it is the session's number. Kernels then run on one thread.
        shared: device memory that all sessions have together, a multiple of 2 MiB; None: each has its own.
        rule: what a switch between them moves (memory/switching.py).
    """

    memory: int | None = None
    policy: str | None = None
    trace: str = ""
    shared: int | None = None
    rule: str = DELAYED.name

    def __post_init__(self) -> None:
        if self.policy is not None and self.policy not in POLICIES:
            raise ValueError(f"{self.policy!r} is no policy; there are {', '.join(POLICIES)}")
        for size in (self.memory, self.shared):
            if size is not None and (size < PAGE_2M or size % PAGE_2M):
                raise ValueError(f"a device memory of {size} bytes is no multiple of 2 MiB")
        if self.shared is not None and (self.memory is not None or self.trace):
            raise ValueError("sessions that share device memory have none of their own, and leave no trace of it")
        if self.rule not in RULES:
            raise ValueError(f"{self.rule!r} is no rule; there are {', '.join(RULES)}")

    @classmethod
    def of(cls, options: DeviceOptions) -> Oversubscription | None:
        """Raises ValueError."""
        if options.memory is None and options.shared is None and not options.trace:
            return None
        return cls(options.memory, options.policy, options.trace, options.shared)

    @property
    def active(self) -> bool:
        return self.memory is not None or self.shared is not None or bool(self.trace)
