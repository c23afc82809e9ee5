"""wgmma: operands in shared memory as the manual's figures lay them out, products from numpy."""

from __future__ import annotations

import numpy as np
import pytest
from jit_tools.device import TinyDevice
from jit_tools.instructions import HEADER
from jit_tools.matrices import BITS, elements, listed, number, positions, words

WIDTHS = {0: 16, 1: 128, 2: 64, 3: 32}  # swizzling -> bytes of a row
DEPTH_BYTES = 32


def image(codes: np.ndarray, name: str, mode: int, turned: bool) -> tuple[bytes, int]:
    """The bytes of a matrix (its places along rows, k along columns), and its descriptor without the start."""
    size, width = BITS[name] // 8, WIDTHS[mode]
    groups = len(codes) // 8
    if turned:
        # Rows of k; swizzled, several pieces of 8 places lie in one.
        leading, stride = (128 * groups, 128) if mode == 0 else (16 * width, 8 * width)
    else:
        leading, stride = (128, 256) if mode == 0 else (16, 8 * width)
    found: dict[int, int] = {}
    for place, row in enumerate(codes):
        for k, code in enumerate(row):
            piece, inside = (place // 8, place % 8 * size) if turned else divmod(k * size, 16)
            line, group = (k % 8, k // 8) if turned else (place % 8, place // 8)
            if mode == 0:
                near, far = (stride, leading) if turned else (leading, stride)
                at = piece * near + group * far + line * 16 + inside
            else:
                pieces = width // 16
                # Lines of 128 bytes hold 1, 2 or 4 rows; the number of the line changes the order of the pieces.
                chosen = (piece % pieces) ^ (line * width // 128 % pieces)
                at = piece // pieces * leading + group * stride + line * width + chosen * 16 + inside
            for byte in range(size):
                found[at + byte] = int(code) >> 8 * byte & 0xFF
    content = bytes(found.get(at, 0xEE) for at in range(max(found) + 1))
    return content, leading >> 4 << 16 | stride >> 4 << 32 | mode << 62


def kernel(mnemonic: str, count: int, settings: str, total: int, offset: int, in_registers: bool, kind: str) -> str:
    lines = [
        HEADER.replace("sm_90", "sm_90a"),
        ".visible .entry k(.param .u64 out, .param .u64 image, .param .u64 fragments,",
    ]
    lines += [".param .u64 first, .param .u64 second, .param .u32 keep, .param .u32 start) {"]
    lines += [f".shared .align 1024 .b8 area[{total}]; .reg .b64 %g, %x, %left, %right; .reg .pred %p, %keep;"]
    lines += [f".reg .b32 %t, %v, %w, %s, %a<4>; .reg .{kind} %d<{count}>;"]
    lines += ["ld.param.u64 %g, [image]; mov.u32 %t, %tid.x; shl.b32 %t, %t, 2; mov.u32 %s, area;"]
    lines += [f"COPY: setp.ge.u32 %p, %t, {total}; @%p bra READY; cvt.u64.u32 %x, %t; add.s64 %x, %g, %x;"]
    lines += ["ld.global.u32 %v, [%x]; add.u32 %w, %s, %t; st.shared.u32 [%w], %v; add.u32 %t, %t, 512; bra COPY;"]
    lines += ["READY: bar.sync 0; mov.u32 %t, %tid.x; ld.param.u64 %g, [fragments]; mul.wide.u32 %x, %t, 16;"]
    lines += ["add.s64 %x, %g, %x; ld.global.v4.u32 {%a0, %a1, %a2, %a3}, [%x];"]
    lines += ["shr.u32 %v, %s, 4; cvt.u64.u32 %x, %v; ld.param.u64 %left, [first]; or.b64 %left, %left, %x;"]
    lines += [f"ld.param.u64 %right, [second]; add.s64 %x, %x, {offset >> 4}; or.b64 %right, %right, %x;"]
    lines += ["ld.param.u32 %v, [keep]; setp.ne.u32 %keep, %v, 0;"]
    lines += [f"ld.param.b32 %d{index}, [start];" for index in range(count)]
    left = "{%a0, %a1, %a2, %a3}" if in_registers else "%left"
    lines += [f"wgmma.fence.sync.aligned; {mnemonic} {listed('d', count)}, {left}, %right, %keep{settings};"]
    lines += ["wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"]
    lines += [f"ld.param.u64 %g, [out]; mul.wide.u32 %x, %t, {4 * count}; add.s64 %g, %g, %x;"]
    lines += [f"st.global.b32 [%g+{4 * index}], %d{index};" for index in range(count)]
    return "\n".join([*lines, "ret; }"])


PLAIN = (False, False)
NEGATED = {24, 88, 128}  # columns of the cases that negate A
CASES = [
    *(("f32 f16 f16", 64, (mode, mode), turned) for mode in range(4) for turned in (PLAIN, (True, True))),
    ("f32 f16 f16", 256, (1, 1), (False, True)), ("f32 f16 f16", 72, (1, 3), (True, False)),
    ("f16 f16 f16", 88, (2, 1), PLAIN), ("f32 bf16 bf16", 8, (3, 0), PLAIN), ("f32 tf32 tf32", 128, (1, 2), PLAIN),
    ("f32 e4m3 e5m2", 24, (1, 1), PLAIN), ("s32 s8 u8", 64, (1, 1), PLAIN), ("s32 u8 s8", 16, (0, 2), PLAIN),
]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("in_registers", [False, True], ids=["shared", "registers"])
@pytest.mark.parametrize(("types", "columns", "modes", "turned"), CASES)
def test_products(
    device: TinyDevice, types: str, columns: int, modes: tuple[int, int], turned: tuple[bool, bool], in_registers: bool
) -> None:
    d, a, b = types.split()
    depth = DEPTH_BYTES // (BITS[a] // 8)
    generator = np.random.default_rng(3)
    left, right = elements(generator, a, (64, depth)), elements(generator, b, (columns, depth))
    value = (
        np.vectorize(lambda code: number(a, int(code)))(left) @ np.vectorize(lambda code: number(b, int(code)))(right).T
    )
    pieces = [image(left, a, modes[0], turned[0]), image(right, b, modes[1], turned[1])]
    offset = (len(pieces[0][0]) + 1023) // 1024 * 1024
    content = pieces[0][0].ljust(offset, b"\xee") + pieces[1][0]
    content = content.ljust((len(content) + 3) // 4 * 4, b"\xee")
    where = positions("a", a, (16, 8, depth))
    fragments = np.concatenate([words(left[16 * warp : 16 * warp + 16], where, a) for warp in range(4)])
    count = columns // (4 if d == "f16" else 2)
    one = {"f32": np.float32(1).view("u4"), "f16": 0x3C003C00, "s32": 1}[d]
    out, memory = device.allocate(512 * count), device.upload(np.frombuffer(content, "u1"))
    registers = device.upload(fragments)
    signs = "" if d == "s32" else ", {}, 1" + (", {}, {}" if a in ("f16", "bf16") and not in_registers else "")
    signs += ", {1}" if a in ("f16", "bf16") and in_registers else ""
    signs = signs.replace("{1}", str(int(turned[1])))
    mnemonic = f"wgmma.mma_async.sync.aligned.m64n{columns}k{depth}.{d}.{a}.{b}"
    sign = -1 if columns in NEGATED else 1
    settings = signs.format(sign, *(int(way) for way in turned))
    text = kernel(mnemonic, count, settings, len(content), offset, in_registers, "f32" if d == "f32" else "b32")
    module = device.load(text)
    for keep in (1, 0):
        parameters = [out, memory, registers, pieces[0][1], pieces[1][1], keep, int(one)]
        assert device.launch(module, "k", 1, 128, parameters) == 0, device.fault.kind
        got = device.download(out, {"f32": "f4", "f16": "f2", "s32": "i4"}[d], 64 * columns).reshape(128, -1)
        expected = (sign * value + keep).astype(got.dtype)
        for thread in range(128):
            for index in range(got.shape[1]):
                row = thread // 32 * 16 + thread % 32 // 4 + 8 * (index // 2 % 2)
                column = index // 4 * 8 + thread % 4 * 2 + index % 2
                assert got[thread, index] == expected[row, column], (thread, index)


@pytest.mark.parametrize(
    "text",
    [
        "wgmma.mma_async.sync.aligned.m64n8k256.s32.b1.b1.and.popc {%d0, %d1, %d2, %d3}, %x, %x, %p;",
        "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%d0, %d1, %d2, %d3}, %x, %x, %d0, 0, %p, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%d0, %d1, %d2, %d3}, %x, %x, %p, 1, 1, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k8.f32.f16.f16 {%d0, %d1, %d2, %d3}, %x, %x, %p, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%d0, %d1, %d2, %d3}, %x, %x, %p, 2, 1, 0, 0;",
    ],
)
def test_what_is_not_there(device: TinyDevice, text: str) -> None:
    declared = ".reg .b32 %d<4>; .reg .b64 %x; .reg .pred %p; mov.b64 %x, 0; setp.eq.u64 %p, %x, 0;"
    source = f"{HEADER}.visible .entry k() {{ {declared} {text} ret; }}"
    with pytest.raises(Exception, match="wgmma"):
        device.launch(device.load(source), "k", 1, 128, [])
