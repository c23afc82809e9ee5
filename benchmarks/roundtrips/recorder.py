"""What recording costs the guest: a launch in a long loop as the calling thread sees it, on the null device.

Each mode that defers, beside the append of a launch's bytes to a buffer in the same process. Medians of several processes.
"""

from __future__ import annotations

import json
import statistics
from typing import Any

from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import install
from farlane.frontend.embedded import EmbeddedHost
from farlane.roundtrips.programs import FOLDER, TOOLCHAIN

LAUNCHES = 200_000
MODES = ("calls", "loops")


def cost(turns: int) -> list[dict[str, Any]]:
    """Nanoseconds for each call, by mode and kind of loop."""
    program = compile_program(install(TOOLCHAIN), [FOLDER / "cuda" / "recorder.cu"], "recorder", Build())
    found: dict[str, list[dict[str, float]]] = {mode: [] for mode in MODES}
    with EmbeddedHost("null") as host:
        guest = Guest(host.url)
        for _ in range(turns):
            for mode in MODES:
                outcome = guest.run([str(program), str(LAUNCHES)], mode, timeout=300)
                if outcome.status:
                    raise RuntimeError(f"the recorder's benchmark failed in mode {mode}: {outcome.stderr}")
                found[mode].append(json.loads(outcome.stdout))
    return [
        {
            "mode": mode,
            **{kind: statistics.median(run[kind] for run in runs) for kind in ("constant", "affine", "append")},
        }
        for mode, runs in found.items()
    ]
