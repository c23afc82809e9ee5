"""Stores past the caches (streaming.py): which ones, that launches say so, and that what is written is the same."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from farlane.backend import jit
from farlane.backend.device.sim.launching import pool
from jit_tools.device import TinyDevice
from jit_tools.instructions import HEADER

OPTIONS = jit.Options(cache=False, optimization=0)
BLOCK, GRID = 256, 8
COUNT = BLOCK * GRID


def kernel(body: str) -> str:
    """%rd3 is p + 4 i, %rd4 is q + 4 i for thread i."""
    return f"""{HEADER}
.visible .entry k(.param .u64 p, .param .u64 q, .param .u32 n)
{{
.reg .pred %p<8>; .reg .f32 %f<8>; .reg .b16 %h<4>; .reg .b32 %r<16>; .reg .b64 %rd<16>; .shared .align 4 .b8 s[4096];
mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mad.lo.s32 %r3, %r1, %r2, %r0;
ld.param.u64 %rd0, [p]; ld.param.u64 %rd1, [q]; ld.param.u32 %r4, [n]; mul.wide.s32 %rd2, %r3, 4;
cvta.to.global.u64 %rd0, %rd0; add.s64 %rd3, %rd0, %rd2; add.s64 %rd4, %rd1, %rd2;
{body}
ret;
}}
"""


LOAD, STORE = "ld.global.u32 %r5, [%rd3]; add.s32 %r5, %r5, 1;", "st.global.u32 [%rd4], %r5;"
COPY = LOAD + STORE


@pytest.mark.parametrize(
    ("body", "bytes_"),
    [
        (COPY, 4),
        (f"{COPY} add.s64 %rd5, %rd4, 65536; st.global.u32 [%rd5], %r5;", 4),  # of the same array: one of them
        ("ld.global.u32 %r5, [%rd4]; add.s32 %r5, %r5, 1;" + STORE, 0),  # it is read
        (f"{LOAD} ld.global.u32 %r6, [%rd1]; add.s32 %r5, %r5, %r6; {STORE}", 0),  # in one place
        (f"{LOAD} ld.u32 %r6, [%rd1]; add.s32 %r5, %r5, %r6; {STORE}", 0),  # by a generic address
        (f"ld.global.u64 %rd6, [%rd3]; ld.global.u32 %r5, [%rd6]; {STORE}", 0),  # who knows what is read
        (f"{LOAD} st.global.u8 [%rd4], %r5;", 0),  # one byte of four
        (f"{LOAD} st.volatile.global.u32 [%rd4], %r5;", 0),
        (f"{LOAD} membar.gl; {STORE}", 0),  # others may be told that it is written
        (f"{COPY} red.global.add.u32 [%rd0], 1;", 0),
        (f"mov.u32 %r6, 0; LOOP: {COPY} add.s32 %r6, %r6, 1; setp.lt.s32 %p0, %r6, %r4; @%p0 bra LOOP;", 0),  # how often?
        (f"mul.wide.s32 %rd2, %r3, 16; add.s64 %rd4, %rd1, %rd2; {LOAD} st.global.v4.u32 [%rd4], {{%r5, %r5, %r5, %r5}};", 16),
        (f"{LOAD} st.shared.u32 [s], %r5;", 0),
        (f"mov.u32 %r7, %ctaid.y; mad.lo.s32 %r8, %r7, %r2, %r0; mul.wide.s32 %rd2, %r8, 4; add.s64 %rd4, %rd1, %rd2; {COPY}", 0),  # the next block's elsewhere
        (f"mov.u32 %r7, %ctaid.y; mad.lo.s32 %r8, %r7, %r4, %r3; mul.wide.s32 %rd2, %r8, 4; add.s64 %rd4, %rd1, %rd2; {COPY}", 4),  # rows of blocks
        (f"shl.b32 %r7, %r1, 8; add.s32 %r8, %r7, %r0; mul.wide.s32 %rd2, %r8, 4; add.s64 %rd4, %rd1, %rd2; {COPY}", 4),
    ],
)  # fmt: skip
def test_which(body: str, bytes_: int) -> None:
    text = jit.translate(jit.parse_module(kernel(body)), "k", (BLOCK, 1, 1), OPTIONS)[2]
    assert f"@farlane_streams = internal constant i1 {'true' if bytes_ else 'false'}" in text
    assert ("!nontemporal" in text) == bool(bytes_)
    if bytes_:
        group = text[text.index("define internal i32 @farlane_group(") : text.index("!nontemporal")]
        assert re.search(rf"icmp ult i32 %\w+, {bytes_}\n", group)


@pytest.mark.parametrize(("element", "row", "there"), [("u8", 32, False), ("u16", 32, True), ("u64", 32, True), ("u32", 8, False), ("u64", 8, True)])  # fmt: skip
def test_whole_lines_only(element: str, row: int, there: bool) -> None:
    size = int(element[1:]) // 8
    where = "mov.u32 %r6, %tid.y; mad.lo.s32 %r6, %r6, %r4, %r3;"
    body = f"{where} mul.wide.s32 %rd2, %r6, {size}; add.s64 %rd4, %rd1, %rd2; mov.u32 %r5, 7; cvt.u16.u32 %h0, %r5; cvt.u64.u32 %rd7, %r5;"
    source = {"u8": "%h0", "u16": "%h0", "u32": "%r5", "u64": "%rd7"}[element]
    module = jit.parse_module(kernel(f"{body} st.global.{element} [%rd4], {source};"))
    text = jit.translate(module, "k", (row, BLOCK // row, 1), OPTIONS)[2]
    assert ("!nontemporal" in text) == there


@pytest.mark.parametrize("streamed", [0, 1, 4, 5, (1 << 32) - 1])
@pytest.mark.parametrize("offset", [0, 4, 64])
@pytest.mark.parametrize("threads", [1, 2])
def test_what_is_written(device: TinyDevice, streamed: int, offset: int, threads: int) -> None:
    values = np.random.default_rng(streamed).integers(0, 1 << 31, COUNT).astype(np.uint32)
    module = device.load(kernel(COPY))
    source, to = device.upload(values), device.upload(np.zeros(COUNT + 64, np.uint32))
    arguments = [source, to + offset, COUNT]
    status = device.launch(module, "k", GRID, BLOCK, arguments, options=OPTIONS, threads=threads, streamed=streamed)
    assert status == jit.STATUS_DONE
    expected = np.zeros(COUNT + 64, np.uint32)
    expected[offset // 4 : offset // 4 + COUNT] = values + 1
    assert np.array_equal(device.download(to, np.uint32, COUNT + 64), expected)


def test_faults_are_the_same(device: TinyDevice) -> None:
    module = device.load(kernel(COPY))
    source = device.upload(np.zeros(COUNT, np.uint32))
    for to in (device.allocate(COUNT * 4 - 4096), source + 2):
        found = []
        for streamed in (0, 1):
            assert (
                device.launch(module, "k", GRID, BLOCK, [source, to, COUNT], options=OPTIONS, streamed=streamed)
                == jit.STATUS_FAULT
            )
            found.append(
                (device.fault.kind, device.fault.address, tuple(device.fault.block), tuple(device.fault.thread))
            )
        assert found[0] == found[1]


def test_from_how_much_on(tmp_path: Path) -> None:
    for number, size in enumerate(("32K", "1024K", "24M", "odd")):
        (tmp_path / f"index{number}").mkdir()
        (tmp_path / f"index{number}" / "size").write_text(size + "\n")
    assert pool.last_cache_bytes(tmp_path) == 24 << 20
    assert pool.last_cache_bytes(tmp_path / "none") == pool.USUAL_BYTES
    held = pool.last_cache_bytes()
    assert pool.least_bytes(held // 4) == 4
    assert pool.least_bytes(held // 4 - 1) == 5
    assert pool.least_bytes(1) == held
