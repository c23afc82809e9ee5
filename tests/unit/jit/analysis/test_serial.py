"""Loops that run for one lane after the other (serial.py): which, the same results as together, and the same faults."""

from __future__ import annotations

import ctypes
import threading

import numpy as np
import pytest
from farlane.backend import jit
from farlane.backend.jit.analysis import divergence, origins, serial
from farlane.backend.jit.ptx.parser import body_of
from farlane.backend.jit.ssa import cfg, ssa
from hypothesis import given, settings
from hypothesis import strategies as st
from jit_tools.comparing import compare
from jit_tools.device import TinyDevice
from jit_tools.instructions import HEADER
from jit_tools.random_kernels import Kernel, kernels

ALWAYS = jit.Options(cache=False, optimization=0, serial="always")
NEVER = jit.Options(cache=False, optimization=0, serial="never")
ADAPTIVE = jit.Options(cache=False, optimization=0)

# A row of a matrix: %r5 entries, words and indices from %rd3 and %rd4 on.
ONE = """ld.global.u32 %r6, [%rd4]; mul.wide.s32 %rd5, %r6, 4; add.s64 %rd6, %rd2, %rd5; ld.global.f32 %f1, [%rd6];
ld.global.f32 %f2, [%rd3]; fma.rn.f32 %f0, %f1, %f2, %f0; add.s64 %rd3, %rd3, 4; add.s64 %rd4, %rd4, 4;
"""
NEXT = "add.s32 %r5, %r5, -1; setp.gt.s32 %p1, %r5, 0;"
ROW = f"setp.le.s32 %p1, %r5, 0; @%p1 bra END; LOOP: {ONE} {NEXT} @%p1 bra LOOP; END:"


def kernel(body: str) -> str:
    """to[i] = what `body` makes of row i of a matrix in compressed rows."""
    return f"""{HEADER}
.visible .entry k(.param .u64 to, .param .u64 values, .param .u64 columns, .param .u64 starts, .param .u64 vector, .param .u32 rows)
{{
.reg .pred %p<8>; .reg .f32 %f<8>; .reg .b32 %r<16>; .reg .b64 %rd<16>;
mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mad.lo.s32 %r3, %r1, %r2, %r0;
ld.param.u64 %rd10, [to]; ld.param.u64 %rd0, [values]; ld.param.u64 %rd1, [columns]; ld.param.u64 %rd7, [starts];
ld.param.u64 %rd2, [vector]; ld.param.u32 %r4, [rows]; mov.f32 %f0, 0f00000000;
setp.ge.s32 %p0, %r3, %r4; @%p0 bra OUT;
mul.wide.s32 %rd8, %r3, 4; add.s64 %rd7, %rd7, %rd8; ld.global.u32 %r7, [%rd7]; ld.global.u32 %r5, [%rd7+4]; sub.s32 %r5, %r5, %r7;
mul.wide.s32 %rd9, %r7, 4; add.s64 %rd3, %rd0, %rd9; add.s64 %rd4, %rd1, %rd9;
{body}
add.s64 %rd11, %rd10, %rd8; st.global.f32 [%rd11], %f0;
OUT:
ret;
}}
"""


def found(body: str, always: bool = False) -> list[int]:
    """How many loops each region has."""
    module = jit.parse_module(kernel(body))
    graph = cfg.build(body_of(module, module.functions["k"]))
    values = ssa.build(graph)
    parting = divergence.analyse(
        graph, values, (64, 1, 1), True, {"to", "values", "columns", "starts", "vector", "rows"}
    )
    return [sum(header in region for header in graph.loops) for region in serial.regions(graph, parting, always)]


@pytest.mark.parametrize(
    ("body", "regions", "possible"),
    [
        (ROW, [1], [1]),
        (ROW + ROW.replace("LOOP", "AGAIN").replace("END", "DONE"), [2], [2]),  # with what lies between them
        (ROW + "bar.warp.sync -1;" + ROW.replace("LOOP", "AGAIN").replace("END", "DONE"), [1, 1], [1, 1]),
        (ROW.replace(ONE, ONE + "st.global.f32 [%rd10], %f0;"), [], []),
        (ROW.replace("ld.global.u32 %r6", "ld.volatile.global.u32 %r6"), [], []),
        (ROW.replace(NEXT, NEXT + "bar.warp.sync -1;"), [], []),
        (ROW.replace(NEXT, "add.s32 %r5, %r5, -1; setp.ne.f32 %p1, %f1, 0f00000000;"), [], [1]),  # until something is found
        (ROW.replace("ld.global.f32 %f2, [%rd3]; ", "ld.global.u64 %rd3, [%rd3]; "), [], [1]),  # a chain
        (ROW.replace(ONE, "add.f32 %f0, %f0, 0f3F800000;"), [], [1]),  # reads nothing
        (ROW.replace("setp.le.s32 %p1, %r5, 0", "mov.u32 %r5, %r4; setp.le.s32 %p1, %r5, 0"), [], []),  # as often for all lanes
    ],
)  # fmt: skip
def test_which(body: str, regions: list[int], possible: list[int]) -> None:
    assert found(body) == regions
    assert found(body, True) == possible


def matrix(
    rows: int, seed: int, least: int = 0, most: int = 12
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    starts = np.concatenate([[0], np.cumsum(random.integers(least, most, rows))]).astype(np.int32)
    values, vector = random.random(int(starts[-1]) + 1, np.float32), random.random(5000, np.float32)
    return values, random.integers(0, len(vector), len(values)).astype(np.int32), starts, vector


def product(values: np.ndarray, columns: np.ndarray, starts: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Fused, as the kernel adds: exact in double but for the last rounding of each step."""
    result = np.zeros(len(starts) - 1, np.float32)
    for row in range(len(result)):
        total = np.float32(0)
        for k in range(starts[row], starts[row + 1]):
            total = np.float32(np.float64(values[k]) * np.float64(vector[columns[k]]) + np.float64(total))
        result[row] = total
    return result


@pytest.mark.parametrize("options", [ALWAYS, NEVER, ADAPTIVE])
@pytest.mark.parametrize("rows", [256, 75])
def test_rows_of_a_matrix(device: TinyDevice, options: jit.Options, rows: int) -> None:
    parts = matrix(rows, 3)
    module = device.load(kernel(ROW))
    to = device.upload(np.zeros(256, np.float32))
    places = [device.upload(part) for part in parts]
    assert device.launch(module, "k", 4, 64, [to, *places, rows], options=options) == jit.STATUS_DONE
    assert np.allclose(device.download(to, np.float32, rows), product(*parts), rtol=1e-6)


def test_lanes_go_alone_once_their_reads_have_been_scattered(device: TinyDevice) -> None:
    """The words of a region's latch: a warp that has gathered leaves the next ones to the lanes' code; one whose lanes read beside each other does not."""
    values, columns, starts, vector = matrix(512, 4, 6, 40)
    module = device.load(kernel(ROW))
    to = device.upload(np.zeros(512, np.float32))
    places = [device.upload(part) for part in (values, columns, starts, vector)]
    info, _, text = jit.translate(module, "k", (64, 1, 1), ADAPTIVE)
    assert "farlane_alone_s" in text
    assert device.launch(module, "k", 8, 64, [to, *places, 512], options=ADAPTIVE) == jit.STATUS_DONE
    latches = (ctypes.c_int32 * (4 * info.sites)).from_address(device.workers[0].state.latches)
    assert latches[1] > 100  # how often it is left to them from now on
    # All rows the same: every lane reads what the others read.
    device.launch(
        module,
        "k",
        8,
        64,
        [to, *places[:2], device.upload(np.zeros(513, np.int32) + 9), places[3], 512],
        options=ADAPTIVE,
    )
    assert latches[1] == 0


def test_the_rest_of_a_loop_decides_nothing(device: TinyDevice) -> None:
    """Long rows with much arithmetic, here and there: together they are done sooner, although few lanes are left at the end."""
    values, columns, starts, vector = matrix(512, 4, 6, 40)
    slow = ROW.replace(NEXT, f"ex2.approx.f32 %f1, %f0; sin.approx.f32 %f1, %f1; sqrt.rn.f32 %f1, %f1; {NEXT}")
    module = device.load(kernel(slow))
    to = device.upload(np.zeros(512, np.float32))
    places = [device.upload(part) for part in (values, columns, starts, vector)]
    options = jit.Options(cache=False, optimization=0, cpu="x86-64-v3")
    assert device.launch(module, "k", 8, 64, [to, *places, 512], options=options) == jit.STATUS_DONE
    assert (ctypes.c_int32 * 2).from_address(device.workers[0].state.latches)[1] == 0
    assert np.allclose(device.download(to, np.float32, 512), product(values, columns, starts, vector), rtol=1e-6)


@pytest.mark.parametrize(
    ("loop", "expected"),
    [
        (ONE, 2),  # entries and their columns; not the vector
        (ONE + ONE, 2),  # unrolled: once for each
        (ONE.replace("%rd3, 4", "%rd3, 400"), 1),  # wide steps are no row
        (ONE.replace("add.s64 %rd3, %rd3, 4", "add.s64 %rd3, %rd3, %rd8"), 1),  # by how much is not known
    ],
)
def test_rows_are_asked_for_ahead(loop: str, expected: int) -> None:
    """What the lanes' code asks for: some lines of each array that the loop goes through."""
    text = jit.translate(jit.parse_module(kernel(ROW.replace(ONE, loop))), "k", (64, 1, 1), ADAPTIVE)[2]
    alone = text[text.index("define internal void @farlane_alone_s") :]
    assert alone[: alone.index("\n}\n")].count("call void @llvm.prefetch") == expected


@settings(max_examples=6)
@given(kernels(26, rows=True), st.sampled_from((ALWAYS, ALWAYS, ADAPTIVE)))
def test_random_kernels(kernel: Kernel, options: jit.Options) -> None:
    compare(kernel, options)


@pytest.mark.parametrize("spread", [1, 3])
def test_arrays_that_are_no_run_of_pages(device: TinyDevice, spread: int) -> None:
    """What is read here and there lies in several allocations: the latch is pointed from one to the other."""
    random = np.random.default_rng(5)
    tables = [random.random(3000, np.float32) for _ in range(spread)]
    places = [device.upload(table) for table in tables]
    values, columns, starts, _ = matrix(128, 6)
    which, index = random.integers(0, spread, len(values)), random.integers(0, 3000, len(values))
    columns = np.array([(places[w] - places[0]) // 4 + i for w, i in zip(which, index, strict=True)], np.int32)
    module = device.load(kernel(ROW))
    to = device.upload(np.zeros(128, np.float32))
    arguments = [to, *(device.upload(part) for part in (values, columns, starts)), places[0], 128]
    assert device.launch(module, "k", 2, 64, arguments, options=ALWAYS) == jit.STATUS_DONE
    gathered = np.array([tables[w][i] for w, i in zip(which, index, strict=True)])
    expected = product(values, np.arange(len(values)), starts, gathered)
    assert np.allclose(device.download(to, np.float32, 128), expected, rtol=1e-6)


@pytest.mark.parametrize("options", [ALWAYS, NEVER])
def test_faults_name_the_thread(device: TinyDevice, options: jit.Options) -> None:
    """One entry of one row points behind the vector."""
    values, columns, starts, vector = matrix(64, 8, 3, 9)
    columns[starts[41] + 1] = 1 << 20
    module = device.load(kernel(ROW))
    to = device.upload(np.zeros(64, np.float32))
    places = [device.upload(part) for part in (values, columns, starts, vector)]
    assert device.launch(module, "k", 1, 64, [to, *places, 64], options=options) == jit.STATUS_FAULT
    fault = device.fault
    assert (fault.kind, fault.thread[0], fault.address) == (jit.FaultKind.ILLEGAL_ADDRESS, 41, places[3] + (4 << 20))
    assert "%f1, [%rd6]" in kernel(ROW).splitlines()[fault.line - 1]


@pytest.mark.parametrize("options", [ALWAYS, NEVER])
def test_arrays_that_are_not_aligned(device: TinyDevice, options: jit.Options) -> None:
    parts = matrix(64, 9, 3, 9)
    module = device.load(kernel(ROW))
    to = device.upload(np.zeros(64, np.float32))
    places = [device.upload(part) for part in parts]
    places[3] += 2
    assert device.launch(module, "k", 1, 64, [to, *places, 64], options=options) == jit.STATUS_FAULT
    assert device.fault.kind == jit.FaultKind.MISALIGNED_ADDRESS
    assert "%f1, [%rd6]" in kernel(ROW).splitlines()[device.fault.line - 1]


@pytest.mark.parametrize("options", [ALWAYS, NEVER])
def test_lanes_that_leave_the_kernel(device: TinyDevice, options: jit.Options) -> None:
    """Rows of more than five entries have no result."""
    parts = matrix(128, 11)
    body = ROW.replace("LOOP:", "mov.u32 %r8, 0; LOOP:").replace(
        NEXT, f"add.s32 %r8, %r8, 1; setp.gt.s32 %p2, %r8, 5; @%p2 bra OUT; {NEXT}"
    )
    module = device.load(kernel(body))
    to = device.upload(np.full(128, 7, np.float32))
    places = [device.upload(part) for part in parts]
    assert device.launch(module, "k", 2, 64, [to, *places, 128], options=options) == jit.STATUS_DONE
    expected = np.where(np.diff(parts[2]) > 5, np.float32(7), product(*parts))
    assert np.allclose(device.download(to, np.float32, 128), expected, rtol=1e-6)


@pytest.mark.parametrize("shift", [0, 2])
def test_an_array_that_differs_from_row_to_row(device: TinyDevice, shift: int) -> None:
    """Where a row's words lie is known in front of the loop, and may not be aligned."""
    values, columns, starts, vector = matrix(64, 12, 3, 9)
    body = ROW.replace(
        "setp.le.s32 %p1, %r5, 0;",
        f"cvt.u64.u32 %rd9, %r0; shl.b64 %rd9, %rd9, 6; shr.b64 %rd9, %rd9, 4; add.s64 %rd3, %rd0, %rd9; @%p0 bra END; add.s64 %rd3, %rd3, {shift}; setp.le.s32 %p1, %r5, 0;",
    )
    module = device.load(kernel(body))
    to = device.upload(np.zeros(64, np.float32))
    places = [device.upload(part) for part in (np.concatenate([values, values]), columns, starts, vector)]
    status = device.launch(module, "k", 1, 64, [to, *places, 64], options=ALWAYS)
    if shift:
        assert (status, device.fault.kind) == (jit.STATUS_FAULT, jit.FaultKind.MISALIGNED_ADDRESS)
        return
    words = np.concatenate([values, values])
    own = np.concatenate([words[row : row + starts[row + 1] - starts[row]] for row in range(64)])
    expected = product(own, columns, starts, vector)
    assert np.allclose(device.download(to, np.float32, 64), expected, rtol=1e-6)


def test_an_abort_ends_a_lane(device: TinyDevice) -> None:
    module = device.load(kernel(ROW.replace("setp.gt.s32 %p1, %r5, 0", "setp.gt.s32 %p1, %r5, -2000000000").replace("add.s64 %rd3, %rd3, 4; add.s64 %rd4, %rd4, 4;", "")))  # fmt: skip
    compiled = jit.compile_kernel(module, "k", (64, 1, 1), ALWAYS)
    places = [device.upload(part) for part in matrix(64, 10, 3, 9)]
    parameters = device.pack(module, "k", [device.upload(np.zeros(64, np.float32)), *places, 64])
    fault = jit.Fault()
    launch = jit.Launch(
        parameters=ctypes.addressof(parameters), fault=ctypes.pointer(fault), end_block=1, chunk=1, grid=(1, 1, 1), block=(64, 1, 1),
        window_base=device.base, window_size=device.top, page_flags=device.flags.ctypes.data, page_shift=12,
    )  # fmt: skip
    device.workers[0].reserve(compiled, launch)
    status: list[int] = []
    thread = threading.Thread(target=lambda: status.append(compiled.run(launch, device.workers[0])))
    thread.start()
    launch.abort = 1
    thread.join(120)
    assert status == [jit.STATUS_ABORTED]


def test_light_code_knows_how_many_latches_full_code_has() -> None:
    """Its place is taken between two launches, on workers that were made ready for it."""
    for body in (ROW, ROW + ROW.replace("LOOP", "AGAIN").replace("END", "DONE")):
        module = jit.parse_module(kernel(body))
        first, second = (jit.translate(module, "k", (64, 1, 1), jit.Options(tier=tier))[0].sites for tier in (1, 2))
        assert first >= second


@pytest.mark.parametrize(
    ("text", "array", "log"),
    [
        ("mul.wide.s32 %rd5, %r7, 4; add.s64 %rd6, %rd0, %rd5;", True, 2),
        ("mul.wide.s32 %rd5, %r7, 12; add.s64 %rd6, %rd5, %rd0; add.s64 %rd6, %rd6, 8;", True, 2),
        ("cvt.s64.s32 %rd5, %r7; shl.b64 %rd5, %rd5, 3; add.s64 %rd6, %rd5, %rd0; sub.s64 %rd6, %rd6, %rd5;", True, 3),
        ("mul.wide.s32 %rd5, %r7, 2; add.s64 %rd6, %rd0, %rd5;", True, 1),
        ("cvt.s64.s32 %rd5, %r7; add.s64 %rd6, %rd0, %rd5;", True, 0),
        ("mad.wide.s32 %rd6, %r7, 16, %rd0;", True, 4),
        ("mul.wide.s32 %rd5, %r7, 4; sub.s64 %rd6, %rd5, %rd0;", False, 0),
        ("mul.wide.s32 %rd5, %r7, 4; ld.global.u64 %rd6, [%rd5];", False, 0),
        ("mul.wide.s32 %rd5, %r7, 4; add.s64 %rd6, %rd0, %rd5; xor.b64 %rd6, %rd6, 4;", False, 0),
        ("mul.wide.s32 %rd5, %r7, 8; add.s64 %rd6, %rd0, %rd5; W: add.s64 %rd6, %rd6, 20; setp.lt.s64 %p3, %rd6, %rd5; @%p3 bra W;", True, 2),
        ("mul.wide.s32 %rd5, %r7, 8; add.s64 %rd6, %rd0, %rd5; W: add.s64 %rd6, %rd6, %rd5; setp.lt.s64 %p3, %rd6, %rd5; @%p3 bra W;", True, 3),
        ("mul.wide.s32 %rd5, %r7, 8; add.s64 %rd6, %rd0, %rd5; @%p2 bra W; add.s64 %rd6, %rd1, %rd5; W:", False, 0),
    ],
)  # fmt: skip
def test_what_an_address_is_reckoned_from(text: str, array: bool, log: int) -> None:
    module = jit.parse_module(kernel(f"setp.lt.s32 %p2, %r7, 5; {text} ld.global.f32 %f0, [%rd6];"))
    graph = cfg.build(body_of(module, module.functions["k"]))
    values = ssa.build(graph)
    divergence.analyse(graph, values, (64, 1, 1), True, {"to", "values", "columns", "starts", "vector", "rows"})
    loads = [
        item
        for block in graph.blocks
        for item in block.instructions
        if item.base == "ld" and item.modifiers[-1] == "f32"
    ]
    value, found = origins.reckoned(loads[-1].sources[0].base, lambda item: not item.varying)
    assert (value is not None, found) == (array, log)
