"""What a launch is charged for, where sessions share the device's time."""

from __future__ import annotations

import secrets
import time

from farlane.backend.device.base import LaunchShape
from farlane.backend.device.sim import SimDevice
from farlane.backend.plane import Page, Scheduler
from sim_program import Program, pack

MODULE = """.version 8.5
.target sm_90
.address_size 64
.visible .entry work(.param .u64 out)
{
.reg .pred %p<2>; .reg .b32 %r<6>; .reg .b64 %rd<3>;
ld.param.u64 %rd0, [out]; mov.u32 %r0, %tid.x; mov.u32 %r1, 0;
NEXT: mad.lo.u32 %r0, %r0, 1664525, %r1; shr.u32 %r2, %r0, 7; xor.b32 %r0, %r0, %r2;
add.u32 %r1, %r1, 1; xor.b32 %r0, %r0, UNIQUE; setp.lt.u32 %p0, %r1, 2000; @%p0 bra NEXT;
mov.u32 %r3, %ctaid.x; mul.wide.u32 %rd1, %r3, 4; add.u64 %rd1, %rd0, %rd1; st.global.u32 [%rd1], %r0; ret;
}
"""
BLOCKS, THREADS = 64, 256


def test_a_session_is_charged_for_compiling_and_for_the_threads_that_help_it() -> None:
    text = MODULE.replace("UNIQUE", str(secrets.randbits(31)))  # no cache has its code
    device, scheduler = SimDevice(threads=2), Scheduler(2)
    program, page = Program(device, text.encode()), Page()
    try:
        program.context.share(scheduler.place(page))
        session = scheduler.join(page)
        at = program.allocate(4 * BLOCKS)
        function = program.context.function(program.module, "work")
        shape = LaunchShape((BLOCKS, 1, 1), (THREADS, 1, 1), 0, False, None)
        began = time.thread_time_ns()
        program.context.launch(function, shape, memoryview(pack("Q", at)), program.stream)
        took = time.thread_time_ns() - began
        before = scheduler.served(session)
        assert before is not None
        assert before[0] > 0.8 * took, "most of it is compiling"
        worked = program.context.counts()["device_nanoseconds"]
        program.context.launch(function, shape, memoryview(pack("Q", at)), program.stream)
        worked = program.context.counts()["device_nanoseconds"] - worked
        after = scheduler.served(session)
        assert after is not None
        assert function.prepared.helpers == 1
        assert after[0] - before[0] > 1.9 * worked > 0
    finally:
        program.context.close()
        device.close()
        scheduler.close()
