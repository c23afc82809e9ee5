"""The device attributes that the null and the simulated device report: one table for both.

Owns the numbers of cudaDeviceAttr and the values of a plausible GPU of a compute capability. Does not own what a real GPU
reports (the cupy device asks the driver). The table holds every attribute that cudaGetDeviceProperties is made of, so that a guest
can answer it locally. A feature that Farlane does not forward reads 0, so that a program which asks first takes its other path.

Source: CUDA runtime API, enum cudaDeviceAttr (12.x and 13.x agree on every number used here); CUDA programming guide, table
"Technical specifications per compute capability".
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Attribute(IntEnum):
    """cudaDeviceAttr, by CUDA's names without the cudaDevAttr prefix."""

    MAX_THREADS_PER_BLOCK = 1
    MAX_BLOCK_DIM_X = 2
    MAX_BLOCK_DIM_Y = 3
    MAX_BLOCK_DIM_Z = 4
    MAX_GRID_DIM_X = 5
    MAX_GRID_DIM_Y = 6
    MAX_GRID_DIM_Z = 7
    MAX_SHARED_MEMORY_PER_BLOCK = 8
    TOTAL_CONSTANT_MEMORY = 9
    WARP_SIZE = 10
    MAX_PITCH = 11
    MAX_REGISTERS_PER_BLOCK = 12
    CLOCK_RATE = 13
    TEXTURE_ALIGNMENT = 14
    GPU_OVERLAP = 15
    MULTIPROCESSOR_COUNT = 16
    KERNEL_EXEC_TIMEOUT = 17
    INTEGRATED = 18
    CAN_MAP_HOST_MEMORY = 19
    COMPUTE_MODE = 20
    MAX_TEXTURE_1D_WIDTH = 21
    MAX_TEXTURE_2D_WIDTH = 22
    MAX_TEXTURE_2D_HEIGHT = 23
    MAX_TEXTURE_3D_WIDTH = 24
    MAX_TEXTURE_3D_HEIGHT = 25
    MAX_TEXTURE_3D_DEPTH = 26
    MAX_TEXTURE_2D_LAYERED_WIDTH = 27
    MAX_TEXTURE_2D_LAYERED_HEIGHT = 28
    MAX_TEXTURE_2D_LAYERED_LAYERS = 29
    SURFACE_ALIGNMENT = 30
    CONCURRENT_KERNELS = 31
    ECC_ENABLED = 32
    PCI_BUS_ID = 33
    PCI_DEVICE_ID = 34
    TCC_DRIVER = 35
    MEMORY_CLOCK_RATE = 36
    GLOBAL_MEMORY_BUS_WIDTH = 37
    L2_CACHE_SIZE = 38
    MAX_THREADS_PER_MULTIPROCESSOR = 39
    ASYNC_ENGINE_COUNT = 40
    UNIFIED_ADDRESSING = 41
    MAX_TEXTURE_1D_LAYERED_WIDTH = 42
    MAX_TEXTURE_1D_LAYERED_LAYERS = 43
    MAX_TEXTURE_2D_GATHER_WIDTH = 45
    MAX_TEXTURE_2D_GATHER_HEIGHT = 46
    MAX_TEXTURE_3D_WIDTH_ALT = 47
    MAX_TEXTURE_3D_HEIGHT_ALT = 48
    MAX_TEXTURE_3D_DEPTH_ALT = 49
    PCI_DOMAIN_ID = 50
    TEXTURE_PITCH_ALIGNMENT = 51
    MAX_TEXTURE_CUBEMAP_WIDTH = 52
    MAX_TEXTURE_CUBEMAP_LAYERED_WIDTH = 53
    MAX_TEXTURE_CUBEMAP_LAYERED_LAYERS = 54
    MAX_SURFACE_1D_WIDTH = 55
    MAX_SURFACE_2D_WIDTH = 56
    MAX_SURFACE_2D_HEIGHT = 57
    MAX_SURFACE_3D_WIDTH = 58
    MAX_SURFACE_3D_HEIGHT = 59
    MAX_SURFACE_3D_DEPTH = 60
    MAX_SURFACE_1D_LAYERED_WIDTH = 61
    MAX_SURFACE_1D_LAYERED_LAYERS = 62
    MAX_SURFACE_2D_LAYERED_WIDTH = 63
    MAX_SURFACE_2D_LAYERED_HEIGHT = 64
    MAX_SURFACE_2D_LAYERED_LAYERS = 65
    MAX_SURFACE_CUBEMAP_WIDTH = 66
    MAX_SURFACE_CUBEMAP_LAYERED_WIDTH = 67
    MAX_SURFACE_CUBEMAP_LAYERED_LAYERS = 68
    MAX_TEXTURE_1D_LINEAR_WIDTH = 69
    MAX_TEXTURE_2D_LINEAR_WIDTH = 70
    MAX_TEXTURE_2D_LINEAR_HEIGHT = 71
    MAX_TEXTURE_2D_LINEAR_PITCH = 72
    MAX_TEXTURE_2D_MIPMAPPED_WIDTH = 73
    MAX_TEXTURE_2D_MIPMAPPED_HEIGHT = 74
    COMPUTE_CAPABILITY_MAJOR = 75
    COMPUTE_CAPABILITY_MINOR = 76
    MAX_TEXTURE_1D_MIPMAPPED_WIDTH = 77
    STREAM_PRIORITIES_SUPPORTED = 78
    GLOBAL_L1_CACHE_SUPPORTED = 79
    LOCAL_L1_CACHE_SUPPORTED = 80
    MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81
    MAX_REGISTERS_PER_MULTIPROCESSOR = 82
    MANAGED_MEMORY = 83
    IS_MULTI_GPU_BOARD = 84
    MULTI_GPU_BOARD_GROUP_ID = 85
    HOST_NATIVE_ATOMIC_SUPPORTED = 86
    SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO = 87
    PAGEABLE_MEMORY_ACCESS = 88
    CONCURRENT_MANAGED_ACCESS = 89
    COMPUTE_PREEMPTION_SUPPORTED = 90
    CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM = 91
    COOPERATIVE_LAUNCH = 95
    MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97
    CAN_FLUSH_REMOTE_WRITES = 98
    HOST_REGISTER_SUPPORTED = 99
    PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES = 100
    DIRECT_MANAGED_MEM_ACCESS_FROM_HOST = 101
    MAX_BLOCKS_PER_MULTIPROCESSOR = 106
    MAX_PERSISTING_L2_CACHE_SIZE = 108
    MAX_ACCESS_POLICY_WINDOW_SIZE = 109
    RESERVED_SHARED_MEMORY_PER_BLOCK = 111
    SPARSE_CUDA_ARRAY_SUPPORTED = 112
    HOST_REGISTER_READ_ONLY_SUPPORTED = 113
    TIMELINE_SEMAPHORE_INTEROP_SUPPORTED = 114
    MEMORY_POOLS_SUPPORTED = 115
    GPU_DIRECT_RDMA_SUPPORTED = 116
    GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS = 117
    GPU_DIRECT_RDMA_WRITES_ORDERING = 118
    MEMORY_POOL_SUPPORTED_HANDLE_TYPES = 119
    CLUSTER_LAUNCH = 120
    DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED = 121
    IPC_EVENT_SUPPORT = 125
    MEM_SYNC_DOMAIN_COUNT = 126
    NUMA_CONFIG = 130
    NUMA_ID = 131
    MPS_ENABLED = 133
    HOST_NUMA_ID = 134
    D3D12_CIG_SUPPORTED = 135
    VULKAN_CIG_SUPPORTED = 138
    GPU_PCI_DEVICE_ID = 139
    GPU_PCI_SUBSYSTEM_ID = 140
    HOST_NUMA_MEMORY_POOLS_SUPPORTED = 142
    HOST_NUMA_MULTINODE_IPC_SUPPORTED = 143


@dataclass(frozen=True)
class Specification:
    """What differs between the devices that share the table."""

    multiprocessors: int = 8
    compute_capability: tuple[int, int] = (9, 0)
    clock_khz: int = 1_000_000
    memory_clock_khz: int = 1_000_000
    memory_bus_bits: int = 512
    l2_bytes: int = 4 << 20
    copy_engines: int = 1
    cooperative_launch: bool = True
    pci_bus: int = 0
    pci_device: int = 0


def attributes(specification: Specification) -> dict[int, int]:
    """Every attribute of the table, as cudaDeviceGetAttribute would return it."""
    major, minor = specification.compute_capability
    values = dict.fromkeys(Attribute, 0) | _LIMITS
    values.update(
        {
            Attribute.MULTIPROCESSOR_COUNT: specification.multiprocessors,
            Attribute.COMPUTE_CAPABILITY_MAJOR: major,
            Attribute.COMPUTE_CAPABILITY_MINOR: minor,
            Attribute.CLOCK_RATE: specification.clock_khz,
            Attribute.MEMORY_CLOCK_RATE: specification.memory_clock_khz,
            Attribute.GLOBAL_MEMORY_BUS_WIDTH: specification.memory_bus_bits,
            Attribute.L2_CACHE_SIZE: specification.l2_bytes,
            Attribute.ASYNC_ENGINE_COUNT: specification.copy_engines,
            Attribute.GPU_OVERLAP: int(specification.copy_engines > 0),
            Attribute.COOPERATIVE_LAUNCH: int(specification.cooperative_launch),
            Attribute.CLUSTER_LAUNCH: int(major >= 9),
            Attribute.PCI_BUS_ID: specification.pci_bus,
            Attribute.PCI_DEVICE_ID: specification.pci_device,
        }
    )
    return {int(attribute): value for attribute, value in values.items()}


# Limits of compute capability 9.0, and the features that hold whatever the specification says.
_LIMITS: dict[Attribute, int] = {
    Attribute.MAX_THREADS_PER_BLOCK: 1024,
    Attribute.MAX_BLOCK_DIM_X: 1024,
    Attribute.MAX_BLOCK_DIM_Y: 1024,
    Attribute.MAX_BLOCK_DIM_Z: 64,
    Attribute.MAX_GRID_DIM_X: 2**31 - 1,
    Attribute.MAX_GRID_DIM_Y: 65535,
    Attribute.MAX_GRID_DIM_Z: 65535,
    Attribute.MAX_SHARED_MEMORY_PER_BLOCK: 48 << 10,
    Attribute.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: 227 << 10,
    Attribute.MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: 228 << 10,
    Attribute.RESERVED_SHARED_MEMORY_PER_BLOCK: 1 << 10,
    Attribute.TOTAL_CONSTANT_MEMORY: 64 << 10,
    Attribute.WARP_SIZE: 32,
    Attribute.MAX_PITCH: 2**31 - 1,
    Attribute.MAX_REGISTERS_PER_BLOCK: 64 << 10,
    Attribute.MAX_REGISTERS_PER_MULTIPROCESSOR: 64 << 10,
    Attribute.MAX_THREADS_PER_MULTIPROCESSOR: 2048,
    Attribute.MAX_BLOCKS_PER_MULTIPROCESSOR: 32,
    Attribute.SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO: 2,
    Attribute.TEXTURE_ALIGNMENT: 512,
    Attribute.TEXTURE_PITCH_ALIGNMENT: 32,
    Attribute.SURFACE_ALIGNMENT: 512,
    Attribute.CONCURRENT_KERNELS: 1,
    Attribute.UNIFIED_ADDRESSING: 1,
    Attribute.STREAM_PRIORITIES_SUPPORTED: 1,
    Attribute.GLOBAL_L1_CACHE_SUPPORTED: 1,
    Attribute.LOCAL_L1_CACHE_SUPPORTED: 1,
    Attribute.COMPUTE_PREEMPTION_SUPPORTED: 1,
    Attribute.HOST_REGISTER_SUPPORTED: 1,
    Attribute.MEM_SYNC_DOMAIN_COUNT: 1,
    Attribute.NUMA_ID: -1,
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
