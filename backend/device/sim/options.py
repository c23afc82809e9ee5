"""What sessions of the simulated device are asked to do beside running: `farlane serve` and `farlane sim` write it, the device reads it.

Owns these two sets of options and their checks; not what is done about them (modelling.py, managed.py), which is imported where
somebody asks for it: a host that starts for one short program need not load it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from farlane.backend.memory.paging.spec import PAGE_2M

if TYPE_CHECKING:
    from farlane.backend.memory.config import Config

VARIABLE = "FARLANE_SIM_MODEL"


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
            raise ValueError(f"{VARIABLE}={path}: {error}") from None

    def configuration(self) -> Config:
        """Raises ConfigError."""
        from farlane.backend.memory import config

        return config.preset(self.memory) if self.memory in config.presets() else config.load(self.memory)


def settings() -> Settings | None:
    """What the environment asks for."""
    path = os.environ.get(VARIABLE)
    return Settings.load(path) if path else None


@dataclass(frozen=True)
class Oversubscription:
    """What sessions get beside their quota.

    Args:
        memory: device memory of a session, a multiple of 2 MiB; None: as much as its quota.
        policy: who goes when it is full (memory/planner/policies); None: the default.
        trace: where to write what a session accesses; `{}` in it is the session's number. Kernels then run on one thread.
    """

    memory: int | None = None
    policy: str | None = None
    trace: str = ""

    def __post_init__(self) -> None:
        if self.policy is not None and self.policy not in _policies():
            raise ValueError(f"{self.policy!r} is no policy; there are {', '.join(_policies())}")
        if self.memory is not None and (self.memory < PAGE_2M or self.memory % PAGE_2M):
            raise ValueError(f"a device memory of {self.memory} bytes is no multiple of 2 MiB")

    @classmethod
    def from_environment(cls) -> Oversubscription | None:
        """As `farlane serve` was told. Raises ValueError."""
        memory, policy, trace = (
            os.environ.get(f"FARLANE_{name}") for name in ("DEVICE_MEMORY", "MEMORY_POLICY", "MEMORY_TRACE")
        )
        if memory is None and trace is None:
            if policy is not None:
                raise ValueError(f"a policy, {policy}, without a bound on device memory")
            return None
        return cls(None if memory is None else int(memory), policy, trace or "")

    @property
    def active(self) -> bool:
        return self.memory is not None or bool(self.trace)


def _policies() -> Collection[str]:
    from farlane.backend.memory.planner.policies import POLICIES

    return POLICIES
