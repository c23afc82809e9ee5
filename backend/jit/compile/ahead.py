"""Compiling ahead: while a module's first kernel is compiled, other processes compile those that are likely to be next.

A program uses few block shapes. So when a kernel has to be translated for a shape, the module's other kernels that use as many
of a block's dimensions are compiled for it, too: in the background, with low priority, on the other cores. What comes out goes
to the disk cache, where the launch finds it (`kernels.ready`). The kernels farthest away in the module come first, since the
session compiles those nearby itself; where the two meet, a kernel may be compiled twice.

Only for modules of a program's size: those of libraries hold hundreds of kernels of which few are used. Without a disk cache
nothing is compiled ahead.

Threads: `begin` may be called by any. The threads and processes of this module end when nothing is left to compile.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import OrderedDict

from farlane.backend.jit.compile import cache
from farlane.backend.jit.compile.process import CompilerProcess
from farlane.backend.jit.options import Options
from farlane.backend.jit.ptx.declarations import Module
from farlane.demangle import demangled

LEAST, MOST = 4, 64  # other kernels: starting a process takes as long as compiling five; a program seldom has more
MOST_TEXT = 256 << 10  # characters of PTX
PROCESSES = max(1, min(3, len(os.sched_getaffinity(0)) - 1))
_REMEMBERED = 1024

_log = logging.getLogger(__name__)

Wanted = tuple[Module, str, tuple[int, int, int], Options]


def candidates(module: Module, name: str, block: tuple[int, int, int]) -> list[str]:
    """The kernels to compile for a block shape beside `name`, those farthest away from it first; none if it is not worth it."""
    names = list(module.entries)
    if len(names) > MOST + 1 or len(module.text) > MOST_TEXT:
        return []
    place = names.index(name)
    flat = block[1] == block[2] == 1
    found = [other for other in names if other != name and _fits(module, other, block, flat)]
    found.sort(key=lambda other: -abs(names.index(other) - place))
    return found if len(found) >= LEAST else []


def _fits(module: Module, name: str, block: tuple[int, int, int], flat: bool) -> bool:
    """Whether a kernel may be launched with this shape, by its bounds and by the dimensions that it looks at."""
    entry, body = module.entries[name], module.functions[name].body
    if body is None or (entry.required_threads not in (None, block)):
        return False
    if entry.max_threads is not None:
        bound = entry.max_threads
        if block[0] * block[1] * block[2] > bound[0] * bound[1] * bound[2]:
            return False
    looks_up = module.text.find("%tid.y", body[0], body[1]) >= 0 or module.text.find("%tid.z", body[0], body[1]) >= 0
    return looks_up is not flat


class Ahead:
    """What is to be compiled, and the threads that each drive a process."""

    def __init__(self) -> None:
        self._wanted: list[Wanted] = []
        self._lock = threading.Lock()
        self._threads = 0
        self._begun: OrderedDict[tuple[bytes, tuple[int, int, int], Options], None] = OrderedDict()

    def begin(self, module: Module, name: str, block: tuple[int, int, int], options: Options) -> None:
        """A kernel is about to be translated. Returns at once."""
        key = module.digest, block, options
        with self._lock:
            if not (options.cache and cache.is_open()) or options.keep_ir or key in self._begun:
                return
            self._begun[key] = None
            while len(self._begun) > _REMEMBERED:
                self._begun.popitem(last=False)
        others = candidates(module, name, block)
        if not others:
            return
        with self._lock:
            self._wanted += [(module, other, block, options) for other in reversed(others)]
            for _ in range(min(PROCESSES - self._threads, len(others))):
                try:
                    threading.Thread(target=self._work, name="compile-ahead", daemon=True).start()
                except RuntimeError as error:  # the system's limit of threads or memory
                    _log.warning("kernels are not compiled ahead for now: %s", error)
                    return
                self._threads += 1

    def _work(self) -> None:
        process = CompilerProcess()
        try:
            while True:
                with self._lock:
                    if not self._wanted:
                        self._threads -= 1
                        return
                    wanted = self._wanted.pop()
                try:
                    process.compile(*wanted)
                except Exception as error:  # its own launch, if there is one, reports what is wrong with it
                    _log.debug("kernel %s is not compiled ahead: %s", demangled(wanted[1]), error)
        finally:
            process.end()


_ahead = Ahead()
begin = _ahead.begin
