"""A real NVIDIA GPU, through CuPy and CUDA's driver (`CupyDevice`)."""

from __future__ import annotations

from farlane.backend.device.gpu.device import CupyDevice

__all__ = ["CupyDevice"]
