"""Devices by name.

Owns the list of names and how each is opened; devices are imported only when asked for, so that a host without a GPU needs
none of a GPU's packages. A device is never substituted for another: an unknown name or a missing package is an error that says so.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from farlane.backend.device.base import Device
from farlane.backend.device.options import DeviceOptions


class DeviceUnavailable(Exception):
    """The device cannot be opened here; the message says why and what to do, and is shown to the user as it is."""


@dataclass(frozen=True)
class Entry:
    """Where a device lives: `module` has the class, whose constructor takes `options` and requires no argument."""

    module: str
    class_name: str
    summary: str


ENTRIES: dict[str, Entry] = {
    "null": Entry(
        "farlane.backend.device.null", "NullDevice", "accepts everything, computes nothing: for measuring the path"
    ),
    "sim": Entry(
        "farlane.backend.device.sim", "SimDevice", "executes the program's real kernels (PTX) on this machine's CPU"
    ),
    "cupy": Entry("farlane.backend.device.gpu", "CupyDevice", "a real NVIDIA GPU through CuPy"),
}


def names() -> list[str]:
    return list(ENTRIES)


def open_device(name: str, options: DeviceOptions | None = None, **arguments: Any) -> Device:
    """Opens the device of that name and no other.

    Args:
        options: what its user asks for.
        arguments: what else its constructor takes.

    Raises:
        DeviceUnavailable: there is no such device, or it cannot be opened on this machine.
    """
    entry = ENTRIES.get(name)
    if entry is None:
        raise DeviceUnavailable(f"there is no device {name!r}; the devices are {', '.join(ENTRIES)}")
    try:
        module = importlib.import_module(entry.module)
    except ImportError as error:
        raise DeviceUnavailable(f"the device {name!r} cannot be loaded: {error}") from error
    constructor = getattr(module, entry.class_name, None)
    if constructor is None:
        raise DeviceUnavailable(f"the device {name!r} is not in this installation ({entry.module})")
    try:
        device = constructor(**({"options": options} if options is not None else {}), **arguments)
    except Exception as error:
        raise DeviceUnavailable(f"the device {name!r} cannot be opened: {error}") from error
    if not isinstance(device, Device):
        raise DeviceUnavailable(f"{entry.module}.{entry.class_name} is not a device")
    if options is not None:
        device.options = options
    return device
