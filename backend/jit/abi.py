"""What native kernels and their caller agree on: C structures, fault kinds, address windows, and the Python API.

Owns the layout of `Launch`, `WorkerState` and `Fault` (mirrored by runtime.ll; tests compare the two) and the description of a
module's contents. Does not own memory: the caller maps the device window, places module variables in it and says, page by page, what
may be touched. The API itself is re-exported by the package:

    module = parse_module(text)                       # scan only; bodies are parsed at first use
    module.entries["name"]                            # Entry: parameter layout, shared bytes, launch bounds
    module.variables                                  # order = index into Launch.variables
    kernel = compile_kernel(module, "name", (16, 16, 1), options)   # raises PtxError; cached in memory and on disk
    worker = Worker()                                 # one per CPU thread; owns its arenas; reusable for any kernel
    worker.reserve(kernel, launch)                    # grows the arenas to what this launch needs
    status = kernel.run(launch, worker)               # releases the GIL; 0 = done, 1 = fault (see Launch.fault), 2 = aborted

Device addresses are host addresses (identity map). A kernel touches only: pages inside the window whose flag byte allows it, runs of pages
elsewhere that the caller names (Aliases), its shared and local arenas, its parameter buffer (read-only). Every access is checked; a bad one ends the launch with a Fault, never with a signal.

Ordering: blocks are taken from Launch.next_block in increasing order, `chunk` or fewer at a time, by every worker that runs the launch;
linear index = x + grid.x * (y + grid.y * z); with clusters, cluster after cluster (clusters.py). Page flags may gain permissions while a launch runs; they may lose
some only in answer to a request for a page, of a launch that one worker runs.

Source: PTX ISA, "State Spaces"; the generic-address windows are our choice.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from enum import IntEnum

ABI_VERSION = 9
ABREAST = 8  # blocks that a worker may run side by side (abreast.py)

# Generic addresses of shared and local memory and of kernel parameters: 4 GiB each, low 32 bits = offset. A device window must not
# overlap [GENERIC_WINDOWS, GENERIC_WINDOWS_END).
SHARED_WINDOW = 0x100_0000_0000
LOCAL_WINDOW = 0x101_0000_0000
PARAMETER_WINDOW = 0x102_0000_0000
GENERIC_WINDOWS = SHARED_WINDOW
GENERIC_WINDOWS_END = 0x103_0000_0000

PAGE_READABLE = 1
PAGE_WRITABLE = 2
PAGE_HELD = 4  # what the other flags do not allow may be had: the launch's services are asked (services.PageAnswer)

STATUS_DONE = 0
STATUS_FAULT = 1
STATUS_ABORTED = 2


class FaultKind(IntEnum):
    """Why a launch ended early. The caller maps it to a CUDA error."""

    NONE = 0
    ILLEGAL_ADDRESS = 1  # cudaErrorIllegalAddress 700
    MISALIGNED_ADDRESS = 2  # cudaErrorMisalignedAddress 716
    TRAP = 3  # cudaErrorLaunchFailure 719
    ILLEGAL_INSTRUCTION = 4  # cudaErrorIllegalInstruction 715
    INVALID_ADDRESS_SPACE = 5  # cudaErrorInvalidAddressSpace 717
    STACK_OVERFLOW = 6  # device call stack or local memory exhausted; cudaErrorLaunchFailure 719
    ASSERT = 7  # cudaErrorAssert 710
    BARRIER_DEADLOCK = 8  # threads wait at barriers that can never complete; cudaErrorLaunchTimeout 702
    INVALID_FREE = 9  # free of what malloc did not return; cudaErrorLaunchFailure 719
    SERVICE = 10  # a bug of the host in answering a request; cudaErrorUnknown 999


class Fault(ctypes.Structure):
    """The first fault of a launch (first to store; `claimed` is taken atomically). Zero it before the launch."""

    _fields_ = (
        ("claimed", ctypes.c_uint32),
        ("kind", ctypes.c_uint32),
        ("address", ctypes.c_uint64),
        ("size", ctypes.c_uint32),
        ("write", ctypes.c_uint32),
        ("block", ctypes.c_uint32 * 3),
        ("thread", ctypes.c_uint32 * 3),
        ("line", ctypes.c_uint32),  # line of the PTX text, 1-based
        ("reserved", ctypes.c_uint32),
    )


class Run(ctypes.Structure):
    _fields_ = (("start", ctypes.c_uint64), ("end", ctypes.c_uint64))


class Aliases(ctypes.Structure):
    """Memory of the window that is also at addresses outside of it: disjoint runs of pages, which may be read and written."""

    _fields_ = (("count", ctypes.c_uint64), ("runs", Run * 64))

    def run(self, address: int) -> tuple[int, int]:
        """The run that holds an address; (0, 0): none."""
        for one in self.runs[: self.count]:
            if one.start <= address < one.end:
                return one.start, one.end
        return 0, 0


class Launch(ctypes.Structure):
    """One launch, shared by all workers that run it. `next_block` and `abort` are accessed atomically."""

    _fields_ = (
        ("parameters", ctypes.c_void_p),  # Entry.parameter_bytes bytes, readable, 16-byte aligned
        ("variables", ctypes.c_void_p),  # u64[len(module.variables)]: device addresses; 0 for .shared ones
        ("window_base", ctypes.c_uint64),
        ("window_size", ctypes.c_uint64),
        ("page_flags", ctypes.c_void_p),  # u8[window_size >> page_shift]
        ("fault", ctypes.POINTER(Fault)),
        ("next_block", ctypes.c_uint64),  # start at the first block to run (0)
        ("end_block", ctypes.c_uint64),  # one past the last block
        ("page_shift", ctypes.c_uint32),  # >= 8; page size = 1 << page_shift
        ("chunk", ctypes.c_uint32),  # blocks taken at a time, >= 1; at most so many, where `sharers` are said
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),  # must equal the block the kernel was compiled for
        ("dynamic_shared", ctypes.c_uint32),  # bytes
        ("abort", ctypes.c_uint32),  # set to non-zero by anybody: workers stop at the next loop back edge or block
        ("grid_id", ctypes.c_uint64),  # %gridid
        ("services", ctypes.c_void_p),  # services.callback, or null: the kernel gets none
        (
            "workspace",
            ctypes.c_uint64,
        ),  # %envreg1 and %envreg2: together.WORKSPACE_BYTES of device memory, 0 = no grid synchronization
        (
            "together",
            ctypes.c_void_p,
        ),  # together.Together.address: all blocks at once, on one worker; null: one after the other
        ("check", ctypes.c_void_p),  # checks.Table.address; kernels compiled with Options.checks need it
        (
            "cluster",
            ctypes.c_uint32 * 3,
        ),  # blocks of a cluster, which divide the grid's; of no meaning where cluster_blocks <= 1
        ("cluster_blocks", ctypes.c_uint32),  # their product; next_block, end_block and chunk are multiples of it
        ("cluster_explicit", ctypes.c_uint32),  # %is_explicit_cluster
        ("patience", ctypes.c_uint32),  # turns in which a block gets nowhere, before others begin beside it
        (
            "more",
            ctypes.c_void_p,
        ),  # spares.Spares.address: arenas for those; null: blocks that wait for later ones wait for ever
        ("aliases", ctypes.POINTER(Aliases)),  # null: there are none
        (
            "streamed",
            ctypes.c_uint32,
        ),  # bytes that each thread has to write for the launch to write more than caches hold (streaming.py); 0: never
        # Towards the end less than a chunk is taken: what is left over `sharers`, in multiples of `grain`. 0: always a chunk.
        ("sharers", ctypes.c_uint32),
        ("grain", ctypes.c_uint32),
    )


class WorkerState(ctypes.Structure):
    """What one CPU thread needs to run kernels. Filled by Worker.reserve; opaque to the caller."""

    _fields_ = (
        ("launch", ctypes.c_void_p),
        ("shared", ctypes.c_void_p),
        ("shared_size", ctypes.c_uint64),
        ("local", ctypes.c_void_p),  # block threads rounded up to 32, times local_size
        ("local_size", ctypes.c_uint64),  # bytes of local memory of one thread
        ("warps", ctypes.c_void_p),  # WarpState[warps of a block]
        ("stacks", ctypes.c_void_p),  # one stack per warp, stack_size apart
        ("stack_size", ctypes.c_uint64),
        ("latches", ctypes.c_void_p),  # u64[4] per access site, reset by run
        ("scheduler_sp", ctypes.c_uint64),
        ("status", ctypes.c_uint32),
        ("index", ctypes.c_uint32),  # %smid
        ("barriers", ctypes.c_void_p),
        ("live", ctypes.c_uint32),
        (
            "turns",
            ctypes.c_uint32 * 3,
        ),  # together.ll: the block is over; the warp that had the last turn; turns without a step on
        ("touches", ctypes.c_void_p),  # touches.Buffer, or null: kernels compiled with Options.touches record nothing
        ("shadow", ctypes.c_void_p),  # of the shared arena, where the kernel watches for races
        ("peers", ctypes.c_void_p),  # WorkerState[cluster_blocks] of the block's cluster; null: it is alone
        ("arrived", ctypes.c_uint32),  # cluster.ll: living threads that have arrived at the cluster's barrier
        ("number", ctypes.c_uint32),  # of a block abreast, for where its stacks start
        ("next", ctypes.c_void_p),  # crowd.ll: the next one in a list
        # abreast.ll. Of a thread: WorkerState[abreast.BLOCKS], or null. Of a block: the one that its turn goes to, and its thread. Of a thread: whose turn it is.
        ("beside", ctypes.c_void_p),
        ("ring", ctypes.c_void_p),
        ("thread", ctypes.c_void_p),
        ("turn", ctypes.c_void_p),
    )


@dataclass(frozen=True)
class Parameter:
    """One kernel parameter in the parameter buffer."""

    name: str
    offset: int
    size: int
    align: int


@dataclass(frozen=True)
class Entry:
    """A kernel's signature, from its header and the .shared declarations of its module."""

    name: str
    parameters: tuple[Parameter, ...]
    parameter_bytes: int
    max_threads: tuple[int, int, int] | None = None  # .maxntid
    required_threads: tuple[int, int, int] | None = None  # .reqntid
    required_cluster: tuple[int, int, int] | None = None  # .reqnctapercluster
    most_cluster_blocks: int = 0  # .maxclusterrank; 0: not said
    explicit_cluster: bool = False  # .explicitcluster: it is launched with clusters only
    line: int = 0


@dataclass(frozen=True)
class Relocation:
    """`initial[offset : offset + size]` gets the address of `symbol` plus `addend`.

    generic: the initialiser said generic(symbol). For .global and .const both forms are the same here (identity map).
    """

    offset: int
    symbol: str
    addend: int
    generic: bool
    size: int = 8


@dataclass(frozen=True)
class Variable:
    """A module-scope variable. The caller gives global and const ones an address; `initial` is None for zeros."""

    name: str
    space: str  # "global" | "const" | "shared"
    size: int  # 0 for extern arrays of unknown size
    align: int
    initial: bytes | None = None
    relocations: tuple[Relocation, ...] = ()
    extern: bool = False
    managed: bool = False
    visible: bool = False
    line: int = 0


@dataclass(frozen=True)
class Options:
    """What compile_kernel may vary. Results never depend on them, except `stack_size` for deep recursion."""

    dual: bool = True  # an unmasked version of each block beside the masked one
    optimization: int = 2
    local_stack_bytes: int = 16384  # local memory of one thread when a kernel recurses (else exactly what it declares)
    features: str | None = None  # LLVM CPU features; None = the host's
    cpu: str | None = None
    cache: bool = True  # the disk cache
    checks: int = 0  # checks.MEMORY | RACE | INIT: what is looked for
    touches: bool = False  # records which pages each warp instruction touches (touches.py)
    light: bool = False  # compiled in a fraction of the time, some two times slower to run (tiers.py)
    untranslated: bool = False  # global accesses are not checked against the page flags: for measuring what that costs, never for a guest
    team: bool = True  # warps run together where they can (teams.py)
    serial: str = "adaptive"  # which loops run lane after lane (serial_choice.py): or "never", "always"
    keep_ir: bool = False  # CompiledKernel.ir holds the LLVM IR


class PtxError(Exception):
    """The PTX text is malformed, or asks for something that is not supported.

    Args:
        message: what is wrong, naming the instruction.
        line: line of the PTX text, 0 when unknown.
        kernel: the entry being compiled, "" outside of one.
    """

    def __init__(self, message: str, line: int = 0, kernel: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.kernel = kernel

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line else ""
        return f"{self.kernel}: {where}{self.message}" if self.kernel else f"{where}{self.message}"


class UnsupportedError(PtxError):
    """Correct PTX that this translator does not handle yet. Never a wrong result instead."""


@dataclass(frozen=True)
class KernelInfo:
    """Facts about a compiled kernel that its caller needs (cudaFuncAttributes, scheduling, arenas)."""

    name: str
    block: tuple[int, int, int]
    parameter_bytes: int
    static_shared: int
    local_bytes: int  # of one thread
    stack_bytes: int  # of one fiber
    registers: int  # an estimate for cudaFuncAttributes.numRegs, 16..255
    sites: int  # memory access sites (latches)
    barriers: bool
    recursive: bool
    granule: int  # bytes of shared memory that a shadow entry stands for; 0: races are not watched for
    # f32/f64/f16 atomic additions: the result depends on the order of blocks. One worker, blocks in order = reproducible.
    order_sensitive: bool
    # The value returned by an atomic is used: what a thread sees depends on the order of blocks (often harmless: slots in a queue).
    order_visible: bool
    # What it asks the host for (printing, device memory, ...) is served in the order of its blocks, on one worker.
    serial: bool = False
    clusters: bool = False  # it names other blocks of its cluster: those have to be there at once
    waits: bool = False  # it has a loop that waits for other threads, which may be those of blocks to come
    launches: bool = (
        False  # it asks the device runtime for grids, streams or events: the device looks after them when it has ended
    )
    solo: bool = False  # each thread has a fiber of its own (solo.py)
    tiled: bool = False  # its threads keep tiles of sums in registers (register_tiles.py)
    abreast: int = 0  # how many blocks a worker runs side by side, where a grid has many (abreast.py); 0: one at a time
    cached: str = "no"  # "no" | "memory" | "disk": where this compilation came from
    compile_seconds: float = 0.0
    variables: tuple[int, ...] = field(default=())  # indices of module variables that the code refers to
