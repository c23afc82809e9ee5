"""What a device is to the replay: the small interface every device implements.

A `Device` is opened once per host process. A `Context` is one session's share of it: an address space, modules,
streams and events, all released by `close`. The replay calls a context from one thread at a time, in tape order.
Handles are not known here: the replay resolves them and passes the objects that the context returned.

Ordering: work is issued in tape order. A context may run streams concurrently as long as each stream's order, the
events and the legacy default stream's rules hold; running everything in tape order is always right.

Errors: a method raises `CudaError` for what CUDA reports as a result. A sticky one ruins the context: the replay fails all later
work of the session with it. Any other exception is a bug of ours.

Source: docs/explanation/systems.md, S1 point 1; CUDA runtime API, "Stream synchronization behavior"; docs/explanation/architecture/README.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from farlane.backend.device.compilations import Compilations
from farlane.backend.device.options import DEFAULT, DeviceOptions
from farlane.backend.device.saved import Saveable, SavedContext, Unsaveable
from farlane.backend.generated_errors import INVALID_VALUE, LAUNCH_FAILURE, NOT_SUPPORTED
from farlane.backend.plane import Direct, Entry, Ranges

if TYPE_CHECKING:
    from farlane.backend.device.objects import ObjectDescription
    from farlane.backend.device.plan import Body, Columns, Results, Stop
    from farlane.backend.device.tensors import TensorMap
    from farlane.backend.plane import Place

LEGACY_STREAM = 1
PER_THREAD_STREAM = 2

# Mapped physical memory (tape.md, "Physical memory").
MAPPING_GRANULE = 2 << 20
NO_ACCESS, READ, READ_WRITE = 0, 1, 3


class CudaError(Exception):
    """A CUDA result that is not success.

    Args:
        code: the cudaError_t.
        message: what was wrong, for the log; names what the guest can recognise.
        sticky: the context is lost with it.
    """

    def __init__(self, code: int, message: str, *, sticky: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.sticky = sticky


@dataclass(frozen=True)
class Description:
    """What the handshake tells a guest about one device (session.proto, DeviceDescription)."""

    backend: str
    name: str
    uuid: bytes
    compute_capability: tuple[int, int]
    total_memory: int
    takes_ptx: bool
    takes_machine_code: bool
    makes_objects: bool = False  # texture and surface objects are the host's to make (tape.md, "Textures")
    has_host_mappings: bool = False  # kernels can have memory at the program's addresses (tape.md, "Host mappings")
    has_conditions: bool = False  # kernels set conditions of graphs (tape.md, "Conditions")
    has_mappings: bool = False  # physical memory is mapped at addresses (tape.md, "Physical memory")
    takes_any_ptx: bool = False  # where an image has no PTX for compute_capability, PTX of another architecture
    pci_bus_id: str = "0000:00:00.0"
    attributes: Mapping[int, int] = field(default_factory=dict)  # cudaDeviceAttr, CUdevice_attribute -> value


@dataclass(frozen=True)
class Window:
    """The device addresses [base, base + size) of one session."""

    base: int
    size: int


@dataclass(frozen=True)
class Rows:
    """A two-dimensional range of memory: height rows of width bytes, pitch bytes apart. One row is a plain range."""

    address: int
    pitch: int
    width: int
    height: int

    @property
    def contiguous(self) -> bool:
        """Whether the bytes are one plain range."""
        return self.height == 1 or self.pitch == self.width


MEMORY_PARTS = 2048  # of a memory map, at most of each kind


@dataclass(frozen=True)
class MemoryMap:
    """A session's device memory, for people: the first MEMORY_PARTS of each kind.

    Args:
        allocations: start, size, what it is.
        groups: of the translation table, where there is one: start, physical address, length.
    """

    allocations: Sequence[tuple[int, int, str]] = ()
    groups: Sequence[tuple[int, int, int]] = ()


@dataclass(frozen=True)
class LaunchShape:
    """Grid and block as (x, y, z), dynamic shared memory in bytes. `cluster`: blocks of a cluster, where the launch says so."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    cooperative: bool = False
    cluster: tuple[int, int, int] | None = None


def _nothing() -> Direct:
    direct = Direct(Ranges(), backed=False)
    direct.disable()
    return direct


class Context(Saveable, ABC):
    """One session's share of a device. Modules, functions, streams and events are opaque objects of the context."""

    window: Window
    quota: int
    device_nanoseconds: int = 0  # for how long it has worked, what the plane did by itself apart
    #: What the plane does by itself: copies, sets, synchronizations, events, launches that are laid out. Nothing, where nothing is said
    #: here. A context that says something makes its streams and events of the plane's Stream and Event.
    direct: Direct = _nothing()
    #: Whether `expect` is of use: a device whose memory is reused has it.
    looks_ahead: bool = False
    #: What the session has waited for code; nothing where the driver compiles.
    compilations = Compilations()

    @property
    def used_bytes(self) -> int | None:
        """Device memory that is allocated now; None: not known here. Any thread may ask."""
        return None

    def counts(self) -> dict[str, int]:
        """What was done for the session so far (host/metrics.py has the names). From any thread, also after `close`."""
        return {
            "kernels": self.direct.launches,
            "device_nanoseconds": self.device_nanoseconds + self.direct.nanoseconds,
        }

    def memory_map(self) -> MemoryMap:
        """What is allocated now, and where. From any thread."""
        return MemoryMap()

    @abstractmethod
    def close(self) -> None:
        """Releases everything, however much of it there is. Idempotent; never raises."""

    def interrupt(self) -> None:
        """Ends running work early, for its guest has gone. Any thread may call it at any time; only `close` may follow."""

    def check(self, kinds: Sequence[str]) -> None:
        """Before any work: kernels are to be checked (session.proto, Hello.checks). Raises CudaError 801: not by this device."""
        raise CudaError(NOT_SUPPORTED, f"this device cannot check kernels ({', '.join(kinds)})")

    def finish_checks(self) -> int:
        """The number of errors that the checks have found; what is left to say is in the output afterwards."""
        return 0

    def prioritize(self, priority: int) -> None:
        """The session's priority among the device's: the highest comes first. Of devices on which one session gives way to another."""

    def share(self, place: Place) -> None:
        """Before any work: the session's work waits for its place on the device. Of devices whose work is over when a call returns."""

    def rest(self) -> bool:
        """Nothing waits to be done: the moment for what was put off. False: work that runs has to end first; nothing waits for it here."""
        return True

    @abstractmethod
    def reset(self) -> None:
        """cudaDeviceReset: as after opening, sticky error cleared."""

    # Memory -----------------------------------------------------------------------------------------------------
    @abstractmethod
    def allocate(self, address: int, size: int) -> None:
        """Backs [address, address + size), zero or more pages shared with neighbours."""

    @abstractmethod
    def free(self, address: int) -> None: ...

    def map_host(self, address: int, device: int, size: int) -> None:
        """Kernels find the whole pages [device, device + size) of one allocation at the address, too, until that allocation ends.

        Raises CudaError 801 where they cannot be there.
        """
        raise CudaError(NOT_SUPPORTED, "kernels of this device have memory at the device's addresses only")

    def create_physical(self, size: int) -> Any:
        """Memory without an address, `size` bytes of zeros. Raises CudaError 2: there is no more; 801: this device has none."""
        raise CudaError(NOT_SUPPORTED, "this device does not map physical memory at addresses")

    def free_physical(self, memory: Any) -> None:
        """Ends memory of `create_physical`, which is mapped nowhere."""

    def map_physical(self, address: int, memory: Any, offset: int, size: int) -> None:
        """Bytes [offset, offset + size) of the memory are at the address, without access. Everything is a multiple of MAPPING_GRANULE, and
        in the window; the caller has checked that no other mapping is there."""

    def unmap_physical(self, address: int, size: int) -> None:
        """Ends a mapping, after all earlier work."""

    def set_access(self, address: int, size: int, access: int) -> None:
        """What kernels and copies may do with a mapping: NO_ACCESS, READ, or READ_WRITE."""

    @abstractmethod
    def set(self, rows: Rows, value: int, element: int, stream: Any) -> None: ...

    @abstractmethod
    def write(self, rows: Rows, data: memoryview, stream: Any) -> None:
        """`data` is valid only during the call."""

    @abstractmethod
    def read(self, rows: Rows, stream: Any) -> Iterator[memoryview | bytes]:
        """Yields the packed bytes in pieces of at most 1 MiB, after all work that CUDA orders before the copy."""

    @abstractmethod
    def copy(self, destination: Rows, source: Rows, stream: Any) -> None: ...

    # Modules ----------------------------------------------------------------------------------------------------
    @abstractmethod
    def load_module(self, image: bytes) -> Any:
        """`image`: a fat binary (or bare PTX or cubin). Raises CudaError 209 when nothing in it can run here."""

    @abstractmethod
    def unload_module(self, module: Any) -> None: ...

    def check_module(self, image: bytes, unit: bool) -> None:
        """Raises CudaError when the image is not accepted. A `unit` will be linked with others, and may declare what it does not define."""
        if not unit:
            self.unload_module(self.load_module(image))

    @abstractmethod
    def function(self, module: Any, name: str) -> Any:
        """Raises CudaError 98 (cudaErrorInvalidDeviceFunction) when the module has no such kernel."""

    @abstractmethod
    def set_function_attribute(self, function: Any, attribute: int, value: int) -> None: ...

    @abstractmethod
    def variable(self, module: Any, name: str) -> tuple[int, int]:
        """(address, size) of a device variable. Raises CudaError 13 (cudaErrorInvalidSymbol)."""

    @abstractmethod
    def launch(self, function: Any, shape: LaunchShape, parameters: memoryview, stream: Any) -> None:
        """`parameters` is valid only during the call."""

    def launch_from(
        self, function: Any, shape: LaunchShape, message: memoryview, begin: int, end: int, stream: Any
    ) -> None:
        """`launch` with the parameters message[begin:end]: what the replay calls. A device that does not look at parameters, or
        copies them itself, overrides it and saves the view."""
        self.launch(function, shape, message[begin:end], stream)

    def lay_out(self, function: Any, shape: LaunchShape, size: int, stream: Any) -> Entry | None:
        """The launch with `size` bytes of parameters as the plane can do it again by itself; None: it cannot."""
        return None

    def fault(self, code: int, call: str) -> CudaError:
        """A call of the driver by the plane has failed: what this is for the guest."""
        return CudaError(code, f"{call} failed", sticky=True)

    def failure(self, laid_out: Any) -> CudaError:
        """Why a launch that was laid out (from this) did not come to its end."""
        return CudaError(LAUNCH_FAILURE, f"{laid_out} failed", sticky=True)

    def account(self, laid_out: Any, nanoseconds: int) -> None:
        """The kernel of a launch that was laid out (from this) has run for so long since this was last said."""

    def repeat(self, body: Body, columns: Columns, results: Results) -> Stop | None:
        """Does the body once for each of the columns' iterations, in order, as if each step had been issued by its own call.

        Optional: None declines, before anything is done, and the replay issues the steps itself. Hook for whatever a device can
        repeat without a call for each operation: a compiled loop, or a real GPU's graphs (plan.py).

        Args:
            results: an iteration's result records, ready but for the bytes of its READs.
        """
        return None

    def create_object(self, description: ObjectDescription) -> int:
        """A texture or surface object, as kernels take it. Only of a device whose Description says so."""
        raise CudaError(NOT_SUPPORTED, "kernels of this device read the descriptions of objects from memory")

    def destroy_object(self, value: int, *, surface: bool) -> None:
        raise CudaError(INVALID_VALUE, f"there is no object {value:#x}")

    def tensor_map(self, description: TensorMap) -> bytes:
        """What kernels take for a tensor map, 128 bytes. Only of a device whose Description says that it makes objects."""
        raise CudaError(NOT_SUPPORTED, "kernels of this device read the descriptions of tensors")

    def moved_tensor_map(self, map: bytes, address: int) -> bytes:
        """Such a map, of a tensor that lies elsewhere."""
        raise CudaError(NOT_SUPPORTED, "kernels of this device read the descriptions of tensors")

    def expect(self, launches: Sequence[memoryview | bytes]) -> None:
        """The parameters of the launches that will come next, as far as they are known: advice about what to keep in memory.

        A loop that its slice decides has no iteration whose values are known before: it is advised that the last one's come again.
        """

    def report(self) -> dict[str, dict[str, int]]:
        """What the device has counted for this session, by section, for the report of a run."""
        return {}

    def take_output(self) -> tuple[bytes, bytes]:
        """What kernels have printed since the last call, oldest first: for the guest's standard output, and (assertions) for its standard
        error. Everything of the launches that have ended; cheap when there is nothing."""
        return b"", b""

    # Streams and events -----------------------------------------------------------------------------------------
    @abstractmethod
    def default_stream(self, number: int) -> Any:
        """The stream object behind LEGACY_STREAM or PER_THREAD_STREAM."""

    @abstractmethod
    def create_stream(self, flags: int, priority: int) -> Any: ...

    @abstractmethod
    def destroy_stream(self, stream: Any) -> None: ...

    @abstractmethod
    def wait_event(self, stream: Any, event: Any) -> None: ...

    @abstractmethod
    def stream_done(self, stream: Any) -> bool: ...

    @abstractmethod
    def create_event(self, flags: int) -> Any: ...

    @abstractmethod
    def destroy_event(self, event: Any) -> None: ...

    @abstractmethod
    def record_event(self, event: Any, stream: Any, flags: int) -> None: ...

    @abstractmethod
    def event_done(self, event: Any) -> bool: ...

    @abstractmethod
    def elapsed_ms(self, start: Any, end: Any) -> float:
        """Raises CudaError 400 when an event was never recorded, 600 when one is not done."""

    @abstractmethod
    def synchronize(self, stream: Any | None = None, event: Any | None = None) -> None:
        """Returns when the stream, the event, or (neither given) all of the context's work is done."""

    @abstractmethod
    def set_limit(self, limit: int, value: int) -> None: ...


class Device(ABC):
    """A device that sessions share."""

    name: str
    options: DeviceOptions = DEFAULT  # what its user asks for (registry.open_device)

    @abstractmethod
    def describe(self) -> Description: ...

    def prepare(self) -> None:  # noqa: B027  (most devices have nothing that takes long)
        """A session will come: what takes long can be done now."""

    def spread(self) -> None:  # noqa: B027  (most devices have no addresses that another host's sessions could have)
        """Sessions of other hosts may come: those of this one have addresses of their own."""

    def reopen_context(self, quota: int, saved: SavedContext) -> Context:
        """A context with what another one had, at the same addresses, its memory zero. Raises Unsaveable."""
        raise Unsaveable("this host's device restores no sessions")

    @abstractmethod
    def open_context(self, quota: int) -> Context:
        """A fresh context with a window of its own. Raises CudaError 2 when there is no room for one."""

    @abstractmethod
    def close(self) -> None: ...
