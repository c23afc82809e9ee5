"""Reports of the memory models name kernels as their source does."""

from __future__ import annotations

import time

import numpy as np
from farlane.backend.memory import config
from farlane.backend.memory.cores.model import MemoryModel
from farlane.backend.memory.cores.touches import records
from farlane.backend.memory.slots.core import Demand
from farlane.backend.simulation import pages, text


def test_the_text_and_the_page_of_a_run() -> None:
    """Overloads are told apart where a chart names both."""
    model = MemoryModel(config.parse("[tlb]\ncores = 4\n[tlb.network]\ncolumns = 2\n"))
    for symbol in ("_Z5storePii", "_Z5storePfi", "plain"):
        model.begin(symbol, 0, Demand(0, 32, 32), 1)
        zeros = np.zeros(8, np.int64)
        model.touch(records(np.arange(8), 0, 0, zeros, zeros))
        model.barrier()
    report = model.report()
    report["migration"] = {}
    report["seconds"] |= {"kernels": 0.0, "session": time.monotonic()}
    lines = [line.split()[0] for line in text.report([report]).splitlines()]
    assert lines[1:4] == ["store", "store", "plain"]
    page = pages.run("a run", [report])
    for name in ("store(int*, int)", "store(float*, int)", "plain"):
        assert name in page
    assert "_Z5store" not in page
