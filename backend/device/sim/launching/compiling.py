"""Compiling at a kernel's first launch, and running it in parts until its tier 2 code is there."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from farlane.backend import jit
from farlane.backend.device.sim.runtime.modules import SimFunction, ptx_error
from farlane.backend.device.sim.runtime.prepared import Prepared
from farlane.backend.device.sim.runtime.runtime import Runtime
from farlane.demangle import demangled

_SLOW_COMPILE_S = 2.0
_PART_NS = 10_000_000  # of a launch in parts: what starting one costs does not count beside it

_log = logging.getLogger("farlane.compiling")  # `farlane run` shows it at a terminal
_compiling = threading.Lock()  # LLVM is entered by one thread at a time anyway; the second finds the first one's result


def whole_clusters(blocks: int, size: int) -> int:
    """So many blocks or fewer, at least one cluster of `size` of them."""
    return max(1, blocks // size) * size


def compiled(
    function: SimFunction, block: tuple[int, int, int], options: jit.Options, runtime: Runtime
) -> jit.CompiledKernel:
    """A kernel's code for blocks of this shape. Raises CudaError."""
    name = function.name
    kernel = jit.ready(function.module.parsed, name, block, options)
    if kernel is None:
        started = time.monotonic_ns()
        try:
            kernel = _translate(function, block, options)
        finally:
            runtime.compilations.add(demangled(name), started, time.monotonic_ns())
    function.compiled[block] = kernel
    return kernel


def _translate(function: SimFunction, block: tuple[int, int, int], options: jit.Options) -> jit.CompiledKernel:
    """Compiles a kernel, and says so where that takes time. Raises CudaError."""
    name = function.name
    started = time.monotonic()
    progress = threading.Timer(
        _SLOW_COMPILE_S, _log.info, ("compiling kernel %s for blocks of %s ...", demangled(name), block)
    )
    progress.daemon = True
    progress.start()
    jit.compile_ahead(function.module.parsed, name, block, options)
    try:
        with _compiling:
            kernel = jit.compile_kernel(function.module.parsed, name, block, options)
    except jit.PtxError as error:
        raise ptx_error(error, name) from None
    finally:
        progress.cancel()
    seconds = time.monotonic() - started
    if seconds >= _SLOW_COMPILE_S:
        _log.info("compiled kernel %s in %.1f s", demangled(name), seconds)
    return kernel


def run_in_parts(prepared: Prepared, run: Callable[[Prepared], bool]) -> bool:
    """Runs a launch of a kernel's tier 1 code: some blocks at a time, so that tier 2 code takes over once it is there.

    Not where a block may wait for others: those of a later part would never come. A launch that is stopped (stops.py) is left where it is.
    """
    kernel, launch = prepared.kernel, prepared.launch
    end, chunk, workers = launch.end_block, launch.chunk, prepared.helpers + 1
    begin, part = launch.next_block, 2 * workers * launch.cluster_blocks
    try:
        while begin < end:
            use = kernel.use
            whole = use is None or kernel.info.waits or prepared.cooperative is not None
            stop = end if whole else min(end, begin + part)
            launch.next_block, launch.end_block = begin, stop
            launch.chunk = (
                chunk if whole else whole_clusters(min(chunk, (stop - begin) // (2 * workers)), launch.cluster_blocks)
            )
            started = time.monotonic_ns()
            if not run(prepared):
                return False
            if launch.next_block < stop:
                return True
            taken = time.monotonic_ns() - started
            if use is not None:
                use.spent(kernel, taken)
            if taken < _PART_NS:
                part *= 2
            begin = stop
        return True
    finally:
        launch.end_block, launch.chunk = end, chunk
