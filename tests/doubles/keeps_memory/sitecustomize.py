"""A worker that says that it gives up device memory, and keeps it.

Python runs this module at its start where it is on PYTHONPATH. The worker that is the first to make the file PYTHON_KEEPS_MEMORY is such a one.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path
from typing import Any


def _is_first() -> bool:
    if "farlane.backend.workers.start" not in sys.orig_argv:
        return False
    try:
        Path(os.environ["PYTHON_KEEPS_MEMORY"]).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _keep(window: Any, low: int, high: int) -> None:
    window.flags[low:high] = 4  # HELD


def _replace() -> None:
    name = "farlane.backend.device.sim.memory.window"
    while not hasattr(sys.modules.get(name), "runs_of"):  # the last that it defines
        time.sleep(0.005)
    sys.modules[name].Window.hide = _keep


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    """The worker's own code is about to be imported: files are restricted already, which needs a process of one thread."""
    if event == "import" and arguments[0] == "farlane.backend.workers.process" and not begun:
        begun.append(True)
        threading.Thread(target=_replace, daemon=True).start()


begun: list[bool] = []
if _is_first():
    sys.addaudithook(_watch)
