"""Compiled code that is the same for everybody: IR files of this package that are no kernel's, such as the dispatch loop of repeats.

Owns their compilation, kept on disk like a kernel's and named by their text. A file defines `farlane_run`, which gets the address of
one structure. The module that gives it says which structures the file names.
"""

from __future__ import annotations

import ctypes
import functools
from importlib import resources

from farlane.backend.jit.compile import cache, native
from farlane.backend.jit.options import Options
from farlane.backend.jit.runtime import assembly
from farlane.backend.system.loading import Loaded


class _Function:
    def __init__(self, files: tuple[str, ...], table: assembly.Table) -> None:
        parts = [resources.files(__package__).joinpath(file).read_text(encoding="utf-8") for file in files]
        text = assembly.define("\n".join(parts), table)
        key = cache.fixed_key(text, native.version())
        stored = cache.load_object(key)
        image = stored[1] if stored is not None else native.compile_ir(text, Options())
        if stored is None:
            cache.save_object(key, b"", image)
        self._loaded = Loaded(image, "farlane_run")
        self.address = self._loaded.address  # as a C function: (structure *, null) -> int
        self._run = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(self.address)

    def __call__(self, structure: ctypes.Structure) -> int:
        """Runs it on this thread, without the GIL."""
        return int(self._run(ctypes.addressof(structure), None))


@functools.cache
def function(files: tuple[str, ...], *table: type[ctypes.Structure]) -> _Function:
    """The function of IR files that name these structures, compiled when it is first asked for."""
    return _Function(files, table)
