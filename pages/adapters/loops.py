"""Reads the benchmarks of loops: programs that read in each iteration, and shapes whose loops are not worth recording."""

from __future__ import annotations

from tables import Table

from adapters.reading import N, blocks, matches, verdict


def reading(output: str) -> dict[str, Table]:
    counts, walls = (
        blocks(title, output)[0].split("\n\n")[0]
        for title in ("Round trips and bytes, at 500 us", "Wall time in milliseconds, by injected round trip")
    )
    trips = {name: each for name, *each in matches(rf" ([\w-]+) {N} {N} {N} {N} .*", counts)}
    times = {name: each for name, *each in matches(rf" ([\w-]+) {N} {N} {N} {N} {N}", walls)}
    rows = [[name, *trips[name][1:], *times[name][:3], f"**{times[name][3]}**"] for name in times]
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
