"""LLVM: from IR text to an object file, and from an object file to a callable address.

The only importer of llvmlite. llvmlite serialises LLVM calls with a global lock; the functions here may be called from any thread.
Loaded code stays loaded as long as the `Code` object lives.
"""

from __future__ import annotations

import functools
import itertools
import threading
from typing import Any

import llvmlite
import llvmlite.binding as llvm
from farlane.backend.jit.abi import Options

_lock = threading.Lock()
_numbers = itertools.count()


class Code:
    """A linked object. `address` is that of farlane_run."""

    def __init__(self, image: bytes) -> None:
        with _lock:
            builder = llvm.JITLibraryBuilder()
            builder.add_object_img(image)
            builder.add_current_process()
            builder.export_symbol("farlane_run")
            self._tracker: Any = builder.link(_linker(), f"farlane{next(_numbers)}")
        self.address: int = self._tracker["farlane_run"]


def version() -> str:
    """Names everything outside of this package that generated code depends on."""
    cpu, features = host()
    return f"llvmlite {llvmlite.__version__} llvm {llvm.llvm_version_info} {llvm.get_default_triple()} {cpu} {features}"


@functools.cache
def host() -> tuple[str, str]:
    """CPU name and feature string of this machine."""
    _initialise()
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


@functools.cache
def _initialise() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()  # the runtime's module assembly


@functools.cache
def _machine(cpu: str, features: str, level: int) -> Any:
    _initialise()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(cpu=cpu, features=features, opt=level, reloc="pic", codemodel="default")


@functools.cache
def _linker() -> Any:
    cpu, features = host()
    return llvm.create_lljit_compiler(_machine(cpu, features, 2))


def compile_ir(text: str, options: Options, level: int = 2) -> bytes:
    """An object file from IR text. Vectorisers stay off: the code is vector code already."""
    cpu, features = host()
    with _lock:
        machine = _machine(options.cpu or cpu, options.features if options.features is not None else features, level)
        module = llvm.parse_assembly(text)
        module.triple = llvm.get_default_triple()
        module.data_layout = str(machine.target_data)
        module.verify()
        tuning = llvm.create_pipeline_tuning_options(speed_level=level)
        tuning.loop_vectorization = False
        tuning.slp_vectorization = False
        tuning.loop_unrolling = False
        passes = llvm.create_pass_builder(machine, tuning)
        manager = passes.getModulePassManager()
        manager.run(module, passes)
        return bytes(machine.emit_object(module))
