"""Lane and warp, as programs compute them from %tid.x: the same values, and in the form that makes code fast."""

from __future__ import annotations

import numpy as np
import pytest
from farlane.backend import jit
from jit_tools.device import TinyDevice
from jit_tools.instructions import HEADER

OPTIONS = jit.Options(cache=False, optimization=0)

# result[8 * thread ...]: as unsigned and as signed numbers, as nvcc has them; then what only looks like it.
TEXT = f"""{HEADER}
.visible .entry k(.param .u64 result)
{{
.reg .b32 %r<32>; .reg .b64 %rd<4>;
mov.u32 %r0, %tid.x; mov.u32 %r1, %tid.y; mov.u32 %r2, %ntid.x; mad.lo.u32 %r3, %r1, %r2, %r0;
and.b32 %r4, %r0, 31;
shr.u32 %r5, %r0, 5;
shr.s32 %r6, %r0, 31; shr.u32 %r7, %r6, 27; add.s32 %r8, %r0, %r7; and.b32 %r9, %r8, -32; sub.s32 %r10, %r0, %r9;
shr.s32 %r11, %r8, 5;
and.b32 %r12, %r0, 63;
and.b32 %r13, %r0, 15;
shr.u32 %r14, %r0, 4;
add.s32 %r15, %r0, 1; shr.u32 %r16, %r15, 5;
mul.wide.u32 %rd0, %r3, 32; ld.param.u64 %rd1, [result]; add.s64 %rd2, %rd1, %rd0;
st.global.v4.u32 [%rd2], {{%r4, %r5, %r10, %r11}};
st.global.v4.u32 [%rd2+16], {{%r12, %r13, %r14, %r16}};
ret;
}}
"""


@pytest.mark.parametrize(
    "block", [(64, 1, 1), (1024, 1, 1), (40, 1, 1), (64, 2, 1), (32, 3, 1), (16, 4, 1), (48, 2, 1)]
)
def test_values(device: TinyDevice, block: tuple[int, int, int]) -> None:
    threads = block[0] * block[1]
    module = device.load(TEXT)
    result = device.allocate(32 * threads)
    for team in (True, False):
        options = jit.Options(cache=False, optimization=0, team=team)
        assert device.launch(module, "k", 1, block, [result], options=options) == jit.STATUS_DONE
        x = np.arange(threads) % block[0]
        expected = [x % 32, x // 32, x % 32, x // 32, x % 64, x % 16, x // 16, (x + 1) // 32]
        assert (device.download(result, np.uint32, 8 * threads).reshape(-1, 8) == np.stack(expected, axis=1)).all()


def test_a_warp_number_is_uniform() -> None:
    """A branch on it tests no lanes, and a load at it reads one word."""
    text = f"""{HEADER}
.visible .entry k()
{{
.reg .pred %p<2>; .reg .b32 %r<8>; .shared .align 4 .b8 s[128];
mov.u32 %r0, %tid.x; shr.u32 %r1, %r0, 5; setp.ne.s32 %p0, %r1, 0; @%p0 bra END; st.shared.u32 [s], %r1;
END:
ret;
}}
"""
    module = jit.parse_module(text)
    whole = jit.translate(module, "k", (1024, 1, 1), jit.Options(cache=False, optimization=0, team=False))[2]
    kernel = whole[whole.index("@farlane_kernel(ptr %warp) #0") :]
    # All lanes take the branch or none does: there are no others to be remembered, in the version without masks.
    full = kernel[kernel.index("\nf0:") : kernel.index("\nm0.test:")]
    assert "<32 x i1>" not in full


def test_bits_of_an_index_in_a_float_register(device: TinyDevice) -> None:
    """They are not affine: a float register that lives from block to block is kept as one."""
    module = device.load(f"""{HEADER}
.visible .entry k(.param .u64 p, .param .u32 n)
{{
.reg .pred %p<2>; .reg .f32 %f<2>; .reg .b32 %r<8>; .reg .b64 %rd<4>;
mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [p]; ld.param.u32 %r1, [n]; shl.b32 %r2, %r0, 23; mov.b32 %f0, %r2;
setp.eq.s32 %p0, %r1, 0; @%p0 bra END; add.f32 %f0, %f0, %f0;
END:
mul.wide.u32 %rd1, %r0, 4; add.s64 %rd2, %rd0, %rd1; st.global.f32 [%rd2], %f0;
ret;
}}
""")
    result = device.allocate(256)
    bits = np.arange(64, dtype=np.uint32) << 23
    for twice in (0, 1):
        assert device.launch(module, "k", 1, 64, [result, twice], options=OPTIONS) == jit.STATUS_DONE
        found = device.download(result, np.uint32, 64)
        assert (found == (bits.view(np.float32) * np.float32(1 + twice)).view(np.uint32)).all()
