"""PTX of kernels that several tests launch."""

from __future__ import annotations

HEADER = b"""
.version 7.5
.target sm_75
.address_size 64
"""
#: A kernel by itself, to be put behind a header.
MIX_ALONE = b"""// word = 3 * word + value
.visible .entry mix(.param .u64 word, .param .u32 value)
{
    .reg .b32 %r<3>; .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [word];
    ld.param.u32 %r1, [value];
    ld.global.u32 %r2, [%rd1];
    mad.lo.s32 %r2, %r2, 3, %r1;
    st.global.u32 [%rd1], %r2;
    ret;
}
"""
MIX = HEADER + MIX_ALONE
