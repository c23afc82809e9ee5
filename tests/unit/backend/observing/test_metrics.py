"""What sessions count, what stays of them when they have ended, and that Prometheus reads it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from farlane.backend.handlers.generated_operations import encode
from farlane.backend.host.accounts import How
from farlane.backend.host.greeting import Reason, Refused
from farlane.backend.host.host import Host
from farlane.backend.host.metrics import COUNTS, METRICS, Snapshot
from farlane.backend.observing import exposition
from prometheus_client.parser import text_string_to_metric_families

FENCE = encode("FENCE", 7, 0)
LAUNCH = encode("LAUNCH", 16, 1, 1, 1, 1, 1, 1, 1, 0, 0)


def counts(host: Host) -> dict[str, int]:
    return dict(Snapshot.of(host).totals.counts)


def samples(host: Host) -> dict[tuple[str, tuple[str, ...]], float]:
    """Of Prometheus's text, by name and values of labels."""
    families = text_string_to_metric_families(exposition.text(Snapshot.of(host)).decode())
    return {
        (sample.name, tuple(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def test_counts_of_a_session_are_exact(host: Host, new_guest: Callable[..., Any]) -> None:
    guest = new_guest()
    guest.open_module()
    guest.open_function()
    before = counts(host)
    allocate, read = encode("ALLOCATE", guest.base, 4096), encode("READ", guest.base, 64, 64, 1, 1, 7)
    guest.submit(allocate, LAUNCH, LAUNCH)
    guest.submit(LAUNCH, read, messages=2)
    guest.submit(FENCE)
    grown = {name: number - before[name] for name, number in counts(host).items()}
    assert grown["groups"] == 3
    assert grown["round_trips"] == 2, "a group without results is waited for by nobody"
    assert grown["records"] == 6
    assert grown["kernels"] == 3
    assert grown["bytes_in"] == len(allocate) + 3 * len(LAUNCH) + len(read) + len(FENCE)
    assert 64 + 16 < grown["bytes_out"] < 300


def test_loops_and_their_kernels(host: Host, new_guest: Callable[..., Any]) -> None:
    guest = new_guest()
    guest.open_module()
    guest.open_function()
    before = counts(host)
    template = encode("TEMPLATE", 1, 0, len(LAUNCH), 0, tail=LAUNCH)
    outcome = guest.submit(template, encode("REPEAT", 1, 0, 1000, tail=b""), FENCE)
    assert (outcome.error, outcome.message) == (0, "")
    grown = {name: number - before[name] for name, number in counts(host).items()}
    assert (grown["loops_repeated"], grown["iterations"], grown["kernels"]) == (1, 1000, 1000)
    assert grown["records"] == 3


def test_what_ended_sessions_have_counted_stays(host: Host, new_guest: Callable[..., Any]) -> None:
    first, second = new_guest(), new_guest()
    first.submit(FENCE)
    second.submit(FENCE)
    host.end(first.session, "test", How.GOODBYE)
    host.end(first.session, "again", How.GONE)
    found = Snapshot.of(host)
    assert found.totals.counts["groups"] == 2
    assert [each.name for each in found.usage] == [second.session.name]
    assert (found.totals.opened, found.totals.ended) == (2, {"goodbye": 1})
    host.end(second.session, "test", How.PROTOCOL)
    assert Snapshot.of(host).totals.counts["groups"] == 2
    assert Snapshot.of(host).totals.ended == {"goodbye": 1, "protocol": 1}


def test_prometheus_reads_it(host: Host, new_guest: Callable[..., Any]) -> None:
    guest = new_guest()
    guest.submit(encode("ALLOCATE", guest.base, 8192), FENCE)
    host.refused(Refused(Reason.BUSY, "full"))
    found = samples(host)
    assert found["farlane_sessions_open", ()] == 1
    assert found["farlane_sessions_refused_total", ("busy",)] == 1
    assert found["farlane_session_memory_bytes", ("test", guest.session.name)] == 8192
    assert found["farlane_session_memory_quota_bytes", ("test", guest.session.name)] == guest.admission.quota
    assert found["farlane_groups_total", ()] == 1
    host.end(guest.session, "test", How.LEFT)
    found = samples(host)
    assert found["farlane_sessions_ended_total", ("left",)] == 1
    assert not [name for name, _ in found if name == "farlane_session_memory_bytes"], "of sessions that are open"


def test_a_hostile_name_stays_a_label(host: Host, new_guest: Callable[..., Any]) -> None:
    name = 'a"} 1\nfarlane_sessions_open 99\n\\'
    guest = new_guest()
    host._accounts._guests[guest.session.name] = SimpleNamespace(program=name, pid=1, since=0.0)  # type: ignore[assignment]
    found = samples(host)
    assert found["farlane_sessions_open", ()] == 1
    assert ("farlane_session_memory_quota_bytes", (name, guest.session.name)) in found


def test_time_is_in_seconds(host: Host) -> None:
    host._accounts._counts.update(device_nanoseconds=2_500_000_000, kernels=3)
    assert samples(host)["farlane_device_seconds_total", ()] == 2.5
    assert samples(host)["farlane_kernels_total", ()] == 3


def test_the_page_has_every_metric() -> None:
    page = Path(__file__).parents[4].joinpath("docs", "reference", "metrics.md").read_text()
    for metric in METRICS:
        assert f"`farlane_{metric.name}{'_total' if metric.kind == 'counter' else ''}`" in page, metric.name
    for count in COUNTS:
        assert f"| `{count.name}` | `farlane_{count.metric}_total` |" in page


@pytest.mark.parametrize("count", [count.name for count in COUNTS])
def test_every_count_is_counted(count: str) -> None:
    """By the simulated device's sessions that share its memory, all of them."""
    from farlane.backend.device.sim import SimDevice
    from farlane.backend.device.sim.options import Oversubscription
    from farlane.backend.host.greeting import TAPE_VERSION_MAX, Greeting

    host = Host(SimDevice(threads=1, oversubscription=Oversubscription(shared=64 << 20)))
    try:
        session = host.admit(Greeting(1, TAPE_VERSION_MAX)).session
        assert count in session.counts()
    finally:
        host.close()
