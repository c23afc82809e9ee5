"""What the cores have: the configuration's table `cores`.

`slots` of `slot_bytes` are a core's shared memory, given out by `policy` (slots/policies); `fifo` blocks may wait at a core. A warp issues an instruction
every `issue_cycles` cycles: with all 64 warps resident and 16 cycles a core issues four instructions a cycle.

`trace_mib`: how much of a group of launches' touches is kept, in memory and then in a temporary file, before it is modelled in parts.
"""

from __future__ import annotations

import dataclasses

from farlane.backend.memory.slots.core import CoreSpec
from farlane.backend.memory.slots.dispatcher import DispatcherSpec
from farlane.backend.memory.slots.policies import POLICIES
from farlane.backend.memory.tlb.spec import name, number


@dataclasses.dataclass(frozen=True)
class Cores:
    """Their number is that of the TLB hierarchy (`tlb.cores`)."""

    slots: int = number(456, 1, 1 << 12)
    slot_bytes: int = number(512, 1, 1 << 20)
    registers: int = number(65536, 256, 1 << 24)
    threads: int = number(2048, 32, 1 << 16)
    blocks: int = number(32, 1, 1024)
    fifo: int = number(2, 1, 1024)
    policy: str = name("two-ended", POLICIES)
    issue_cycles: int = number(16, 1, 1024)
    memory_mib: int = number(128, 1, 1 << 16)
    trace_mib: int = number(8192, 1, 1 << 22)

    def dispatcher(self, cores: int) -> DispatcherSpec:
        """For the block dispatcher."""
        core = CoreSpec(
            slots=self.slots,
            slot_bytes=self.slot_bytes,
            registers=self.registers,
            threads=self.threads,
            blocks=self.blocks,
        )
        return DispatcherSpec(cores=cores, core=core, fifo=self.fifo)
