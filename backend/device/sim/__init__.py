"""The simulated device (`SimDevice`): wires compiled kernels, device memory and CPU threads together."""

from __future__ import annotations

from farlane.backend.device.sim.device import SimDevice
from farlane.backend.device.sim.options import Oversubscription

__all__ = ["Oversubscription", "SimDevice"]
