"""What `farlane top` shows: a host and its sessions, as a table for a terminal or as plain data.

Owns the text. It comes from two answers of the host (AdminService.Describe): rates are what has grown between them.
Names of programs are guests' words: what of them cannot be printed is shown as "?".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

from farlane.v1 import admin_pb2
from rich.console import Group
from rich.table import Table
from rich.text import Text

DEVICE_TIME = "device_nanoseconds"
_NAME_CHARACTERS = 32
WIDE = 120  # columns of a terminal that has room for everything


class View(NamedTuple):
    """A host between two answers; the earlier one is of the same host, or the same answer."""

    earlier: admin_pb2.DescribeReply
    now: admin_pb2.DescribeReply

    @property
    def seconds(self) -> float:
        return self.now.uptime_seconds - self.earlier.uptime_seconds

    def rate(self, before: Mapping[str, int], after: Mapping[str, int], name: str) -> float:
        """What was counted in each second between the answers."""
        grown = max(0, after.get(name, 0) - before.get(name, 0))
        return grown / self.seconds if self.seconds > 0 else 0.0

    def before(self, session: admin_pb2.OpenSession) -> Mapping[str, int]:
        """The session's counts in the earlier answer."""
        return next((dict(each.counts) for each in self.earlier.open if each.name == session.name), {})


class Row(NamedTuple):
    """A session in a view."""

    view: View
    session: admin_pb2.OpenSession

    @property
    def counts(self) -> Mapping[str, int]:
        return dict(self.session.counts)

    def rate(self, name: str) -> float:
        """What it counts in a second."""
        return self.view.rate(self.view.before(self.session), self.counts, name)


class Column(NamedTuple):
    """A column of the table; a `wide` one is left out where there is little room."""

    name: str
    cell: Callable[[Row], str]
    wide: bool = False


def _memory(row: Row) -> str:
    return _bytes(row.session.memory_used) if row.session.HasField("memory_used") else "?"


def _served(row: Row, text: Callable[[admin_pb2.Served], str]) -> str:
    """Of a session of a host that shares the device's time."""
    return text(row.session.served) if row.session.HasField("served") else "-"


COLUMNS = (
    Column("SESSION", lambda row: _printable(row.session.name)),
    Column("PROGRAM", lambda row: _printable(row.session.program)[:_NAME_CHARACTERS]),
    Column("PID", lambda row: str(row.session.pid), wide=True),
    Column("OPEN", lambda row: _seconds(row.session.seconds)),
    Column("MEMORY", _memory),
    Column("QUOTA", lambda row: _bytes(row.session.memory_quota), wide=True),
    Column("DEV%", lambda row: f"{row.rate(DEVICE_TIME) / 1e7:.0f}"),
    Column("PR/WT", lambda row: _served(row, lambda served: f"{served.priority}/{served.weight}"), wide=True),
    Column("WAITED", lambda row: _served(row, lambda served: f"{served.waited_nanoseconds / 1e9:.1f}s"), wide=True),
    Column("KERNELS", lambda row: _number(row.counts, "kernels")),
    Column("K/S", lambda row: f"{row.rate('kernels'):,.0f}"),
    Column("TRIPS", lambda row: _number(row.counts, "round_trips")),
    Column("IN", lambda row: _bytes(row.counts.get("bytes_in", 0)), wide=True),
    Column("OUT", lambda row: _bytes(row.counts.get("bytes_out", 0)), wide=True),
    Column("SWITCHES", lambda row: _number(row.counts, "switches"), wide=True),
    Column("SAVED", lambda row: _bytes(row.counts.get("bytes_saved", 0)), wide=True),
    Column("COMPILED", lambda row: _number(row.counts, "compilations"), wide=True),
)


def shown(view: View, width: int) -> Group:
    """For a terminal of so many columns."""
    return Group(*(Text(line) for line in heading(view)), sessions(view, wide=width >= WIDE))


def heading(view: View) -> Iterable[str]:
    now = view.now
    device = now.devices[0].name if now.devices else "no device"
    yield f"Farlane {now.host_version}, {_printable(device)}, up for {_seconds(now.uptime_seconds)}"
    memory = _bytes(now.memory_used) if now.HasField("memory_used") else "?"
    total = sum(each.total_memory for each in now.devices)
    yield (
        f"sessions {now.sessions} of {now.session_limit}, {now.opening} waiting ({now.waiting} in the queue), {now.opened} since the start"
        f"{_parts(', refused: ', now.refused)}{_parts(', ended: ', now.ended)}"
    )
    before, after = dict(view.earlier.counts), dict(now.counts)
    yield (
        f"memory {memory} of {_bytes(total)}, device {view.rate(before, after, DEVICE_TIME) / 1e7:.0f} %, "
        f"{view.rate(before, after, 'kernels'):,.0f} kernels/s, {view.rate(before, after, 'round_trips'):,.0f} round trips/s, "
        f"{_bytes(view.rate(before, after, 'bytes_in'))}/s in, {_bytes(view.rate(before, after, 'bytes_out'))}/s out"
    )


def sessions(view: View, wide: bool) -> Table:
    table = Table(box=None, pad_edge=False, header_style="reverse", expand=True)
    columns = [column for column in COLUMNS if wide or not column.wide]
    for column in columns:
        justify: Literal["left", "right"] = "left" if column.name in ("SESSION", "PROGRAM") else "right"
        table.add_column(column.name, no_wrap=True, justify=justify, ratio=1 if column.name == "PROGRAM" else None)
    for session in view.now.open:
        row = Row(view, session)
        table.add_row(*(Text(column.cell(row)) for column in columns))
    return table


def data(reply: admin_pb2.DescribeReply) -> dict[str, Any]:
    """For programs: the names are those of admin.proto, and of docs/reference/metrics.md for counts."""
    return {
        "host_version": reply.host_version,
        "devices": [{"name": each.name, "total_memory": each.total_memory} for each in reply.devices],
        "uptime_seconds": reply.uptime_seconds,
        "session_limit": reply.session_limit,
        "sessions": [
            {
                "name": each.name,
                "program": each.program,
                "pid": each.pid,
                "seconds": each.seconds,
                "memory_used": each.memory_used if each.HasField("memory_used") else None,
                "memory_quota": each.memory_quota,
                "counts": dict(each.counts),
                "served": _plain(each.served) if each.HasField("served") else None,
            }
            for each in reply.open
        ],
        "opened": reply.opened,
        "opening": reply.opening,
        "waiting": reply.waiting,
        "queue_limit": reply.queue_limit,
        "refused": dict(reply.refused),
        "ended": dict(reply.ended),
        "memory_used": reply.memory_used if reply.HasField("memory_used") else None,
        "counts": dict(reply.counts),
    }


def _plain(served: admin_pb2.Served) -> dict[str, Any]:
    return {field.name: getattr(served, field.name) for field in served.DESCRIPTOR.fields}


def _parts(lead: str, counts: Mapping[str, int]) -> str:
    return lead + ", ".join(f"{number} {_printable(name)}" for name, number in sorted(counts.items())) if counts else ""


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in text)


def _number(counts: Mapping[str, int], name: str) -> str:
    return f"{counts[name]:,}" if name in counts else "-"


def _bytes(count: float) -> str:
    for unit in ("B", "K", "M", "G"):
        if count < 1024:
            return f"{count:.0f}{unit}" if unit == "B" or count >= 100 else f"{count:.1f}{unit}"
        count /= 1024
    return f"{count:.1f}T"


def _seconds(count: float) -> str:
    minutes, seconds = divmod(int(count), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
