"""What kernels may access under checks (checks.py): ranges come and go, and touch each other, as blocks of the device heap do."""

from __future__ import annotations

from farlane.backend import jit
from farlane.backend.jit.runtime import checks
from jit_tools.device import TinyDevice
from jit_tools.instructions import HEADER

KERNEL = """
.visible .entry k(.param .u64 p) { .reg .b64 %d<2>; ld.param.u64 %d0, [p]; st.global.u32 [%d0], 1; ret; }
"""


def test_ranges_come_and_go(device: TinyDevice) -> None:
    base, module = device.allocate(4096), device.load(HEADER + KERNEL)
    table = checks.Table()

    def allowed() -> list[int]:
        """The words, by their offsets, that a kernel may write."""
        found = []
        for offset in range(0, 96, 4):
            table.begin()
            options = jit.Options(checks=checks.MEMORY)
            status = device.launch(module, "k", 1, 1, [base + offset], options=options, check=table.address)
            assert status in (jit.STATUS_DONE, jit.STATUS_FAULT)
            found += [offset] if status == jit.STATUS_DONE else []
        return found

    table.set_ranges([(base + 16, base + 32), (base + 64, base + 80)])
    assert allowed() == [16, 20, 24, 28, 64, 68, 72, 76]
    table.add_range(base + 32, base + 48)
    table.add_range(base + 48, base + 64)
    assert allowed() == list(range(16, 80, 4))
    table.remove_range(base + 32)
    table.remove_range(base + 64)
    assert allowed() == [16, 20, 24, 28, 48, 52, 56, 60]
    table.remove_range(base + 16)
    assert allowed() == [48, 52, 56, 60]
