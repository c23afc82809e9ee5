"""The metrics of a host: one table, which Prometheus's text, the web page and docs/reference/metrics.md follow.

Owns the names of counts and of metrics. A session counts under the names of COUNTS: the plane (replay/counts.rs) what
comes and goes on the wire, a device's context (`Context.counts`) what it does. A new count needs a row in COUNTS and
the code that counts it; every other metric is a row of METRICS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from farlane.backend.host.accounts import Totals, Usage
from farlane.backend.host.fairness import Served
from farlane.backend.host.greeting import version
from farlane.backend.host.host import Host

DEVICE_TIME = "device_nanoseconds"
_NANO = 1e-9


class Count(NamedTuple):
    """What each session counts."""

    name: str
    metric: str  # without "farlane_" and "_total"
    help: str
    scale: float = 1.0


COUNTS = (
    Count("groups", "groups", "Groups of work that guests have sent"),
    Count("round_trips", "round_trips", "Groups that were answered with results, for which a guest waits"),
    Count("records", "records", "Records on the tape; a loop's REPEAT or WHILE is one"),
    Count("bytes_in", "received_bytes", "Bytes of records"),
    Count("bytes_out", "sent_bytes", "Bytes of replies"),
    Count("kernels", "kernels", "Kernels launched, those of loops included"),
    Count(DEVICE_TIME, "device_seconds", "Time for which the device has worked: kernels, copies, sets", _NANO),
    Count("compilations", "compilations", "Kernels for whose code a session waited (simulated device)"),
    Count("compilation_nanoseconds", "compilation_seconds", "How long sessions waited for code", _NANO),
    Count("loops_repeated", "loops_repeated", "Loops that came as one record (REPEAT)"),
    Count("loops_led", "loops_led", "Loops that the host led by what they read (WHILE)"),
    Count("iterations", "loop_iterations", "Iterations of both"),
    Count("switches", "switches", "Sessions that gave way to a higher priority, with work left (shared memory)"),
    Count("device_wait_nanoseconds", "device_wait_seconds", "How long sessions waited for the device", _NANO),
    Count("granules_saved", "saved_granules", "Granules of device memory that left for other sessions"),
    Count("bytes_saved", "saved_bytes", "Bytes that were copied to the host for it"),
    Count("bytes_restored", "restored_bytes", "Bytes that came back"),
    Count("process_stops", "process_stops", "Times that a process computed without the device, and was stopped"),
)


@dataclass(frozen=True)
class Snapshot:
    """A host at one moment."""

    version: str
    device: str
    uptime: float
    session_limit: int
    queued: int
    device_memory: int
    usage: list[Usage]
    totals: Totals

    @staticmethod
    def of(host: Host) -> Snapshot:
        usage = host.usage
        device = host.description
        return Snapshot(
            version(),
            device.name,
            host.uptime,
            host.session_limit,
            host.waiting,
            device.total_memory,
            usage,
            host.totals(usage),
        )


class Sample(NamedTuple):
    """A metric's value for these values of its labels."""

    value: float
    labels: tuple[str, ...] = ()


class Metric(NamedTuple):
    """A metric. Prometheus calls it farlane_NAME, and appends "_total" to a counter's."""

    name: str
    kind: Literal["counter", "gauge"]
    help: str
    read: Callable[[Snapshot], Iterable[Sample]]
    labels: tuple[str, ...] = ()


def _one(value: float) -> list[Sample]:
    return [Sample(value)]


def _counted(count: Count) -> Metric:
    def read(host: Snapshot) -> Iterable[Sample]:
        return _one(host.totals.counts.get(count.name, 0) * count.scale)

    return Metric(count.metric, "counter", count.help, read)


def _of_sessions(value: Callable[[Usage], float | None]) -> Callable[[Snapshot], Iterable[Sample]]:
    def read(host: Snapshot) -> Iterable[Sample]:
        for each in host.usage:
            if (number := value(each)) is not None:
                yield Sample(number, (each.name, each.program))

    return read


def _of_served(value: Callable[[Served], float]) -> Callable[[Snapshot], Iterable[Sample]]:
    return _of_sessions(lambda each: None if each.served is None else value(each.served))


METRICS = (
    Metric("host_info", "gauge", "The host", lambda host: [Sample(1, (host.version, host.device))], ("version", "device")),
    Metric("uptime_seconds", "gauge", "Since the host's start", lambda host: _one(host.uptime)),
    Metric("sessions_open", "gauge", "Sessions open now", lambda host: _one(len(host.usage))),
    Metric("sessions_opening", "gauge", "Guests that wait for a session", lambda host: _one(host.totals.opening)),
    Metric("sessions_queued", "gauge", "Guests in the queue of a full host", lambda host: _one(host.queued)),
    Metric("sessions_limit", "gauge", "Sessions that may be open", lambda host: _one(host.session_limit)),
    Metric("sessions_opened", "counter", "Sessions since the start", lambda host: _one(host.totals.opened)),
    Metric(
        "sessions_refused", "counter", "Guests that got no session",
        lambda host: [Sample(number, (why,)) for why, number in host.totals.refused.items()], ("reason",),
    ),
    Metric(
        "sessions_ended", "counter", "Sessions that have ended",
        lambda host: [Sample(number, (how,)) for how, number in host.totals.ended.items()], ("how",),
    ),
    Metric("device_memory_bytes", "gauge", "Memory of one device", lambda host: _one(host.device_memory)),
    Metric(
        "session_memory_bytes", "gauge", "Device memory that a session has allocated",
        _of_sessions(lambda each: each.memory), ("session", "program"),
    ),
    Metric(
        "session_memory_quota_bytes", "gauge", "Device memory that a session may allocate",
        _of_sessions(lambda each: each.quota), ("session", "program"),
    ),
    Metric(
        "session_weight", "gauge", "A session's weight, where sessions share the device's time",
        _of_served(lambda served: served.terms.weight), ("session", "program"),
    ),
    Metric(
        "session_priority", "gauge", "Its priority",
        _of_served(lambda served: served.terms.priority), ("session", "program"),
    ),
    Metric(
        "session_service_seconds", "gauge", "How long a session has had a place on the device and used it",
        _of_served(lambda served: served.service_nanoseconds * _NANO), ("session", "program"),
    ),
    Metric(
        "session_wait_seconds", "gauge", "How long it has waited for a place",
        _of_served(lambda served: served.waited_nanoseconds * _NANO), ("session", "program"),
    ),
    *map(_counted, COUNTS),
)  # fmt: skip
