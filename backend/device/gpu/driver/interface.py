"""What the GPU device asks of CUDA's driver: one typed interface, the narrowest seam.

Owns the names. `driver.py` is the real thing, through CuPy and libcuda; tests put a double in its place. Nothing else of the device
knows CuPy, ctypes' prototypes or a driver's version. Handles and addresses are plain integers, as CUDA's are.

Every method raises `DriverError` with the CUresult. Since CUDA 10.1 the numbers of CUresult and cudaError_t agree wherever both have the
error, so a code is passed on as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol

from farlane.backend.device.base import READ_WRITE, LaunchShape
from farlane.backend.device.gpu.driver import prototypes as p
from farlane.backend.device.tensors import TensorMap

# From prototypes, which a test compares with cuda.h.
LEGACY = p.CU_STREAM_LEGACY
NON_BLOCKING = p.CU_STREAM_NON_BLOCKING
BLOCKING_SYNC, DISABLE_TIMING = p.CU_EVENT_BLOCKING_SYNC, p.CU_EVENT_DISABLE_TIMING
PARAM_BUFFER_POINTER, PARAM_BUFFER_SIZE = p.CU_LAUNCH_PARAM_BUFFER_POINTER, p.CU_LAUNCH_PARAM_BUFFER_SIZE
PARAM_END = p.CU_LAUNCH_PARAM_END

OUT_OF_MEMORY = p.CUDA_ERROR_OUT_OF_MEMORY
NOT_FOUND = p.CUDA_ERROR_NOT_FOUND
NOT_READY = p.CUDA_ERROR_NOT_READY
NOT_SUPPORTED = p.CUDA_ERROR_NOT_SUPPORTED


class DriverError(Exception):
    """A call that did not succeed."""

    def __init__(self, code: int, call: str, text: str = "") -> None:
        super().__init__(f"{call}: {text or 'error'} ({code})")
        self.code = code
        self.call = call


class Missing(Exception):
    """The driver, or what leads to it, is not there; the message is for the user."""


class Direction(IntEnum):
    """cudaMemcpyKind."""

    TO_DEVICE = 1
    TO_HOST = 2
    WITHIN = 3


class FunctionAttribute(IntEnum):
    """CUfunction_attribute, of which cudaFuncAttribute is a part."""

    SHARED_SIZE_BYTES = 1
    MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
    NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14


class Properties(NamedTuple):
    """What a GPU is."""

    name: str
    uuid: bytes
    total_memory: int
    pci_bus_id: str


class Parameter(NamedTuple):
    """A kernel parameter's place in the parameter buffer."""

    offset: int
    size: int


class KernelWork(NamedTuple):
    """A launch as a graph's node has it. `pointers`: address of an array with the address of each parameter; or else `extra`."""

    function: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    pointers: int
    extra: int = 0


class SetWork(NamedTuple):
    """A memset: `width` in elements."""

    address: int
    pitch: int
    value: int
    element: int
    width: int
    height: int


class CopyWork(NamedTuple):
    """A copy within the device."""

    destination: int
    destination_pitch: int
    source: int
    source_pitch: int
    width: int
    height: int


class ArrayFormat(IntEnum):
    """CUarray_format."""

    UNSIGNED_INT8 = 0x01
    UNSIGNED_INT16 = 0x02
    UNSIGNED_INT32 = 0x03
    SIGNED_INT8 = 0x08
    SIGNED_INT16 = 0x09
    SIGNED_INT32 = 0x0A
    HALF = 0x10
    FLOAT = 0x20


class ArraySpec(NamedTuple):
    """An array: its size in texels, 0 for a dimension that it does not have; of a layered one `depth` is the layers. `flags`: CUDA_ARRAY3D_*."""

    width: int
    height: int
    depth: int
    format: ArrayFormat
    channels: int
    flags: int


class BoxEnd(NamedTuple):
    """One side of a copy of a box: a place in an array (`x` in bytes), or rows of memory (`pitch` apart)."""

    array: int = 0
    x: int = 0
    y: int = 0
    z: int = 0
    address: int = 0
    pitch: int = 0
    host: bool = False


class BoxWork(NamedTuple):
    """A copy of a box, `width` in bytes. Slices of memory follow each other."""

    destination: BoxEnd
    source: BoxEnd
    width: int
    height: int
    depth: int = 1


class TexelSource(NamedTuple):
    """What a texture reads: an array; or `bytes` of texels in memory; or `height` rows of `width` texels, `pitch` apart."""

    array: int = 0
    address: int = 0
    format: ArrayFormat = ArrayFormat.FLOAT
    channels: int = 1
    bytes: int = 0
    width: int = 0
    height: int = 0
    pitch: int = 0


class TextureSpec(NamedTuple):
    """How a texture is read. `modes`: CUaddress_mode; `flags`: CU_TRSF_*."""

    modes: tuple[int, int, int]
    linear: bool
    flags: int
    anisotropy: int
    border: tuple[float, float, float, float]


class Driver(Protocol):
    """See the module. Calls that take a stream are asynchronous."""

    is_farlane: bool
    """Farlane's own driver: this host is a guest, and the device behind it takes PTX alone."""
    addresses: dict[str, int]
    """Of the functions that the plane calls by itself (backend/plane, CUDA_FUNCTIONS)."""

    def error(self, code: int, call: str) -> DriverError:
        """A failure of a call that the plane has made."""

    # GPUs and contexts
    def version(self) -> int: ...
    def count(self) -> int: ...
    def properties(self, gpu: int) -> Properties: ...
    def attribute(self, gpu: int, attribute: int) -> int: ...
    def retain(self, gpu: int) -> int:
        """The GPU's primary context, made if need be."""

    def release(self, gpu: int) -> None: ...
    def reset(self, gpu: int) -> None:
        """Ends the primary context and whatever is in it, a sticky error included."""

    def set_current(self, context: int) -> None: ...
    def synchronize(self) -> None: ...
    def memory_info(self) -> tuple[int, int]:
        """(free, total) bytes."""

    def set_limit(self, limit: int, value: int) -> None: ...

    # Virtual memory
    def granularity(self, gpu: int) -> int: ...
    def reserve(self, size: int, alignment: int, hint: int) -> int: ...
    def unreserve(self, address: int, size: int) -> None: ...
    def create(self, size: int, gpu: int) -> int: ...
    def destroy(self, memory: int) -> None: ...
    def map(self, address: int, size: int, memory: int, offset: int = 0) -> None: ...
    def unmap(self, address: int, size: int) -> None: ...
    def allow(self, address: int, size: int, gpu: int, access: int = READ_WRITE) -> None:
        """What the GPU may do with a mapped range; the values are those of device/base.py, which are CUDA's."""

    # Plain memory
    def allocate(self, size: int) -> int: ...
    def free(self, address: int) -> None: ...
    def allocate_pinned(self, size: int) -> int: ...
    def free_pinned(self, address: int) -> None: ...

    # Work
    def copy(self, destination: int, source: int, size: int, direction: Direction, stream: int) -> None: ...
    def copy_rows(
        self,
        destination: int,
        destination_pitch: int,
        source: int,
        source_pitch: int,
        width: int,
        height: int,
        direction: Direction,
        stream: int,
    ) -> None: ...
    def set(self, work: SetWork, stream: int) -> None: ...
    def launch(
        self,
        function: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        stream: int,
        pointers: int,
        extra: int,
    ) -> None:
        """Parameters either as `pointers` (see KernelWork) or as `extra`, a CU_LAUNCH_PARAM_* array. They are taken at once."""

    def launch_with_attributes(self, function: int, shape: LaunchShape, stream: int, pointers: int, extra: int) -> None:
        """A cooperative launch, or one with clusters."""

    # Modules
    def load_module(self, image: bytes) -> int: ...
    def link(self, images: Sequence[bytes]) -> bytes:
        """Machine code of several fat binaries linked together."""

    def unload_module(self, module: int) -> None: ...
    def function(self, module: int, name: str) -> int: ...
    def variable(self, module: int, name: str) -> tuple[int, int]:
        """(address, size)."""

    def parameters(self, function: int) -> list[Parameter] | None:
        """The layout of a kernel's parameters; None where the driver is too old to tell."""

    def function_attribute(self, function: int, attribute: int) -> int: ...
    def set_function_attribute(self, function: int, attribute: int, value: int) -> None: ...

    # Streams and events
    def create_stream(self, flags: int, priority: int) -> int: ...
    def destroy_stream(self, stream: int) -> None: ...
    def synchronize_stream(self, stream: int) -> None: ...
    def stream_done(self, stream: int) -> bool: ...
    def wait_event(self, stream: int, event: int) -> None: ...
    def create_event(self, flags: int) -> int: ...
    def destroy_event(self, event: int) -> None: ...
    def record_event(self, event: int, stream: int) -> None: ...
    def synchronize_event(self, event: int) -> None: ...
    def event_done(self, event: int) -> bool: ...
    def elapsed_ms(self, start: int, end: int) -> float: ...

    # Arrays, textures, surfaces
    def create_array(self, spec: ArraySpec) -> int: ...
    def destroy_array(self, array: int) -> None: ...
    def copy_box(self, work: BoxWork, stream: int) -> None: ...
    def create_texture(self, source: TexelSource, spec: TextureSpec) -> int:
        """The object, as kernels take it."""

    def destroy_texture(self, texture: int) -> None: ...
    def create_surface(self, array: int) -> int: ...
    def destroy_surface(self, surface: int) -> None: ...

    # Tensor maps
    def encode_tensor(self, description: TensorMap) -> bytes: ...
    def move_tensor(self, map: bytes, address: int) -> bytes: ...

    # Graphs
    def create_graph(self) -> int: ...
    def destroy_graph(self, graph: int) -> None: ...
    def add_kernel(self, graph: int, after: int | None, work: KernelWork) -> int: ...
    def add_set(self, graph: int, after: int | None, work: SetWork, context: int) -> int: ...
    def add_copy(self, graph: int, after: int | None, work: CopyWork, context: int) -> int: ...
    def instantiate(self, graph: int) -> int: ...
    def destroy_executable(self, executable: int) -> None: ...
    def change_kernel(self, executable: int, node: int, work: KernelWork) -> None: ...
    def change_set(self, executable: int, node: int, work: SetWork, context: int) -> None: ...
    def change_copy(self, executable: int, node: int, work: CopyWork, context: int) -> None: ...
