"""Local variables in registers: what is promoted, what must stay in memory, and that results are the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from farlane.backend import jit
from farlane.backend.jit.ptx.model import Body
from farlane.backend.jit.ptx.parser import body_of
from farlane.backend.jit.runtime import checks
from farlane.backend.jit.ssa import promotion
from jit_tools.device import TinyDevice
from jit_tools.instructions import HEADER

HEAD = """
    .reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<8>; .reg .f32 %f<4>; .reg .b64 %rd<8>; .reg .b64 %SP, %SPL;
    .local .align 8 .b8 depot[32];
    ld.param.u64 %rd0, [out]; mov.u32 %r0, %tid.x; mov.u64 %SPL, depot; cvta.local.u64 %SP, %SPL;
"""
TAIL = "mul.wide.u32 %rd7, %r0, 4; add.s64 %rd7, %rd0, %rd7; st.global.u32 [%rd7], %r1; ret;"
CALLEE = ".func f(.param .b64 a) { ret; }\n"


def text(code: str) -> str:
    return f"{HEADER}{CALLEE}.visible .entry k(.param .u64 out) {{ {HEAD} {code} {TAIL} }}"


def promoted(code: str) -> Body:
    module = jit.parse_module(text(code))
    before = body_of(module, module.functions["k"])
    kept = [(item.text, list(item.sources)) for item in before.instructions]
    after = promotion.promoted(before)
    assert [(item.text, list(item.sources)) for item in before.instructions] == kept, "the parsed body is shared"
    return after


def in_memory(body: Body) -> list[str]:
    """The accesses to local memory that are left."""
    return [
        item.text
        for item in body.instructions
        if item.base in ("ld", "st", "atom") and not {"param", "global"} & set(item.modifiers)
    ]


@pytest.mark.parametrize(("code", "value"), [
    ("st.u32 [%SP+4], %r0; ld.u32 %r1, [%SP+4];", lambda t: t),
    ("st.volatile.u32 [%SP+4], %r0; ld.local.u32 %r1, [%SPL+4];", lambda t: t),
    ("add.u64 %rd1, %SP, 24; st.u32 [%rd1+-8], %r0; ld.local.u32 %r1, [depot+16];", lambda t: t),
    ("or.b64 %rd1, %SP, 4; st.u32 [%rd1], %r0; ld.u32 %r1, [%SP+4];", lambda t: t),
    ("add.s64 %rd1, %SP, 8; cvta.to.local.u64 %rd2, %rd1; st.local.u32 [%rd2], %r0; ld.u32 %r1, [%rd1];", lambda t: t),
    # Extended, cut off, as another type
    ("add.u32 %r2, %r0, -3; st.u8 [%SP], %r2; ld.s8 %r1, [%SP];", lambda t: t - 3),
    ("add.u32 %r2, %r0, 253; st.u8 [%SP], %r2; ld.u8 %r1, [%SP];", lambda t: t + 253 & 255),
    ("add.u32 %r2, %r0, -3; st.u32 [%SP], %r2; ld.s32 %rd1, [%SP]; shr.u64 %rd1, %rd1, 32; cvt.u32.u64 %r1, %rd1;", lambda t: t - 3 >> 32),
    ("cvt.u64.u32 %rd1, %r0; or.b64 %rd1, %rd1, 0x500000000; st.u32 [%SP], %rd1; ld.u32 %rd2, [%SP]; shr.u64 %rd3, %rd2, 30; cvt.u32.u64 %r1, %rd2;"
     "cvt.u32.u64 %r2, %rd3; add.u32 %r1, %r1, %r2;", lambda t: t),
    ("st.u32 [%SP], %r0; ld.f32 %f0, [%SP]; add.f32 %f0, %f0, 0f3F800000; mov.b32 %r1, %f0;", lambda t: 0x3F800000),
    ("st.f32 [%SP], 0f40000000; ld.f32 %f0, [%SP]; cvt.rzi.u32.f32 %r1, %f0;", lambda t: 2),
    # A whole and its parts
    ("mul.wide.u32 %rd1, %r0, 0x10000; st.u64 [%SP+8], %rd1; ld.u16 %r1, [%SP+10];", lambda t: t),
    ("st.v2.u32 [%SP+8], {7, %r0}; ld.u64 %rd1, [%SP+8]; shr.u64 %rd1, %rd1, 32; cvt.u32.u64 %r1, %rd1;", lambda t: t),
    ("st.u64 [%SP], 0; st.u8 [%SP+1], %r0; ld.u32 %r1, [%SP];", lambda t: t << 8),
    ("st.f64 [%SP], 0d3FF0000000000000; st.u32 [%SP], %r0; ld.v2.u32 {%r1, %r2}, [%SP]; sub.u32 %r2, %r2, 0x3FF00000; add.u32 %r1, %r1, %r2;", lambda t: t),
    # Lanes apart, loops
    ("setp.lt.u32 %p0, %r0, 9; st.u32 [%SP], 1; @%p0 st.u32 [%SP], %r0; @!%p0 bra E; st.u32 [%SP+4], 5; E: ld.u32 %r1, [%SP];", lambda t: t if t < 9 else 1),
    ("st.u32 [%SP], 0; st.u32 [%SP+4], 0; L: ld.u32 %r2, [%SP]; setp.ge.u32 %p0, %r2, %r0; @%p0 bra E; ld.u32 %r3, [%SP+4]; add.u32 %r3, %r3, 3; st.u32 [%SP+4], %r3;"
     "add.u32 %r2, %r2, 1; st.u32 [%SP], %r2; bra L; E: ld.u32 %r1, [%SP+4];", lambda t: 3 * t),
])  # fmt: skip
def test_values(device: TinyDevice, code: str, value: Callable[[int], int]) -> None:
    body = promoted(code)
    assert not in_memory(body)
    assert "depot" not in body.storage
    out = device.upload(np.zeros(40, np.uint32))
    options = jit.Options(cache=False, optimization=0)
    assert device.launch(device.load(text(code)), "k", 1, 40, [out], options=options) == jit.STATUS_DONE
    assert list(device.download(out, np.uint32, 40)) == [value(t) & 0xFFFFFFFF for t in range(40)]


STORE = "st.u32 [%SP+4], %r0; "


@pytest.mark.parametrize("code", [
    "st.u64 [%rd0], %SP;",  # the address is stored,
    "st.u64 [%SP+8], %SP;",
    "add.u64 %rd1, %SP, 16; st.v2.u64 [%SP+16], {%rd0, %rd1};",
    "{ .param .b64 a; st.param.b64 [a+0], %SP; call.uni f, (a); }",  # passed,
    "mul.wide.u32 %rd1, %r0, 4; add.s64 %rd1, %SP, %rd1; ld.u32 %r1, [%rd1];",  # indexed,
    "mov.u64 %rd1, depot; cvt.u32.u64 %r1, %rd1;",  # computed with,
    "setp.eq.u64 %p0, %SP, %rd0; selp.u32 %r1, 1, 0, %p0;",
    "setp.eq.u32 %p0, %r0, 3; @%p0 mov.u64 %rd1, %SP; @%p0 ld.u32 %r1, [%rd1+4];",  # in a register that may hold something else
    "mov.u64 %rd1, %rd0; setp.eq.u32 %p0, %r0, 3; @%p0 bra E; add.u64 %rd1, %SP, 4; E: ld.u32 %r1, [%rd1];",
    "atom.local.add.u32 %r1, [depot+4], 1;",
    "ld.acquire.gpu.u32 %r1, [%SP+4];",
    "ld.u32 %r1, [%SP+32];",  # outside: a fault to be found
    "ld.u32 %r1, [%SP+-4];",
    "ld.u32 %r1, [%SP+6];",  # misaligned
    "ld.local.u32 %r1, [%SP+4];",  # a generic address as a local one
])  # fmt: skip
def test_what_stays_in_memory(code: str) -> None:
    body = promoted(STORE + code)
    assert "depot" in body.storage
    assert in_memory(body)[0] == "st.local.u32", "but what is known about its place is used"


def test_another_array_is_promoted_nevertheless() -> None:
    body = promoted(
        ".local .align 4 .b8 other[8]; st.u64 [%rd0], %SP; st.local.u32 [other+4], %r0; ld.local.u32 %r1, [other+4];"
    )
    assert "depot" in body.storage
    assert "other" not in body.storage
    assert not [name for name in in_memory(body) if "local" in name]


def test_a_local_array_of_the_program_stays() -> None:
    size = promotion.MOST_BYTES + 4
    body = promoted(f".local .align 4 .b8 large[{size}]; st.local.u32 [large], 0; ld.local.u32 %r1, [large];")
    assert "large" in body.storage
    assert "depot" not in body.storage


def test_nothing_is_promoted_under_checks() -> None:
    """A kernel's local memory says what was promoted."""
    module = jit.parse_module(text("st.u32 [%SP+4], %r0; ld.u32 %r1, [%SP+4];"))
    sizes = {}
    for name, options in {
        "plain": jit.Options(cache=False, optimization=0),
        "checks": jit.Options(cache=False, optimization=0, checks=checks.MEMORY),
        "touches": jit.Options(cache=False, optimization=0, touches=True),
    }.items():
        sizes[name] = jit.translate(module, "k", (32, 1, 1), options)[0].local_bytes
    assert sizes == {"plain": 16, "checks": 32, "touches": 32}
