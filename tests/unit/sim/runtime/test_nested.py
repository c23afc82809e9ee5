"""Dynamic parallelism from kernels' side: the order of what they launch, limits, errors, faults below. tests/native/launches/nested_launches.cu has the rest."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from farlane.backend.device.base import CudaError, LaunchShape
from farlane.backend.device.plan import Body, Hole, Kind, Step, Stop
from farlane.backend.device.sim.runtime.nested import MAX_DEPTH
from sim_program import Program, pack

TAIL, FIRE_AND_FORGET = 3, 4
PENDING_LAUNCH_COUNT = 4
HEAD = """.version 9.0
.target sm_75
.address_size 64
.extern .func (.param .b64 r) __cudaCDP2GetParameterBufferV2
    (.param .b64 a, .param .align 4 .b8 b[12], .param .align 4 .b8 c[12], .param .b32 d);
.extern .func (.param .b32 r) __cudaCDP2LaunchDeviceV2 (.param .b64 a, .param .b64 b);
.extern .func (.param .b64 r) cudaGetParameterBuffer (.param .b64 a, .param .b64 b);
.extern .func (.param .b32 r) cudaLaunchDevice_ptsz
    (.param .b64 a, .param .b64 b, .param .align 4 .b8 c[12], .param .align 4 .b8 d[12], .param .b32 e, .param .b64 f);
.extern .func (.param .b32 r) cudaGetLastError ();
.extern .func (.param .b32 r) cudaMemsetAsync (.param .b64 a, .param .b32 b, .param .b64 c, .param .b64 d);
.extern .func (.param .b32 r) __cudaCDP2FuncGetAttributes (.param .b64 a, .param .b64 b);
"""
REGISTERS = ".reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<12>;"
DIM3S = """.param .align 4 .b8 grid[12]; st.param.b32 [grid+0], 1; st.param.b32 [grid+4], 1; st.param.b32 [grid+8], 1;
.param .align 4 .b8 block[12]; st.param.b32 [block+0], {threads}; st.param.b32 [block+4], 1; st.param.b32 [block+8], 1;"""


def launching(kernel: str, tag: str, stream: str, threads: str = "1") -> str:
    """Launches kernel(%rd1, tag); the error goes to %r7, that of a buffer which is not given, too."""
    return f"""{{
    .param .b64 p0; .param .b32 p3; .param .b64 q; {DIM3S.format(threads=threads)}
    mov.u64 %rd8, {kernel}; st.param.b64 [p0], %rd8; st.param.b32 [p3], 0;
    call (q), __cudaCDP2GetParameterBufferV2, (p0, grid, block, p3); ld.param.b64 %rd9, [q]; }}
    setp.eq.u64 %p3, %rd9, 0; @%p3 bra $none_{kernel}_{stream};
    st.u64 [%rd9], %rd1; st.u32 [%rd9+8], {tag};
    {{ .param .b64 p0; .param .b64 p1; .param .b32 q; st.param.b64 [p0], %rd9; st.param.b64 [p1], {stream};
    call (q), __cudaCDP2LaunchDeviceV2, (p0, p1); ld.param.b32 %r7, [q]; }}
    $none_{kernel}_{stream}:
    {{ .param .b32 q; call (q), cudaGetLastError, (); ld.param.b32 %r7, [q]; }}"""


def older(kernel: str, place: int) -> str:
    """Launches a kernel with the buffer at %rd9; the error goes to [%rd1 + place]."""
    return f"""{{
    .param .b64 p0; .param .b64 p1; .param .b32 p4; .param .b64 p5; .param .b32 q; {DIM3S.format(threads="1")}
    mov.u64 %rd8, {kernel}; st.param.b64 [p0], %rd8; st.param.b64 [p1], %rd9; st.param.b32 [p4], 0; st.param.b64 [p5], 0;
    call (q), cudaLaunchDevice_ptsz, (p0, p1, grid, block, p4, p5); ld.param.b32 %r4, [q]; }}
    st.global.u32 [%rd1+{place}], %r4;"""


ARGUMENTS = "ld.param.u64 %rd1, [list]; ld.param.u32 %r1, [tag];"
#: Appends %r6 to the list at %rd1, whose first word is its length.
APPEND = """atom.global.add.u32 %r5, [%rd1], 1; mul.wide.u32 %rd2, %r5, 4; add.u64 %rd2, %rd2, %rd1; st.global.u32 [%rd2+4], %r6;"""
MODULE = f"""{HEAD}
.visible .entry note(.param .u64 list, .param .u32 tag)
{{ {REGISTERS} {ARGUMENTS} mov.u32 %r6, %r1; {APPEND} ret; }}
.visible .entry family(.param .u64 list, .param .u32 tag)
{{
{REGISTERS} {ARGUMENTS} mov.u32 %r2, %tid.x; add.u32 %r1, %r1, %r2; add.u32 %r3, %r1, 1000;
mov.u32 %r6, %r1; {APPEND}
{launching("note", "%r3", str(TAIL))}
add.u32 %r4, %r1, 100; setp.ge.u32 %p0, %r4, 300; @%p0 bra $end;
{launching("family", "%r4", str(FIRE_AND_FORGET))}
$end: ret;
}}
.visible .entry many(.param .u64 list, .param .u32 tag)
{{ {REGISTERS} {ARGUMENTS} {launching("note", "%r1", "0")}
mov.u32 %r2, %tid.x; mul.wide.u32 %rd2, %r2, 4; add.u64 %rd2, %rd2, %rd1; st.global.u32 [%rd2+512], %r7; ret; }}
.visible .entry deep(.param .u64 list, .param .u32 tag)
{{ {REGISTERS} {ARGUMENTS} add.u32 %r1, %r1, 1; {launching("deep", "%r1", "0")}
setp.eq.u32 %p1, %r7, 0; @%p1 bra $end; st.global.u32 [%rd1], %r1; st.global.u32 [%rd1+4], %r7; $end: ret; }}
.visible .entry tails(.param .u64 list, .param .u32 tag)
{{ {REGISTERS} {ARGUMENTS} st.global.u32 [%rd1], %r1; setp.eq.u32 %p1, %r1, 100; @%p1 bra $end; add.u32 %r1, %r1, 1;
{launching("tails", "%r1", str(TAIL))} $end: ret; }}
.visible .entry falls(.param .u64 list, .param .u32 tag)
{{ {REGISTERS} {ARGUMENTS} {launching("wild", "%r1", "0")} {launching("note", "%r1", "4")} ret; }}
.visible .entry wild(.param .u64 list, .param .u32 tag)
{{ {REGISTERS} mov.u64 %rd1, 64; st.global.u32 [%rd1], 0; ret; }}
.visible .entry wide(.param .u64 list, .param .u32 tag)
{{ {REGISTERS} {ARGUMENTS} {launching("note", "%r1", "0", "2000")} st.global.u32 [%rd1], %r7;
{launching("note", "%r1", "77")} st.global.u32 [%rd1+4], %r7; ret; }}
.visible .entry sets(.param .u64 list, .param .u32 tag)
{{ {REGISTERS} {ARGUMENTS}
{{ .param .b64 p0; .param .b32 p1; .param .b64 p2; .param .b64 p3; .param .b32 q; st.param.b64 [p0], %rd1; st.param.b32 [p1], 7;
cvt.u64.u32 %rd3, %r1; st.param.b64 [p2], %rd3; st.param.b64 [p3], 0; call (q), cudaMemsetAsync, (p0, p1, p2, p3); }}
ret; }}
.visible .entry lacks(.param .u64 list, .param .u32 tag)
{{ {REGISTERS} {{ .param .b64 p0; .param .b64 p1; .param .b32 q; st.param.b64 [p0], 0; st.param.b64 [p1], 0;
call (q), __cudaCDP2FuncGetAttributes, (p0, p1); }} ret; }}
.func plain() {{ ret; }}
.visible .entry older(.param .u64 list, .param .u32 tag)
{{
{REGISTERS} {ARGUMENTS}
{{ .param .b64 p0; .param .b64 p1; .param .b64 q; st.param.b64 [p0], 8; st.param.b64 [p1], 12;
call (q), cudaGetParameterBuffer, (p0, p1); ld.param.b64 %rd9, [q]; }}
st.u64 [%rd9], %rd1; st.u32 [%rd9+8], %r1;
{older("plain", 64)} {older("note", 68)} {older("note", 72)}
ret;
}}
"""


def words(program: Program, address: int, count: int) -> list[int]:
    return list(struct.unpack(f"<{count}I", program.read(address, 4 * count)))


def noted(program: Program, address: int) -> list[int]:
    (count,) = words(program, address, 1)
    return words(program, address + 4, count)


def test_children_run_after_their_grid_each_with_its_own_and_tails_come_last(program: Program) -> None:
    out = program.allocate(4096)
    program.launch("family", pack("QI", out, 0), block=2)
    below = [[100 + thread, 200 + thread, 1200 + thread, 1100 + thread] for thread in (0, 1)]
    assert noted(program, out) == [0, 1, *below[0], *below[1], 1000, 1001]


def test_launches_beyond_the_limit_fail_and_the_others_run(program: Program) -> None:
    out = program.allocate(4096)
    program.context.set_limit(PENDING_LAUNCH_COUNT, 5)
    program.launch("many", pack("QI", out, 9), block=8)
    assert noted(program, out) == [9] * 5
    assert words(program, out + 512, 8) == [0] * 5 + [69] * 3
    program.launch("many", pack("QI", out, 8), block=4)
    assert noted(program, out) == [9] * 5 + [8] * 4, "what has run is not pending any more"


def test_grids_nest_so_deep_and_chains_of_tail_launches_do_not(program: Program) -> None:
    out = program.allocate(4096)
    program.launch("deep", pack("QI", out, 0))
    assert words(program, out, 2) == [MAX_DEPTH + 1, 65]
    program.launch("tails", pack("QI", out, 0))
    assert words(program, out, 1) == [100]


def test_a_fault_below_ends_the_launch_and_nothing_of_it_is_left(program: Program) -> None:
    out = program.allocate(4096)
    with pytest.raises(CudaError) as caught:
        program.launch("falls", pack("QI", out, 1))
    assert caught.value.code == 700
    assert caught.value.sticky
    assert "kernel wild" in caught.value.message
    program.launch("note", pack("QI", out, 2))
    assert noted(program, out) == [2]


def test_refused_launches_give_the_device_s_error(program: Program) -> None:
    out = program.allocate(4096)
    program.launch("wide", pack("QI", out, 1))
    assert words(program, out, 2) == [9, 400]


def test_the_older_calls(program: Program) -> None:
    """A function that is no kernel, a kernel, and the same with a buffer that is used up."""
    out = program.allocate(4096)
    program.launch("older", pack("QI", out, 6))
    assert noted(program, out) == [6]
    assert words(program, out + 64, 3) == [98, 0, 1]


def test_a_set_that_reaches_beyond_its_allocation_is_a_fault(program: Program) -> None:
    out = program.allocate(64)
    program.launch("sets", pack("QI", out, 64))
    assert program.read(out, 64) == bytes([7]) * 64
    with pytest.raises(CudaError) as caught:
        program.launch("sets", pack("QI", out, 65))
    assert (caught.value.code, caught.value.sticky) == (700, True)


def test_a_function_that_is_not_there_is_named(program: Program) -> None:
    with pytest.raises(CudaError, match="'cudaFuncGetAttributes' of the device runtime is not supported"):
        program.launch("lacks", pack("QI", 0, 0))


def test_a_loop_of_launches_runs_what_they_launch(program: Program) -> None:
    """By the device's own loop. A fault below stops it there."""
    context, out = program.context, program.allocate(4096)

    def repeat(kernel: str, *tags: int) -> Stop | None:
        function = context.function(program.module, kernel)
        shape = LaunchShape((1, 1, 1), (1, 1, 1), 0)
        step = Step(Kind.LAUNCH, pack("QI", out, 0), (Hole(8, 4, 0),), function=function, shape=shape)
        columns = np.array([tags], np.uint64)
        return context.repeat(Body((step,)), columns, np.empty((len(tags), 0), np.uint8))

    assert repeat("family", 200, 7, 250) == Stop(3)
    assert noted(program, out) == [200, 1200, 7, 107, 207, 1207, 1107, 1007, 250, 1250]
    stop = repeat("falls", 1, 2)
    assert stop is not None
    assert stop.error is not None
    assert (stop.iterations, stop.step, stop.error.code, stop.error.sticky) == (0, 0, 700, True)
