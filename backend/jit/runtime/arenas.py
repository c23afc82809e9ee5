"""The memory a CPU thread needs to run kernels: shared and local arenas, fiber stacks, warp and barrier state, latches.

A `Worker` belongs to one thread at a time and may run any kernel. Arenas only grow. Each stack has an inaccessible page at its low end.
"""

from __future__ import annotations

import ctypes
import mmap
from typing import Any, Protocol

from farlane.backend.jit.options import KernelInfo
from farlane.backend.jit.runtime import clusters
from farlane.backend.jit.runtime.checks import Shadow, ShadowEntry
from farlane.backend.jit.runtime.structures import Barrier, Latch, Launch, WarpState, WorkerState
from farlane.backend.system import mappings

WARP_BYTES = ctypes.sizeof(WarpState)
BARRIER_BYTES = 16 * ctypes.sizeof(Barrier)
PAGE = mmap.PAGESIZE


class Kernel(Protocol):
    """What arenas are made for (compile.kernels.CompiledKernel)."""

    info: KernelInfo


class _Arena:
    """A private anonymous mapping, committed lazily."""

    def __init__(self) -> None:
        self.size = 0
        self.address = 0
        self._map: mmap.mmap | None = None

    def reserve(self, size: int) -> bool:
        """Grows to at least `size` bytes; returns whether the mapping is new (and zero)."""
        if size <= self.size:
            return False
        size = (size + PAGE - 1) & -PAGE
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
        self._map = mmap.mmap(-1, size, flags=flags)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self.size = size
        return True


class Worker:
    """One CPU thread's arenas.

    Args:
        index: what %smid reads.
    """

    def __init__(self, index: int = 0) -> None:
        self.state = WorkerState()
        self.state.index = index
        self._shared, self._local, self._stacks = _Arena(), _Arena(), _Arena()
        self._small, self._shadow = _Arena(), _Arena()
        self._stack_layout = (0, 0)
        self.generation = 0  # counts what moved: a copy of `state` is good as long as it stays
        self._peers: list[Worker] = []
        self._peer_states: Any = None
        self._ready: tuple[Kernel, Launch] | None = None  # what it is laid out for

    def reserve(self, kernel: Kernel, launch: Launch) -> None:
        """Makes room for a launch of `kernel`. Call before every run: it also sets the sizes that accesses are checked against.

        A launch's shape and shared memory stay as they are from the first time on.
        """
        ready = self._ready
        if ready is not None and ready[0] is kernel and ready[1] is launch:
            return
        self._ready = None
        self.reserve_block(kernel, launch)
        blocks = clusters.size(launch)
        if blocks > 1 and kernel.info.clusters:
            self._reserve_peers(kernel, launch, blocks)
        self._ready = kernel, launch

    def _reserve_peers(self, kernel: Kernel, launch: Launch, blocks: int) -> None:
        """Arenas for each block of a cluster; latches, and what else is the thread's, are this worker's."""
        self._peers += [Worker() for _ in range(len(self._peers), blocks)]
        states = (WorkerState * blocks)()
        for number, peer in enumerate(self._peers[:blocks]):
            peer.reserve_block(kernel, launch)
            states[number] = peer.state
            states[number].latches, states[number].index = self.state.latches, self.state.index
            states[number].touches, states[number].peers = self.state.touches, ctypes.addressof(states)
        self._peer_states = states
        self.state.peers = ctypes.addressof(states)
        self.generation += 1

    def reserve_block(self, kernel: Kernel, launch: Launch) -> None:
        """The same for one block at a time."""
        info = kernel.info
        threads = info.block[0] * info.block[1] * info.block[2]
        warps = (threads + 31) // 32
        state = self.state
        state.peers = None
        shared = info.static_shared + launch.dynamic_shared
        if launch.dynamic_shared:
            shared = ((info.static_shared + 15) & -16) + launch.dynamic_shared
        self.generation += self._shared.reserve(max(shared, 1))
        state.shared, state.shared_size = self._shared.address, shared
        state.shadow = self._shadow_of(shared, info.granule) if info.granule else None
        local = (info.local_bytes + 15) & -16
        self.generation += self._local.reserve(local * warps * 32)
        state.local, state.local_size = self._local.address, local
        # A page more: stacks start at different places in it (runtime.ll).
        fibers = threads if info.lane_fibers else warps
        self._reserve_stacks(fibers if info.barriers else 1, (info.stack_bytes + 2 * PAGE - 1) & -PAGE)
        self.generation += self._small.reserve(
            fibers * WARP_BYTES + BARRIER_BYTES + info.sites * ctypes.sizeof(Latch) + 192
        )
        state.barriers = self._small.address
        state.warps = self._small.address + BARRIER_BYTES
        state.latches = (self._small.address + BARRIER_BYTES + fibers * WARP_BYTES + 63) & -64

    def _shadow_of(self, shared: int, granule: int) -> int:
        """A shadow keeps what earlier launches have entered: epochs tell that from what counts (checks.ll)."""
        if self._shadow.reserve(ctypes.sizeof(Shadow) + (shared // granule + 1) * ctypes.sizeof(ShadowEntry)):
            self.generation += 1
            Shadow.from_address(self._shadow.address).size = self._shadow.size
        return self._shadow.address

    def _reserve_stacks(self, count: int, size: int) -> None:
        have_count, have_size = self._stack_layout
        if have_count < count or have_size < size:
            count, size = max(count, have_count), max(size, have_size)
            self._stacks.reserve(count * size)
            self._stack_layout = (count, size)
            self.generation += 1
            for index in range(count):
                address = self._stacks.address + index * size
                mappings.checked(mappings.libc.mprotect(address, PAGE, mappings.PROT_NONE), "mprotect of a fiber stack")
        self.state.stacks, self.state.stack_size = self._stacks.address, self._stack_layout[1]
