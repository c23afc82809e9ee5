"""What compiled kernels and their caller agree on: structures in memory, kinds of faults, address windows.

Owns their layouts: layout.py gives IR files their types and field numbers. Does not own memory: the caller maps the device window, places module variables
in it and says, page by page, what may be touched.

Device addresses are host addresses (identity map). A kernel touches only: pages inside the window whose flag byte allows it, runs of pages
elsewhere that the caller names (HostMappings), its shared and local arenas, its parameter buffer (read-only). Every access is checked; a bad one ends the launch with a Fault, never with a signal.

Ordering: blocks are taken from Launch.next_block in increasing order, `chunk` or fewer at a time, by every worker that runs the launch;
linear index = x + grid.x * (y + grid.y * z); with clusters, cluster after cluster (clusters.py). Page flags may gain permissions while a launch runs; they may lose
some only in answer to a request for a page, of a launch that one worker runs.

Source: PTX ISA, "State Spaces"; the generic-address windows are our choice.
"""

from __future__ import annotations

import ctypes
from enum import IntEnum

ABI_VERSION = 10
PAGE = 4096  # of the host

# Generic addresses of shared and local memory and of kernel parameters: 4 GiB each, low 32 bits = offset. Nothing lies between them, so
# that what runs beyond the end of one does not come into the next. A device window must not overlap [GENERIC_WINDOWS, GENERIC_WINDOWS_END).
SHARED_WINDOW = 0x100_0000_0000
LOCAL_WINDOW = 0x102_0000_0000
PARAMETER_WINDOW = 0x104_0000_0000
GENERIC_WINDOWS = SHARED_WINDOW
GENERIC_WINDOWS_END = 0x105_0000_0000

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


class HostMappings(ctypes.Structure):
    """Memory of the window that is also at addresses outside of it: disjoint runs of pages, which may be read and written."""

    _fields_ = (("count", ctypes.c_uint64), ("runs", Run * 64))

    def run(self, address: int) -> tuple[int, int]:
        """The run that holds an address; (0, 0): none."""
        for one in self.runs[: self.count]:
            if one.start <= address < one.end:
                return one.start, one.end
        return 0, 0


class Launch(ctypes.Structure):
    """One launch, shared by all workers that run it. `next_block`, `abort` and the word of `pause` are accessed atomically."""

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
        ),  # %envreg1 and %envreg2: cooperative.WORKSPACE_BYTES of device memory, 0 = no grid synchronization
        (
            "cooperative",
            ctypes.c_void_p,
        ),  # cooperative.Cooperative.address: all blocks at once, on one worker; null: one after the other
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
        ),  # concurrent_blocks.Reserve.address: arenas for those; null: blocks that wait for later ones wait for ever
        ("host_mappings", ctypes.POINTER(HostMappings)),  # null: there are none
        (
            "streamed",
            ctypes.c_uint32,
        ),  # bytes that each thread has to write for the launch to write more than caches hold (streaming.py); 0: never
        # Towards the end less than a chunk is taken: what is left over `sharers`, in multiples of `grain`. 0: always a chunk.
        ("sharers", ctypes.c_uint32),
        ("grain", ctypes.c_uint32),
        # Of a u32, or null. While that is not 0, workers take no more blocks; next_block says which one comes next.
        ("pause", ctypes.c_void_p),
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
        ("over", ctypes.c_uint32),  # cooperative.ll: the block is
        ("last", ctypes.c_uint32),  # the warp that had the last turn
        ("idle", ctypes.c_uint32),  # turns without a step on
        ("touches", ctypes.c_void_p),  # touches.Buffer, or null: kernels compiled with Options.touches record nothing
        ("shadow", ctypes.c_void_p),  # of the shared arena, where the kernel watches for races
        ("peers", ctypes.c_void_p),  # WorkerState[cluster_blocks] of the block's cluster; null: it is alone
        ("arrived", ctypes.c_uint32),  # cluster.ll: living threads that have arrived at the cluster's barrier
        ("next", ctypes.c_void_p),  # waiting_blocks.ll: the next one in a list
    )


class WarpState(ctypes.Structure):
    """What a warp keeps while it runs, and while it waits."""

    _fields_ = (
        ("worker", ctypes.POINTER(WorkerState)),
        ("launch", ctypes.POINTER(Launch)),
        ("block", ctypes.c_uint32 * 3),
        ("index", ctypes.c_uint32),  # in its block
        ("mask", ctypes.c_uint32),  # lanes that have not ended
        ("state", ctypes.c_uint32),  # scheduler.ll: 2, it waits at a barrier
        ("stack", ctypes.c_uint64),  # its fiber's stack pointer while it does not run
        ("local", ctypes.c_uint64),  # local memory of its first lane
        ("limit", ctypes.c_uint64),  # the lowest address of its stack
        ("barriers", ctypes.c_uint32),  # the set that it waits for
        ("released", ctypes.c_uint32),  # those of them that have completed
        ("issued", ctypes.c_uint32),  # instructions, for touches
        ("reserved", ctypes.c_uint32),
        ("entry", ctypes.c_uint32),  # where its own code goes on after a warp group's
        ("area", ctypes.c_void_p),  # what is alive there
        ("pending", ctypes.c_uint32),  # lanes that wait at the cluster's barrier
        ("reserved_too", ctypes.c_uint32),
        ("place", ctypes.c_uint32),  # of its fiber among the block's
        ("members", ctypes.c_uint32),  # lane_fibers.ll: the lanes that its lane meets; 0: none
        ("mine", ctypes.c_void_p),  # words that its lane brings
        ("all", ctypes.c_void_p),  # where the words of all go
        ("count", ctypes.c_uint32),  # of words
        ("met", ctypes.c_uint32),  # lanes that have met
        ("site", ctypes.c_uint32),  # where in the program they meet,
        ("path", ctypes.c_uint32),  # and by which calls they came
    )


class Barrier(ctypes.Structure):
    """One of a block's sixteen barriers."""

    _fields_ = (
        ("arrived", ctypes.c_uint32),
        ("expected", ctypes.c_uint32),  # threads; 0: all of the block
        ("holding", ctypes.c_uint32),  # lanes whose predicate holds
        ("held", ctypes.c_uint32),  # of the last time it completed
        ("count", ctypes.c_uint32),  # lanes that had arrived then
        ("reserved", ctypes.c_uint32),
    )


class Latch(ctypes.Structure):
    """The run of pages that a memory access found last."""

    _fields_ = (("low", ctypes.c_uint64), ("end", ctypes.c_uint64))
