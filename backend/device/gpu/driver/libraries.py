"""The libraries behind the GPU device: CuPy's bindings and libcuda, found and ready to be called.

The only module that imports CuPy's bindings or loads libcuda. Owns the handles of the libraries, what must be there, and the translation of errors; which
call does what is driver.py's.

Source: CUDA driver API, "Error Handling"; cupy_backends.cuda.api.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from farlane.backend.device.gpu.driver import prototypes as p
from farlane.backend.device.gpu.driver.interface import NOT_SUPPORTED, DriverError, Missing
from farlane.backend.plane import CUDA_FUNCTIONS

ADVICE = "a GPU needs NVIDIA's driver, and CuPy: pip install 'farlane[gpu]' (CUDA 13), or 'farlane[gpu12]' for a driver of CUDA 12"


class Libraries:
    """What driver.py calls."""

    def __init__(self) -> None:
        """Loads the driver and CuPy.

        Raises:
            Missing: one of them is not there; the message says what to do.
        """
        try:
            from cupy_backends.cuda.api import driver, runtime
        except ImportError as error:
            there = error.name != "cupy_backends"  # CuPy's first module
            what = f"CuPy cannot be imported ({error})" if there else "CuPy is not installed"
            raise Missing(f"{what}; {ADVICE}") from error
        try:
            self._library = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise Missing(f"this machine has no NVIDIA driver ({error}); {ADVICE}") from error
        self._driver: Any = driver
        self._runtime: Any = runtime
        self._errors = (driver.CUDADriverError, runtime.CUDARuntimeError)
        self._functions: dict[str, Any] = {}
        for name, kinds in p.FUNCTIONS.items():
            function = getattr(self._library, name, None)
            if function is None and name not in p.OPTIONAL:
                raise Missing(f"the NVIDIA driver is too old: it has no {name}; CUDA 12.0 is the oldest that serves")
            if function is not None:
                function.restype = ctypes.c_int
                function.argtypes = kinds
                self._functions[name] = function
        try:
            self._call("cuInit", 0)
        except DriverError as error:
            raise Missing(f"the NVIDIA driver does not work: {error}") from error
        self._check_versions()
        #: Of the functions that the plane calls, in the library that CuPy has loaded.
        self.addresses = {
            name: ctypes.cast(self._functions[name], ctypes.c_void_p).value or 0 for name in CUDA_FUNCTIONS
        }
        self.is_farlane = hasattr(ctypes.CDLL(None), "farlane_fence")

    def _check_versions(self) -> None:
        """A runtime newer than the driver fails at every call, and the driver's own calls do not: better said at once."""
        built = int(self._runtime.runtimeGetVersion()) // 1000
        serves = int(self._value(ctypes.c_int, "cuDriverGetVersion")) // 1000
        if built > serves:
            raise Missing(f"CuPy is built for CUDA {built}, and the NVIDIA driver serves CUDA {serves}; {ADVICE}")

    def error(self, code: int, call: str) -> DriverError:
        return DriverError(code, call, self._text(code))

    # Calling ----------------------------------------------------------------------------------------------------
    def _call(self, name: str, *arguments: Any) -> None:
        function = self._functions.get(name)
        code = NOT_SUPPORTED if function is None else function(*arguments)
        if code:
            raise self.error(code, name)

    def _text(self, code: int) -> str:
        text = ctypes.c_char_p()
        self._functions["cuGetErrorString"](code, ctypes.byref(text))
        return text.value.decode("utf-8", "replace") if text.value else ""

    def _value(self, kind: Any, name: str, *arguments: Any) -> Any:
        """A call whose first parameter is where its answer goes."""
        out = kind()
        self._call(name, ctypes.byref(out), *arguments)
        return out.value

    def _cupy(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except self._errors as error:
            raise DriverError(int(error.status), getattr(function, "__name__", "CuPy"), str(error)) from None
