"""What FARLANE_SIM_ORDER=fast gives: sums by floating-point atomics on all threads, beside one thread, blocks in order.

Both ways run in this process, in turn; medians of wall time, and of the processor time of the launching thread or all helpers, whichever is
more (on two threads: what the launch takes when both have a processor for themselves). The first kernel does little beside its atomics, the second computes before each.
"""

from __future__ import annotations

import os
import statistics
import time

from farlane.backend.device.base import LEGACY_STREAM, LaunchShape
from farlane.backend.device.options import DeviceOptions
from farlane.backend.device.sim import SimDevice

ROUNDS = 15
BLOCKS, THREADS, CELLS = 2048, 256, 4096
KERNEL = """.visible .entry work{steps}(.param .u64 out) {{ .reg .b64 %a, %o; .reg .b32 %r<4>; .reg .f32 %f, %g; .reg .pred %p;
    ld.param.u64 %a, [out]; mov.u32 %r0, %ctaid.x; mov.u32 %r1, %tid.x; mad.lo.u32 %r0, %r0, {threads}, %r1;
    mul.lo.u32 %r1, %r0, 2654435; and.b32 %r1, %r1, {mask}; mul.wide.u32 %o, %r1, 4; add.u64 %a, %a, %o; cvt.rn.f32.u32 %f, %r0; mov.u32 %r2, 0;
    LOOP: fma.rn.f32 %f, %f, 0f3F000000, 0f3F800000; sin.approx.f32 %g, %f; add.f32 %f, %f, %g; add.u32 %r2, %r2, 1;
    setp.lt.u32 %p, %r2, {steps}; @%p bra LOOP; red.global.add.f32 [%a], %f; ret; }}
"""


def main() -> None:
    text = ".version 7.5\n.target sm_75\n.address_size 64\n"
    steps = (1, 64)
    text += "".join(KERNEL.format(steps=count, threads=THREADS, mask=CELLS - 1) for count in steps)
    devices = {}
    for order in ("same", "fast"):
        devices[order] = SimDevice(DeviceOptions(order=order))
    shape = LaunchShape((BLOCKS, 1, 1), (THREADS, 1, 1), 0)
    print(
        f"{len(os.sched_getaffinity(0))} threads, load {os.getloadavg()[0]:.1f}; ms for {BLOCKS * THREADS} atomic additions to {CELLS} floats"
    )
    calls = {}
    for order, device in devices.items():
        context = device.open_context(1 << 30)
        module, stream, base = (
            context.load_module(text.encode()),
            context.default_stream(LEGACY_STREAM),
            context.window.base,
        )
        context.allocate(base, CELLS * 4)
        for count in steps:
            function, parameters = context.function(module, f"work{count}"), memoryview(base.to_bytes(8, "little"))
            calls[order, count] = lambda c=context, f=function, p=parameters, s=stream: c.launch(f, shape, p, s)
    for count in steps:
        for _ in range(40):  # tier 2 code has taken the place of tier 1 code
            calls["same", count](), calls["fast", count]()
        time.sleep(2)
        times: dict[str, list[float]] = {"same": [], "fast": []}
        busiest: dict[str, list[float]] = {"same": [], "fast": []}
        for _ in range(ROUNDS):
            for order, taken in times.items():
                started, own, whole = time.perf_counter(), time.thread_time(), time.process_time()
                calls[order, count]()
                taken.append((time.perf_counter() - started) * 1e3)
                own, whole = time.thread_time() - own, time.process_time() - whole
                busiest[order].append(max(own, whole - own) * 1e3)
        for title, found in (("wall time", times), ("busier thread's processor time", busiest)):
            same, fast = (statistics.median(found[order]) for order in ("same", "fast"))
            print(
                f"  {count:3} steps before each, {title:30}: same {same:7.2f}, fast {fast:7.2f}, ratio {fast / same:.2f}"
            )


if __name__ == "__main__":
    main()
