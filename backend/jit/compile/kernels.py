"""From a kernel of a module to its native code: looked up in memory and on disk, or translated and compiled.

Owns the table of kernels that are loaded.
"""

from __future__ import annotations

import ctypes
import dataclasses
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from farlane.backend.generated_limits import MAX_BLOCK_THREADS
from farlane.backend.jit.compile import cache, native, tiers
from farlane.backend.jit.options import KernelInfo, Options
from farlane.backend.jit.ptx.declarations import Module, PtxError
from farlane.backend.jit.runtime.arenas import Worker
from farlane.backend.jit.runtime.structures import Launch
from farlane.backend.system import flat
from farlane.backend.system.loading import Loaded
from farlane.demangle import demangled

if TYPE_CHECKING:
    from farlane.backend.jit.ptx.model import Body

_ENTRY = "farlane_run"
_RUN = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
_log = logging.getLogger(__name__)


class CompiledKernel:
    """Native code of one kernel for one block shape."""

    def __init__(self, info: KernelInfo, image: bytes, ir: str | None = None, use: tiers.Use | None = None) -> None:
        self.info = info
        self.ir = ir
        self.use = use  # how much its tier 1 code has been used; None once it has tier 2 code
        self._codes = [Loaded(image, _ENTRY)]
        self.address = self._codes[0].address  # as a C function: (Launch *, WorkerState *) -> STATUS_*
        self._run = _RUN(self.address)

    def replace(self, image: bytes) -> None:
        """From now on, runs are runs of this code, the same kernel's. Those under way go on: what they run stays. From any thread."""
        code = Loaded(image, _ENTRY)
        self._codes.append(code)
        self._run, self.address, self.use = _RUN(code.address), code.address, None

    def run(self, launch: Launch, worker: Worker) -> int:
        """Runs blocks of the launch on this thread until none is left. Releases the GIL. Returns a STATUS_*."""
        return int(self._run(ctypes.addressof(launch), ctypes.addressof(worker.state)))


# Most recently used last. A kernel that falls out is unloaded when no launch runs or holds it any more.
_compiled: OrderedDict[str, CompiledKernel] = OrderedDict()
MAX_LOADED = 1024
_lock = threading.Lock()


def ready(module: Module, name: str, block: tuple[int, int, int], options: Options) -> CompiledKernel | None:
    """The native code of a kernel that was translated before, by this process or another one."""
    if options.tier == 1:
        better = dataclasses.replace(options, tier=2)
        if (kernel := _found(_key(module, name, block, better), better)) is not None:
            return kernel
    use = tiers.Use(module, name, block, options) if options.tier == 1 else None
    return _found(_key(module, name, block, options), options, use)


def compile_kernel(
    module: Module, name: str, block: tuple[int, int, int], options: Options | None = None
) -> CompiledKernel:
    """The native code of a kernel. Raises PtxError when it cannot be translated."""
    options = options or Options()
    if min(block) < 1 or block[0] * block[1] * block[2] > MAX_BLOCK_THREADS:
        raise PtxError(f"block of {block} threads", 0, name)
    if (kernel := ready(module, name, block, options)) is not None:
        return kernel
    info, image, text = translate(module, name, block, options)
    image = linked(image)
    key = _key(module, name, block, options)
    use = tiers.Use(module, name, block, options) if options.tier == 1 else None
    kernel = CompiledKernel(info, image, text if options.keep_ir else None, use)
    if options.cache and cache.trusted():
        cache.save(key, info, image)
    return _kept(key, kernel)


def translate(
    module: Module, name: str, block: tuple[int, int, int], options: Options
) -> tuple[KernelInfo, bytes, str]:
    """A kernel's facts, object file and IR, made anew. Raises PtxError when it cannot be translated."""
    # The translator is a third of what a host would import, and the cache may know all kernels (tests/unit/jit/compile/test_cache.py).
    from farlane.backend.jit.lowering.kernel import KernelContext

    start = time.perf_counter()
    context = KernelContext(module, name, block, options)
    text = context.emit()
    image = native.compile_ir(text, options, context.optimization)
    info = context.info()
    frames = native.frame_bytes(image)
    if frames is None and options.tier == 1:
        raise NotImplementedError("tier 1 code needs to know its frames")  # tiers.py does not ask for it then
    # Tier 1 code has a place in the frame for every value, tier 2 code for what finds no register. With room for either version,
    # one may take the other's place. In tier 1 a recursion must get as deep as in tier 2 code.
    deep = options.tier == 1 and info.recursive
    room = max((4 if deep else 1) * info.stack_bytes, (16 if deep else 1) * (frames or 0) + (128 << 10))
    return dataclasses.replace(info, stack_bytes=room, compile_seconds=time.perf_counter() - start), image, text


def undefined(module: Module, body: Body) -> Iterator[str]:
    """The functions that a body calls and that nothing defines (lowering/families/flow/calls.py)."""
    from farlane.backend.jit.lowering.families.flow import calls

    return calls.undefined(module, body)


def linked(image: bytes) -> bytes:
    """A kernel's object as it is kept and loaded: linked already, where it can be."""
    return flat.flattened(image, _ENTRY) or image


def _key(module: Module, name: str, block: tuple[int, int, int], options: Options) -> str:
    return cache.key(module.digest, name, block, options, native.version())


def _found(key: str, options: Options, use: tiers.Use | None = None) -> CompiledKernel | None:
    """A kernel that is in memory or on disk."""
    if options.keep_ir:
        return None
    with _lock:
        known = _compiled.get(key)
        if known is not None:
            _compiled.move_to_end(key)
            return known
    stored = cache.load(key) if options.cache else None
    if stored is None:
        return None
    try:
        kernel = CompiledKernel(dataclasses.replace(stored[0], cached="disk"), stored[1], use=use)
    except ValueError as error:  # as good as absent
        _log.warning("the cached code of kernel %s cannot be loaded: %s", demangled(stored[0].name), error)
        return None
    return _kept(key, kernel)


def _kept(key: str, kernel: CompiledKernel) -> CompiledKernel:
    with _lock:
        kernel = _compiled.setdefault(key, kernel)
        while len(_compiled) > MAX_LOADED:
            _compiled.popitem(last=False)
        return kernel
