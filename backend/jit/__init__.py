"""PTX text to native kernels that run on the CPU, and everything a device needs to launch them.

    module = parse_module(text)                       # scan only; bodies are parsed at first use
    module.entries["name"]                            # Entry: parameter layout, shared bytes, launch bounds
    module.variables                                  # order = index into Launch.variables
    kernel = compile_kernel(module, "name", (16, 16, 1), options)   # raises PtxError; cached in memory and on disk
    worker = Worker()                                 # one per CPU thread; owns its arenas; reusable for any kernel
    worker.reserve(kernel, launch)                    # grows the arenas to what this launch needs
    status = kernel.run(launch, worker)               # releases the GIL; 0 = done, 1 = fault (see Launch.fault), 2 = aborted

Knows nothing of devices, sessions or fat binaries. Rooms, in the order of their imports: ptx, ssa, analysis, runtime, lowering, compile.
"""

from __future__ import annotations

from farlane.backend.jit.compile import tiers
from farlane.backend.jit.compile.ahead import begin as compile_ahead
from farlane.backend.jit.compile.kernels import CompiledKernel, compile_kernel, linked, ready, translate, undefined
from farlane.backend.jit.lowering.processors import host as processor
from farlane.backend.jit.options import KernelInfo, Options
from farlane.backend.jit.ptx.declarations import (
    Entry,
    Module,
    Parameter,
    PtxError,
    Relocation,
    UnsupportedError,
    Variable,
)
from farlane.backend.jit.ptx.linker import link
from farlane.backend.jit.ptx.module import parse_module
from farlane.backend.jit.ptx.parser import body_of
from farlane.backend.jit.runtime.arenas import Worker
from farlane.backend.jit.runtime.concurrent_blocks import PATIENCE, WORKSPACE_BYTES, Cooperative, Reserve
from farlane.backend.jit.runtime.services import Call, ServiceFault, ServiceKind
from farlane.backend.jit.runtime.structures import (
    GENERIC_WINDOWS,
    GENERIC_WINDOWS_END,
    PAGE_READABLE,
    PAGE_WRITABLE,
    STATUS_ABORTED,
    STATUS_DONE,
    STATUS_FAULT,
    Fault,
    FaultKind,
    Launch,
    WorkerState,
)

__all__ = [
    "GENERIC_WINDOWS",
    "GENERIC_WINDOWS_END",
    "PAGE_READABLE",
    "PAGE_WRITABLE",
    "PATIENCE",
    "STATUS_ABORTED",
    "STATUS_DONE",
    "STATUS_FAULT",
    "WORKSPACE_BYTES",
    "Call",
    "CompiledKernel",
    "Cooperative",
    "Entry",
    "Fault",
    "FaultKind",
    "KernelInfo",
    "Launch",
    "Module",
    "Options",
    "Parameter",
    "PtxError",
    "Relocation",
    "Reserve",
    "ServiceFault",
    "ServiceKind",
    "UnsupportedError",
    "Variable",
    "Worker",
    "WorkerState",
    "body_of",
    "compile_ahead",
    "compile_kernel",
    "link",
    "linked",
    "parse_module",
    "processor",
    "ready",
    "tiers",
    "translate",
    "undefined",
]
