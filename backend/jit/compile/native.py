"""LLVM: from IR text to an object file, and what can be told of one. backend/system/loading.py loads them.

llvmlite serialises LLVM calls with a global lock; the functions here may be called from any thread. They import it
themselves (lowering/processors.py).
"""

from __future__ import annotations

import functools
import re
import threading
from typing import Any

import numpy as np
from farlane.backend.jit.lowering import processors
from farlane.backend.jit.options import Options

_lock = threading.Lock()


@functools.cache
def version() -> str:
    """Names everything outside of this package that generated code depends on."""
    import llvmlite
    import llvmlite.binding as llvm

    cpu, features = processors.host()
    return f"llvmlite {llvmlite.__version__} llvm {llvm.llvm_version_info} {llvm.get_default_triple()} {cpu} {features}"


@functools.cache
def _machine(cpu: str, features: str, level: int) -> Any:
    import llvmlite.binding as llvm

    processors.initialise()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(cpu=cpu, features=features, opt=level, reloc="pic", codemodel="default")


# x86-64: sub rsp, imm32 and imm8.
_FRAME = re.compile(rb"\x48\x81\xec(....)|\x48\x83\xec(.)", re.DOTALL)
_LARGEST_FRAME = 1 << 26
# AArch64: sub sp, sp, #imm12 or #imm12, lsl #12; and stp and str of registers to [sp, #-n]!, n at most 512.
_SUB_SP, _SUB_SP_MASK = 0xD10003FF, 0xFF8003FF
_PUSHES = ((0xA9800000 | 31 << 5, 0xFFC003E0), (0x6D800000 | 31 << 5, 0xFFC003E0), (0xF8000C00 | 31 << 5, 0xFFE00FE0))


def frame_bytes(image: bytes, machine: str | None = None) -> int | None:
    """An upper bound of the stack that a chain of calls in the object takes, each function at most once; None where it cannot be told.

    What the functions' prologues subtract, all of them; bytes that only look like one count as well, up to a limit that no
    frame reaches. 512 for each are for what they push and align.
    """
    if machine is None:
        import llvmlite.binding as llvm

        machine = str(llvm.get_default_triple().split("-")[0])
    if machine == "x86_64":
        total = 0
        for wide, narrow in _FRAME.findall(image):
            size = int.from_bytes(wide or narrow, "little")
            total += 512 + (size if size < _LARGEST_FRAME else 0)
        return total
    if machine == "aarch64":
        words = np.frombuffer(image, np.dtype("<u4"), len(image) // 4)
        subtracts = words[(words & _SUB_SP_MASK) == _SUB_SP].astype(np.uint64)
        sizes = (subtracts >> 10 & 0xFFF) << np.where(subtracts >> 22 & 1, 12, 0).astype(np.uint64)
        pushes = sum(int(np.count_nonzero((words & mask) == code)) for code, mask in _PUSHES)
        return int(sizes.sum()) + 512 * (len(sizes) + pushes)
    return None


def compile_ir(text: str, options: Options, level: int = 2) -> bytes:
    """An object file from IR text. Vectorisers stay off: the code is vector code already."""
    import llvmlite.binding as llvm

    cpu, features = processors.host()
    with _lock:
        generation = 0 if options.tier == 1 else level  # 0: FastISel and the fast register allocator
        machine = _machine(
            options.cpu or cpu, options.features if options.features is not None else features, generation
        )
        module = llvm.parse_assembly(text)
        module.triple = llvm.get_default_triple()
        module.data_layout = str(machine.target_data)
        module.verify()
        if options.tier == 1:
            # Measured (five kernels): an eighth of the time of level 2, where most goes into instruction combining and selection.
            few = llvm.create_new_module_pass_manager()
            few.add_global_dead_code_eliminate_pass()
            few.add_ipsccp_pass()
            few.add_sroa_pass()
            few.add_sccp_pass()
            few.add_simplify_cfg_pass()
            few.add_aggressive_dce_pass()
            few.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=0)))
            return bytes(machine.emit_object(module))
        tuning = llvm.create_pipeline_tuning_options(speed_level=level)
        tuning.loop_vectorization = False
        tuning.slp_vectorization = False
        tuning.loop_unrolling = False
        passes = llvm.create_pass_builder(machine, tuning)
        manager = passes.getModulePassManager()
        manager.run(module, passes)
        return bytes(machine.emit_object(module))
