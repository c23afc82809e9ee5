"""Reads the benchmarks of the memory system: reuse, the planner, switching, slots, TLBs and what their model costs."""

from __future__ import annotations

import re

from tables import Table

from adapters.reading import N, Unreadable, blocks, first, matches, several


def policies(output: str) -> dict[str, Table]:
    rows: dict[str, dict[str, str]] = {}
    for scenario, times, policy, back, out in matches(
        r" (\w+) (\d+x) (\w+) ([\d.]+) MiB in ([\d.]+) MiB out .*", output
    ):
        spans = (each.replace("..", " to ") for each in (back, out))
        rows.setdefault(f"{scenario} {times}", {})[policy] = " + ".join(spans)
    names = list(next(iter(rows.values())))
    return {
        "policies": Table(["", *names], [[label, *(found[name] for name in names)] for label, found in rows.items()])
    }


def planner(output: str) -> dict[str, Table]:
    optimum, worst, median = first(
        r" optimum found in (.*?) \(goal 95 %\), worst (.*?) above it \(goal 2 %\), median (.*?) s of processor", output
    )
    large = matches(rf" {N} s, (\d+) times greedy's; moves {N} of it; .*", output)
    goals = [
        ["optimum in 95 % of small instances, worst within 2 %", f"{optimum}, worst {worst}, {median} s each"],
        [
            "200 objects in under 1 s",
            f"{several(each[0] for each in large)} s, {several(each[1] for each in large)} times a greedy assignment's, {several(each[2] for each in large)} of its movement",
        ],
    ]
    columns = ("plan", "dp", "greedy", "lru", "lru, contiguous", "future", "future, contiguous")
    rows = []
    for name, aside, rest, bound in matches(
        r" (\S.*?) \d+ objects, [\d.]+x memory: plan( \(\d+ aside\))? (.*) bound (\d+.*)", output
    ):
        figures = dict(re.findall(r"([a-z, ]+?) (\d+|-)(?:  |$)", f"plan {rest.rstrip()}"))
        recorded = int(bound.split()[0]) >= 1 << 20  # of a program: in bytes
        found = [figures[column] for column in columns]
        shown = ["none" if each == "-" else str(int(each) >> 10 * recorded) for each in found]
        least, *proven = bound.split(" ", 1)
        least = " ".join([str(int(least) >> 10 * recorded), *proven])
        rows.append([name + " (KiB)" * recorded, shown[0] + aside, *shown[1:], least])
    return {"goals": Table(["goal", "reached"], goals), "traces": Table(["trace", *columns, "bound"], rows)}


def switching(output: str) -> dict[str, Table]:
    rows = matches(
        rf" memory (\d+) granules \(\s*(\d+) %\) (\w+) \d+ switches (\d+) granules left {N} out {N} back (?:{N} times|-) .*",
        output,
    )
    shown = [[f"{granules} ({share} %)", *rest] for granules, share, *rest in rows]
    head = ["granules of device memory", "rule", "granules that left", "MiB to the host", "MiB back", "over delayed"]
    return {"moved": Table(head, shown)}


def _policies(block: str, pattern: str) -> dict[str, tuple[str, ...]]:
    return {name: tuple(rest) for name, *rest in matches(rf" ([\w-]+) {pattern}", block)}


def full(output: str) -> dict[str, Table]:
    rows = []
    for block in blocks("\nFull queue, ", "\n" + output):
        slots, most = first(r"(\d+) slots, sizes U\(1\.\.(\d+)\), .*", block)
        by = _policies(block, rf"{N} % ([-+][\d.]+) ± {N}")
        goal, judged, least = first(
            r" goal: at least ([-+][\d.]+) points: [-+][\d.]+, (\w+); over best-fit, the least of all seeds: ([-+][\d.]+), \w+",
            block,
        )
        two = by["two-ended"]
        others = [f"{by[name][0]} ({by[name][1]})" for name in ("best-fit", "split-ends")]
        shown = judged if judged == "met" else f"**{judged}**"
        rows.append(
            [
                f"{slots}, U(1..{most})",
                f"{two[0]} ({two[1]} ± {two[2]})",
                by["first-fit"][0],
                *others,
                f"{goal}: {shown}",
                least,
            ]
        )
    head = [
        "slots, sizes",
        "two-ended",
        "first-fit",
        "best-fit",
        "split-ends",
        "goal",
        "two-ended over best-fit, least of all seeds",
    ]
    return {"full": Table(head, rows)}


LIFETIMES = {
    "constant": ("constant", "0"),
    "uniform": ("uniform", "0.33"),
    "exponential": ("exponential", "1"),
    "hyper": ("two rates (`hyper`)", "4"),
}


def lifetimes(*outputs: str) -> dict[str, Table]:
    rows = []
    for (label, variance), output in zip(LIFETIMES.values(), outputs, strict=True):
        cells = []
        for block in blocks("\nFull queue, ", "\n" + output):
            by = _policies(block.split("\nOpen load")[0], rf"{N} % ([-+][\d.]+) ± {N}")
            cells.append(
                f"{by['two-ended'][1]} ± {by['two-ended'][2]} (best-fit {by['best-fit'][1]}, bound {by['bound'][1]})"
            )
        waits = [share for (share,) in matches(rf" two-ended [\d.]+ {N} ± [\d.]+", output)]
        rows.append([label, variance, *cells, ", ".join(waits)])
    return {
        "lifetimes": Table(["service times", "variance", "32, U(1..8)", "32, U(1..16)", "64, U(1..32)", "waits"], rows)
    }


def waits(output: str) -> dict[str, Table]:
    rows: list[list[str]] = []
    names: list[str] = []
    for block in blocks("\nOpen load ", "\n" + output):
        by = _policies(block, rf"{N} service times {N} ± {N} of first-fit's")
        names = list(by)
        judged = first(r" goal: at most [\d.]+ of first-fit's: [\d.]+, (\w+)", block)[0]
        two = by["two-ended"]
        shown = judged if judged == "met" else f"**{judged}**"
        rows.append([block[:4], *(by[name][0] for name in names), f"{two[1]} ± {two[2]}", shown])
    return {"waits": Table(["load", *names, "two-ended / first-fit", "goal 0.55"], rows)}


def long_waits(output: str) -> dict[str, Table]:
    rows = []
    for block in blocks("\nOpen load ", "\n" + output):
        by = _policies(block, rf"{N} {N} ± {N}")
        judged = first(r" goal: at most [\d.]+ of first-fit's: [\d.]+, (\w+)", block)[0]
        shown = judged if judged == "met" else f"**{judged}**"
        rows.append(
            [block[:5], *(each[0] for each in by.values()), f"{by['two-ended'][1]} ± {by['two-ended'][2]}", shown]
        )
    return {"long-waits": Table(["load", *by, "two-ended / first-fit", "goal 0.55"], rows)}


def queues(output: str) -> dict[str, Table]:
    bins = matches(r" ([-+]\d+) to ([-+]\d+) % #* (\d+)", output)
    positive, equal, median = first(r" positive (.*), equal (.*), median (.*)", output)
    head = ["% saved", *(f"{int(low)} to {int(high)}" for low, high, _ in bins)]
    note = f"Two-ended is sooner on {positive} of the queues, as soon on {equal}; the median saves {median}."
    return {"queues": Table(head, [["queues", *(count for *_, count in bins)]], [note])}


SHOWN = ("s3", "s3-nearest", "pool", "peers", "cheapest", "larger", "probe", "oracle")


def _programs(output: str) -> dict[str, tuple[str, str, dict[str, list[str]]]]:
    """Program -> requests, pages, hierarchy -> its columns, of what backend/simulation/sweep.py prints."""
    found = {}
    for block in output.split("\nGoals:")[0].split("\n\n"):
        head = re.search(r"^(\w+): (\d+) requests, (\d+) pages$", block, re.M)
        if head:
            rows = (
                line.split() for line in block.splitlines()[2:] if line.startswith("  ") and "thresholds" not in line
            )
            found[head[1]] = head[2], head[3], {name: cells for name, *cells in rows}
    if not found:
        raise Unreadable("the output has no program's table of hierarchies")
    return found


def tlb_programs(output: str) -> dict[str, Table]:
    rows, counts = [], []
    programs = _programs(output)
    for name, (requests, pages, by) in programs.items():
        none = by["none"]

        def changes(column: int, by: dict[str, list[str]] = by) -> list[str]:
            return [percent(by[each][column]) if each in by else "" for each in SHOWN]

        rows.append([f"{name}, latency", f"{requests}, {pages}", none[0], *changes(1)])
        rows.append(["walks", "", none[8 - 1], *changes(8)])
        rows.append(
            [
                "peers' share of private misses",
                "",
                "",
                *("" if each == "larger" else changes(5)[n] for n, each in enumerate(SHOWN)),
            ]
        )
        rows.append(["cycles", "", "", *changes(2)])
        peers = by["peers"]
        counts.append(
            [
                name,
                f"{percent(none[3])}, {percent(peers[3])}",
                percent(peers[5]),
                f"{none[6]}, {peers[6]}",
                f"{none[7]}, {peers[7]}",
            ]
        )
    head = ["program", "requests, pages", "none", *SHOWN]
    return {
        "hierarchies": Table(head, rows),
        "requests": Table(
            ["program", "private hits", "peers' share of private misses", "shared-TLB accesses", "walks"], counts
        ),
    }


def gem5(output: str) -> dict[str, Table]:
    chosen = ("s3", "pool", "peers", "cheapest", "larger", "oracle")
    rows = []
    for name, (_, _, by) in _programs(output).items():
        cells = [
            " / ".join(percent(by[each][n]) for n in ((1, 8) if each == "larger" else (1, 8, 5))) for each in chosen
        ]
        rows.append([name, f"{by['none'][0]}, {by['none'][7]}", *cells])
    return {"gem5": Table(["", "none: latency, walks", *chosen], rows)}


def percent(cell: str) -> str:
    return cell if cell == "-" else cell.replace("%", " %")


def streams(output: str) -> dict[str, Table]:
    shown = ("s3", "s3-nearest", "pool", "peers", "larger", "probe", "oracle")
    rows = []
    for block in output.split("\n\n")[1:]:
        head = re.match(r"(\w+): .*; (\d+) requests, (\d+) pages, \d+ kernels\n", block)
        if not head:
            continue
        by = {name: cells for name, *cells in (line.split() for line in block.splitlines()[2:])}
        none = by["none"]
        for label, column, base in (
            ("latency", 1, none[0]),
            ("walks", 9, none[8]),
            ("peers' share of private misses", 5, ""),
            ("cycles", 2, ""),
        ):
            cells = [
                "" if label.startswith("peers") and each.startswith("larger") else percent(by[each][column])
                for each in shown
            ]
            rows.append([f"{head[1]}, {label}", base, *cells])
    if not rows:
        raise Unreadable("the output has no program's table of hierarchies")
    return {"streams": Table(["program", "none", *shown], rows)}


def cost(output: str) -> dict[str, Table]:
    found = matches(rf" (\w+) {N} {N} {N} {N} {N} {N} {N} {N} {N} {N}", output)
    named = re.findall(r"(\w+): [^;]*", output.splitlines()[0])
    if [row[0] for row in found] != named:
        raise Unreadable(
            f"the first line names {', '.join(named)}, and there are rows of {', '.join(row[0] for row in found)}"
        )
    rows = [
        [name, bare, plain, ratio, recorded, f"{model} s, {slower}", each, f"{fast} s, {faster}"]
        for name, bare, plain, ratio, recorded, _, model, slower, each, fast, faster in found
    ]
    head = [
        "program",
        "no checks",
        "with translation",
        "ratio",
        "recording, placing blocks",
        "with TLBs, ratio",
        "us a request",
        "fast mode, ratio",
    ]
    notes = [
        f"{what}: {rest}." for what, rest in matches(r"(translated|model|fast): (.* times on average, goal .*)", output)
    ]
    return {"kernels": Table(head, rows, notes)}


def whole(output: str) -> dict[str, Table]:
    preset = rf"mgpusim(?:-peers)? [\d.]+ / [\d.]+, {N} / {N} times, least [\d.]+"
    rows = [list(row) for row in matches(rf" (\w+) off [\d.]+ / [\d.]+ {preset} {preset}", output)]
    head = [
        "program",
        "no sharing, processor time",
        "no sharing, wall time",
        "peers, processor time",
        "peers, wall time",
    ]
    notes = [
        f"{name}, {rest}." for name, rest in matches(r"(mgpusim(?:-peers)?), ((?:processor|wall) time: .*)", output)
    ]
    return {"whole": Table(head, rows, notes)}
