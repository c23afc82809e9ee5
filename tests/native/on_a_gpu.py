"""Which programs of tests/native do not run on the GPU device as they do elsewhere, and which NVIDIA's own runtime runs otherwise.

Both lists are of program names (registry.toml). The first is what the GPU device has not
(docs/reference/limitations/devices.md). The second was found on hardware: there the program, its expectation, or the
simulated device takes something for CUDA's behaviour that a GPU does not do.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

CONDITIONS = ("conditional_nodes", "driver_graph_conditions", "driver_node_parameters")
# The host passes on what its driver says of PTX, without the lines that the program asks for.
LOGS = ("driver_jit_logs", "driver_link")
# Kernels of the host reach the guest's registered memory by the device's pointer alone.
REGISTERED = ("registered_in_kernels",)
NOT_THERE = frozenset({*CONDITIONS, *LOGS, *REGISTERED})

# What neither does the same on the GPU device as elsewhere, nor as on the GPU alone:
NOT_COMPARED = frozenset(
    {
        "driver_managed_variables",  # the driver puts them where the guest has something else
        "driver_basics",  # prints the guest's version of the driver API, and the GPU's capability
        "device_printf", "device_printf-debug",  # formats are the GPU's, the size of the buffer is the guest's
        "vmm_basics", "vmm_aliases",  # a part of physical memory is mapped: refused, by a later call than on the GPU alone
        "grid_sync-debug",  # prints other values each time
        "driver_held_streams",  # whether work is still held depends on the time
    }
)  # fmt: skip

# Name: what a GPU does.
OTHERWISE: dict[str, str] = tomllib.loads(Path(__file__).with_name("on_a_gpu.toml").read_text())["otherwise"]
