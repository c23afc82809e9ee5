"""Reads the benchmarks of the analyzer, of kernels, of Python guests and of faults."""

from __future__ import annotations

from tables import Table

from adapters.reading import N, blocks, first, matches, verdict


def analyzer(output: str) -> dict[str, Table]:
    names = {
        "tests/native": "tests/native, -O3 ({}), processor time",
        "corpus": "the golden corpus, -O2 ({} files), processor time",
        "large": "the large program, -O2, processor time of one process",
    }
    rows = []
    for block in output.split("\nfarlane analyze ")[0].replace("\nlarge:", "\n\nlarge:").split("\n"):
        heads = (
            matches(r"(tests/native|corpus|large): (\d+) programs, (\d+) KB of .text, (\d+) loops", block)
            if " KB of .text, " in block
            else []
        )
        for group, count, size, loops in heads:
            rows.append([names[group].format(count), f"{size} KB", loops])
    times = matches(rf" median {N} s p90 {N} s worst {N} s .*", output)
    per = matches(rf" [\d.]+ s in all, .* for slices; {N} s per MB of .text .*", output)
    table = [
        [
            *row,
            *(["", ""] if row[0].startswith("the large") else [f"{median} s", f"{p90} s"]),
            f"{worst} s",
            f"{megabyte} s",
        ]
        for row, (median, p90, worst), (megabyte,) in zip(rows, times, per, strict=True)
    ]
    if "on the clock" in output:
        seconds, megabyte = first(rf" farlane analyze --manifest, on the clock: {N} s, {N} s per MB .*", output)
        table.append(
            ["the same, `farlane analyze --manifest` on the clock", "", "", "", "", f"{seconds} s", f"{megabyte} s"]
        )
    found = {"time": Table(["programs", ".text", "loops", "median", "p90", "worst", "per MB of .text"], table)}
    if "angr is not installed" not in output:
        compared = matches(rf" (\w+) (\d+) (\d+) (\d+) {N} {N} {N} {N} {N}", output)
        graphs, whole = (
            first(pattern, output)[0]
            for pattern in (rf" graphs and loops, .*: {N} times .*", rf" the whole analysis: {N} times .*")
        )
        shown: list[list[str]] = [[*row[:4], *(f"{each} s" for each in row[4:7]), *row[7:]] for row in compared]
        shown.append(["median", *[""] * 6, graphs, whole])
        head = [
            "program",
            "headers: ours",
            "angr",
            "common",
            "graphs and loops",
            "whole analysis",
            "angr",
            "ratio: graphs",
            "ratio: whole",
        ]
        found["angr"] = Table(head, shown)
    return found


def coverage(output: str) -> dict[str, Table]:
    decided = matches(r"([\w]+) 0x[0-9a-f]+ (decided|refused: [\w-]+).*", output)
    reasons: dict[str, int] = {}
    for _, what in decided:
        reasons[what] = reasons.get(what, 0) + 1
    rows = [[what, str(count)] for what, count in sorted(reasons.items(), key=lambda item: -item[1])]
    note = first(r"(\d+ of \d+ loops decided at -O\d)", output)[0]
    return {"own": Table(["loops that read", "how many"], rows, [note + "."])}


def evaluating(output: str) -> dict[str, Table]:
    slices, median, worst, share = first(rf"(\d+) slices: median {N} ns, worst {N} ns; of the goal: {N}", output)
    row = [slices, f"{median} ns", f"{worst} ns", f"50 ns: {verdict(['met' if float(share) <= 1 else 'missed'])}"]
    return {"evaluating": Table(["slices", "an iteration of the median one", "of the slowest", "goal"], [row])}


def jit(output: str) -> dict[str, Table]:
    body = blocks("threads' gain", output)[0]
    rows = []
    for line in body.splitlines()[1:]:
        words = line.rsplit(None, 4)
        if len(words) == 5 and all(word == "-" or word.replace(".", "").isdigit() for word in words[1:]):
            over, _, pocl, gain = words[1:]
            rows.append([words[0].strip().split("  ")[0], over, pocl, gain])
    notes = [note for (note,) in matches(r"((?:geometric mean|worst: |times faster).*goal.*)", output)]
    return {"kernels": Table(["kernel", "over gcc", "over PoCL", "two threads over one"], rows, notes)}


def jit_compile(output: str) -> dict[str, Table]:
    names = {"tier 1": "tier 1", "tier 2": "tier 2", "from the cache": "from the cache on disk"}
    rows = [
        [names[what], *figures]
        for what, *figures in matches(
            rf"\|? ?(tier 1|tier 2|from the cache), wall (?:\| )?{N} (?:\| )?{N} (?:\| )?{N}(?: \|)?", output
        )
    ]
    (empty,) = first(rf"a launch of an empty kernel: {N} us", output)
    return {
        "compile": Table(
            ["a kernel, ms", "median", "90 %", "worst"],
            rows,
            [f"A launch of an empty kernel takes {empty} us (goal 10)."],
        )
    }


def arrays(output: str) -> dict[str, Table]:
    pattern = rf"(\S.*): {N} ms, processor {N} ms: {N} times \(goal (\d+): (\w+)\)"
    rows = [
        [what, f"{ours} ms", f"{theirs} ms", ratio, f"{goal}: {verdict([word])}"]
        for what, ours, theirs, ratio, goal, word in matches(pattern, output)
    ]
    return {"arrays": Table(["what", "device", "processor", "ratio", "goal"], rows)}


def cold_start(output: str) -> dict[str, Table]:
    cold, warm, apart = first(rf"twenty kernels: cold {N} s, warm {N} s: {N} s more \(goal 1.5\), .*", output)
    rows = [
        [
            "a program with twenty kernels",
            f"{cold} s",
            f"{warm} s",
            f"1.5 s apart: {verdict(['met' if float(apart) <= 1.5 else 'missed'])} ({apart})",
        ]
    ]
    if "CuPy: not installed" not in output:
        _alone, cold, warm = first(
            rf"CuPy's sum beside its import, {N} s: cold {N} s more \(goal 3\), warm {N} s \(goal 1\)", output
        )
        judged = verdict(["met" if float(cold) <= 3 and float(warm) <= 1 else "missed"])
        rows.append(
            ["`cupy.arange(10).sum()` beyond `import cupy`", f"{cold} s", f"{warm} s", f"3 s and 1 s: {judged}"]
        )
    return {"cold": Table(["cold start", "cold", "warm", "goal"], rows)}


def fleet(output: str) -> dict[str, Table]:
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for (line,) in matches(r"(\|.*\|)", output)]
    return {"placement": Table(head, rows)}


def cluster(*outputs: str) -> dict[str, Table]:
    """A column for each run."""
    columns = []
    for output in outputs:
        hosts, sessions, at_once = first(r"\d+ nodes, (\d+) hosts, (\d+) sessions, (\d+) at once", output)
        right, lost, others = first(r"all in \d+ s: (\d+) right, (\d+) ended with error 46, (\d+) otherwise", output)
        (killed,) = first(r"the killed node had \d+ hosts; (\d+) sessions were placed on them", output)
        had, moved, held = first(r"the emptied host had (\d+) sessions: (\d+) moved, held for (.*) ms", output)
        busy = first(rf"placement at the gateway meanwhile: {N} ms, 99 %: {N} ms .*", output)
        alone = first(rf"placement, one guest at a time: {N} ms, 99 %: {N} ms .*", output)
        columns.append(
            [
                f"{hosts} hosts, {sessions} sessions, {at_once} at once",
                f"{right} right, {lost} ended with error 46, {others} otherwise",
                killed,
                first(r"hosts above their memory: (\d+)", output)[0],
                f"{moved} of {had}" + (f", {held} ms" if int(moved) else ""),
                *(f"{median}; {most} ms: {_within(most)}" for median, most in (alone, busy)),
                first(rf"a short program .*, ratio {N}", output)[0],
            ]
        )
    labels = [
        "what",
        "sessions",
        "sessions that were placed on the killed node",
        "hosts above their memory, at any time",
        "sessions that moved from the emptied host, and for how long they were held",
        "placement at the gateway, one guest at a time: median; 99 % (goal: 5 ms)",
        "the same while so many programs start and run on the two processors",
        "a short program through the gateway, and directly: ratio",
    ]
    head, *rows = (list(row) for row in zip(labels, *columns, strict=True))
    return {"cluster": Table(head, rows)}


def _within(milliseconds: str) -> str:
    """The verdict on the gateway's goal."""
    return verdict(["met" if float(milliseconds) <= 5 else "missed"])


def placing(output: str) -> dict[str, Table]:
    pattern = rf" (\d+) (\d+) (all|\d+) {N}; {N} {N}; {N} {N}; {N} {N} {N} {N}; {N} {N} {N} {N} {N} \d+"
    rows = []
    for hosts, at_once, let_in, *figures in matches(pattern, output):
        median, most, turn, turns, hello, hellos, _, least, bare, bares, gateway, roster, guest, cheaper = figures
        alone = let_in == "all"
        rows.append(
            [
                hosts,
                at_once,
                let_in,
                f"{median}; {most}: {_within(most)}",
                "none" if alone else f"{turn}; {turns}",
                f"{hello}; {hellos}",
                least,
                f"{bare}; {bares}",
                f"{gateway}, {roster}, {guest}",
                "" if alone else cheaper,
            ]
        )
    head = [
        "hosts",
        "at once",
        "guests worked for",
        "placing, from the guest's turn on",
        "waiting for its turn",
        "Hello to answer",
        "the least by processor time",
    ]
    head += ["bare connection", "processor time: gateway, roster, guest", "ratio of processor time"]
    pattern = rf" (\d+) (Ray's call|the line) {N}; {N} {N} {N}(?: {N})? \d+"
    asked: dict[str, list[str]] = {}
    for at_once, _, median, most, _, _, ratio in matches(pattern, output):
        asked.setdefault(at_once, [at_once]).extend([f"{median}; {most} ms", *([ratio] if ratio else [])])
    ways = ["at once", "by Ray's call: median; 99 %", "by the connection", "processor time, Ray's by the connection's"]
    parts = [
        [hosts, at_once, *(f"{median}; {most}" for median, most in zip(figures[::2], figures[1::2], strict=True))]
        for hosts, at_once, *figures in matches(rf" (\d+) (\d+) {N}; {N} {N}; {N} {N}; {N} \d+", output)
    ]
    return {
        "placing": Table(head, rows),
        "parts": Table(["hosts", "at once", "question to the roster", "connection to the host", "placing"], parts),
        "asking": Table(ways, list(asked.values())),
    }


def campaign(output: str) -> dict[str, Table]:
    found = matches(r"\| (\w.*?) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|", output)
    totals = [f"{sum(int(row[column]) for row in found):,}" for column in range(1, 6)]
    head = ["fault", "trials", "went on, right", "said why it failed", "ended by the fault", "findings"]
    return {"campaign": Table(head, [*(list(row) for row in found), ["together", *totals]])}


def parsers(output: str) -> dict[str, Table]:
    rows = matches(rf"(\w+) (.*): (\d+) inputs each, {N} s", output)
    shown = [[crate, tests, f"{int(inputs):,}", f"{seconds} s"] for crate, tests, inputs, seconds in rows]
    return {"parsers": Table(["crate", "tests", "inputs of each", "time"], shown)}


def gpu(output: str) -> dict[str, Table]:
    pattern = rf"(\w+) {N} {N} {N}(?: at most {N}: (met|not met))?"
    rows = [
        [name, native, remote, ratio, f"{goal}: {verdict([word])}" if goal else ""]
        for name, native, remote, ratio, goal, word in matches(pattern, output)
    ]
    return {"workloads": Table(["workload", "natively, ms", "through Farlane, ms", "ratio", "goal"], rows)}
