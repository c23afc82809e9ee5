"""Kernels with wild addresses stay inside their own memory; jit_tools/wild.py makes them, and is a command for many."""

from __future__ import annotations

import ctypes
from random import Random

import pytest
from farlane.backend import jit
from jit_tools import wild
from jit_tools.device import TinyDevice
from jit_tools.instructions import HEADER

FIRST, PARTS = 176, 4  # groups of kernels: the first one has tier 2 code


@pytest.mark.parametrize("part", range(PARTS))
def test_random_kernels_reach_nothing_of_others(part: int) -> None:
    first = FIRST + part * wild.GROUP
    statuses = wild.run(range(first, first + wild.GROUP))
    assert statuses[jit.STATUS_DONE] > 5, "nearly all fault at once"
    assert statuses[jit.STATUS_FAULT] > 5, "nothing is wild"


def test_what_is_looked_for_would_be_found() -> None:
    device = wild.WildDevice(wild.kernels([Random(0)]))
    options = jit.Options(cache=False, tier=1)
    device.launch(Random(1), options)
    ctypes.c_uint16.from_address(device.own[0] - 2).value = 1
    with pytest.raises(AssertionError, match="in the window was changed"):
        device.launch(Random(1), options)
    device = wild.WildDevice(wild.kernels([Random(0)]))
    device.launch(Random(1), options)
    shared = device.device.workers[0].state.shared
    assert shared is not None
    ctypes.c_uint16.from_address(shared - 2).value = 1
    with pytest.raises(AssertionError, match="beside an arena was changed"):
        device.launch(Random(1), options)


@pytest.mark.parametrize("array", ["s", "l"])
@pytest.mark.parametrize("access", ["ld.u32 %r1, [%rd1];", "st.u32 [%rd1], %r1;", "atom.add.u32 %r1, [%rd1], 1;"])
@pytest.mark.parametrize("lanes", [False, True])
def test_behind_a_window_comes_no_other(device: TinyDevice, array: str, access: str, lanes: bool) -> None:
    """2^32 behind an array of shared or local memory."""
    space = {"s": "shared", "l": "local"}[array]
    module = device.load(f"""{HEADER}
.visible .entry k(.param .u64 p)
{{
.reg .b32 %r<2>; .reg .b64 %rd<3>; .shared .align 4 .b8 s[256]; .local .align 4 .b8 l[256];
mov.u32 %r0, %tid.x; mov.u32 %r1, 0; mul.wide.u32 %rd2, %r0, {4 if lanes else 0};
ld.param.u64 %rd0, [p]; mov.u64 %rd1, {array}; cvta.{space}.u64 %rd1, %rd1; add.s64 %rd1, %rd1, %rd0; add.s64 %rd1, %rd1, %rd2;
{access}
st.shared.u32 [s], %r1; st.local.u32 [l], %r1;
ret;
}}
""")
    assert device.launch(module, "k", 1, 32, [0]) == jit.STATUS_DONE
    assert device.launch(module, "k", 1, 32, [1 << 32]) == jit.STATUS_FAULT
    assert device.fault.kind == jit.FaultKind.ILLEGAL_ADDRESS
