"""How many inputs a fuzz test makes: what is usual, or as many as FARLANE_FUZZ_INPUTS says (the native fuzzers' variable, too)."""

from __future__ import annotations

import os


def inputs(usual: int) -> int:
    return int(os.environ.get("FARLANE_FUZZ_INPUTS", usual))
