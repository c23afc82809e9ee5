"""Round trips, bytes and wall time of twenty programs in the three modes, at injected round-trip times of 0 to 5 ms.

`farlane bench roundtrips` is the same with options; docs/roundtrips.md has the figures.
"""

from __future__ import annotations

from farlane.frontend.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["bench", "roundtrips", "--turns", "3"]))
