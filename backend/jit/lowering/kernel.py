"""One kernel for one block shape: from a module to the text of an LLVM module.

Owns what the functions of a kernel share: the shared-memory layout, parameter offsets, access sites, helper functions. reachable.py finds the device functions. The passes, in order, for the kernel and every device function it reaches:

    parser.body_of -> promotion.promoted -> cfg.build -> ssa.build -> divergence.analyse -> codegen.FunctionEmitter.emit

Source: facts page "Recommended design".
"""

from __future__ import annotations

from collections.abc import Callable

from farlane.backend.jit.analysis import divergence, register_tiles, spins, strides, warp_groups
from farlane.backend.jit.lowering import checks
from farlane.backend.jit.lowering.emitters import group_codegen, lane_fibers
from farlane.backend.jit.lowering.emitters.codegen import FunctionEmitter
from farlane.backend.jit.lowering.ir import Val, integer
from farlane.backend.jit.lowering.reachable import Reachable
from farlane.backend.jit.lowering.specials import RESERVED_SHARED, RESERVED_SHARED_BYTES
from farlane.backend.jit.options import KernelInfo, Options
from farlane.backend.jit.ptx.declarations import Module, PtxError
from farlane.backend.jit.ptx.model import LANES, Body, Immediate, Instruction, Special, Symbol
from farlane.backend.jit.runtime import assembly, clusters
from farlane.backend.jit.runtime.checks import MEMORY, RACE
from farlane.backend.jit.ssa import cfg, inlining, ssa

MAX_STATIC_SHARED = 227 << 10
MAX_LOCAL = 512 << 10  # of a thread, as on every architecture
LARGE = 400  # instructions, callees included: from here on helpers are not inlined
DUAL_INSTRUCTIONS = 600
FAST_INSTRUCTIONS = 1500  # from here on LLVM optimises less
DUAL_BLOCKS, DUAL_BRANCHES = 100, 40


class KernelContext(Reachable):
    """State shared by the emitters of one kernel."""

    def __init__(self, module: Module, name: str, block: tuple[int, int, int], options: Options) -> None:
        super().__init__(module, name, block, options)
        self.threads = block[0] * block[1] * block[2]
        self.parameter_bytes = module.entries[name].parameter_bytes
        self.helpers: dict[str, str] = {}
        self.declarations: dict[str, None] = {}
        self.used_variables: set[int] = set()
        self.sites = self.prefetches = self.places = 0
        self.frames: dict[str, int] = {}
        self.order_sensitive = self.order_visible = self.serial = self.launches = False
        self.large = self.instructions > LARGE
        watched = options.checks or options.touches
        self.tiled = len(self.bodies) == 1 and not watched and register_tiles.tiled(self.bodies[name])
        self.shared: dict[str, int] = {}
        self.static_shared = 0
        self.extern_shared = False
        self._layout_shared()
        self.prepared = {name: self._prepare(body) for name, body in self.bodies.items()}
        self.fibers = any(waiting for _, _, waiting in self.prepared.values()) or any(
            (item.base in ("bar", "barrier") and "warp" not in item.modifiers)
            or (item.base == "mbarrier" and item.modifiers[0] in ("test_wait", "try_wait"))
            for body in self.bodies.values()
            for item in body.instructions
        )
        self.clusters = any(clusters.names_peers(item) for body in self.bodies.values() for item in body.instructions)
        self.fibers |= self.clusters
        self.lane_fibers = lane_fibers.needed(module, name, self.bodies, self.calls, self._waits, self._parts)
        self.fibers |= self.lane_fibers
        self.stack_estimate = 64 << 10
        self.granule_log = checks.granule_log(self.bodies.values())
        self.registers = 0
        self.waits = False
        self.group_warps = self.group_site = 0
        self.streams = False  # whether stores may go past the caches

    def _waits(self, name: str) -> bool:
        return bool(self.prepared[name][2])

    def _parts(self) -> bool:
        """Whether lanes of the kernel's own code go ahead of others that wait in a loop."""
        if not self._waits(self.name):
            return False
        graph, values, waiting = self.prepared[self.name]
        return bool(waiting & divergence.analyse(graph, values, self.block, True, set(self.parameter_offsets)).loops)

    # Memory ------------------------------------------------------------------------------------------------------
    def _layout_shared(self) -> None:
        offset = 0
        items: dict[str, tuple[int, int]] = {}
        if any(
            isinstance(source, Special) and source.name.startswith(RESERVED_SHARED)
            for body in self.bodies.values()
            for instruction in body.instructions
            for source in instruction.sources
        ):
            items[RESERVED_SHARED] = (RESERVED_SHARED_BYTES, RESERVED_SHARED_BYTES)
        for body in self.bodies.values():
            for item in body.storage.values():
                if item.space == "shared":
                    items[item.name] = (item.size, item.align)
            for instruction in body.instructions:
                for source in instruction.sources:
                    symbol = getattr(source, "base", source)
                    variable = self.module.variable(symbol.name) if isinstance(symbol, Symbol) else None
                    if variable is not None and variable.space == "shared":
                        if variable.extern:
                            self.extern_shared = True
                        else:
                            items[variable.name] = (variable.size, variable.align)
        for name, (size, align) in items.items():
            offset = (offset + align - 1) & -align
            self.shared[name] = offset
            offset += size
        if offset > MAX_STATIC_SHARED:
            raise PtxError(f"{offset} bytes of static shared memory", 0, self.name)
        self.static_shared = offset

    def shared_offset(self, name: str, size: int, align: int) -> int:
        return self.shared[name]

    def dynamic_shared(self) -> Val:
        return integer((self.static_shared + 15) & -16, "i64")

    def prefetch(self) -> int:
        """A number for what an access that prefetches remembers."""
        self.prefetches += 1
        return self.prefetches

    def place(self) -> int:
        """A number for where lanes may be together, or have come by (lane_fibers.ll)."""
        self.places += 1
        return self.places

    def site(self) -> int:
        self.sites += 1
        return self.sites - 1

    # Text --------------------------------------------------------------------------------------------------------
    def declare(self, text: str) -> None:
        self.declarations[text] = None

    @property
    def optimization(self) -> int:
        return min(self.options.optimization, 1) if self.instructions > FAST_INSTRUCTIONS else self.options.optimization

    def _long(self) -> bool:
        """Whether it has too many instructions for two versions of every block. In tier 1 that is so for register tiles, too."""
        return self.instructions > DUAL_INSTRUCTIONS and (self.options.tier == 1 or not self.tiled)

    def dual_fits(self, graph: cfg.Graph, parting: divergence.Divergence) -> bool:
        """Two versions of every block cost compile time that grows faster than the kernel."""
        if self._long():
            return False
        return len(graph.blocks) <= DUAL_BLOCKS and len(parting.branches) <= DUAL_BRANCHES

    def emit(self) -> str:
        """The LLVM module."""
        texts = []
        for name, body in self.bodies.items():
            entry = name == self.name
            graph, values, waiting = self.prepared.pop(name)
            self.waits |= bool(waiting) or self.lane_fibers
            if self.lane_fibers:
                waiting = set(graph.loops)
            parting = divergence.analyse(graph, values, self.block, entry, set(self.parameter_offsets))
            strict = self.lane_fibers or (not parting.conservative and not entry and inlining.has_barrier(body))
            if not self.lane_fibers and waiting & parting.loops:
                # Lanes may wait for lanes of their own warp: those that are through stop before what the others take part in.
                graph, values, waiting = self._prepare(body, spins.behind(graph, waiting))
                strict = True
            if strict:
                parting = divergence.conservative(graph, values, self.block, entry, set(self.parameter_offsets))
            parting.waiting = waiting
            self.stack_estimate = max(self.stack_estimate, (64 << 10) + 512 * len(values))
            self.registers = max(self.registers, len(values) // 8)
            emitter = FunctionEmitter(self, name, graph, parting, body.storage, entry)
            try:
                if entry:
                    texts += self._group(body, emitter)
                texts.append(emitter.emit())
            except PtxError as error:
                error.kernel = error.kernel or self.name
                raise
            for declaration in (*emitter.body.intrinsics.values(), *emitter.prologue.intrinsics.values()):
                self.declare(declaration)
        return self._assemble(texts)

    def _group(self, body: Body, alone: FunctionEmitter) -> list[str]:
        """The code of the kernel's warp groups, if it has any, which `alone` then goes on from."""
        sites = self.sites
        self.group_site = self.site()
        group = group_codegen.plan(self, body, alone)
        if group is None:
            self.sites = sites
            return []
        try:
            text = group.emit()
        except group_codegen.Unfit:
            self.sites, self.streams = sites, False
            return []
        alone.left_by, self.group_warps = group, group.warps
        for declaration in (*group.body.intrinsics.values(), *group.prologue.intrinsics.values()):
            self.declare(declaration)
        return [text]

    def prepare_again(self, body: Body) -> tuple[cfg.Graph, list[ssa.Value], set[int]]:
        """The same graph and values once more, for other classes, as the program has them."""
        return self._prepare(body)

    def _prepare(
        self, body: Body, apart: Callable[[Instruction], bool] | None = None
    ) -> tuple[cfg.Graph, list[ssa.Value], set[int]]:
        """The graph, its values, and the loops that wait for other threads."""
        watched = self.options.touches or self.options.checks
        predicated = self.instructions > DUAL_INSTRUCTIONS and not watched
        graph = cfg.build(body, apart, predicated, not predicated or not self._long())
        return graph, *spins.prepare(body, graph)

    def _barrier_count(self) -> int:
        """One more than the highest number of a barrier that the kernel names."""
        numbers = [
            item.sources[0]
            for body in self.bodies.values()
            for item in body.instructions
            if item.base in ("bar", "barrier") and "warp" not in item.modifiers and item.sources
        ]
        known = [item.value for item in numbers if isinstance(item, Immediate) and item.kind == "i"]
        return max((value & 15 for value in known), default=0) + 1 if len(known) == len(numbers) else 16

    def _assemble(self, texts: list[str]) -> str:
        warps = (self.threads + LANES - 1) // LANES
        constants = [
            f"@farlane_threads = internal constant i32 {self.threads}",
            f"@farlane_warps = internal constant i32 {self.threads if self.lane_fibers else warps}",
            f"@farlane_lane_fibers = internal constant i1 {'true' if self.lane_fibers else 'false'}",
            f"@farlane_barriers = internal constant i32 {self._barrier_count()}",
            f"@farlane_clusters_used = internal constant i1 {'true' if self.clusters else 'false'}",
            f"@farlane_fibers = internal constant i1 {'true' if self.fibers else 'false'}",
            f"@farlane_parameter_bytes = internal constant i64 {self.parameter_bytes}",
            f"@farlane_latch_bytes = internal constant i64 {16 * max(self.sites, 1)}",
            f"@farlane_group_warps = internal constant i32 {self.group_warps}",
            f"@farlane_row = internal constant i32 {strides.row_length(self.block)}",
            f"@farlane_group_latch = internal constant i64 {16 * self.group_site}",
            f"@farlane_exact = internal constant i1 {'true' if self.options.checks & MEMORY else 'false'}",
            f"@farlane_streams = internal constant i1 {'true' if self.streams else 'false'}",
            f"@farlane_granule_log = internal constant i64 {self.granule_log}",
        ]
        own = [*self.helpers.values(), *([] if self.group_warps else [assembly.NO_GROUP]), *texts]
        return assembly.assemble(
            bool(self.options.checks), self.options.touches, self.declarations, constants, own, warps
        )

    def info(self) -> KernelInfo:
        """What the caller needs to know. Valid after emit."""
        return KernelInfo(
            name=self.name,
            block=self.block,
            parameter_bytes=self.parameter_bytes,
            static_shared=self.static_shared,
            local_bytes=self._local_bytes(),
            stack_bytes=self._stack_bytes(),
            registers=max(16, min(255, self.registers)),
            sites=self._sites(),
            barriers=self.fibers,
            recursive=self.recursive,
            order_sensitive=self.order_sensitive,
            order_visible=self.order_visible,
            serial=self.serial,
            clusters=self.clusters,
            waits=self.waits,
            launches=self.launches,
            lane_fibers=self.lane_fibers,
            tiled=self.tiled,
            granule=1 << self.granule_log if self.options.checks & RACE else 0,
            variables=tuple(sorted(self.used_variables)),
        )

    def _sites(self) -> int:
        """Tier 1 code has neither warp groups nor regions of lanes: it tells how many latches tier 2 code may need in its place."""
        instructions = self.bodies[self.name].instructions
        accesses = sum(item.base in ("ld", "st") for item in instructions)
        sites = self.sites + (0 if self.group_warps else 2 * accesses + 1)
        if self.options.tier == 1:
            sites += accesses + sum(item.base == "bra" for item in instructions)  # each region has a loop
            sites += self.sites if self.tiled else 0  # its tier 1 code has one version of each block
        return max(sites, 1)

    def _local_bytes(self) -> int:
        if (most := max(self.frames.values(), default=0)) > MAX_LOCAL:
            raise PtxError(f"{most} bytes of local memory for a thread; there are {MAX_LOCAL}", 0, self.name)
        if self.recursive:
            return max(self.options.local_stack_bytes, sum(self.frames.values()))
        deepest: dict[str, int] = {}
        for name in inlining.callees_first(self.calls, self.name):  # the graph has no cycle
            deepest[name] = self.frames[name] + max((deepest[callee] for callee in self.calls[name]), default=0)
        if deepest[self.name] > MAX_LOCAL:
            raise PtxError(
                f"{deepest[self.name]} bytes of local memory for a thread; there are {MAX_LOCAL}", 0, self.name
            )
        return max(16, deepest[self.name])

    def _stack_bytes(self) -> int:
        if self.recursive:
            return max(4 << 20, 8 * self.stack_estimate)
        return (
            self.stack_estimate * (1 + min(len(self.bodies), 16))
            + (128 << 10)
            + warp_groups.stack_bytes(self.block, self.fibers)
        )
