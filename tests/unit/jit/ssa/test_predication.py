"""Conditions without branches: a large kernel computes what a small one with the same statements does, and has few blocks."""

from __future__ import annotations

import numpy as np
import pytest
from farlane.backend import jit
from farlane.backend.jit.lowering.kernel import DUAL_INSTRUCTIONS
from farlane.backend.jit.ptx.parser import body_of
from farlane.backend.jit.ssa import cfg, predication
from jit_tools.device import TinyDevice
from jit_tools.instructions import HEADER

# Lane i of n: what a guard keeps from happening must not happen, be it an access far outside of all memory.
STATEMENTS = """
    @%p0 add.u32 %r2, %r2, 5;
    @!%p0 not.b32 %r2, %r2;
    @%p1 setp.gt.u32 %p2, %r1, 40;
    @%p2 bra PAST{n};
    mul.wide.u32 %a1, %r1, 4;
    add.s64 %a1, %a0, %a1;
    ld.global.u32 %r3, [%a1];
    add.u32 %r2, %r2, %r3;
    atom.global.add.u32 %r4, [%a1+512], %r3;
    PAST{n}:
    @%p2 bra OVER{n};
    st.global.u32 [%a1+256], %r2;
    xor.b32 %r2, %r2, %r4;
    OVER{n}:
    @%p3 ld.global.u32 %r5, [%a3];
    @%p1 atom.global.add.u32 %r7, [%a0+1020], 1;
"""
KERNEL = """
    .visible .entry k(.param .u64 data) {{
    .reg .pred %p<8>; .reg .b32 %r<8>; .reg .b64 %a<8>;
    ld.param.u64 %a0, [data]; mov.u32 %r1, %tid.x; mov.u32 %r2, %r1; mov.u32 %r4, 0; mov.u32 %r5, 9; mov.u64 %a3, 3;
    and.b32 %r3, %r1, 1; setp.ne.u32 %p0, %r3, 0; setp.lt.u32 %p1, %r1, 100; setp.ne.u32 %p2, %r1, %r1; setp.gt.u32 %p3, %r1, 500;
    {statements}
    add.u32 %r2, %r2, %r5;
    mul.wide.u32 %a2, %r1, 4; add.s64 %a2, %a0, %a2; st.global.u32 [%a2+768], %r2; ret; }}
"""
THREADS = 50


def text(repetitions: int) -> str:
    return HEADER + KERNEL.format(statements="".join(STATEMENTS.format(n=n) for n in range(repetitions)))


def expected(repetitions: int) -> np.ndarray:
    words = np.zeros(256, np.uint64)
    words[:THREADS] = 3 * np.arange(THREADS) + 1
    for lane in range(THREADS):
        r2, r4, in_bounds = lane, 0, lane <= 40
        for _ in range(repetitions):
            r2 = (r2 + 5 if lane & 1 else ~r2) & 0xFFFFFFFF
            if in_bounds:
                r2 = (r2 + int(words[lane])) & 0xFFFFFFFF
                r4 = int(words[128 + lane])
                words[128 + lane] += words[lane]
                words[64 + lane] = r2
                r2 ^= r4
        words[192 + lane] = (r2 + 9) & 0xFFFFFFFF
    words[255] = THREADS * repetitions  # whose results nobody reads
    return words.astype(np.uint32)


@pytest.mark.parametrize("repetitions", [2, 60])
def test_values(device: TinyDevice, repetitions: int) -> None:
    data = np.zeros(256, np.uint32)
    data[:THREADS] = 3 * np.arange(THREADS) + 1
    memory = device.upload(data)
    options = jit.Options(cache=False, optimization=1)
    assert device.launch(device.load(text(repetitions)), "k", 1, THREADS, [memory], options=options) == 0
    assert np.array_equal(device.download(memory, "u4", 256), expected(repetitions))


def test_blocks() -> None:
    module = jit.parse_module(text(60))
    body = body_of(module, module.functions["k"])
    assert len(body.instructions) > DUAL_INSTRUCTIONS
    assert len(cfg.build(body, predicated=True).blocks) <= 3
    assert len(cfg.build(body).blocks) > 180
    assert sum(item.base == "bra" for item in body.instructions) == 120, "the body stays as it is"


def test_what_is_private_needs_no_pick() -> None:
    """The address and what is loaded behind it are used by nobody else; the sum is."""
    inside = "mul.wide.u32 %a1, %r1, 4; add.s64 %a1, %a0, %a1; ld.global.u32 %r3, [%a1]; add.u32 %r2, %r2, %r3;"
    kernel = KERNEL.format(statements=f"@%p2 bra PAST; {inside} PAST:").replace(
        "and.b32 %r3, %r1, 1; setp.ne.u32 %p0, %r3, 0;", ""
    )
    module = jit.parse_module(HEADER + kernel)
    code, _ = predication.convert(body_of(module, module.functions["k"]), True)
    assert [item.destinations[0].name for item in code if item.base == predication.PICK] == ["%r2"]
    assert [item.text for item in code if item.guard is not None] == ["ld.global.u32"]


@pytest.mark.parametrize(
    "inside",
    ["bar.sync 0;", "shfl.sync.bfly.b32 %r3, %r1, 1, 31, -1;", "add.cc.u32 %r3, %r1, 1;", "setp.eq.u32 %p2, %r1, 3;"],
)
def test_what_keeps_its_branch(inside: str) -> None:
    """Other lanes are concerned, a hidden register is written, or the condition itself."""
    kernel = KERNEL.format(statements=f"@%p2 bra PAST; {inside} PAST:")
    module = jit.parse_module(HEADER + kernel)
    code, _ = predication.convert(body_of(module, module.functions["k"]), True)
    assert sum(item.base == "bra" for item in code) == 1


@pytest.mark.parametrize("repetitions", [1, 400])
def test_a_label_behind_the_branch(device: TinyDevice, repetitions: int) -> None:
    """Who comes from elsewhere to the first instruction that a branch goes round has not asked its condition: there the branch stays."""
    statements = "".join(
        f"@%p0 bra INSIDE{n}; add.u32 %r2, %r2, 100; setp.lt.u32 %p4, %r1, 100; @%p4 bra PAST{n};"
        f" INSIDE{n}: add.u32 %r2, %r2, 1; PAST{n}:"
        for n in range(repetitions)
    )
    # %p4 holds for all from the start, as a loop's last turn may leave it.
    kernel = KERNEL.format(statements=statements).replace(
        "setp.gt.u32 %p3", "setp.eq.u32 %p4, %r1, %r1; setp.gt.u32 %p3", 1
    )
    memory = device.upload(np.zeros(256, np.uint32))
    options = jit.Options(cache=False, optimization=1)
    assert device.launch(device.load(HEADER + kernel), "k", 1, THREADS, [memory], options=options) == 0
    lanes = np.arange(THREADS)
    assert np.array_equal(
        device.download(memory, "u4", 256)[192 : 192 + THREADS], lanes + np.where(lanes & 1, 1, 100) * repetitions + 9
    )
