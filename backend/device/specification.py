"""The values of the device attributes of the null and the simulated device: one table for both.

Owns the values of a plausible GPU of a compute capability. Does not own their numbers (`generated_attributes.py`), what differs
between capabilities (`capabilities.py`), or what a real GPU reports (the cupy device asks the driver). Every attribute of
both APIs has a value, so that a guest answers each question, and a statically linked runtime starts, without asking the
host. A feature that Farlane does not forward reads 0, so that a program which asks first takes its other path.

Source: CUDA programming guide, table "Technical specifications per compute capability".
"""

from __future__ import annotations

from dataclasses import dataclass

from farlane.backend.device import capabilities
from farlane.backend.device.generated_attributes import Attribute
from farlane.backend.generated_limits import MAX_BLOCK, MAX_BLOCK_THREADS, MAX_GRID


@dataclass(frozen=True)
class Specification:
    """What differs between the devices that share the table."""

    multiprocessors: int = 8
    compute_capability: tuple[int, int] = capabilities.DEFAULT
    clock_khz: int = 1_000_000
    memory_clock_khz: int = 1_000_000
    memory_bus_bits: int = 512
    l2_bytes: int = 4 << 20
    copy_engines: int = 1
    cooperative_launch: bool = True
    pci_bus: int = 0
    pci_device: int = 0


def attributes(specification: Specification) -> dict[int, int]:
    """Every attribute of the table, as cudaDeviceGetAttribute and cuDeviceGetAttribute return it."""
    major, minor = specification.compute_capability
    capability = capabilities.CAPABILITIES[major, minor]
    values = dict.fromkeys(Attribute, 0) | _COMMON
    values.update(
        {
            Attribute.MULTIPROCESSOR_COUNT: specification.multiprocessors,
            Attribute.LOCALITY_DOMAIN_MULTIPROCESSOR_COUNT: specification.multiprocessors,
            Attribute.COMPUTE_CAPABILITY_MAJOR: major,
            Attribute.COMPUTE_CAPABILITY_MINOR: minor,
            Attribute.MAX_THREADS_PER_MULTIPROCESSOR: capability.threads,
            Attribute.MAX_BLOCKS_PER_MULTIPROCESSOR: capability.blocks,
            Attribute.MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: capability.shared << 10,
            Attribute.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: capability.shared_opt_in << 10,
            Attribute.RESERVED_SHARED_MEMORY_PER_BLOCK: capability.shared_reserved << 10,
            Attribute.SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO: capability.single_to_double,
            Attribute.CLUSTER_LAUNCH: int(capability.clusters),
            Attribute.TENSOR_MAP_ACCESS_SUPPORTED: int(capability.tensor_maps),
            Attribute.CLOCK_RATE: specification.clock_khz,
            Attribute.MEMORY_CLOCK_RATE: specification.memory_clock_khz,
            Attribute.GLOBAL_MEMORY_BUS_WIDTH: specification.memory_bus_bits,
            Attribute.L2_CACHE_SIZE: specification.l2_bytes,
            Attribute.ASYNC_ENGINE_COUNT: specification.copy_engines,
            Attribute.GPU_OVERLAP: int(specification.copy_engines > 0),
            Attribute.COOPERATIVE_LAUNCH: int(specification.cooperative_launch),
            Attribute.PCI_BUS_ID: specification.pci_bus,
            Attribute.PCI_DEVICE_ID: specification.pci_device,
        }
    )
    return {int(attribute): value for attribute, value in values.items()}


# Limits and features that no specification changes. What is not named here or above is 0: the feature is not there.
_COMMON: dict[Attribute, int] = {
    Attribute.MAX_THREADS_PER_BLOCK: MAX_BLOCK_THREADS,
    Attribute.MAX_BLOCK_DIM_X: MAX_BLOCK[0],
    Attribute.MAX_BLOCK_DIM_Y: MAX_BLOCK[1],
    Attribute.MAX_BLOCK_DIM_Z: MAX_BLOCK[2],
    Attribute.MAX_GRID_DIM_X: MAX_GRID[0],
    Attribute.MAX_GRID_DIM_Y: MAX_GRID[1],
    Attribute.MAX_GRID_DIM_Z: MAX_GRID[2],
    Attribute.MAX_SHARED_MEMORY_PER_BLOCK: 48 << 10,
    Attribute.TOTAL_CONSTANT_MEMORY: 64 << 10,
    Attribute.WARP_SIZE: 32,
    Attribute.MAX_PITCH: 2**31 - 1,
    Attribute.MAX_REGISTERS_PER_BLOCK: 64 << 10,
    Attribute.MAX_REGISTERS_PER_MULTIPROCESSOR: 64 << 10,
    Attribute.TEXTURE_ALIGNMENT: 512,
    Attribute.TEXTURE_PITCH_ALIGNMENT: 32,
    Attribute.SURFACE_ALIGNMENT: 512,
    Attribute.CAN_TEX2D_GATHER: 1,
    Attribute.CONCURRENT_KERNELS: 1,
    Attribute.UNIFIED_ADDRESSING: 1,
    Attribute.STREAM_PRIORITIES_SUPPORTED: 1,
    Attribute.GLOBAL_L1_CACHE_SUPPORTED: 1,
    Attribute.LOCAL_L1_CACHE_SUPPORTED: 1,
    Attribute.COMPUTE_PREEMPTION_SUPPORTED: 1,
    Attribute.HOST_REGISTER_SUPPORTED: 1,
    Attribute.CAN_USE_STREAM_MEM_OPS_V1: 1,
    Attribute.CAN_USE_64_BIT_STREAM_MEM_OPS_V1: 1,
    Attribute.CAN_USE_STREAM_WAIT_VALUE_NOR_V1: 1,
    Attribute.CAN_USE_64_BIT_STREAM_MEM_OPS: 1,
    Attribute.CAN_USE_STREAM_WAIT_VALUE_NOR: 1,
    Attribute.VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: 1,
    Attribute.MEMORY_POOLS_SUPPORTED: 1,
    Attribute.MEM_SYNC_DOMAIN_COUNT: 1,
    Attribute.LOCALITY_DOMAIN_COUNT: 1,
    Attribute.NUMA_ID: -1,
    Attribute.TENSOR_MAP_LARGE_TENSOR_MIN_SIZE: 2**31 - 1,  # maps have one class
    Attribute.HOST_NUMA_ID: -1,
    Attribute.MAX_TEXTURE_1D_WIDTH: 131072,
    Attribute.MAX_TEXTURE_1D_MIPMAPPED_WIDTH: 32768,
    Attribute.MAX_TEXTURE_1D_LINEAR_WIDTH: 268435456,
    Attribute.MAX_TEXTURE_1D_LAYERED_WIDTH: 32768,
    Attribute.MAX_TEXTURE_1D_LAYERED_LAYERS: 2048,
    Attribute.MAX_TEXTURE_2D_WIDTH: 131072,
    Attribute.MAX_TEXTURE_2D_HEIGHT: 65536,
    Attribute.MAX_TEXTURE_2D_LAYERED_WIDTH: 32768,
    Attribute.MAX_TEXTURE_2D_LAYERED_HEIGHT: 32768,
    Attribute.MAX_TEXTURE_2D_LAYERED_LAYERS: 2048,
    Attribute.MAX_TEXTURE_2D_GATHER_WIDTH: 32768,
    Attribute.MAX_TEXTURE_2D_GATHER_HEIGHT: 32768,
    Attribute.MAX_TEXTURE_2D_LINEAR_WIDTH: 131072,
    Attribute.MAX_TEXTURE_2D_LINEAR_HEIGHT: 65000,
    Attribute.MAX_TEXTURE_2D_LINEAR_PITCH: 2097120,
    Attribute.MAX_TEXTURE_2D_MIPMAPPED_WIDTH: 32768,
    Attribute.MAX_TEXTURE_2D_MIPMAPPED_HEIGHT: 32768,
    Attribute.MAX_TEXTURE_3D_WIDTH: 16384,
    Attribute.MAX_TEXTURE_3D_HEIGHT: 16384,
    Attribute.MAX_TEXTURE_3D_DEPTH: 16384,
    Attribute.MAX_TEXTURE_3D_WIDTH_ALT: 8192,
    Attribute.MAX_TEXTURE_3D_HEIGHT_ALT: 8192,
    Attribute.MAX_TEXTURE_3D_DEPTH_ALT: 32768,
    Attribute.MAX_TEXTURE_CUBEMAP_WIDTH: 32768,
    Attribute.MAX_TEXTURE_CUBEMAP_LAYERED_WIDTH: 32768,
    Attribute.MAX_TEXTURE_CUBEMAP_LAYERED_LAYERS: 2046,
    Attribute.MAX_SURFACE_1D_WIDTH: 32768,
    Attribute.MAX_SURFACE_1D_LAYERED_WIDTH: 32768,
    Attribute.MAX_SURFACE_1D_LAYERED_LAYERS: 2048,
    Attribute.MAX_SURFACE_2D_WIDTH: 131072,
    Attribute.MAX_SURFACE_2D_HEIGHT: 65536,
    Attribute.MAX_SURFACE_2D_LAYERED_WIDTH: 32768,
    Attribute.MAX_SURFACE_2D_LAYERED_HEIGHT: 32768,
    Attribute.MAX_SURFACE_2D_LAYERED_LAYERS: 2048,
    Attribute.MAX_SURFACE_3D_WIDTH: 16384,
    Attribute.MAX_SURFACE_3D_HEIGHT: 16384,
    Attribute.MAX_SURFACE_3D_DEPTH: 16384,
    Attribute.MAX_SURFACE_CUBEMAP_WIDTH: 32768,
    Attribute.MAX_SURFACE_CUBEMAP_LAYERED_WIDTH: 32768,
    Attribute.MAX_SURFACE_CUBEMAP_LAYERED_LAYERS: 2046,
}
