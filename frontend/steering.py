"""Steering: what compiles to machine code in the guest is led to PTX, where the host's devices take nothing else.

Owns the variables of a guest's environment that do it, each by its user's own switch, and the question whether a host needs it. The stand-in
for ptxas is `cuda/bin/ptxas`; nvJitLink and NVRTC are the shim's (crates/core/src/steering.rs). docs/howto/python-guests.md lists who is steered and how.
A variable that the user has set stays; `FARLANE_STEERING=off` leaves all of them alone.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from pathlib import Path

SWITCH, ON = "FARLANE_STEERING", "ptx"
ROOT = Path(__file__).resolve().parent / "cuda"
PTXAS = ROOT / "bin" / "ptxas"
TAKE_PTX_ALONE = (None, "sim", "null")  # devices of a host of the guest's own; None is its default
SHIM = Path(__file__).resolve().parent / "lib" / "libnvidia-ml.so.1"
SECONDS = 2.0  # that a host may take to say what its devices are

VARIABLES: Mapping[str, str] = {
    SWITCH: ON,  # the shim reads it, for NVRTC
    "CUPY_COMPILE_WITH_PTX": "1",
    "TRITON_PTXAS_PATH": str(PTXAS),
    "TRITON_PTXAS_BLACKWELL_PATH": str(PTXAS),  # from capability 9.0 on
    "CUDA_ROOT": str(ROOT),  # where JAX looks for bin/ptxas first
    # JAX asks CUPTI for its version, and CUPTI has none without NVIDIA's driver.
    "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",
}


def host_takes_ptx_alone(url: str) -> bool:
    """Whether no device of the host takes machine code. False where no host answers: the program's first CUDA call says so.

    The shim asks (crates/nvml/src/launcher.rs): importing a gRPC library here takes longer than all else of `farlane run`.
    """
    ask = ctypes.CDLL(str(SHIM)).farlane_takes_ptx_alone
    ask.argtypes, ask.restype = (ctypes.c_char_p, ctypes.c_uint), ctypes.c_int
    return bool(ask(os.fsencode(url), int(SECONDS * 1000)) == 1)


def steer(environment: dict[str, str], device: str | None, host: str | None) -> None:
    """Adds the variables to a guest's environment, and the stand-in to its PATH, where its device takes PTX alone.

    Args:
        environment: the guest's.
        device: of the host that was started for the guest.
        host: the URL of a host that was there already, else None.
    """
    if environment.get(SWITCH) == "off":
        return
    if not (host_takes_ptx_alone(host) if host else device in TAKE_PTX_ALONE):
        return
    for name, value in VARIABLES.items():
        environment.setdefault(name, value)
    path = environment.get("PATH", os.defpath)
    if str(PTXAS.parent) not in path.split(os.pathsep):
        environment["PATH"] = os.pathsep.join([str(PTXAS.parent), path])


def unsteered(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without what `steer` adds; one that it did not change stays."""
    if str(PTXAS.parent) not in environment.get("PATH", "").split(os.pathsep):
        return dict(environment)
    kept = {name: value for name, value in environment.items() if VARIABLES.get(name) != value}
    kept["PATH"] = os.pathsep.join(part for part in kept["PATH"].split(os.pathsep) if part != str(PTXAS.parent))
    return kept
