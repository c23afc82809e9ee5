"""Reads the benchmarks of the host and the guest: round trips, copies, sessions, starting, what calls and records cost."""

from __future__ import annotations

from tables import Table

from adapters.reading import matches, pairs, several, verdict

NUMBER = r"(\d+\.?\d*)"
SIZES = {"64": "64 KiB", "1024": "1 MiB", "65536": "64 MiB"}
WAYS = {"shm": "shared memory", "unix": "Unix socket", "tcp": "TCP", "tls": "TLS"}


def latency(output: str) -> dict[str, Table]:
    found: dict[str, dict[str, list[tuple[str, str]]]] = {}
    apart: dict[str, list[tuple[str, str]]] = {way: [] for way in WAYS}
    pattern = rf"(\w+ processors?) (\w+) \w+ {NUMBER} us (?:bare \w+ [\d.]+ us|[-+].* to tcp), ratio {NUMBER} .*"
    for processors, way, ours, ratio in matches(pattern, output):
        found.setdefault(processors, {name: [] for name in WAYS})[way].append((ours, ratio))
    for way, ours in matches(rf"all processors (\w+) \w+ .* in a process of its own {NUMBER} us", output):
        apart[way].append((ours, ""))

    def row(label: str, ways: dict[str, list[tuple[str, str]]]) -> list[str]:
        cells = [label]
        for way in WAYS:
            times, ratios = "; ".join(one for one, _ in ways[way]), "; ".join(two for _, two in ways[way] if two)
            cells.append(times + (f" ({ratios})" if ratios else ""))
        return cells

    rows = [row(processors, ways) for processors, ways in found.items()]
    head = ["a launch and its synchronization; a copy of 4 bytes; us", *WAYS.values()]
    return {"round-trips": Table(head, [*rows, row("in a process of the session's own", apart)])}


def copies(output: str) -> dict[str, Table]:
    cells: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    plain = rf"\w+ (shm|tcp) (\d+) KiB (\w+) [\d.]+ us [\d.]+ GB/s {NUMBER} times memcpy {NUMBER} times a bare \w+(?: goal [\d.]+: (\w+))?"
    for way, size, direction, memcpy, socket, judged in matches(plain, output):
        cells.setdefault((size, way, direction), []).append((memcpy if way == "shm" else socket, judged))
    tls = rf"\w+ tls (\d+) KiB (\w+) [\d.]+ us [\d.]+ GB/s {NUMBER} times tcp goal [\d.]+: (\w+); with .*"
    for size, direction, ratio, judged in matches(tls, output):
        cells.setdefault((size, "tls", direction), []).append((ratio, judged))

    def cell(size: str, way: str, direction: str) -> str:
        found = cells[size, way, direction]
        judged = [word for _, word in found if word]
        return ", ".join(number for number, _ in found) + (f": {verdict(judged)}" if judged else "")

    names = {"shm": "shared memory over memcpy", "tcp": "TCP over a socket", "tls": "TLS over TCP"}
    ways = [(way, direction) for way in names for direction in ("to_device", "to_host")]
    head = ["", *(f"{names[way]}, {direction.replace('_', ' the ')}" for way, direction in ways)]
    rows = [[SIZES[size], *(cell(size, *way) for way in ways)] for size in dict.fromkeys(size for size, _, _ in cells)]
    return {"copies": Table(head, rows)}


def sessions(output: str) -> dict[str, Table]:
    two = pairs(rf"(\w+) one session \d+ kernels/s two: {NUMBER} times that", output)
    many = {
        workers: rest
        for workers, *rest in matches(rf"(\w+) \d+ sessions: {NUMBER} times that; .* deviation (\d+)%", output)
    }
    shares: dict[str, list[str]] = {}
    for workers, share in matches(r"(\w+) kernels of .* has (\d+)% of the device's time", output):
        shares.setdefault(workers, []).append(f"{share} %")
    head = [
        "sessions in",
        "two over one (goal 1.7)",
        "64 over one",
        "what 64 finish deviates by",
        "the device's time that long kernels have",
    ]
    names = {"thread": "the host's process", "process": "processes of their own"}
    return {
        "sessions": Table(head, [[names[w], two[w], many[w][0], f"{many[w][1]} %", several(shares[w])] for w in two])
    }


def starting(output: str) -> dict[str, Table]:
    rows = [list(row) for row in matches(r"(\S.*?) ((?:wall )?[\d.]+ (?:s|MB).*?) (?:goal .*|reference)", output)]
    judged = [
        goal.replace("reached", "met").replace("missed", "**missed**")
        for (goal,) in matches(r".* (goal .*|reference)", output)
    ]
    rows = [[what, figures, goal.removeprefix("goal ")] for (what, figures), goal in zip(rows, judged, strict=True)]
    return {"starting": Table(["", "median of nine", "goal"], rows)}


def shares(output: str) -> dict[str, Table]:
    equal = pairs(rf"(\w+) \d+ guests, equal weights: fastest / slowest {NUMBER} .*", output)
    pattern = rf"(\w+) \d+ guests, weights 1:2:4: .* mean: (\S+ \S+ \S+) \(single guests {NUMBER} to {NUMBER}\)"
    rows = [
        [workers, equal[workers], means, f"{least} to {most}"]
        for workers, means, least, most in matches(pattern, output)
    ]
    head = [
        "workers",
        "64 equal guests: fastest over slowest (goal 1.2)",
        "weights 1, 2, 4: each unit's service over the mean (goal 0.9 to 1.1)",
        "single guests",
    ]
    return {"shares": Table(head, rows)}


def interactive(output: str) -> dict[str, Table]:
    pattern = rf"(\w+) interactive beside 8 batch, (.*): 99th percentile {NUMBER} ms, median {NUMBER}; .*: {NUMBER} of 3 times .*"
    rows = [[f"{workers}, {what}", *figures] for workers, what, *figures in matches(pattern, output)]
    head = [
        "workers and priority",
        "99th percentile, ms",
        "median, ms",
        "over three times the idle host's and a block (goal 1)",
    ]
    return {"interactive": Table(head, rows)}


def recorder(output: str) -> dict[str, Table]:
    rows = matches(r"(\S.*?) (\d+\.\d+) (\d+\.\d+) (\d+\.\d+) (.*): (reached|missed)", output)
    shown = [
        [what, calls, loops, ratio, f"{goal}: {verdict([word])}"] for what, calls, loops, ratio, goal, word in rows
    ]
    return {"recorder": Table(["one call, us", "mode calls", "mode loops", "ratio", "goal"], shown)}


def records(output: str) -> dict[str, Table]:
    found: dict[str, dict[str, str]] = {}
    for device, what, median in matches(rf"(null|sim)(?:, by Python)? (\S.*?) {NUMBER} us \(least [\d.]+\)", output):
        found.setdefault(what, {}).setdefault(device, median)
    python = pairs(rf"(null|sim), by Python launch {NUMBER} us .*", output)
    rows = [[what, by["null"], by["sim"]] for what, by in found.items()]
    rows.append(["launch, by Python", python["null"], python["sim"]])
    return {"records": Table(["a record, us", "null device", "simulated device"], rows)}
