"""Runs a random kernel on the translator and on the reference interpreter, and compares memory bit for bit."""

from __future__ import annotations

import numpy as np
from farlane.backend import jit
from farlane.backend.jit.runtime import checks

from jit_tools.device import TinyDevice
from jit_tools.interpreter import Machine, Memory
from jit_tools.random_kernels import SLOTS, SOURCE_WORDS, Kernel

BLOCKS = 2
SOURCE = np.random.default_rng(5).integers(0, 1 << 32, SOURCE_WORDS, dtype=np.uint32)
SOURCE[::3] %= 50  # small numbers meet each other in comparisons
ARGUMENTS = (5, 2)


def both(kernel: Kernel, options: jit.Options) -> tuple[np.ndarray, np.ndarray]:
    """What a launch leaves in memory: the translator's, the interpreter's."""
    device = TinyDevice()
    text = kernel.text()
    words = BLOCKS * kernel.threads * SLOTS
    source, result = device.upload(SOURCE), device.upload(np.zeros(words, np.uint32))
    module = device.load(text)
    table = checks.Table()
    table.set_ranges([(source, source + SOURCE.nbytes), (result, result + 4 * words)])
    shadow = np.zeros(device.top, np.uint8)  # 0: never written
    shadow[source - device.base : source - device.base + SOURCE.nbytes] = 255
    table.set_delta(shadow.ctypes.data - device.base)
    table.begin()
    status = device.launch(
        module, "k", BLOCKS, kernel.block, [source, result, *ARGUMENTS], options=options, check=table.address
    )
    assert status == jit.STATUS_DONE, (device.fault.kind, device.fault.line)
    found = [(record.kind, record.line, record.other_line) for record in table.records()]
    assert not found, f"{found}\n{text}"
    memory = Memory({source: bytearray(SOURCE.tobytes()), result: bytearray(4 * words)})
    parameters = bytes(device.pack(module, "k", [source, result, *ARGUMENTS]))
    Machine(text, "k", (BLOCKS, 1, 1), kernel.block, parameters, memory).run()
    return device.download(result, np.uint32, words), np.frombuffer(memory.ranges[result], np.uint32)


def compare(kernel: Kernel, options: jit.Options) -> None:
    native, interpreted = both(kernel, options)
    wrong = np.flatnonzero(native != interpreted)
    assert not len(wrong), (
        f"thread {wrong[0] // SLOTS}, word {wrong[0] % SLOTS}: {native[wrong[0]]:#x} for {interpreted[wrong[0]]:#x}\n{kernel.text()}"
    )
