"""Basic blocks, of which graphs (cfg.py) are made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from farlane.backend.jit.ptx.model import Instruction

EXIT = -1


@dataclass(slots=True)
class Block:
    """A basic block. `targets` may hold EXIT. With a `condition`, targets = (when true, when false)."""

    instructions: list[Instruction] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    condition: Any = None  # predicate register, or the index register of a brx
    negated: bool = False
    switch: bool = False
    leaves: str = ""  # "ret" | "exit" | "trap" when control leaves the function here
    line: int = 0
    predecessors: list[int] = field(default_factory=list)
    phis: list[Any] = field(default_factory=list)

    @property
    def successors(self) -> list[int]:
        """Distinct targets without EXIT."""
        return [target for target in dict.fromkeys(self.targets) if target != EXIT]
