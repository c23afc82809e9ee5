"""A host whose kernels and model are timed by the processor time of their thread, so that a busy machine does not count. For tlb_programs.py.

    python timed_host.py translated|untranslated <arguments of farlane serve>

Copies count nothing. `untranslated` compiles kernels that do not look whether their accesses are allowed.
"""

from __future__ import annotations

import dataclasses
import sys
import time
import types

from farlane.backend.commands import serve
from farlane.backend.device.sim import context
from farlane.backend.device.sim.launching import launches
from farlane.backend.jit.compile import tiers
from farlane.backend.memory.cores import model


def main() -> int:
    launches.time = types.SimpleNamespace(monotonic=time.monotonic, monotonic_ns=time.thread_time_ns)
    context.time = types.SimpleNamespace(monotonic_ns=lambda: 0, thread_time_ns=time.thread_time_ns)
    model.time = types.SimpleNamespace(perf_counter=time.thread_time)
    if sys.argv[1] == "untranslated":
        plain = tiers.options
        tiers.options = lambda wanted=True: dataclasses.replace(plain(wanted), untranslated=True)
    return serve.main(sys.argv[2:])


if __name__ == "__main__":
    raise SystemExit(main())
