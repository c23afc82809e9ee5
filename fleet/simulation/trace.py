"""A synthetic trace: when sessions come, what they ask for, and when hosts fail.

Owns the distributions. Published traces of GPU clusters (Jeon et al., ATC 2019; Weng et al., NSDI 2022) show what is
drawn here: most sessions are small and short, a few large ones have most of the time; few owners have most sessions;
arrivals follow the day. The figures are this module's, not theirs.

Units: seconds, bytes, device seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

from farlane.fleet.placement.hosts import Capacity, Request

GIB = 1 << 30
DAY = 86400.0
KINDS = (Capacity("sim", 24 * GIB, 16, 1.0), Capacity("sim", 48 * GIB, 32, 1.5), Capacity("sim", 80 * GIB, 64, 2.0))


@dataclass(frozen=True)
class Spec:
    """What the day is like."""

    hosts: int = 1000
    sessions: int = 100_000
    owners: int = 60
    images: int = 4000
    interactive: float = 0.7  # of the sessions
    offered: float = 0.9  # of the fleet's throughput or memory, whichever is asked for more
    failure_days: float = 30.0  # between two failures of one host
    repair: float = 3600.0
    seed: int = 1


@dataclass(frozen=True)
class Arrival:
    at: float
    request: Request
    seconds: float  # that it takes alone, once it has started


@dataclass(frozen=True)
class Trace:
    capacities: tuple[Capacity, ...]
    arrivals: tuple[Arrival, ...]
    image_bytes: dict[str, int]
    failures: tuple[tuple[float, int], ...]  # when, and which host
    repair: float


def make(spec: Spec) -> Trace:
    """The same spec makes the same trace."""
    random = Random(spec.seed)
    capacities = tuple(KINDS[index % len(KINDS)] for index in range(spec.hosts))
    image_bytes = {f"i{number}": int(2**20 * random.lognormvariate(2.0, 1.2)) for number in range(spec.images)}
    programs = [tuple(random.sample(sorted(image_bytes), random.randint(1, 4))) for _ in range(spec.images // 2)]
    drawn = [_session(spec, random, programs) for _ in range(spec.sessions)]
    whole = (sum(each.throughput for each in capacities), sum(each.memory for each in capacities))
    asked = (
        sum(request.load * seconds for request, seconds in drawn),
        sum(request.memory * seconds for request, seconds in drawn),
    )
    length = max(asked[0] / whole[0], asked[1] / whole[1]) / spec.offered
    times = _times(random, spec.sessions, length)
    arrivals = tuple(Arrival(at, request, seconds) for at, (request, seconds) in zip(times, drawn, strict=True))
    return Trace(capacities, arrivals, image_bytes, tuple(_failures(spec, random, length)), spec.repair)


def _session(spec: Spec, random: Random, programs: list[tuple[str, ...]]) -> tuple[Request, float]:
    owner = min(int(random.paretovariate(0.8)) - 1, spec.owners - 1)
    at_home = (owner * 31 + min(int(random.paretovariate(1.0)), 40)) % len(programs)
    images = programs[at_home]
    if random.random() < spec.interactive:
        memory, load = random.lognormvariate(math.log(0.5), 0.8), random.uniform(0.02, 0.2)
        seconds, priority = random.lognormvariate(math.log(600), 1.0), 5
    else:
        memory, load = random.lognormvariate(math.log(5.0), 1.0), random.uniform(0.4, 1.0)
        seconds, priority = random.lognormvariate(math.log(3600), 1.1), 0
    size = min(int(memory * GIB), 76 * GIB)
    return Request(f"o{owner}", "sim", size, load, priority, images), min(seconds, 2 * DAY)


def _times(random: Random, count: int, length: float) -> list[float]:
    """Arrivals in [0, length), twice as dense at the day's height as in the mean, by thinning."""
    found: list[float] = []
    while len(found) < count:
        at = random.uniform(0.0, length)
        if random.random() < 0.5 * (1 + math.sin(2 * math.pi * at / DAY)):
            found.append(at)
    return sorted(found)


def _failures(spec: Spec, random: Random, length: float) -> list[tuple[float, int]]:
    found: list[tuple[float, int]] = []
    for host in range(spec.hosts):
        at = random.expovariate(1 / (spec.failure_days * DAY))
        while at < length:
            found.append((at, host))
            at += spec.repair + random.expovariate(1 / (spec.failure_days * DAY))
    return sorted(found)
