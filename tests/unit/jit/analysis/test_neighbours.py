"""Loads of four words beside each other (neighbours.py): together, what each by itself reads, and the same faults."""

from __future__ import annotations

import numpy as np
import pytest
from farlane.backend import jit
from farlane.backend.jit.analysis import divergence, neighbours
from farlane.backend.jit.ptx.parser import body_of
from farlane.backend.jit.ssa import cfg, ssa
from jit_tools.device import TinyDevice
from jit_tools.instructions import HEADER

OPTIONS = jit.Options(cache=False, optimization=0)
ROW = "ld.global.u32 %r4, [%rd3+-4];\nld.global.f32 %f0, [%rd3];\nld.global.nc.u32 %r5, [%rd3+8];\nld.global.u32 %r6, [%rd3+4];\n"


def kernel(body: str) -> str:
    """Threads below n: %rd3 is where the thread's row is, according to p, and what is in %r4, %f0, %r6, %r5 goes to q."""
    return f"""{HEADER}
.visible .entry k(.param .u64 p, .param .u64 q, .param .u32 n)
{{
.reg .pred %p<4>; .reg .f32 %f<4>; .reg .b32 %r<16>; .reg .b64 %rd<8>; .shared .align 4 .b8 s[128];
mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [p]; ld.param.u64 %rd1, [q]; ld.param.u32 %r1, [n];
setp.ge.u32 %p0, %r0, %r1; @%p0 bra END;
mul.wide.u32 %rd2, %r0, 8; add.s64 %rd3, %rd0, %rd2; ld.global.u64 %rd3, [%rd3];
mul.wide.u32 %rd2, %r0, 16; add.s64 %rd4, %rd1, %rd2;
{body}
mov.b32 %r7, %f0;
st.global.v4.u32 [%rd4], {{%r4, %r7, %r6, %r5}};
END:
ret;
}}
"""


def groups(body: str) -> set[int]:
    """How many loads are made together."""
    module = jit.parse_module(kernel(body))
    graph = cfg.build(body_of(module, module.functions["k"]))
    values = ssa.build(graph)
    divergence.analyse(graph, values, (64, 1, 1), True, {"p", "q", "n"})
    return {len(group) for block in graph.blocks for group in neighbours.found(block).values()}


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (ROW, {4}),
        (ROW.replace(".u32 %r4", ".volatile.u32 %r4"), set()),
        (ROW.replace("+8", "+12"), set()),
        (ROW + ROW.replace("%r6, [%rd3+4]", "%r8, [%rd3+12]"), {4}),  # five in a row
        (ROW.replace("\nld.global.nc", "\nst.global.u32 [%rd4], %r4;\nld.global.nc"), set()),
        (ROW.replace("\nld.global.nc", "\nbar.sync 0;\nld.global.nc"), set()),
        (ROW.replace("\nld.global.nc", "\nmembar.gl;\nld.global.nc"), set()),
        (ROW.replace("\nld.global.nc", "\n@%p0 ld.global.nc"), set()),
        (ROW.replace("ld.global.u32 %r6", "add.s64 %rd3, %rd3, 0;\nld.global.u32 %r6"), set()),
        (ROW.replace("%rd3", "%rd4"), set()),  # affine: contiguous rows need none of this
    ],
)
def test_what_is_taken_together(body: str, found: set[int]) -> None:
    assert groups(body) == found


@pytest.mark.parametrize("block", [64, 40])
@pytest.mark.parametrize("count", [64, 50, 33, 1])
@pytest.mark.parametrize("spread", [1, 3])
def test_rows_anywhere(device: TinyDevice, block: int, count: int, spread: int) -> None:
    """In one allocation, and in several that are no run of pages; threads that take no part have nothing there."""
    random = np.random.default_rng(7)
    arrays = [random.integers(0, 1 << 32, 3000, np.uint32) for _ in range(spread)]
    places = [device.upload(array) for array in arrays]
    which, starts = random.integers(0, spread, block), random.integers(1, 2997, block)
    starts[:2], which[:2] = (1, 2997), (0, spread - 1)  # first and last row
    rows = np.array([places[a] + 4 * s for a, s in zip(which, starts, strict=True)], np.uint64)
    rows[count:] = 12
    expected = np.zeros((block, 4), np.uint32)
    for thread in range(min(count, block)):
        expected[thread] = arrays[which[thread]][starts[thread] - 1 : starts[thread] + 3]
    p, q = device.upload(rows), device.allocate(16 * block)
    for _ in range(2):  # the second time, the site knows pages
        assert device.launch(device.load(kernel(ROW)), "k", 2, block, [p, q, count], options=OPTIONS) == jit.STATUS_DONE
    assert (device.download(q, np.uint32, 4 * block).reshape(block, 4) == expected).all()


@pytest.mark.parametrize(
    "thread", [37, 5]
)  # where the site knows the pages of an earlier warp, and where it knows nothing
@pytest.mark.parametrize(
    ("at", "line", "address", "kind"),
    [
        (
            4092,
            2,
            4100,
            jit.FaultKind.ILLEGAL_ADDRESS,
        ),  # the last two are outside: the one that the program makes first
        (4088, 2, 4096, jit.FaultKind.ILLEGAL_ADDRESS),
        (0, 0, -4, jit.FaultKind.ILLEGAL_ADDRESS),
        (6, 0, 2, jit.FaultKind.MISALIGNED_ADDRESS),
    ],
)
def test_faults(device: TinyDevice, thread: int, at: int, line: int, address: int, kind: jit.FaultKind) -> None:
    place = device.upload(np.arange(1024, dtype=np.uint32))
    rows = np.full(64, place + 16, np.uint64)
    rows[thread] = place + at
    p, q = device.upload(rows), device.allocate(16 * 64)
    text = kernel(ROW)
    assert device.launch(device.load(text), "k", 1, 64, [p, q, 64], options=OPTIONS) == jit.STATUS_FAULT
    assert (device.fault.kind, device.fault.address, device.fault.thread[0]) == (kind, place + address, thread)
    assert device.fault.line == text[: text.index(ROW)].count("\n") + 1 + line
