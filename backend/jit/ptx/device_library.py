"""NVIDIA's device library of cooperative groups (libcudadevrt), as PTX: the functions that a kernel calls for its grid.

Owns the text of these functions and adds it to a program that declares one without defining it. A program gets them from `libcudadevrt.a`,
which holds machine code only, so the guest leaves that archive out of a link and the simulated device provides them. The other functions of
that library are requests to the device (lowering/families/flow/runtime_calls.py).

The handle of a grid is the address of the barrier's memory, `%envreg1` and `%envreg2`; 0 where the launch is not cooperative. The barrier
is the one that nvcc compiles for `grid.sync()`.

Source: cuda_device_runtime_api.h (cudaCGGetIntrinsicHandle and its relatives); cooperative_groups.h, what nvcc makes of `sync_grids`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_DECLARED = re.compile(r"\.extern\s+\.func[^;{]*?\bcudaCG(?:GetIntrinsicHandle|Synchronize)\b")


def completed(texts: Sequence[str]) -> Sequence[str]:
    """The units of a program, and this library behind them where one of them declares a function of it."""
    if any("cudaCG" in text and _DECLARED.search(text) for text in texts):
        return [*texts, _TEXT]
    return texts


_INVALID_VALUE = 1  # cudaErrorInvalidValue

# Every definition is weak: a program's own counts.
_TEXT = f"""
.version 6.0
.target sm_70
.address_size 64

.weak .func (.param .b64 result) cudaCGGetIntrinsicHandle(.param .b32 scope)
{{
    .reg .pred %other;
    .reg .b32 %scope, %low, %high;
    .reg .b64 %handle;
    ld.param.u32 %scope, [scope];
    mov.u32 %low, %envreg2;
    mov.u32 %high, %envreg1;
    mov.b64 %handle, {{%low, %high}};
    setp.ne.u32 %other, %scope, 1;
    selp.b64 %handle, 0, %handle, %other;
    st.param.b64 [result], %handle;
    ret;
}}

.weak .func (.param .b32 result) cudaCGSynchronize(.param .b64 handle, .param .b32 flags)
{{
    .reg .pred %bad, %follower, %first, %waiting;
    .reg .b32 %x, %y, %z, %blocks, %step, %old, %now;
    .reg .b64 %handle, %counter;
    ld.param.u64 %handle, [handle];
    setp.eq.u64 %bad, %handle, 0;
    @%bad bra refused;
    barrier.sync 0;
    mov.u32 %x, %tid.x;
    mov.u32 %y, %tid.y;
    mov.u32 %z, %tid.z;
    or.b32 %x, %x, %y;
    or.b32 %x, %x, %z;
    setp.ne.u32 %follower, %x, 0;
    @%follower bra together;
    add.s64 %counter, %handle, 4;
    mov.u32 %x, %nctaid.x;
    mov.u32 %y, %nctaid.y;
    mov.u32 %z, %nctaid.z;
    mul.lo.s32 %blocks, %x, %y;
    mul.lo.s32 %blocks, %blocks, %z;
    mov.u32 %x, %ctaid.x;
    mov.u32 %y, %ctaid.y;
    mov.u32 %z, %ctaid.z;
    or.b32 %x, %x, %y;
    or.b32 %x, %x, %z;
    setp.eq.u32 %first, %x, 0;
    mov.u32 %step, 0x80000001;
    sub.s32 %step, %step, %blocks;
    selp.b32 %step, %step, 1, %first;
    atom.add.release.gpu.u32 %old, [%counter], %step;
again:
    ld.acquire.gpu.u32 %now, [%counter];
    xor.b32 %now, %now, %old;
    setp.gt.s32 %waiting, %now, -1;
    @%waiting bra again;
together:
    barrier.sync 0;
    mov.u32 %now, 0;
    st.param.b32 [result], %now;
    ret;
refused:
    mov.u32 %now, {_INVALID_VALUE};
    st.param.b32 [result], %now;
    ret;
}}
"""
