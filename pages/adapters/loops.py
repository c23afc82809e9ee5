"""Reads the benchmarks of loops: programs that read in each iteration, and shapes whose loops are not worth recording."""

from __future__ import annotations

from tables import Table

from adapters.reading import matches, verdict

N = r"([\d.,]+)"


def reading(output: str) -> dict[str, Table]:
    trips = {
        name: counts
        for name, *counts in matches(
            rf"([\w-]+) [\d,]+ {N} {N} {N} [\d.,]+ [\d.,]+ [\d.,]+ [\d.,]+ [\d.,]+ [\d.,]+", output
        )
    }
    walls = {name: times for name, *times in matches(rf"([\w-]+) {N} {N} {N} {N} [\d.]+", output) if name in trips}
    rows = [[name, *trips[name], *walls[name][:3], f"**{walls[name][3]}**"] for name in walls]
    head = ["program", "round trips: none", "calls", "loops", "ms: none", "calls", "loops", "none / loops (goal 10)"]
    return {"reading": Table(head, rows)}


def shapes(output: str) -> dict[str, Table]:
    ratio = r"([\d.]+ \([\d.]+ to [\d.]+\))"
    rows = matches(rf"([\w-]+(?: \d+-\d+)?) {ratio} {ratio} .* (reached|missed)", output)
    shown = [[shape, processor, wall, verdict([word])] for shape, processor, wall, word in rows]
    return {
        "shapes": Table(
            ["shape and iterations", "processor time (quartiles)", "wall time (quartiles)", "goal 1.02"], shown
        )
    }
