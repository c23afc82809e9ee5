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
import time
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
_LOOK_SECONDS = 0.25  # of a kernel that runs: between two looks for code that another process has compiled

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
    asked: bool = field(default=False)  # and no answer yet
    looked: float = field(default=0.0)  # when it last asked whether another process has compiled it

    def spent(self, kernel: CompiledKernel, nanoseconds: int) -> None:
        """The kernel has run so long."""
        self.nanoseconds += nanoseconds
        if self.asked or self.nanoseconds < LEAST_NS:
            return
        shared = cache.has_store()
        if time.monotonic() - self.looked >= _LOOK_SECONDS if shared else self.is_worth_it(kernel):
            self.asked = True
            _compiler.ask(kernel, self)

    def is_worth_it(self, kernel: CompiledKernel) -> bool:
        """Whether tier 2 is to compile the kernel."""
        if kernel.info.tiled:
            return self.nanoseconds >= LEAST_NS
        return self.nanoseconds >= max(LEAST_NS, int(TIER_2_OVER_1 * 1e9 * kernel.info.compile_seconds))


class Compiler:
    """The process that compiles by tier 2, started when it is first needed, and the thread that waits for it.

    Where processes share what they compile (cache.Store), one of them compiles a kernel, and the others take its code as soon as it is there:
    sixty-four sessions of one program would else take all processors from each other's kernels, and one with better code would be ahead of
    the others in the same time.
    """

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
        while True:
            kernel, use = self._asked.get()
            try:
                if not self._improve(kernel, use):
                    use.looked, use.asked = time.monotonic(), False
            except Exception:
                # Tier 1 code is right, only slower.
                _log.warning("kernel %s stays in tier 1", demangled(use.name), exc_info=True)
                self._process.end()

    def _improve(self, kernel: CompiledKernel, use: Use) -> bool:
        """Whether the kernel has its tier 2 code; False: it is to be asked for again. Raises what compiling does."""
        from farlane.backend.jit.compile import native

        better = replace(use.options, tier=2)
        if not (better.cache and cache.has_store() and cache.trusted()):
            kernel.replace(self._process.compile(use.module, use.name, use.block, better)[1])
            return True
        key = cache.key(use.module.digest, use.name, use.block, better, native.version())
        found = cache.load_object(key)
        if found is None:
            if not (use.is_worth_it(kernel) and cache.claim(key)):
                return False
            found = self._process.compile(use.module, use.name, use.block, better)
            cache.save_object(key, *found)
        kernel.replace(found[1])
        return True


_compiler = Compiler()


__all__ = ["KernelInfo", "Use", "options"]
