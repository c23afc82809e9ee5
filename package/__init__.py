"""Farlane runs CUDA programs unchanged where there is no GPU. This module is what a Python program imports.

`connect` makes the running process a guest; everything else is a command (`farlane run`) or a subpackage. Importing this
module loads nothing but itself.
"""

from __future__ import annotations

from collections.abc import Iterable


def connect(
    host: str | None = None,
    *,
    device: str | None = None,
    mode: str | None = None,
    capability: str | None = None,
    quota: str | int | None = None,
    check: str | Iterable[str] = (),
) -> str:
    """Makes this process a guest, as `farlane run` does: call it before the first import that uses CUDA.

    A second call with the same arguments, or with none, changes nothing. Programs that this process starts later are guests
    of the same host.

    Args:
        host: grpc://host:port or unix:///path of a running `farlane serve`. Without it FARLANE_HOST counts, and without
            that a host of this process's own starts, which ends with it.
        device: device of the own host, "sim" by default.
        mode: deferral mode: "none", "calls" or "loops" (the default).
        capability: compute capability of the own host's simulated device, for example "9.0".
        quota: device memory on the own host in bytes, or as text: "512M".
        check: what to look for in kernels, "memory,race" or a list of names (docs/howto/check-kernels.md).

    Returns:
        The host's URL.

    Raises:
        farlane.frontend.errors.UserError: an argument is wrong, the host cannot be reached, NVIDIA's driver library is
            loaded already, or the process is a guest with other arguments.
    """
    from farlane.frontend import connecting  # not before it is needed

    options = connecting.Options(host, device, mode, capability, quota, connecting.check_names(check))
    return connecting.connect(options)
