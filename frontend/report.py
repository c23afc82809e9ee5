"""The report of a run: what the shim counted, for people and for programs.

Owns the schema of the JSON report (the shim writes one file per guest process) and its text form. A program of several processes
gets the sum; `wall_seconds` is the launcher's, from start to end of the program.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

CLASSES = ("local", "deferred", "sync")


@dataclass
class Report:
    """Counts of one run.

    Attributes:
        mode: the deferral mode.
        round_trips: how often the program waited for the host's answer, the handshake included.
        calls: intercepted CUDA calls by execution class.
        groups: flushes of the tape.
        bytes_up, bytes_down: bytes of the messages to and from the host.
        flow_waits: how often the program waited for credit to send; not round trips.
        wall_seconds: the program's wall time.
        device_seconds: time the device worked for it.
        processes: guest processes that opened a session and reported.
        unsupported: functions the program called that Farlane does not have.
        sections: counts of the shim's parts that not every run uses (`loops`, `manifest`, `payloads`), by name.
        exit_status: the program's.
    """

    mode: str
    round_trips: int = 0
    calls: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CLASSES, 0))
    groups: int = 0
    bytes_up: int = 0
    bytes_down: int = 0
    flow_waits: int = 0
    wall_seconds: float = 0.0
    device_seconds: float = 0.0
    processes: int = 0
    unsupported: list[str] = field(default_factory=list)
    sections: dict[str, dict[str, int]] = field(default_factory=dict)
    exit_status: int = 0

    def add(self, shim: dict[str, Any]) -> None:
        """Adds one process's report as the shim wrote it. Raises KeyError, TypeError or ValueError when it is no such thing."""
        for name in ("round_trips", "groups", "bytes_up", "bytes_down", "flow_waits"):
            setattr(self, name, getattr(self, name) + int(shim[name]))
        for name in CLASSES:
            self.calls[name] += int(shim["calls"][name])
        self.device_seconds += float(shim["device_seconds"])
        self.unsupported = sorted({*self.unsupported, *(str(name) for name in shim["unsupported"])})
        for name, counts in shim.items():
            if isinstance(counts, dict) and name != "calls":
                section = self.sections.setdefault(str(name), {})
                for count, value in counts.items():
                    section[str(count)] = section.get(str(count), 0) + int(value)
        self.processes += 1

    def add_host(self, folder: Path) -> None:
        """Adds what the host has counted for its sessions: a file for each, sections as the shim's. A damaged one counts as none."""
        for file in sorted(folder.glob("*.json")):
            try:
                sections = json.loads(file.read_text())
                for name, counts in sections.items():
                    section = self.sections.setdefault(str(name), {})
                    for count, value in counts.items():
                        section[str(count)] = section.get(str(count), 0) + int(value)
            except (OSError, ValueError, TypeError, AttributeError):
                continue

    def json(self) -> str:
        """The report as a JSON document."""
        return json.dumps(asdict(self), indent=2) + "\n"

    def text(self) -> str:
        """The report for people."""
        total = sum(self.calls.values())
        lines = [
            f"farlane report (defer={self.mode})",
            f"  CUDA calls     {total:>12,}   " + ", ".join(f"{self.calls[name]:,} {name}" for name in CLASSES),
            f"  round trips    {self.round_trips:>12,}",
            f"  groups         {self.groups:>12,}",
            f"  bytes          {self.bytes_up:>12,}   up, {self.bytes_down:,} down",
            f"  wall time      {self.wall_seconds:>12.3f} s",
            f"  device time    {self.device_seconds:>12.3f} s",
        ]
        for name, counts in self.sections.items():
            if any(counts.values()):
                words = ", ".join(f"{value:,} {count.replace('_', ' ')}" for count, value in counts.items())
                lines.append(f"  {name:<12} {words}")
        if self.flow_waits:
            lines.append(f"  waits for credit {self.flow_waits:>10,}")
        if self.processes != 1:
            lines.append(
                f"  processes      {self.processes:>12,}" + ("   (no CUDA call was made)" if not self.processes else "")
            )
        if self.unsupported:
            lines.append(f"  not supported  {', '.join(self.unsupported)}")
        return "\n".join(lines) + "\n"


def collect(folder: Path, mode: str, wall_seconds: float, exit_status: int) -> Report:
    """Sums the reports that guest processes left in `folder`. A damaged one counts as none (the process was killed)."""
    report = Report(mode=mode, wall_seconds=wall_seconds, exit_status=exit_status)
    for file in sorted(folder.glob("*.json")):
        try:
            report.add(json.loads(file.read_text()))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return report
