"""The state of a fleet for people (a table, once or again and again) and for Prometheus (a page).

Owns the columns and the names of metrics.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TextIO

from farlane.backend.server.endpoint import EndpointError, TcpEndpoint
from farlane.fleet.gateway.gateway import TIMES, Gateway
from farlane.fleet.gateway.roster import HostState, State
from prometheus_client import start_http_server
from prometheus_client.core import CollectorRegistry, CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

SECONDS = 1.0
STALE_SECONDS = 5.0
GIB = 1 << 30
# Of each host: the name behind farlane_fleet_host_, what it means, and where it is.
GAUGES: tuple[tuple[str, str, Callable[[HostState], float]], ...] = (
    ("open", "1: new sessions may go there; 0: it is drained", lambda host: host.is_open),
    ("sessions", "Sessions placed there", lambda host: host.sessions),
    ("session_limit", "Sessions that it takes at once", lambda host: host.capacity.sessions),
    ("memory_bytes", "Device memory", lambda host: host.capacity.memory),
    ("memory_reserved_bytes", "Of it, what sessions have reserved", lambda host: host.capacity.memory - host.free_memory),
    ("memory_used_bytes", "Of it, what sessions have allocated", lambda host: host.report.memory_used),
    ("expected_load", "Device seconds in a second that its sessions are expected to use", lambda host: host.load),
    ("report_age_seconds", "Since its last report", lambda host: host.age),
)  # fmt: skip


def show(state: State, named: Sequence[str], out: TextIO) -> None:
    Console(file=out).print(render(state, named))


def watch(ask: Callable[[], State], named: Callable[[], Sequence[str]], out: TextIO) -> None:
    """Until the user ends it."""
    before: State | None = None
    with Live(console=Console(file=out), auto_refresh=False, redirect_stdout=False) as live:
        try:
            while True:
                state = ask()
                live.update(render(state, named(), before), refresh=True)
                before = state
                time.sleep(SECONDS)
        except KeyboardInterrupt:
            return


def render(state: State, named: Sequence[str], before: State | None = None) -> Group:
    table = Table(box=None, pad_edge=False)
    for column in ("host", "state", "sessions", "reserved", "of", "in use", "work", "busy", "node", "address"):
        table.add_column(
            column, justify="right" if column in ("sessions", "reserved", "of", "in use", "work", "busy") else "left"
        )
    earlier = {each.name: each for each in before.hosts} if before else {}
    for host in state.hosts:
        table.add_row(
            host.name, _condition(host), f"{host.sessions}/{host.capacity.sessions}",
            _gib(host.capacity.memory - host.free_memory), _gib(host.capacity.memory), _gib(host.report.memory_used),
            f"{host.load:.1f}", _busy(host, earlier.get(host.name)), host.node[:8], host.url,
        )  # fmt: skip
    for name in sorted(set(named) - {host.name for host in state.hosts}):
        table.add_row(name, "not there", *[""] * 8)
    words = f"{sum(host.sessions for host in state.hosts)} sessions, {state.waiting} waiting; since the start {state.placed} placed, {state.lost} lost with their hosts"
    if state.decision_microseconds:
        middle, high = state.decision_microseconds["50"], state.decision_microseconds["99"]
        words += f", a decision takes {middle:.0f} us (99 %: {high:.0f} us)"
    return Group(table, Text(words))


def _condition(host: HostState) -> str:
    if host.age > STALE_SECONDS:
        return f"silent for {host.age:.0f} s"
    return "open" if host.is_open else "drained"


def _gib(amount: int) -> str:
    return f"{amount / GIB:.1f}G"


def _busy(host: HostState, before: HostState | None) -> str:
    if before is None:
        return ""
    return f"{(host.report.busy_nanoseconds - before.report.busy_nanoseconds) / (SECONDS * 1e7):.0f}%"


class _Collector(Collector):
    def __init__(self, ask: Callable[[], State], gateway: Gateway) -> None:
        self._ask = ask
        self._gateway = gateway

    def collect(self) -> Iterator[Metric]:
        state = self._ask()
        for name, help_, value in GAUGES:
            family = GaugeMetricFamily(f"farlane_fleet_host_{name}", help_, labels=["host", "node"])
            for host in state.hosts:
                family.add_metric([host.name, host.node], float(value(host)))
            yield family
        device = CounterMetricFamily(
            "farlane_fleet_host_device_seconds", "Time for which the device has worked", labels=["host", "node"]
        )
        opened = CounterMetricFamily("farlane_fleet_host_sessions_opened", "Sessions opened", labels=["host", "node"])
        ended = CounterMetricFamily(
            "farlane_fleet_host_sessions_ended", "Sessions ended, by how", labels=["host", "node", "how"]
        )
        for host in state.hosts:
            device.add_metric([host.name, host.node], host.report.busy_nanoseconds / 1e9)
            opened.add_metric([host.name, host.node], host.report.opened)
            for how, count in host.report.ended.items():
                ended.add_metric([host.name, host.node, how], count)
        yield from (device, opened, ended)
        yield GaugeMetricFamily("farlane_fleet_waiting", "Sessions that wait for a host", value=state.waiting)
        for name, help_, count in (
            ("placed", "Sessions placed", state.placed),
            ("lost", "Sessions lost with hosts that failed", state.lost),
            ("lapsed", "Sessions placed that never came", state.lapsed),
        ):
            yield CounterMetricFamily(f"farlane_fleet_{name}", help_, value=count)
        refused = CounterMetricFamily(
            "farlane_fleet_gateway_refused", "Guests that this gateway has refused", labels=["reason"]
        )
        for reason, count in self._gateway.totals([]).refused.items():
            refused.add_metric([reason], count)
        yield refused
        for name, times in self._gateway.times.items():
            what = TIMES.get(name, "guests of this gateway waited for their turn")
            family = GaugeMetricFamily(
                f"farlane_fleet_gateway_{name}_seconds", f"Time that {what}", labels=["percentile"]
            )
            for percentile, seconds in times.items():
                family.add_metric([percentile], seconds)
            yield family


class MetricsPage:
    """Raises EndpointError: nothing can be bound there, or other machines could read it."""

    def __init__(self, endpoint: TcpEndpoint, ask: Callable[[], State], gateway: Gateway) -> None:
        if not endpoint.local:
            raise EndpointError(
                f"a gateway shows its metrics on a loopback address alone, and {endpoint.target} is none"
            )
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Collector(ask, gateway))
        try:
            self._server, self._thread = start_http_server(endpoint.port, endpoint.host, registry)
        except OSError as error:
            raise EndpointError(f"cannot listen on {endpoint.target}: {error.strerror}") from None
        self.url = f"http://{endpoint.host}:{self._server.server_port}/metrics"

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
