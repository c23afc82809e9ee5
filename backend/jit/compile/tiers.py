"""The two tiers of compilation, and when the second one is worth it.

Tier 1 compiles a kernel soon: no instruction combining, no register allocation worth the name. That takes an eighth of the time, and the code runs some
two times slower, with the same results: passes differ, not what is translated. Once a kernel has run for as long as tier 2 would take to compile it,
another process compiles it by tier 2 (one thread of a process at a time enters LLVM, and its work must not delay other kernels). The new code takes
the old one's place between two launches. A program that uses a kernel a few times never pays for tier 2; one that uses it long loses little.
Register tiles (register_tiles.py) run three to four times as fast in tier 2, so LEAST_NS of running is enough for them.

Owns that rule, the process and the replacement. Tier 2 code goes to the disk cache, where the next program finds it at once.
Where tiers are off, tier 2 compiles everything at first use; so does a machine whose frames cannot be read from its code (native.frame_bytes).

Threads: `Use.spent` may be called by any; one thread of ours talks to the process. It ends with this process.
"""

from __future__ import annotations

import logging
import queue
import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from farlane.backend.jit.compile import cache
from farlane.backend.jit.compile.process import CompilerProcess
from farlane.backend.jit.options import KernelInfo, Options
from farlane.demangle import demangled

if TYPE_CHECKING:
    from farlane.backend.jit.compile.kernels import CompiledKernel
    from farlane.backend.jit.ptx.declarations import Module

TIER_2_OVER_1 = 6  # times as long to compile: measured 5 to 8
LEAST_NS = 20_000_000

_log = logging.getLogger(__name__)


def options(tiers: bool = True) -> Options:
    """How kernels are compiled at their first launch: by tier 1, where there are `tiers`, or by tier 2."""
    from farlane.backend.jit.compile import native

    both = tiers and native.frame_bytes(b"") is not None
    return Options(tier=1 if both else 2)


@dataclass
class Use:
    """How long a kernel's tier 1 code has run, and how to compile the kernel by tier 2."""

    module: Module
    name: str
    block: tuple[int, int, int]
    options: Options
    nanoseconds: int = 0
    asked: bool = field(default=False)

    def spent(self, kernel: CompiledKernel, nanoseconds: int) -> None:
        """The kernel has run so long."""
        self.nanoseconds += nanoseconds
        worth = LEAST_NS
        if not kernel.info.tiled:
            worth = max(worth, int(TIER_2_OVER_1 * 1e9 * kernel.info.compile_seconds))
        if not self.asked and self.nanoseconds >= worth:
            self.asked = True
            _compiler.ask(kernel, self)


class Compiler:
    """The process that compiles by tier 2, started when it is first needed, and the thread that waits for it."""

    def __init__(self) -> None:
        self._asked: queue.SimpleQueue[tuple[CompiledKernel, Use]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._process = CompilerProcess()

    def ask(self, kernel: CompiledKernel, use: Use) -> None:
        self._asked.put((kernel, use))
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._work, name="tier-2-compiler", daemon=True)
                try:
                    thread.start()
                except RuntimeError as error:  # the system's limit of threads or memory; the next request tries again
                    _log.warning("kernel %s stays in tier 1 for now: %s", demangled(use.name), error)
                    return
                self._thread = thread

    def _work(self) -> None:
        from farlane.backend.jit.compile import native

        while True:
            kernel, use = self._asked.get()
            try:
                better = replace(use.options, tier=2)
                facts, image = self._process.compile(use.module, use.name, use.block, better)
                kernel.replace(image)
                if better.cache and cache.has_store() and cache.trusted():
                    key = cache.key(use.module.digest, use.name, use.block, better, native.version())
                    cache.save_object(key, facts, image)
            except Exception:
                # Tier 1 code is right, only slower.
                _log.warning("kernel %s stays in tier 1", demangled(use.name), exc_info=True)
                self._process.end()


_compiler = Compiler()


__all__ = ["KernelInfo", "Use", "options"]
