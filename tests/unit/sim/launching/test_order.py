"""The option `order`: floating-point atomics in the order of blocks on one thread, or as they come on several."""

from __future__ import annotations

import struct

import pytest
from farlane.backend.device.options import DeviceOptions
from farlane.backend.device.sim import SimDevice
from sim_program import Program, pack

MODULE = """.version 7.5
.target sm_75
.address_size 64
.extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);
.global .align 1 .b8 text[3] = {46, 0, 0};
.visible .entry sum(.param .u64 out) { .reg .b64 %a; .reg .f32 %f;
    ld.param.u64 %a, [out]; mov.f32 %f, 0f3F800000; red.global.add.f32 [%a], %f; ret; }
.visible .entry told(.param .u64 out) { .reg .b64 %a, %t; .reg .f32 %f; .reg .b32 %r, %b; .reg .pred %p;
    ld.param.u64 %a, [out]; mov.f32 %f, 0f3F800000; red.global.add.f32 [%a], %f;
    mov.u32 %r, %tid.x; mov.u32 %b, %ctaid.x; add.u32 %r, %r, %b; setp.ne.u32 %p, %r, 0; @%p bra END;
    mov.u64 %t, text; cvta.global.u64 %t, %t;
    { .param .b64 p0; .param .b64 p1; .param .b32 q; st.param.b64 [p0], %t; st.param.b64 [p1], 0; call.uni (q), vprintf, (p0, p1); }
    END: ret; }
"""


@pytest.mark.parametrize(
    ("order", "kernel", "helpers"),
    [("same", "sum", 0), ("fast", "sum", 1), ("fast", "told", 0), (None, "sum", 0)],
)
def test_sums_on_several_threads_only_when_asked_for(order: str | None, kernel: str, helpers: int) -> None:
    """What prints stays on one thread. The sum is of ones, so it is the same in any order."""
    device = SimDevice(DeviceOptions() if order is None else DeviceOptions(order=order), threads=2)
    try:
        program = Program(device)
        program.module = program.context.load_module(MODULE.encode())
        at = program.allocate(4, bytes(4))
        program.launch(kernel, pack("Q", at), grid=64, block=128)
        assert struct.unpack("<f", program.read(at, 4)) == (64 * 128,)
        prepared = program.context.function(program.module, kernel).prepared
        assert prepared is not None
        assert prepared.helpers == helpers
        program.context.close()
    finally:
        device.close()


def test_another_order_is_refused() -> None:
    with pytest.raises(ValueError, match="the order 'any': it must be same or fast"):
        DeviceOptions(order="any")
