"""The loops of an executable that call CUDA, from Python: which calls stand in them, and what the analyzer knows of their end."""

from __future__ import annotations

import sys

import farlane.analyzer
from farlane.demangle import readable


def main() -> int:
    program = farlane.analyzer.open(sys.argv[1])
    for loop in program.loops:
        calls = [f"{readable(call.kernel)}<<<>>>" if call.kernel else call.name for call in loop.calls]
        count = loop.trip_count.text if loop.trip_count else "not known"
        print(f"{readable(loop.function)}: class {loop.class_}, trip count {count}")
        print("    " + ", ".join(calls))
    reaching = sum(function.reaches_cuda for function in program.functions)
    print(f"{reaching} functions reach CUDA")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
