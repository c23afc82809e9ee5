"""What a record outside of loops costs the host, by kind: null and simulated device, beside one that Python replays in the same run.

No guest, no wire: `Session.submit` with `COUNT` records of a kind, or pairs of records where one undoes the other. Medians and minima over `ROUNDS` runs; the kernel is empty.
"""

from __future__ import annotations

import statistics
import time

from farlane.backend.handlers.generated_operations import encode
from replay_loops import Bench, affine, repeat, template

COUNT, ROUNDS = 10_000, 9
MESSAGE = 1_000_000  # bytes


def main() -> None:
    for device in ("null", "sim"):
        bench = Bench(device)
        base = bench.base
        bench.submit(encode("PAYLOAD_KEEP", 8, 64, 64, 0, tail=bytes(64)))
        body = bench.launch()
        bench.submit(template(300, [(64, 4)], body[:64] + bytes(4) + body[68:]))
        kinds = {
            "launch": bench.launch(),
            "write of 4 bytes": encode("WRITE", base, 4, 4, 1, 1, 4, tail=b"abcd"),
            "read of 4 bytes": encode("READ", base, 4, 4, 1, 1, 9),
            "memset of 64 bytes": encode("MEMSET", base, 0, 64, 1, 0, 1, 1, 0),
            "copy of 64 bytes": encode("COPY", base + 64, 0, base, 0, 64, 1, 1, 0),
            "event record": encode("EVENT_RECORD", 16, 1, 0, 0),
            "stream synchronize": encode("STREAM_SYNCHRONIZE", 1, 9),
            "allocate and free": encode("ALLOCATE", base + (1 << 21), 4096) + encode("FREE", base + (1 << 21)),
            "keep and drop 64 bytes": encode("PAYLOAD_KEEP", 9, 64, 64, 0, tail=bytes(64))
            + encode("PAYLOAD_DROP", 9, 0),
            "write of a kept payload": encode("WRITE_KEPT", base, 64, 64, 1, 1, 8),
            "event, made and ended": encode("EVENT_CREATE", 20, 0) + encode("EVENT_DESTROY", 20, 0),
            "stream, made and ended": encode("STREAM_CREATE", 20, 0, 0, 0) + encode("STREAM_DESTROY", 20, 0),
            "event query": encode("EVENT_QUERY", 16, 9),
            "elapsed time": encode("EVENT_ELAPSED", 16, 16, 9, 0),
            "REPEAT of 90 launches": repeat(300, 90, affine(0, 1)),
            "launch, by Python": bench.launch(),
        }
        for name, record in kinds.items():
            if name.endswith("by Python"):
                bench.session.resources.context.direct.disable()
            share = MESSAGE // len(record)
            messages = [record * min(share, COUNT - at) for at in range(0, COUNT, share)]
            bench.submit(*messages)
            times = []
            for _ in range(ROUNDS):
                started = time.perf_counter()
                bench.submit(*messages)
                times.append((time.perf_counter() - started) / COUNT * 1e6)
            print(f"{device:4} {name:24} {statistics.median(times):7.3f} us   (least {min(times):.3f})")
        bench.close()


if __name__ == "__main__":
    main()
