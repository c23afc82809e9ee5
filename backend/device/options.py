"""The options of a device: what its user asks for, as one value that every process which opens the device gets.

Owns the options, their checks, and the environment's variables for them. The commands make the value
(`farlane serve`, `farlane devices`); nothing below them reads the environment for an option. What an option does is
its device's: the comments name the module.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from farlane.backend.device import capabilities
from farlane.hosturl import variables

THREADS, ORDER, TIERS = "FARLANE_SIM_THREADS", "FARLANE_SIM_ORDER", "FARLANE_JIT_TIERS"
CAPABILITY, GRAPHS, REPORTS = "FARLANE_CAPABILITY", "FARLANE_GPU_GRAPHS", "FARLANE_SESSION_REPORTS"
MEMORY, POLICY, TRACE = "FARLANE_DEVICE_MEMORY", "FARLANE_MEMORY_POLICY", "FARLANE_MEMORY_TRACE"
SHARED = "FARLANE_SHARED_MEMORY"

MOST_THREADS = 1024


@dataclass(frozen=True)
class DeviceOptions:
    """Raises ValueError where a value is none of those that there are."""

    threads: int | None = None  # sim: CPU threads that run kernels; None: as many as the process may use
    order: str = "same"  # sim/launching/pool.py: floating-point atomics in the order of blocks, or ("fast") in any
    tiers: bool = True  # jit/compile/tiers.py: tier 1 compiles kernels first, tier 2 where they run long
    capability: str = ""  # sim: the compute capability; "": the default (capabilities.py)
    memory: int | None = None  # sim/options.py: device memory of a session
    policy: str | None = None  # sim/options.py: which data leave it when it is full
    trace: str = ""  # sim/options.py: a file for what launches access
    model: str = ""  # sim/options.py: a file that says what of the memory system is modelled
    graphs: str = "auto"  # gpu/repeats.py: loops as CUDA graphs: "auto", "on", "off"
    reports: str = ""  # reports.py: a folder for what sessions have counted
    shared: int | None = None  # sim/options.py: device memory that all sessions have together

    def __post_init__(self) -> None:
        if self.threads is not None and not 1 <= self.threads <= MOST_THREADS:
            raise ValueError(f"{self.threads} threads: it must be a number from 1 to {MOST_THREADS}")
        if self.order not in ("same", "fast"):
            raise ValueError(f"the order {self.order!r}: it must be same or fast")
        if self.graphs not in ("auto", "on", "off"):
            raise ValueError(f"graphs {self.graphs!r}: it is auto, on or off")
        if self.capability:
            capabilities.parse(self.capability)
        if self.policy is not None and self.memory is None and self.shared is None and not self.trace:
            raise ValueError(f"a policy, {self.policy}, without a bound on device memory")

    @property
    def compute_capability(self) -> tuple[int, int]:
        return capabilities.parse(self.capability) if self.capability else capabilities.DEFAULT

    @classmethod
    def read(cls, environment: Mapping[str, str], **given: Any) -> DeviceOptions:
        """The environment's options; those that are `given` and not None come before them. Raises ValueError, naming the variable."""
        values: dict[str, Any] = {}
        for variable, name, convert in _VARIABLES:
            text = environment.get(variable)
            if given.get(name) is not None:
                values[name] = given[name]
            elif text is not None:
                try:
                    values[name] = convert(text)
                    if name != "policy":
                        cls(**{name: values[name]})
                except ValueError as error:
                    raise ValueError(f"{variable}={text}: {error}") from None
        return cls(**values)

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> DeviceOptions:
        return cls(**json.loads(text))


DEFAULT = DeviceOptions()


def _number(text: str) -> int:
    if not text.isdecimal():
        raise ValueError("it is not a number")
    return int(text)


_VARIABLES = (
    (THREADS, "threads", _number),
    (ORDER, "order", str),
    (TIERS, "tiers", lambda text: text != "off"),
    (CAPABILITY, "capability", str),
    (MEMORY, "memory", _number),
    (SHARED, "shared", _number),
    (POLICY, "policy", str),
    (TRACE, "trace", str),
    (variables.MODEL, "model", str),
    (GRAPHS, "graphs", lambda text: text.lower() or "auto"),
    (REPORTS, "reports", str),
)
