"""What a record outside of loops costs the host, by kind: null and simulated device, beside one that Python replays in the same run.

No guest, no wire: `Session.submit` with `COUNT` records of a kind, or pairs of records where one undoes the other. Medians and minima over `ROUNDS` runs; the
kernel is empty.

The GPU device is measured on Farlane's own driver: this script runs once more as a guest of the embedded simulated device. There each kind
stands three times: done by the plane, done by Python, and done by the plane with a driver whose functions do nothing. The last one is what the
plane costs alone; the rest of the first one is the driver's. Needs the guests' environment (`make test-guests` makes it).
"""

from __future__ import annotations

import ctypes
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from farlane.backend.handlers.generated_operations import encode
from repeating import Bench, affine, repeat, template

COUNT, ROUNDS = 10_000, 9
MESSAGE = 1_000_000  # bytes
ROOT = Path(__file__).parents[1]
PYTHON = ROOT / ".cache/guests/bin/python"
INSIDE = "--inside"  # this process is the guest
# What has no answer that the plane needs. The others are the driver's in any case: pinned memory, events.
SILENT = (
    "cuLaunchKernel", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoDAsync_v2", "cuMemsetD8Async", "cuEventRecord",
    "cuStreamSynchronize", "cuCtxSetCurrent",
)  # fmt: skip


def kinds(bench: Bench) -> dict[str, bytes]:
    """A record of each kind."""
    base = bench.base
    return {
        "launch": bench.launch(),
        "write of 4 bytes": encode("WRITE", base, 4, 4, 1, 1, 4, tail=b"abcd"),
        "read of 4 bytes": encode("READ", base, 4, 4, 1, 1, 9),
        "memset of 64 bytes": encode("MEMSET", base, 0, 64, 1, 0, 1, 1, 0),
        "copy of 64 bytes": encode("COPY", base + 64, 0, base, 0, 64, 1, 1, 0),
        "event record": encode("EVENT_RECORD", 16, 1, 0, 0),
        "stream synchronize": encode("STREAM_SYNCHRONIZE", 1, 9),
    }


def more_kinds(bench: Bench) -> dict[str, bytes]:
    """What is made and ended, payloads, a loop."""
    base = bench.base
    bench.submit(encode("PAYLOAD_KEEP", 8, 64, 64, 0, tail=bytes(64)))
    body = bench.launch()
    bench.submit(template(300, [(64, 4)], body[:64] + bytes(4) + body[68:]))
    return {
        "allocate and free": encode("ALLOCATE", base + (1 << 21), 4096) + encode("FREE", base + (1 << 21)),
        "keep and drop 64 bytes": encode("PAYLOAD_KEEP", 9, 64, 64, 0, tail=bytes(64)) + encode("PAYLOAD_DROP", 9, 0),
        "write of a kept payload": encode("WRITE_KEPT", base, 64, 64, 1, 1, 8),
        "event, made and ended": encode("EVENT_CREATE", 20, 0) + encode("EVENT_DESTROY", 20, 0),
        "stream, made and ended": encode("STREAM_CREATE", 20, 0, 0, 0) + encode("STREAM_DESTROY", 20, 0),
        "event query": encode("EVENT_QUERY", 16, 9),
        "elapsed time": encode("EVENT_ELAPSED", 16, 16, 9, 0),
        "REPEAT of 90 launches": repeat(300, 90, affine(0, 1)),
    }


def measure(bench: Bench, title: str, records: Mapping[str, bytes], count: int = COUNT) -> None:
    """Prints what a record of each kind costs."""
    for name, record in records.items():
        share = MESSAGE // len(record)
        messages = [record * min(share, count - at) for at in range(0, count, share)]
        bench.submit(*messages)
        times = []
        for _ in range(ROUNDS):
            started = time.perf_counter()
            bench.submit(*messages)
            times.append((time.perf_counter() - started) / count * 1e6)
        print(f"{title:22} {name:24} {statistics.median(times):7.3f} us   (least {min(times):.3f})", flush=True)


def inside() -> None:
    """The GPU device, in a guest."""
    from farlane.backend.device.gpu.driver import libraries

    count = COUNT // 5  # a read and a synchronization wait for the host behind the driver
    bench = Bench("cupy")
    measure(bench, "cupy, by the plane", kinds(bench), count)
    bench.session.resources.context.direct.disable()
    measure(bench, "cupy, by Python", kinds(bench), count)
    bench.close()
    nothing = ctypes.CDLL(None).pthread_condattr_destroy  # returns 0, and looks at nothing
    address = ctypes.cast(nothing, ctypes.c_void_p).value
    made = libraries.Libraries.__init__

    def silenced(self: libraries.Libraries) -> None:
        made(self)
        self.addresses |= dict.fromkeys(SILENT, address or 0)

    libraries.Libraries.__init__ = silenced  # type: ignore[method-assign]
    bench = Bench("cupy")
    measure(bench, "cupy, a silent driver", kinds(bench))
    bench.close()


def main() -> None:
    if INSIDE in sys.argv:
        inside()
        return
    for device in ("null", "sim"):
        bench = Bench(device)
        measure(bench, device, kinds(bench) | more_kinds(bench))
        bench.session.resources.context.direct.disable()
        measure(bench, f"{device}, by Python", {"launch": bench.launch()})
        bench.close()
    if not PYTHON.exists():
        print("cupy: not measured, the guests' environment is not there (make test-guests makes it)")
        return
    # Calls one by one, as a GPU's driver gets them: Farlane's own would record a loop.
    farlane = [str(ROOT / ".venv/bin/farlane"), "run", "--defer", "calls", "--quota", "16G"]
    command = [*farlane, "--", str(PYTHON), "-W", "ignore", __file__, INSIDE]
    raise SystemExit(subprocess.run(command, env=os.environ | {"FARLANE_INTEROP": "1"}, check=False).returncode)


if __name__ == "__main__":
    main()
