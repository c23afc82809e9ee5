"""How the workers of one GPU share it: time slices, or NVIDIA's Multi-Process Service.

Owns the environment that decides it. A process that finds MPS's control pipe uses MPS, so with time slices workers are given a folder without one. With MPS
kernels of several sessions run at once, but one fault may end all of them (CUDA documents it so): sessions are apart only with time slices, and
that is the default.

Source: NVIDIA Multi-Process Service documentation ("Environment Variables", "Memory Protection and Error Containment").
"""

from __future__ import annotations

import enum
import os
from collections.abc import Mapping
from pathlib import Path

_PIPES = "CUDA_MPS_PIPE_DIRECTORY"
_DEFAULT_PIPES = "/tmp/nvidia-mps"
_NO_PIPES = "/nonexistent/farlane-no-mps"


class Sharing(enum.Enum):
    """`--gpu-sharing`."""

    TIME = "time"
    MPS = "mps"

    def __str__(self) -> str:
        return {"time": "time slices", "mps": "MPS"}[self.value]


class NoService(Exception):
    """MPS was asked for and does not run; the message is for the user."""


def environment(sharing: Sharing, gpu: int | None, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """A worker's environment: it sees its GPU alone, as number 0.

    Raises:
        NoService: MPS does not run here.
    """
    variables = dict(os.environ if base is None else base)
    if gpu is None:
        return variables
    visible = [each.strip() for each in variables.get("CUDA_VISIBLE_DEVICES", "").split(",") if each.strip()]
    variables["CUDA_VISIBLE_DEVICES"] = visible[gpu] if gpu < len(visible) else str(gpu)
    variables["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    if sharing is Sharing.TIME:
        variables[_PIPES] = _NO_PIPES
        return variables
    pipes = Path(variables.get(_PIPES, _DEFAULT_PIPES))
    if not (pipes / "control").exists():
        raise NoService(f"MPS does not run: {pipes}/control is not there; start it with nvidia-cuda-mps-control -d")
    variables[_PIPES] = str(pipes)
    return variables
