"""Ways to run a case in this process: the simulated device, C loops, numpy.

A runner is opened with a case, and then asked to `reset` (not timed) and `run` (timed) alternately; `result` is an output.
"""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Protocol

import numpy as np
from farlane.backend.device.base import LEGACY_STREAM, LaunchShape, Rows
from farlane.backend.device.options import DeviceOptions
from farlane.backend.device.sim import SimDevice
from farlane.frontend.devtools import toolchain

from kernels.suite import Argument, Array, Case

FOLDER = Path(__file__).parent


class Runner(Protocol):
    name: str

    def reset(self) -> None: ...
    def run(self) -> None: ...
    def result(self, name: str) -> Array: ...
    def close(self) -> None: ...


def ptx(text: str = '#include "portable.h"\n#include "kernels.inc"\n', architecture: str = "compute_75") -> bytes:
    """Kernels as PTX, by nvcc 13.0 from the wheels: those of kernels.inc, or of another text."""
    tools = toolchain.install("13.0")
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "kernels.cu", Path(folder) / "kernels.ptx"
        source.write_text(text)
        command = [*tools.command(architecture), "-O3", "-I", str(FOLDER), "--ptx", str(source), "-o", str(target)]
        subprocess.run(command, check=True, env=tools.environment())
        return target.read_bytes()


class Simulated:
    """The simulated device, without a guest: the calls are those that the replay makes. Every access is translated."""

    def __init__(self, case: Case, image: bytes, threads: int) -> None:
        self.name = f"sim, {threads} thread{'s'[: threads > 1]}"
        self.case = case
        self._device = SimDevice(DeviceOptions(tiers=False), threads=threads)  # what runs long has tier 2 code
        self._context = self._device.open_context(4 << 30)
        self._stream = self._context.default_stream(LEGACY_STREAM)
        module = self._context.load_module(image)
        self._places: dict[str, Rows] = {}
        at = self._context.window.base
        for name, array in case.arrays.items():
            self._context.allocate(at, array.nbytes)
            self._places[name] = Rows(at, array.nbytes, array.nbytes, 1)
            self._write(name)
            at += -(-array.nbytes // (2 << 20)) * (2 << 20)
        self._launches = [
            (
                self._context.function(module, step.kernel),
                LaunchShape(step.grid, step.block, 0),
                memoryview(self._parameters(step.arguments)),
            )
            for step in case.steps
        ]

    def _write(self, name: str) -> None:
        self._context.write(self._places[name], memoryview(self.case.arrays[name]).cast("B"), self._stream)

    def _parameters(self, arguments: tuple[Argument, ...]) -> bytes:
        packed = b""
        for argument in arguments:
            if isinstance(argument, str):
                packed += bytes(-len(packed) % 8) + struct.pack("<Q", self._places[argument].address)
            else:
                packed += struct.pack("<f" if isinstance(argument, float) else "<i", argument)
        return packed

    def reset(self) -> None:
        for name in self.case.changed:
            self._write(name)

    def run(self) -> None:
        for function, shape, parameters in self._launches:
            self._context.launch(function, shape, parameters, self._stream)

    def result(self, name: str) -> Array:
        data = b"".join(bytes(piece) for piece in self._context.read(self._places[name], self._stream))
        return np.frombuffer(data, self.case.arrays[name].dtype)

    def close(self) -> None:
        self._context.close()
        self._device.close()


class Library:
    """loops.c, compiled with gcc -O3 -march=native; with OpenMP or without."""

    def __init__(self, openmp: bool, threads: int) -> None:
        self.openmp = openmp
        # Read when the library is opened.
        os.environ["OMP_NUM_THREADS"] = str(threads)
        self._folder = tempfile.TemporaryDirectory()
        target = Path(self._folder.name) / "loops.so"
        options = ["-O3", "-march=native", "-shared", "-fPIC", *(["-fopenmp"] if openmp else [])]
        subprocess.run(["gcc", *options, str(FOLDER / "loops.c"), "-o", str(target), "-lm"], check=True)
        self.functions = ctypes.CDLL(str(target))

    def __enter__(self) -> Library:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._folder.cleanup()


class Loops:
    """A function of loops.c."""

    def __init__(self, case: Case, library: Library) -> None:
        self.name = "gcc, OpenMP" if library.openmp else "gcc"
        self.case = case
        self._arrays = {name: array.copy() for name, array in case.arrays.items()}
        function, arguments = case.loop
        self._function = getattr(library.functions, function)
        self._function.restype = None
        self._arguments = [self._argument(argument) for argument in arguments]

    def _argument(self, argument: Argument) -> object:
        if isinstance(argument, str):
            return ctypes.c_void_p(self._arrays[argument].ctypes.data)
        return ctypes.c_float(argument) if isinstance(argument, float) else ctypes.c_int(argument)

    def reset(self) -> None:
        for name in self.case.changed:
            self._arrays[name][:] = self.case.arrays[name]

    def run(self) -> None:
        self._function(*self._arguments)

    def result(self, name: str) -> Array:
        return self._arrays[name]

    def close(self) -> None:
        self._arrays.clear()


class Numpy:
    """The case's expression. It makes its results anew and changes nothing."""

    name = "numpy"

    def __init__(self, case: Case) -> None:
        self.case = case
        self._result: dict[str, Array] = {}

    def reset(self) -> None:
        pass

    def run(self) -> None:
        assert self.case.numpy is not None
        self._result = self.case.numpy(self.case.arrays)

    def result(self, name: str) -> Array:
        return self._result[name]

    def close(self) -> None:
        self._result.clear()
