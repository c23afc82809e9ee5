"""Races on shared memory (checks.py): what orders the lanes of a warp."""

from __future__ import annotations

import pytest
from farlane.backend import jit
from farlane.backend.jit.runtime import checks
from farlane.backend.jit.runtime.checks import Hazard
from jit_tools.device import TinyDevice
from jit_tools.instructions import HEADER

# %a: the thread's own word, %b: its neighbour's; %c: the own one of a thread of the other warp.
KERNEL = """
    .visible .entry k(.param .u64 out) {{
    .reg .pred %p<4>; .reg .b32 %r<12>, %a, %b, %c; .reg .b64 %d<4>; .shared .align 4 .b8 area[256];
    mov.u32 %r0, %tid.x; mov.u32 %r1, area; xor.b32 %r2, %r0, 1; xor.b32 %r3, %r0, 32;
    shl.b32 %a, %r0, 2; add.u32 %a, %a, %r1; shl.b32 %b, %r2, 2; add.u32 %b, %b, %r1; shl.b32 %c, %r3, 2; add.u32 %c, %c, %r1;
    setp.eq.u32 %p0, %r0, 3; st.shared.u32 [%a], %r0; bar.sync 0;
    {code}
    ld.param.u64 %d0, [out]; mul.wide.u32 %d1, %r0, 4; add.s64 %d0, %d0, %d1; st.global.u32 [%d0], %r5; ret; }}
"""
READ, WRITE = "ld.shared.u32 %r5, [%b];", "st.shared.u32 [%a], %r2;"
SHUFFLE = "shfl.sync.bfly.b32 %r6, %r0, 1, 31, -1;"
EXCHANGES = [
    SHUFFLE,
    "vote.sync.ballot.b32 %r6, %p0, -1;",
    "match.any.sync.b32 %r6, %r0, -1;",
    "redux.sync.add.u32 %r6, %r0, -1;",
]


def hazards(device: TinyDevice, code: str) -> set[Hazard]:
    table = checks.Table()
    table.begin()
    out = device.allocate(256)
    options = jit.Options(cache=False, checks=checks.RACE)
    module = device.load(HEADER + KERNEL.format(code=code))
    assert device.launch(module, "k", 1, 64, [out], options=options, check=table.address) == 0
    return {Hazard(record.kind) for record in table.records()}


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_what_a_warp_has_read_is_read_when_its_lanes_exchange_values(device: TinyDevice, exchange: str) -> None:
    """As the tiles of cooperative groups do, whose lanes write their warp's word behind a vote."""
    assert hazards(device, READ + exchange + WRITE) == set()
    assert hazards(device, READ + WRITE) == {Hazard.WRITE_AFTER_READ}


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_an_exchange_makes_no_writes_visible(device: TinyDevice, exchange: str) -> None:
    assert hazards(device, WRITE + exchange + READ) == {Hazard.READ_AFTER_WRITE}
    assert hazards(device, WRITE + exchange + "st.shared.u32 [%b], 7;") == {Hazard.WRITE_AFTER_WRITE}
    assert hazards(device, WRITE + exchange + "bar.warp.sync -1;" + READ) == set()
    # A barrier in front of the write has nothing to say of it, however many exchanges follow.
    assert hazards(device, "bar.warp.sync -1;" + WRITE + exchange + exchange + READ) == {Hazard.READ_AFTER_WRITE}


def test_an_exchange_is_one_of_a_warp(device: TinyDevice) -> None:
    """Another warp has its part in none."""
    assert hazards(device, "ld.shared.u32 %r5, [%c];" + SHUFFLE + WRITE) == {
        Hazard.WRITE_AFTER_READ,
        Hazard.READ_AFTER_WRITE,
    }
