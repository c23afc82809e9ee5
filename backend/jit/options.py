"""What the compiler is asked for (Options), and what it says of the kernel that it has made (KernelInfo)."""

from __future__ import annotations

from dataclasses import dataclass, field


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
    tier: int = 2  # 1: compiled in a fraction of the time, some two times slower to run (tiers.py)
    untranslated: bool = False  # global accesses are not checked against the page flags: for measuring what that costs, never for a guest
    warp_groups: bool = True  # warps run as one where they can (warp_groups.py)
    serial: str = "adaptive"  # which loops run lane after lane (serial_choice.py): or "never", "always"
    keep_ir: bool = False  # CompiledKernel.ir holds the LLVM IR


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
    lane_fibers: bool = False  # each thread has a fiber of its own (lane_fibers.py)
    tiled: bool = False  # its threads keep tiles of sums in registers (register_tiles.py)
    cached: str = "no"  # "no" | "memory" | "disk": where this compilation came from
    compile_seconds: float = 0.0
    variables: tuple[int, ...] = field(default=())  # indices of module variables that the code refers to
