"""Makes a session's process one that does not keep to the rules: what all modules of this folder have in common.

Python runs this module at its start where the folder is on PYTHONPATH. PYTHON_DOUBLE names the module beside it that a worker imports.
PYTHON_DOUBLE_FIRST is a file: the worker that is the first to make it is such a one, and no other; without it all are.

A module's `begin` is called when the worker's own code is about to be imported: its files are restricted already, which needs a
process of one thread. Where it waits for something, it starts a thread.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path


def _is_one() -> bool:
    if "farlane.backend.workers.start" not in sys.orig_argv:
        return False
    first = os.environ.get("PYTHON_DOUBLE_FIRST")
    try:
        if first:
            Path(first).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    if event == "import" and arguments[0] == "farlane.backend.workers.process" and not begun:
        begun.append(True)
        _double.begin()


begun: list[bool] = []
if _is_one():
    _double = importlib.import_module(os.environ["PYTHON_DOUBLE"])
    sys.addaudithook(_watch)
