"""By how much addresses grow with each iteration of a loop (advance.py), and that rows read lane by lane ask ahead by it."""

from __future__ import annotations

import pytest
from farlane.backend import jit
from farlane.backend.jit.lowering.emitters import advance
from farlane.backend.jit.ptx.model import Address
from farlane.backend.jit.ptx.parser import body_of
from farlane.backend.jit.ssa import cfg, ssa
from jit_tools.instructions import HEADER

COUNT = "add.s32 %r0, %r0, 1; setp.lt.s32 %p0, %r0, %r1;"


def kernel(loop: str, before: str = "") -> str:
    return f"""{HEADER}
.visible .entry k(.param .u64 from, .param .u32 count, .param .u32 step)
{{
.reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<16>;
ld.param.u64 %rd0, [from]; ld.param.u32 %r1, [count]; ld.param.u32 %r2, [step]; cvt.u64.u32 %rd9, %r2; mov.u32 %r0, 0; mov.u64 %rd1, %rd0; {before}
LOOP:
{loop}
@%p0 bra LOOP;
ret;
}}
"""


@pytest.mark.parametrize(
    ("loop", "bytes_"),
    [
        ("ld.global.u32 %r9, [%rd1]; add.s64 %rd1, %rd1, 4;" + COUNT, 4),
        ("ld.global.u32 %r9, [%rd1]; add.s64 %rd1, 4, %rd1;" + COUNT, None),  # compilers write the number last
        ("ld.global.u32 %r9, [%rd1+-8]; add.s64 %rd1, %rd1, -16;" + COUNT, -16),
        ("ld.global.u32 %r9, [%rd1]; sub.s64 %rd1, %rd1, 8;" + COUNT, -8),
        ("ld.global.u32 %r9, [%rd1]; add.s64 %rd2, %rd1, 8; mov.u64 %rd1, %rd2;" + COUNT, 8),
        ("mul.wide.s32 %rd2, %r0, 4; add.s64 %rd3, %rd0, %rd2; ld.global.u32 %r9, [%rd3];" + COUNT, 4),
        ("mad.wide.s32 %rd3, %r0, 12, %rd0; ld.global.u32 %r9, [%rd3];" + COUNT, 12),
        (
            "cvt.s64.s32 %rd2, %r0; shl.b64 %rd2, %rd2, 3; add.s64 %rd3, %rd2, %rd0; ld.global.u32 %r9, [%rd3];"
            + COUNT,
            8,
        ),
        ("mul.wide.s32 %rd2, %r0, 4; sub.s64 %rd3, %rd0, %rd2; ld.global.u32 %r9, [%rd3];" + COUNT, -4),
        ("ld.global.u32 %r9, [%rd0];" + COUNT, 0),  # the same each time
        ("ld.global.u32 %r9, [%rd1]; add.s64 %rd1, %rd1, %rd9;" + COUNT, None),  # not known now
        ("ld.global.u64 %rd1, [%rd1];" + COUNT, None),  # a chain
        ("ld.global.u32 %r9, [%rd1]; @%p1 add.s64 %rd1, %rd1, 4;" + COUNT, None),  # now and then
        ("mul.wide.s32 %rd2, %r0, %r0; add.s64 %rd3, %rd0, %rd2; ld.global.u32 %r9, [%rd3];" + COUNT, None),  # squares
        ("and.b32 %r3, %r0, 3; mul.wide.s32 %rd2, %r3, 4; add.s64 %rd3, %rd0, %rd2; ld.global.u32 %r9, [%rd3];" + COUNT, None),
    ],
)  # fmt: skip
def test_step(loop: str, bytes_: int | None) -> None:
    module = jit.parse_module(kernel(loop, "setp.eq.s32 %p1, %r2, 0;"))
    graph = cfg.build(body_of(module, module.functions["k"]))
    ssa.build(graph)
    ((header, members),) = graph.loops.items()
    (load,) = (
        item
        for index in sorted(members)
        for item in graph.blocks[index].instructions
        if item.base == "ld" and isinstance(item.sources[0], Address)
    )
    assert advance.step(load.sources[0].base, header, members) == bytes_


def test_only_the_innermost_loop_counts() -> None:
    inner = "ld.global.u32 %r9, [%rd1]; add.s64 %rd1, %rd1, 4; add.s32 %r3, %r3, 1; setp.lt.s32 %p1, %r3, %r2; @%p1 bra INNER;"
    module = jit.parse_module(kernel(f"mov.u32 %r3, 0; INNER: {inner} add.s64 %rd1, %rd1, 100; {COUNT}"))
    graph = cfg.build(body_of(module, module.functions["k"]))
    ssa.build(graph)
    outer, innermost = sorted(graph.loops)
    (load,) = (item for item in graph.blocks[innermost].instructions if item.base == "ld")
    assert advance.step(load.sources[0].base, innermost, graph.loops[innermost]) == 4
    assert advance.step(load.sources[0].base, outer, graph.loops[outer]) is None
