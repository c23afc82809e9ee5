"""What tests of warps that run together share: kernels of a few statements, and checks for any number of warps."""

from __future__ import annotations

import re

import numpy as np
from farlane.backend import jit

from jit_tools.device import TinyDevice
from jit_tools.instructions import HEADER

OPTIONS = jit.Options(cache=False, optimization=0)
ALONE = jit.Options(cache=False, optimization=0, warp_groups=False)


def warps_of_group(module: jit.Module, block: tuple[int, int, int]) -> int:
    text = jit.translate(module, "k", block, OPTIONS)[2]
    found = re.search(r"@farlane_group_warps = internal constant i32 (\d+)", text)
    assert found is not None
    return int(found.group(1))


def kernel(body: str, parameters: str = ".param .u64 p, .param .u64 q, .param .u32 n") -> str:
    return f"""{HEADER}
.visible .entry k({parameters})
{{
.reg .pred %p<8>; .reg .f32 %f<8>; .reg .b32 %r<16>; .reg .b64 %rd<16>; .shared .align 4 .b8 s[4096];
mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mad.lo.s32 %r3, %r1, %r2, %r0;
ld.param.u64 %rd0, [p]; ld.param.u64 %rd1, [q]; ld.param.u32 %r4, [n];
{body}
ret;
}}
"""


# Reversed through shared memory, then every thread below n adds its neighbour's.
SHARED = """
mul.wide.s32 %rd2, %r3, 4; add.s64 %rd3, %rd0, %rd2; ld.global.u32 %r5, [%rd3];
mov.u32 %r6, s; shl.b32 %r7, %r0, 2; add.s32 %r8, %r6, %r7; st.shared.u32 [%r8], %r5;
bar.sync 0;
sub.s32 %r9, %r2, %r0; shl.b32 %r9, %r9, 2; add.s32 %r9, %r6, %r9; ld.shared.u32 %r10, [%r9+-4];
bar.sync 0;
st.shared.u32 [%r8], %r10;
bar.sync 0;
setp.ge.s32 %p0, %r0, %r4; @%p0 bra END;
xor.b32 %r11, %r0, 1; shl.b32 %r11, %r11, 2; add.s32 %r11, %r6, %r11; ld.shared.u32 %r12, [%r11]; add.s32 %r10, %r10, %r12;
END:
add.s64 %rd4, %rd1, %rd2; st.global.u32 [%rd4], %r10;
"""

# Each value into shared memory.
PUT = """
mul.wide.s32 %rd2, %r3, 4; add.s64 %rd3, %rd0, %rd2; ld.global.u32 %r5, [%rd3]; add.s64 %rd4, %rd1, %rd2;
mov.u32 %r6, s; shl.b32 %r7, %r0, 2; add.s32 %r8, %r6, %r7; st.shared.u32 [%r8], %r5;
"""

# The sum of a block's values by a tree of branches round accesses of shared memory, which the first n threads write to q.
TREE = PUT + "".join(
    f"""bar.sync 0; setp.ge.s32 %p0, %r0, {span}; @%p0 bra L{span};
ld.shared.u32 %r9, [%r8]; ld.shared.u32 %r10, [%r8+{4 * span}]; add.s32 %r9, %r9, %r10; st.shared.u32 [%r8], %r9;
L{span}:
"""
    for span in (128, 64, 32, 16, 8, 4, 2, 1)
)
WRITE = """bar.sync 0; setp.ge.s32 %p0, %r0, %r4; @%p0 bra END;
ld.shared.u32 %r11, [s]; add.s32 %r11, %r11, %r0; st.global.u32 [%rd4], %r11;
END:
bar.sync 0;
"""


def check_barriers(device: TinyDevice, limit: int) -> None:
    """Warps go on alone, each on its own fiber, after the third barrier."""
    module = device.load(kernel(SHARED))
    assert warps_of_group(module, (256, 1, 1)) == 8
    values = np.random.default_rng(2).integers(0, 1 << 30, 512).astype(np.uint32)
    source, result = device.upload(values), device.allocate(4 * 512)
    assert device.launch(module, "k", 2, 256, [source, result, limit], options=OPTIONS) == jit.STATUS_DONE
    reverse = values.reshape(2, 256)[:, ::-1]
    expected = reverse + np.where(np.arange(256) < limit, reverse[:, np.arange(256) ^ 1], 0).astype(np.uint32)
    assert (device.download(result, np.uint32, 512).reshape(2, 256) == expected).all()


def check_branches(device: TinyDevice) -> None:
    """Warps and lanes disagree, and the warp group goes on."""
    module = device.load(kernel(TREE + WRITE))
    assert warps_of_group(module, (256, 1, 1)) == 8
    values = np.random.default_rng(5).integers(0, 1 << 20, 512).astype(np.uint32)
    sums = values.reshape(2, 256).sum(1, dtype=np.uint32)
    for count in (256, 0, 64, 77, 1):
        source, result = device.upload(values), device.allocate(4 * 512)
        assert device.launch(module, "k", 2, 256, [source, result, count], options=OPTIONS) == jit.STATUS_DONE
        expected = (sums[:, None] + np.arange(256, dtype=np.uint32)) * (np.arange(256) < count)
        assert (device.download(result, np.uint32, 512).reshape(2, 256) == expected).all()


def check_faults(device: TinyDevice, access: str, kind: str, thread: int) -> None:
    """Threads below 200 access what is there for the first 149 only; those above would fault elsewhere."""
    body = PUT + f"bar.sync 0; setp.gt.s32 %p0, %r0, 199; @%p0 bra END; {access}\nEND:\nbar.sync 0;\n"
    module = device.load(kernel(body))
    assert warps_of_group(module, (256, 1, 1)) == 8
    source, result = device.allocate(1024), device.allocate(4096)
    faults = []
    for options in (OPTIONS, ALONE):
        assert device.launch(module, "k", 1, 256, [source, result, 0], options=options) == jit.STATUS_FAULT
        fault = device.fault
        faults.append((fault.kind, fault.address, fault.line, list(fault.block), list(fault.thread)))
    assert faults[0] == faults[1]
    assert faults[0][0] == jit.FaultKind[kind]
    assert faults[0][4] == [thread, 0, 0]


def check_some_lanes_and_then_all(device: TinyDevice) -> None:
    """What a part of the first block's lanes found of the pages says nothing about whole rows: thread 250 of the second block is past the end."""
    body = """sub.u32 %r5, 1, %r1; mul.lo.u32 %r5, %r5, %r0; bar.sync 0; setp.ge.u32 %p0, %r5, %r4; @%p0 bra END;
    mul.wide.s32 %rd2, %r0, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r3;\nEND:\nbar.sync 0;\n"""
    module = device.load(kernel(body))
    assert warps_of_group(module, (256, 1, 1)) == 8
    page = device.allocate(4096)
    arguments = [0, page + 4096 - 4 * 250, 100]
    assert device.launch(module, "k", 1, 256, arguments, options=OPTIONS) == jit.STATUS_DONE
    assert device.launch(module, "k", 2, 256, arguments, options=OPTIONS) == jit.STATUS_FAULT
    assert (list(device.fault.block), list(device.fault.thread)) == ([1, 0, 0], [250, 0, 0])
    assert device.fault.address == page + 4096
