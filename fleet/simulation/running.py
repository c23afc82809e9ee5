"""A trace in simulated time: sessions come, wait, run, share a host's throughput, and are lost with it.

Owns the clock and the events. The fleet's book decides; its decisions are timed by the processor's clock. A host whose
sessions together ask for more than its throughput gives each the same part of what it asks for. A session that is lost
with its host comes again at once, and starts anew. What a host does not hold of a session's images is uploaded and
compiled first.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from farlane.fleet.placement.book import Book, Placed, Policy, Queued, Refused
from farlane.fleet.simulation.trace import Arrival, Trace

UPLOAD_BYTES = 100e6  # in a second
COMPILE_BYTES = 10e6  # in a second
SAMPLES = 500  # of the fleet's use, over the trace


@dataclass
class Report:
    """What came of it."""

    decisions: list[float] = field(default_factory=list)  # seconds of the processor
    waits: list[float] = field(default_factory=list)  # simulated seconds, of sessions that ended
    slowdowns: list[float] = field(default_factory=list)  # from coming to ending, in times of what it takes alone
    memory: list[tuple[float, float]] = field(default_factory=list)  # when, and what part of the fleet's is reserved
    work: list[tuple[float, float]] = field(default_factory=list)  # the same of its throughput
    queue: list[tuple[float, int]] = field(default_factory=list)
    refused: int = 0
    lost: int = 0
    moved_bytes: int = 0  # images that hosts did not hold
    length: float = 0.0  # simulated seconds until the last has ended


@dataclass
class _Running:
    """A session on a host. `left` is as of the host's `since`."""

    arrival: Arrival
    left: float
    version: int = 0


@dataclass
class _Host:
    """What its sessions do. What they ask for is in the book."""

    since: float = 0.0
    pace: float = 1.0  # seconds of each session's work in a second, from `since` on
    sessions: dict[int, _Running] = field(default_factory=dict)


class Simulation:
    """One run of a trace by one policy."""

    def __init__(self, trace: Trace, policy: Policy, progress: Callable[[float], None] = lambda share: None) -> None:
        self._trace = trace
        self._book = Book(policy)
        self._progress = progress
        self._hosts: dict[str, _Host] = {}
        self._numbers: dict[int, Arrival] = {}  # of those in the book
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._order = itertools.count()
        self._left = len(trace.arrivals)
        self.report = Report()

    def run(self) -> Report:
        for number, capacity in enumerate(self._trace.capacities):
            self._hosts[f"h{number}"] = _Host()
            self._book.add_host(f"h{number}", capacity, 0.0)
        for arrival in self._trace.arrivals:
            self._at(arrival.at, lambda now, arrival=arrival: self._come(arrival, now))  # type: ignore[misc]
        for when, number in self._trace.failures:
            self._at(when, lambda now, number=number: self._fail(number, now))  # type: ignore[misc]
        length = self._trace.arrivals[-1].at if self._trace.arrivals else 0.0
        for sample in range(SAMPLES):
            self._at(length * sample / SAMPLES, self._sample)
        while self._events and self._left:
            now, _, event = heapq.heappop(self._events)
            event(now)
            self.report.length = now
        return self.report

    def _at(self, when: float, event: Callable[[float], None]) -> None:
        heapq.heappush(self._events, (when, next(self._order), event))

    def _come(self, arrival: Arrival, now: float) -> None:
        begun = time.thread_time()
        try:
            answer = self._book.ask(arrival.request, now)
        except Refused:
            self.report.refused += 1
            self._left -= 1
            return
        finally:
            self.report.decisions.append(time.thread_time() - begun)
        self._numbers[answer.number] = arrival
        if not isinstance(answer, Queued):
            self._start(answer, now)

    def _start(self, placed: Placed, now: float) -> None:
        arrival = self._numbers[placed.number]
        missing = sum(self._trace.image_bytes[image] for image in placed.missing)
        self.report.moved_bytes += missing
        delay = missing / UPLOAD_BYTES + missing / COMPILE_BYTES
        self.report.waits.append(now - arrival.at)
        host = self._hosts[placed.host]
        host.sessions[placed.number] = _Running(arrival, arrival.seconds + delay)
        self._change(placed.host, now, {placed.number})

    def _change(self, name: str, now: float, fresh: set[int]) -> None:
        """Sessions have begun or ended there, as the book has it: all go on at another pace."""
        host, hosts = self._hosts[name], self._book.hosts
        row = hosts.row(name)
        before, load, throughput = host.pace, float(hosts.load[row]), float(hosts.throughput[row])
        elapsed, host.since = (now - host.since) * before, now
        host.pace = 1.0 if load <= throughput else throughput / load
        same = host.pace == before
        for number, running in host.sessions.items():
            if number not in fresh:
                running.left -= elapsed
                if same:
                    continue
            running.version += 1
            version = running.version
            self._at(
                now + running.left / host.pace,
                lambda when, number=number, version=version: self._end(name, number, version, when),  # type: ignore[misc]
            )

    def _end(self, name: str, number: int, version: int, now: float) -> None:
        running = self._hosts[name].sessions.get(number)
        if running is None or running.version != version:
            return  # its pace has changed since, or its host has failed
        arrival = self._numbers.pop(number)
        del self._hosts[name].sessions[number]
        self.report.slowdowns.append((now - arrival.at) / arrival.seconds)
        self._left -= 1
        self._progress(1 - self._left / len(self._trace.arrivals))
        begun = time.thread_time()
        found = self._book.leave(number, now)
        self.report.decisions.append((time.thread_time() - begun) / max(1, len(found)))
        self._change(name, now, set())
        for placed in found:
            self._start(placed, now)

    def _fail(self, number: int, now: float) -> None:
        name = f"h{number}"
        host = self._hosts[name]
        for lost in self._book.remove_host(name):
            self.report.lost += 1
            del host.sessions[lost.number]
            arrival = self._numbers.pop(lost.number)
            self._at(now, lambda when, arrival=arrival: self._come(arrival, when))  # type: ignore[misc]
        host.pace, host.since = 1.0, now
        self._at(now + self._trace.repair, lambda when: self._return(number, when))

    def _return(self, number: int, now: float) -> None:
        for placed in self._book.add_host(f"h{number}", self._trace.capacities[number], now):
            self._start(placed, now)

    def _sample(self, now: float) -> None:
        hosts = self._book.hosts
        memory, throughput = float(hosts.memory.sum()), float(hosts.throughput.sum())
        if memory and throughput:
            self.report.memory.append((now, float((hosts.memory - hosts.free_memory).sum()) / memory))
            work = float(np.minimum(hosts.load, hosts.throughput).sum())
            self.report.work.append((now, work / throughput))
        self.report.queue.append((now, self._book.waiting))
