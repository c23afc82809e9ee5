"""Special registers that say where something is."""

from __future__ import annotations

import numpy as np
from jit_tools.device import TinyDevice
from jit_tools.instructions import HEADER


def test_reserved_shared_memory(device: TinyDevice) -> None:
    """1 KiB for the compiler's own use, apart from the kernel's; cooperative groups need 288 bytes of region 1."""
    names = ("begin", "end", "cap", "0", "1")
    reads = " ".join(
        f"mov.u32 %r1, %reserved_smem_offset_{name}; st.global.u32 [%a0+{4 * place}], %r1;"
        for place, name in enumerate(names)
    )
    text = f"""{HEADER}
    .visible .entry k(.param .u64 out) {{
    .reg .b32 %r<4>; .reg .b64 %a<2>; .shared .align 4 .b8 area[100];
    ld.param.u64 %a0, [out]; mov.u32 %r2, area; mov.u32 %r3, 77; st.shared.u32 [%r2], %r3; {reads}
    mov.u32 %r3, 5; st.shared.u32 [%r1+284], %r3; st.global.u32 [%a0+20], %r2; ld.shared.u32 %r3, [%r2]; st.global.u32 [%a0+24], %r3; ret; }}"""
    out = device.upload(np.zeros(7, "u4"))
    assert device.launch(device.load(text), "k", 1, 1, [out]) == 0
    begin, end, cap, zero, one, area, value = (int(word) for word in device.download(out, "u4", 7))
    assert cap == end - begin == 1024
    assert begin == zero < one <= end - 288
    assert area + 100 <= begin or area >= end
    assert value == 77
