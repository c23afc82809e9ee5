"""Round trips, bytes and wall time of twenty programs in the three modes, at injected round-trip times of 0 to 5 ms.

Options are those of `farlane bench roundtrips`; docs/results/roundtrips/roundtrips.md has the figures.
"""

from __future__ import annotations

import sys

from farlane.frontend.cli import main

if __name__ == "__main__":
    raise SystemExit(main(["bench", "roundtrips", *(sys.argv[1:] or ["--turns", "3"])]))
