"""What `farlane smi` prints: nvidia-smi's table, list and queries, from what a host says of its devices and sessions.

Owns the fields and the text. What only hardware has (temperatures, power, clocks) is "[N/A]", as nvidia-smi writes it.
"""

from __future__ import annotations

import uuid as uuids
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from farlane.frontend.errors import UserError
from farlane.v1 import admin_pb2, session_pb2

DRIVER_VERSION, CUDA_VERSION = "615.71", "13.5"  # as libnvidia-ml.so.1 says (frontend/shim/crates/nvml)
ABSENT = "[N/A]"
COMPUTE_MODE = 20  # CUdevice_attribute
COMPUTE_MODES = ("Default", "Exclusive_Thread", "Prohibited", "Exclusive_Process")
INVALID_QUERY = 2  # nvidia-smi's exit status


@dataclass(frozen=True)
class Snapshot:
    """A host, as it is now. `utilization` is in percent; None where the host does not know."""

    reply: admin_pb2.DescribeReply
    utilization: int | None

    @property
    def used(self) -> int | None:
        return self.reply.memory_used if self.reply.HasField("memory_used") else None


@dataclass(frozen=True)
class Gpu:
    """One device of a snapshot."""

    index: int
    device: session_pb2.DeviceDescription
    host: Snapshot

    @property
    def uuid(self) -> str:
        return f"GPU-{uuids.UUID(bytes=self.device.uuid.ljust(16, bytes(1))[:16])}"

    @property
    def address(self) -> tuple[int, int, int]:
        """PCI domain, bus and device."""
        parts = self.device.pci_bus_id.split(".")[0].split(":")
        try:
            domain, bus, device = (int(part, 16) for part in (["0", *parts] if len(parts) == 2 else parts))
        except ValueError:
            return 0, 0, 0
        return domain, bus, device

    @property
    def bus_id(self) -> str:
        domain, bus, device = self.address
        return f"{domain:08X}:{bus:02X}:{device:02X}.0"

    @property
    def compute_mode(self) -> str:
        mode = self.device.attributes.get(COMPUTE_MODE, 0)
        return COMPUTE_MODES[mode] if 0 <= mode < len(COMPUTE_MODES) else ABSENT


def mebibytes(count: int | None) -> str:
    return ABSENT if count is None else f"{count >> 20} MiB"


def _free(gpu: Gpu) -> int | None:
    used = gpu.host.used
    return None if used is None else max(0, gpu.device.total_memory - used)


def _percent(gpu: Gpu) -> str:
    return ABSENT if gpu.host.utilization is None else f"{gpu.host.utilization} %"


def _absent(_: Gpu) -> str:
    return ABSENT


GPU_FIELDS: Mapping[str, Callable[[Gpu], str]] = {
    "timestamp": lambda gpu: datetime.now().strftime("%Y/%m/%d %H:%M:%S.%f")[:-3],
    "driver_version": lambda gpu: DRIVER_VERSION,
    "count": lambda gpu: str(len(gpu.host.reply.devices)),
    "name": lambda gpu: gpu.device.name,
    "gpu_name": lambda gpu: gpu.device.name,
    "index": lambda gpu: str(gpu.index),
    "uuid": lambda gpu: gpu.uuid,
    "gpu_uuid": lambda gpu: gpu.uuid,
    "compute_cap": lambda gpu: f"{gpu.device.compute_major}.{gpu.device.compute_minor}",
    "pci.bus_id": lambda gpu: gpu.bus_id,
    "gpu_bus_id": lambda gpu: gpu.bus_id,
    "pci.domain": lambda gpu: f"0x{gpu.address[0]:04X}",
    "pci.bus": lambda gpu: f"0x{gpu.address[1]:02X}",
    "pci.device": lambda gpu: f"0x{gpu.address[2]:02X}",
    "memory.total": lambda gpu: mebibytes(gpu.device.total_memory),
    "memory.used": lambda gpu: mebibytes(gpu.host.used),
    "memory.free": lambda gpu: mebibytes(_free(gpu)),
    "memory.reserved": lambda gpu: mebibytes(0),
    "utilization.gpu": _percent,
    "compute_mode": lambda gpu: gpu.compute_mode,
    "persistence_mode": lambda gpu: "Enabled",
    "display_active": lambda gpu: "Disabled",
    "display_mode": lambda gpu: "Disabled",
    **dict.fromkeys(
        (
            "utilization.memory", "serial", "gpu_serial", "vbios_version", "pstate", "fan.speed", "temperature.gpu",
            "temperature.memory", "power.draw", "power.draw.average", "power.draw.instant", "power.limit",
            "power.default_limit", "power.min_limit", "power.max_limit", "enforced.power.limit", "power.management",
            "clocks.gr", "clocks.sm", "clocks.mem", "clocks.video", "clocks.current.graphics", "clocks.current.sm",
            "clocks.current.memory", "clocks.max.gr", "clocks.max.sm", "clocks.max.mem", "clocks.max.graphics",
            "clocks.max.memory", "ecc.mode.current", "ecc.mode.pending", "mig.mode.current", "mig.mode.pending",
            "pcie.link.gen.current", "pcie.link.gen.max", "pcie.link.width.current", "pcie.link.width.max",
            "accounting.mode", "driver_model.current",
        ),
        _absent,
    ),
}  # fmt: skip

PROCESS_FIELDS: Mapping[str, Callable[[Gpu, admin_pb2.OpenSession], str]] = {
    "timestamp": lambda gpu, _: GPU_FIELDS["timestamp"](gpu),
    "gpu_name": lambda gpu, _: gpu.device.name,
    "gpu_uuid": lambda gpu, _: gpu.uuid,
    "gpu_bus_id": lambda gpu, _: gpu.bus_id,
    "pid": lambda _, session: str(session.pid),
    "process_name": lambda _, session: session.program,
    "name": lambda _, session: session.program,
    "used_memory": lambda _, session: mebibytes(_session_memory(session)),
    "used_gpu_memory": lambda _, session: mebibytes(_session_memory(session)),
}
UNITS = {"memory": "[MiB]", "used": "[MiB]", "utilization": "[%]"}
LONG_NAMES = {"used_memory": "used_gpu_memory"}


def _session_memory(session: admin_pb2.OpenSession) -> int | None:
    return session.memory_used if session.HasField("memory_used") else None


def gpus(snapshot: Snapshot) -> list[Gpu]:
    return [Gpu(index, device, snapshot) for index, device in enumerate(snapshot.reply.devices)]


def chosen(snapshot: Snapshot, named: str | None) -> list[Gpu]:
    """The devices named by --id: numbers, UUIDs or PCI addresses, with commas. Raises UserError."""
    every = gpus(snapshot)
    if named is None:
        return every
    found = []
    for name in named.split(","):
        fits = [gpu for gpu in every if name in (str(gpu.index), gpu.uuid) or name.upper() == gpu.bus_id]
        if not fits:
            raise UserError(f"No devices were found: {name}", "`farlane smi -L` lists them.", 6)
        found += fits
    return found


def names_of(query: str, fields: Mapping[str, object], option: str) -> list[str]:
    """The fields of a query. Raises UserError in nvidia-smi's words."""
    names = [name.strip() for name in query.split(",")]
    for name in names:
        if name not in fields:
            raise UserError(
                f'Field "{name}" is not a valid field to query.',
                f"`farlane smi --help-{option}` lists the fields.",
                INVALID_QUERY,
            )
    return names


def csv(names: list[str], rows: list[list[str]], heading: bool, units: bool) -> str:
    """Comma-separated lines, as nvidia-smi's."""
    lines = []
    if heading:
        lines.append(", ".join(_heading(name, units) for name in names))
    for row in rows:
        lines.append(", ".join(value if units else _bare(value) for value in row))
    return "".join(f"{line}\n" for line in lines)


def _heading(name: str, units: bool) -> str:
    unit = UNITS.get(name.replace("_", ".").split(".")[0], "") if units else ""
    shown = LONG_NAMES.get(name, name)
    return f"{shown} {unit}" if unit else shown


def _bare(value: str) -> str:
    number, _, unit = value.partition(" ")
    return number if unit in ("MiB", "%", "W", "MHz") else value


def listing(snapshot: Snapshot) -> str:
    """`nvidia-smi -L`."""
    return "".join(f"GPU {gpu.index}: {gpu.device.name} (UUID: {gpu.uuid})\n" for gpu in gpus(snapshot))


def table(snapshot: Snapshot, devices: list[Gpu]) -> str:
    """The table that nvidia-smi prints without options."""
    wide, rule = 89, "+" + "-" * 89 + "+"
    columns = "+" + "-" * 41 + "+" + "-" * 24 + "+" + "-" * 22 + "+"
    head = f" NVIDIA-SMI {DRIVER_VERSION:<18} Driver Version: {DRIVER_VERSION:<14} CUDA Version: {CUDA_VERSION}"
    lines = [datetime.now().strftime("%a %b %e %H:%M:%S %Y"), rule, f"|{head:<{wide}}|", columns]
    lines.append(_columns(f" {'GPU  Name':<25}{'Persistence-M':>14}", "Bus-Id          Disp.A", "Volatile Uncorr. ECC"))
    lines.append(
        _columns(f" {'Fan  Temp   Perf':<19}{'Pwr:Usage/Cap':>20}", "          Memory-Usage", "GPU-Util  Compute M.")
    )
    lines.append(_columns("", "", "              MIG M."))
    lines.append(columns.replace("-", "="))
    for gpu in devices:
        name = gpu.device.name if len(gpu.device.name) <= 29 else gpu.device.name[:26] + "..."
        used = "N/A" if snapshot.used is None else f"{snapshot.used >> 20}MiB"
        memory = f"{used} / {gpu.device.total_memory >> 20}MiB"
        percent = "N/A" if snapshot.utilization is None else f"{snapshot.utilization}%"
        lines.append(_columns(f" {gpu.index:>3}  {name:<31} On", f"{gpu.bus_id} Off", f"{'N/A':>20}"))
        lines.append(
            _columns(" N/A   N/A   N/A           N/A /  N/A", f"{memory:>22}", f"{percent:>8}{gpu.compute_mode:>12}")
        )
        lines.append(_columns("", "", f"{'N/A':>20}"))
        lines.append(columns)
    lines += ["", rule, f"|{' Processes:':<{wide}}|"]
    lines.append(f"|{'  GPU   GI   CI              PID   Type   Process name':<72}{'GPU Memory ':>17}|")
    lines += [f"|{'Usage ':>{wide}}|", rule.replace("-", "=")]
    for session in snapshot.reply.open:
        memory = mebibytes(_session_memory(session)).replace(" ", "").replace("[N/A]", "N/A")
        place = "0" if len(snapshot.reply.devices) == 1 else "?"
        lines.append(f"|{place:>5}   N/A  N/A {session.pid:>15}      C   {session.program[:36]:<36}{memory:>10} |")
    if not snapshot.reply.open:
        lines.append(f"|{'  No running processes found':<{wide}}|")
    return "\n".join([*lines, rule, ""])


def _columns(first: str, second: str, third: str) -> str:
    return f"|{first:<40} | {second:<22} | {third:<20} |"
