"""A GPU, and the sessions on it.

Owns the description, which costs no CUDA context, and the choice between mapped memory and a slab for each session.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from farlane.backend.device.base import Context, CudaError, Description, Device, Window
from farlane.backend.device.generated_attributes import Attribute
from farlane.backend.device.gpu.context import GpuContext
from farlane.backend.device.gpu.driver.errors import to_cuda
from farlane.backend.device.gpu.driver.interface import NOT_SUPPORTED, Driver, DriverError, Missing
from farlane.backend.device.gpu.lifetime import Lifetime
from farlane.backend.device.options import DEFAULT, DeviceOptions
from farlane.backend.device.saved import SavedContext, Unsaveable, filled
from farlane.backend.generated_errors import DEVICES_UNAVAILABLE

#: Features that Farlane does not forward: a program that asks first takes its other path.
_NOT_FORWARDED = frozenset(
    {
        Attribute.MANAGED_MEMORY, Attribute.CONCURRENT_MANAGED_ACCESS, Attribute.PAGEABLE_MEMORY_ACCESS,
        Attribute.PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, Attribute.DIRECT_MANAGED_MEM_ACCESS_FROM_HOST,
        Attribute.CAN_MAP_HOST_MEMORY, Attribute.CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
        Attribute.HOST_NATIVE_ATOMIC_SUPPORTED, Attribute.MEMORY_POOLS_SUPPORTED,
        Attribute.MEMORY_POOL_SUPPORTED_HANDLE_TYPES, Attribute.HOST_NUMA_MEMORY_POOLS_SUPPORTED,
        Attribute.SPARSE_CUDA_ARRAY_SUPPORTED, Attribute.DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED,
        Attribute.TIMELINE_SEMAPHORE_INTEROP_SUPPORTED, Attribute.IPC_EVENT_SUPPORT,
        Attribute.GPU_DIRECT_RDMA_SUPPORTED,
        Attribute.COOPERATIVE_MULTI_DEVICE_LAUNCH, Attribute.HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
        Attribute.HANDLE_TYPE_WIN32_HANDLE_SUPPORTED, Attribute.HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED,
        Attribute.HANDLE_TYPE_FABRIC_SUPPORTED, Attribute.GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
        Attribute.GPU_DIRECT_RDMA_WITH_LOCALIZED_MEMORY_SUPPORTED, Attribute.DMA_BUF_SUPPORTED,
        Attribute.DMA_BUF_MMAP_SUPPORTED, Attribute.HOST_ALLOC_DMA_BUF_SUPPORTED, Attribute.MULTICAST_SUPPORTED,
        Attribute.HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, Attribute.HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
        Attribute.HOST_MEMORY_POOLS_SUPPORTED, Attribute.ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED,
        Attribute.MEM_DECOMPRESS_ALGORITHM_MASK,
        Attribute.MEM_DECOMPRESS_MAXIMUM_LENGTH, Attribute.D3D12_CIG_SUPPORTED, Attribute.VULKAN_CIG_SUPPORTED,
        Attribute.CIG_STREAMS_SUPPORTED, Attribute.VULKAN_CIG_STREAMS_SUPPORTED,
        Attribute.LOGICAL_ENDPOINT_UNICAST_SUPPORTED, Attribute.LOGICAL_ENDPOINT_MULTICAST_SUPPORTED,
        Attribute.LOGICAL_ENDPOINT_COUNTED_OPS_SUPPORTED, Attribute.LOGICAL_ENDPOINT_SUPPORTED_HANDLE_TYPES,
        Attribute.LOGICAL_ENDPOINT_UNICAST_ACCESS_ON_OWNER_DEVICE_SUPPORTED,
    }
)  # fmt: skip

log = logging.getLogger("farlane.gpu")


def _no_output() -> bytes:
    return b""


class CupyDevice(Device):
    """One GPU of this machine."""

    name = "cupy"

    def __init__(
        self,
        options: DeviceOptions = DEFAULT,
        *,
        gpu: int = 0,
        driver: Driver | None = None,
        output: Callable[[], bytes] = _no_output,
        complaints: Callable[[], bytes] = _no_output,
    ) -> None:
        """Opens the GPU.

        Args:
            gpu: its number, as CUDA counts them in this process.
            driver: in place of CUDA's.
            output: takes what kernels have printed to this process's standard output.
            complaints: takes what failed assertions have printed to its standard error.

        Raises:
            Missing: there is no driver, no CuPy, or no such GPU.
        """
        self._options = options
        self._driver = driver if driver is not None else _real()
        count = self._driver.count()
        if not 0 <= gpu < count:
            raise Missing(f"there is no GPU {gpu}: the driver shows {count}")
        self._gpu = gpu
        self._output = lambda: (output(), complaints())
        self._properties = self._driver.properties(gpu)
        self._attributes = self._ask_attributes()
        vmm = Attribute.VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
        self.maps = bool(self._ask(vmm))
        if not self.maps:
            log.warning("GPU %d has no virtual memory management: %s", gpu, _SLAB)
        self._contexts: set[Lifetime] = set()
        self._lock = threading.Lock()
        self._closed = self._prepared = False

    def _ask(self, attribute: int) -> int:
        """An attribute that this driver may not know is 0."""
        try:
            return self._driver.attribute(self._gpu, attribute)
        except DriverError:
            return 0

    def _ask_attributes(self) -> dict[int, int]:
        return {int(attribute): 0 if attribute in _NOT_FORWARDED else self._ask(attribute) for attribute in Attribute}

    def describe(self) -> Description:
        name, uuid, total, bus = self._properties
        capability = (
            self._attributes[Attribute.COMPUTE_CAPABILITY_MAJOR],
            self._attributes[Attribute.COMPUTE_CAPABILITY_MINOR],
        )
        return Description(
            backend=self.name,
            name=name,
            uuid=uuid,
            compute_capability=capability,
            total_memory=total,
            takes_ptx=True,
            takes_machine_code=not self._driver.is_farlane,
            makes_objects=True,
            has_mappings=self.maps,
            pci_bus_id=bus,
            attributes=self._attributes,
        )

    def prepare(self) -> None:
        """Makes the CUDA context, a fifth of a second or so, for the session that will come."""
        try:
            if not self._prepared:
                self._driver.set_current(self._driver.retain(self._gpu))
                self._prepared = True
        except DriverError as error:
            log.info("a CUDA context cannot be made ahead: %s", error)

    def _end_prepared(self) -> None:
        if self._prepared:
            self._prepared = False
            self._driver.release(self._gpu)

    def reopen_context(self, quota: int, saved: SavedContext) -> Context:
        if not self.maps:
            raise Unsaveable("this host's GPU cannot map memory at given addresses")
        return filled(lambda: self.open_context(quota, saved.window), saved)

    def open_context(self, quota: int, place: Window | None = None) -> Context:
        if self._closed:
            raise CudaError(DEVICES_UNAVAILABLE, "the device has been closed")
        try:
            context = self._open(quota, place)
            self._end_prepared()
        except DriverError as error:
            raise to_cuda(error) from None
        with self._lock:
            self._contexts.add(context)
        return context

    def _open(self, quota: int, place: Window | None) -> GpuContext:
        def opened() -> GpuContext:
            return GpuContext(
                self._driver, self._gpu, quota, self._attributes, self._options, maps=self.maps,
                alone=lambda: len(self._contexts) <= 1, on_close=self._forget, output=self._output, place=place,
            )  # fmt: skip

        try:
            return opened()
        except DriverError as error:
            if not self.maps or place is not None or error.code != NOT_SUPPORTED:
                raise
            log.warning("GPU %d cannot map memory (%s): %s", self._gpu, error, _SLAB)
            self.maps = False
            return opened()

    def close(self) -> None:
        self._closed = True
        for context in list(self._contexts):
            context.close()
        try:
            self._end_prepared()
        except DriverError as error:
            log.info("giving a CUDA context back: %s", error)

    def _forget(self, context: Lifetime) -> None:
        with self._lock:
            self._contexts.discard(context)


_SLAB = "each session's memory is allocated whole when it opens, and its window is no larger than its quota"


def _real() -> Driver:
    from farlane.backend.device.gpu.driver.cuda import CudaDriver

    return CudaDriver()
