"""Values that differ between lanes by what is known now (patterns.py): what is found, and that accesses at them are the interpreter's, and their faults."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from farlane.backend import jit
from farlane.backend.jit.analysis import divergence, patterns
from farlane.backend.jit.ptx.parser import body_of
from farlane.backend.jit.ssa import cfg, ssa
from hypothesis import given, settings
from hypothesis import strategies as st
from jit_tools.comparing import compare
from jit_tools.device import TinyDevice
from jit_tools.instructions import HEADER
from jit_tools.random_kernels import SLOTS, Kernel

OPTIONS = jit.Options(cache=False, optimization=0)
BLOCKS = ((64, 1, 1), (256, 1, 1), (16, 4, 1), (8, 8, 1), (32, 4, 1), (4, 16, 1), (64, 2, 1), (16, 2, 2), (96, 1, 1))
CHAIN = 12
BITWISE = ("and", "or", "xor")


def chain(seed: int, block: tuple[int, int, int]) -> Kernel:
    """Index arithmetic, each result of which goes into a sum, and now and then is where a word is read."""
    random = Random(seed)
    k = Kernel(block)
    x, y, z = block
    k("ld.param.u64 %source, [source];\nld.param.u64 %result, [result];")
    k("mov.u32 %t0, %tid.x;\nmov.u32 %t1, %tid.y;\nmov.u32 %t2, %laneid;\nmov.u32 %t3, %ctaid.x;\nmov.u32 %t4, %tid.z;")
    k(f"mad.lo.u32 %thread, %t4, {y}, %t1;\nmad.lo.u32 %thread, %thread, {x}, %t0;")
    k(f"mad.lo.u32 %global, %t3, {x * y * z}, %thread;\nmov.u32 %sum, 0;")
    k.scratch = 4
    for _ in range(CHAIN):
        a, b = (f"%t{random.randint(0, k.scratch)}" for _ in range(2))
        d = k.temporary()
        number = random.choice((1, 2, 3, 4, 7, 8, 12, 15, 16, 31, -2, -4, -8, -32, 0x3FFFFFFC, random.getrandbits(32)))
        k(
            random.choice(
                (
                    f"add.s32 {d}, {a}, {b};",
                    f"sub.s32 {d}, {a}, {b};",
                    f"add.u32 {d}, {a}, {number};",
                    f"and.b32 {d}, {a}, {number};",
                    f"and.b32 {d}, {number}, {a};",
                    f"or.b32 {d}, {a}, {number};",
                    f"xor.b32 {d}, {a}, {number};",
                    f"{random.choice(BITWISE)}.b32 {d}, {a}, {b};",
                    f"shl.b32 {d}, {a}, {random.randint(0, 9)};",
                    f"shr.u32 {d}, {a}, {random.randint(0, 9)};",
                    f"shr.s32 {d}, {a}, {random.choice((1, 2, 3, 31))};",
                    f"mul.lo.s32 {d}, {a}, {number};",
                    f"mad.lo.s32 {d}, {a}, {random.randint(-3, 9)}, {b};",
                )
            )
        )
        k(f"mad.lo.u32 %sum, %sum, 31, {d};")
        wide, at, address = k.address(), k.temporary(), k.address()
        operation = random.choice(("mul.wide.s32", "mul.wide.u32"))
        k(f"{operation} {wide}, {d}, {number};\nshr.u64 {wide}, {wide}, {random.randint(0, 40)};")
        k(f"cvt.u32.u64 {at}, {wide};\nmad.lo.u32 %sum, %sum, 31, {at};")
        kind = random.choice(("u32", "v2.u32", "u16"))
        mask = {"u32": 1023, "v2.u32": 1022, "u16": 1023}[kind]
        k(f"and.b32 {at}, {d}, {mask};\nmul.wide.u32 {address}, {at}, {2 if kind == 'u16' else 4};")
        k(f"add.s64 {address}, {address}, %source;")
        value, other = k.temporary(), k.temporary()
        if kind == "u16":
            k(f"ld.global.u16 {value}, [{address}];")
        elif kind == "u32":
            k(f"ld.global.u32 {value}, [{address}];")
        else:
            k(f"ld.global.v2.u32 {{{value}, {other}}}, [{address}];\nadd.u32 {value}, {value}, {other};")
        k(f"mad.lo.u32 %sum, %sum, 31, {value};")
    address = k.address()
    k(f"mul.wide.u32 {address}, %global, {4 * SLOTS};\nadd.s64 {address}, {address}, %result;")
    k(f"st.global.u32 [{address}], %sum;")
    return k


@settings(max_examples=12)
@given(st.integers(0, 1 << 32), st.sampled_from(BLOCKS))
def test_index_arithmetic_agrees_with_the_interpreter(seed: int, block: tuple[int, int, int]) -> None:
    compare(chain(seed, block), OPTIONS)


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
def test_comparisons_of_what_is_known(kind: str) -> None:
    """As numpy compares: of lanes with numbers on either side of them, some of which are negative for signed types only."""
    orders = {
        "eq": np.equal,
        "ne": np.not_equal,
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
    }
    orders |= {} if kind[0] == "s" else {"lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal}
    bits, number = kind[1:], {"u": np.uint64, "s": np.int64}[kind[0]]
    wide = "cvt.s64.s32 %rd1, %r1; add.s64 %rd1, %rd1, 0;" if bits == "64" else ""
    lanes = np.arange(32, dtype=np.int64) - 16
    lanes = lanes.astype(number) if kind[0] == "s" or bits == "64" else lanes.astype(np.uint32).astype(np.uint64)
    for limit in (-17, -16, -3, 0, 15, 16):
        text = f"""{HEADER}
.visible .entry k(.param .u64 p)
{{
.reg .pred %p<16>; .reg .b32 %r<4>; .reg .b64 %rd<4>;
mov.u32 %r0, %laneid; add.s32 %r1, %r0, -16; {wide}
{" ".join(f"setp.{order}.{kind} %p{at}, {'%rd1' if wide else '%r1'}, {limit};" for at, order in enumerate(orders))}
ret;
}}
"""
        found = values(text, (64, 1, 1))
        with_bound = np.int64(limit) if kind[0] == "s" else np.uint64(limit % (1 << int(bits)))
        for at, compare_lanes in enumerate(orders.values()):
            expected = compare_lanes(lanes, with_bound).astype(int)
            assert found[f"%p{at}"] == patterns.Pattern(tuple(expected.tolist()), 1, 1)


def values(text: str, block: tuple[int, int, int]) -> dict[str, patterns.Pattern]:
    """The patterns of a kernel's registers, each of which is written once."""
    module = jit.parse_module(text)
    body = body_of(module, module.functions["k"])
    names = [item.destinations[0].name for item in body.instructions if item.destinations]
    graph = cfg.build(body)
    all_values = ssa.build(graph)
    divergence.analyse(graph, all_values, block, True, {"p"})
    found = patterns.analyse(graph, block)
    results = [item.destinations[0] for each in graph.blocks for item in each.instructions if item.destinations]
    return {name: found[value] for name, value in zip(names, results, strict=True) if value in found}


SPLIT = f"""{HEADER}
.visible .entry k(.param .u64 p)
{{
.reg .b32 %r<16>; .reg .b64 %rd<8>;
ld.param.u64 %rd0, [p]; mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x;
and.b32 %r2, %r0, 3; sub.s32 %r3, %r0, %r2; shl.b32 %r4, %r3, 1; add.s32 %r5, %r4, %r2;
shr.u32 %r6, %r0, 5; shr.u32 %r7, %r0, 31; shr.u32 %r8, %r0, 3;
mul.wide.s32 %rd1, %r5, 4; add.s64 %rd2, %rd0, %rd1;
mad.lo.u32 %r9, %r1, 40, %r2; and.b32 %r10, %r9, 7; and.b32 %r11, %r9, 15; mul.lo.u32 %r12, %r0, %r1;
st.global.u32 [%rd2], %r12;
ret;
}}
"""


def test_what_is_found() -> None:
    found = values(SPLIT, (128, 1, 1))
    assert found["%r2"] == patterns.Pattern(tuple(lane % 4 for lane in range(32)), 32, 32)
    assert found["%r5"].offsets == tuple(2 * (lane - lane % 4) + lane % 4 for lane in range(32))
    assert found["%r6"].uniform
    assert not found["%r6"].known
    assert found["%r7"].known
    assert found["%r7"].uniform
    assert found["%r8"].offsets == tuple(lane // 8 for lane in range(32))
    assert found["%r8"].align == 2
    assert found["%rd2"].offsets == tuple(4 * item for item in found["%r5"].offsets)
    assert found["%rd2"].align == 0
    assert found["%r9"].align == 3  # 40 times any number
    assert found["%r10"].known
    assert not found["%r11"].known
    assert "%r12" not in found


@pytest.mark.parametrize(("operation", "lanes"), [("or", 3), ("xor", 3), ("and", 0)])
def test_bits_of_two_numbers(operation: str, lanes: int) -> None:
    """Where lanes' bits lie below what they have in common, of both. A row of 16 lanes and its column make a place in a tile."""
    text = f"""{HEADER}
.visible .entry k(.param .u64 p)
{{
.reg .b32 %r<16>;
mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x;
and.b32 %r2, %r0, 3; shl.b32 %r3, %r0, 2; and.b32 %r4, %r3, 0x780; shl.b32 %r5, %r1, 1;
{operation}.b32 %r6, %r4, %r2; {operation}.b32 %r7, %r5, %r2; {operation}.b32 %r8, %r0, %r1;
ret;
}}
"""
    found = values(text, (256, 1, 1))
    assert found["%r4"] == patterns.Pattern((0,) * 32, 7, 32)
    assert found["%r6"].offsets == tuple(lane & lanes for lane in range(32))
    assert found["%r6"].align == 7
    assert not {"%r7", "%r8"} & set(found)  # bits of the block's number may lie among the lanes'


def test_a_warp_in_rows() -> None:
    text = SPLIT.replace("mov.u32 %r1, %ctaid.x", "mov.u32 %r1, %tid.y")
    found = values(text, (16, 8, 1))
    assert found["%r0"] == patterns.Pattern(tuple(lane % 16 for lane in range(32)), 32, 32)
    assert found["%r1"].offsets == tuple(lane // 16 for lane in range(32))
    assert found["%r1"].align == 1
    assert "%r1" not in values(text, (16, 3, 1))  # rows of a warp may be the last of one z and the first of the next


# Where thread t writes, in words, and the width of what it writes.
STORES = {
    "every second": ("shl.b32 %r4, %r0, 1;", lambda t: 2 * t, 1),
    "every third": ("mul.lo.u32 %r4, %r0, 3;", lambda t: 3 * t, 1),
    "backwards": ("sub.s32 %r4, 255, %r0;", lambda t: 255 - t, 1),
    "far apart": ("shl.b32 %r4, %r0, 4;", lambda t: 16 * t, 1),
    "groups": ("and.b32 %r5, %r0, -4; add.s32 %r4, %r0, %r5;", lambda t: t + t // 4 * 4, 1),
    "swapped": ("xor.b32 %r4, %r0, 5;", lambda t: t ^ 5, 1),
    "all in one": ("and.b32 %r4, %r0, 96;", lambda t: t & 96, 1),
    "few": ("and.b32 %r4, %r0, 98;", lambda t: t & 98, 1),
    "pairs": ("xor.b32 %r5, %r0, 3; shl.b32 %r4, %r5, 1;", lambda t: 2 * (t ^ 3), 2),
    "pairs apart": ("xor.b32 %r5, %r0, 3; shl.b32 %r4, %r5, 2;", lambda t: 4 * (t ^ 3), 2),
    "fours": ("xor.b32 %r5, %r0, 1; shl.b32 %r4, %r5, 2;", lambda t: 4 * (t ^ 1), 4),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("space", ["shared", "global"])
@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("kind", ["u32", "u64", "u16"])
def test_stores_and_loads(device: TinyDevice, name: str, space: str, kind: str) -> None:
    """Written at a pattern, and read at it again: what else is in memory stays."""
    code, where, width = STORES[name]
    bits = int(kind[1:])
    size, register = bits // 8, {16: "%h", 32: "%r", 64: "%rd"}[bits]
    vector = f"v{width}." if width > 1 else ""
    items = [f"{register}{10 + index}" for index in range(width)]
    shown = f"{{{', '.join(items)}}}" if width > 1 else items[0]
    made = "".join(
        f"mul.lo.u32 %r9, %r0, {width}; add.u32 %r9, %r9, {index}; cvt.{kind}.u32 {item}, %r9;\n"
        for index, item in enumerate(items)
    )
    written = "".join(f"st.global.{kind} [%rd4+{size * index}], {item};\n" for index, item in enumerate(items))
    words = 128 * 16 * 2
    address, to_address = {
        "shared": ("%r7", f"mov.u32 %r8, s; mad.lo.u32 %r7, %r4, {size}, %r8;"),
        "global": ("%rd3", f"mul.wide.u32 %rd2, %r4, {size}; add.s64 %rd3, %rd0, %rd2;"),
    }[space]
    text = f"""{HEADER}
.visible .entry k(.param .u64 p, .param .u64 q)
{{
.reg .b16 %h<16>; .reg .b32 %r<16>; .reg .b64 %rd<16>; .shared .align 16 .b8 s[{min(size * words, 32768)}];
ld.param.u64 %rd0, [p]; ld.param.u64 %rd1, [q]; mov.u32 %r0, %tid.x;
{code}
{made}
{to_address}
st.{space}.{vector}{kind} [{address}], {shown};
ld.{space}.{vector}{kind} {shown}, [{address}];
mul.wide.u32 %rd2, %r0, {size * width}; add.s64 %rd4, %rd1, %rd2;
{written}
ret;
}}
"""
    dtype = np.dtype(f"u{size}")
    filled = np.full(words, 77, dtype)
    p, q = device.upload(filled), device.upload(np.zeros(128 * width, dtype))
    module = device.load(text)
    expected, result = filled.copy(), np.zeros((128, width), dtype)
    for warp in range(4):
        threads = range(32 * warp, 32 * warp + 32)
        for t in threads:
            expected[where(t) : where(t) + width] = range(width * t, width * t + width)
        for t in threads:
            result[t] = expected[where(t) : where(t) + width]
    for group in (True, False):
        options = jit.Options(cache=False, optimization=0, warp_groups=group)
        assert device.launch(module, "k", 1, 128, [p, q], options=options) == jit.STATUS_DONE, device.fault.kind
        assert (device.download(q, dtype, 128 * width).reshape(128, width) == result).all()
        if space == "global":
            assert (device.download(p, dtype, words) == expected).all()


@pytest.mark.parametrize(
    ("offset", "thread", "address", "kind"),
    [
        (2056, 34, 4096, jit.FaultKind.ILLEGAL_ADDRESS),  # the third lane of the second warp
        (2, 0, 2, jit.FaultKind.MISALIGNED_ADDRESS),
        (-4, 0, -4, jit.FaultKind.ILLEGAL_ADDRESS),
    ],
)
def test_faults(device: TinyDevice, offset: int, thread: int, address: int, kind: jit.FaultKind) -> None:
    text = f"""{HEADER}
.visible .entry k(.param .u64 p)
{{
.reg .b32 %r<8>; .reg .b64 %rd<8>;
ld.param.u64 %rd0, [p]; mov.u32 %r0, %tid.x; and.b32 %r1, %r0, 34; mul.wide.u32 %rd1, %r1, 60; add.s64 %rd2, %rd0, %rd1;
ld.global.u32 %r2, [%rd2+{offset}]; st.global.u32 [%rd0], %r2;
ret;
}}
"""
    p = device.allocate(4096)
    module = device.load(text)
    assert device.launch(module, "k", 1, 64, [p], options=OPTIONS) == jit.STATUS_FAULT
    assert device.fault.kind == kind
    assert device.fault.address == p + address
    assert device.fault.thread[0] == thread
