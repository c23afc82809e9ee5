"""The process that compiles kernels for process.py: requests on standard input, objects on standard output.

A request is {sources, name, block, options} and the module's text; the answer is the kernel's facts and the code, or
what went wrong and nothing. It runs with low priority, and the system kills it with its parent, so that a long compilation never outlives the
program it was for.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import json
import os
import signal
import sys

from farlane.backend.jit.compile import cache, kernels, native, process
from farlane.backend.jit.options import Options
from farlane.backend.jit.ptx.declarations import Module
from farlane.backend.jit.ptx.module import parse_module

_PR_SET_PDEATHSIG = 1


@functools.lru_cache(4)
def _module(text: bytes) -> Module:
    return parse_module(text.decode())


def compiled(head: bytes, text: bytes) -> tuple[bytes, bytes]:
    """The facts and the object for a request. Raises PtxError."""
    request = json.loads(head)
    if request["sources"] != cache.SOURCES.hex():
        raise RuntimeError(
            "Farlane's files have changed since the program was started, so that code made now would not fit its own"
        )
    options = Options(**request["options"])
    module, name, block = _module(text), request["name"], tuple(request["block"])
    key = cache.key(module.digest, name, block, options, native.version())
    if options.cache and (stored := cache.load(key)) is not None:
        return cache.facts(stored[0]), stored[1]
    info, image, _ = kernels.translate(module, name, block, dataclasses.replace(options, keep_ir=False))
    image = kernels.linked(image)
    if options.cache and cache.trusted():
        cache.save(key, info, image)
    return cache.facts(info), image


def main() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    os.nice(10)
    serve()


def serve() -> None:
    """Answers requests until there are no more."""
    source, target = sys.stdin.buffer, sys.stdout.buffer
    while (request := process.receive(source)) is not None:
        try:
            answer = compiled(*request)
        except Exception as error:
            answer = f"{type(error).__name__}: {error}".encode(), b""
        try:
            process.send(target, *answer)
        except ConnectionError:  # whom it was for has ended
            os._exit(0)


if __name__ == "__main__":
    main()
