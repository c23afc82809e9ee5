"""The beginning of a confined worker: it ends with its host, gives up files before any library has started a thread, and then is a
worker (process.py).

Owns that order. Nothing may be imported here that starts threads (numpy does).
"""

from __future__ import annotations

import sys

from farlane.backend.workers import confinement, lifeline


def main() -> int:
    lifeline.end_with_host(lifeline.of(sys.argv))
    held = confinement.restrict_files()
    from farlane.backend.workers.process import main as work

    return work([*sys.argv[1:], "--confined", held])


if __name__ == "__main__":
    raise SystemExit(main())
