"""Launching: from a shape and a parameter buffer to a kernel run by CPU threads.

Owns compiling at the first launch, how many threads share the blocks, and that what a kernel launches runs after it (nested.py
says in which order); admission.py has the checks. A small grid runs on the calling thread alone, and so does what has been short (runtime/prepared.py); a kernel whose
result depends on the order of its blocks (floating-point atomics) runs on one thread, blocks in order, so that every run gives the same bits.

A launch returns when the kernel has ended, and everything that it has launched. While it runs, only `interrupt` may be called, from any thread.

Source: CUDA programming guide, "Kernels"; cudaLaunchKernel.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import math
import time
from collections.abc import Iterator, Sequence

from farlane.backend import jit
from farlane.backend.device.base import CudaError, LaunchShape
from farlane.backend.device.limits import Limits
from farlane.backend.device.sim.launching.admission import Admission
from farlane.backend.device.sim.launching.compiling import compiled, run_in_parts, whole_clusters
from farlane.backend.device.sim.launching.faults import error_of
from farlane.backend.device.sim.launching.pool import Pool, least_bytes
from farlane.backend.device.sim.launching.stops import Stops
from farlane.backend.device.sim.memory.memory import Memory
from farlane.backend.device.sim.memory.window import PAGE_SHIFT
from farlane.backend.device.sim.observers.observer import Ended, Faulted, Observers
from farlane.backend.device.sim.runtime.modules import SimFunction
from farlane.backend.device.sim.runtime.nested import Grid
from farlane.backend.device.sim.runtime.prepared import CostEstimate, Prepared
from farlane.backend.device.sim.runtime.runtime import Runtime
from farlane.backend.generated_errors import INVALID_VALUE, LAUNCH_FAILURE
from farlane.backend.generated_limits import MAX_PARAMETER_BYTES
from farlane.backend.plane import Direct
from farlane.demangle import demangled

_PARAMETER_ALIGNMENT = 64
_INLINE_THREADS = 4096  # a grid with fewer is over before a helper has woken up
_CHUNKS_PER_THREAD = 8
_MAX_CHUNK = 256
MOST_SHAPES = 8  # of a kernel's launches that are kept ready


class Launcher:
    """Runs the kernels of one session."""

    def __init__(
        self,
        memory: Memory,
        pool: Pool,
        limits: Limits,
        runtime: Runtime,
        observers: Observers,
        direct: Direct,
        tiers: bool = True,
    ) -> None:
        self._memory = memory
        self._pool = pool
        self._admission = Admission(limits)
        self._runtime = runtime
        # This thread's, and those that helpers work with: of this session alone, for kernels may read what earlier ones left in them.
        self._workers = [jit.Worker()]
        self._nested_workers = [jit.Worker()]  # for what kernels launch while a loop has its own
        buffer = (ctypes.c_uint8 * (MAX_PARAMETER_BYTES + _PARAMETER_ALIGNMENT))()
        lead = -ctypes.addressof(buffer) % _PARAMETER_ALIGNMENT
        self._parameters = memoryview(buffer).cast("B")[lead:]
        self._parameters_address = ctypes.addressof(buffer) + lead
        self._fault = jit.Fault()
        self._running: jit.Launch | None = None
        self._repeating: Sequence[jit.Launch] = ()
        self.halted = ctypes.c_uint32(0)  # not 0: the session has been interrupted
        self.stops = Stops()
        self._direct = direct
        self.took = 0  # the last launch, in nanoseconds
        self._reserved: Prepared | None = None  # what this session's worker has its arenas laid out for
        self._observers = observers
        # A warp group's accesses are checked before they are made: no page may go in between.
        self.options = observers.options(dataclasses.replace(jit.tiers.options(tiers), warp_groups=not memory.attended))
        observers.attach(self._workers[0])

    @property
    def launches(self) -> int:
        """So far, by the plane and by Python."""
        return self._direct.launches

    @launches.setter
    def launches(self, number: int) -> None:
        self._direct.launches = number

    def observed(self) -> None:
        """Before the first launch: there are more observers."""
        self.options = self._observers.options(self.options)

    def interrupt(self) -> None:
        """Ends the launch that runs now, and refuses all later ones. Thread-safe."""
        self.halted.value = 1
        self._direct.interrupt()
        if (running := self._running) is not None:
            running.abort = 1
        for repeated in self._repeating:
            repeated.abort = 1

    def launch(self, function: SimFunction, shape: LaunchShape, parameters: memoryview) -> int:
        """Runs a kernel to its end and returns how many nanoseconds that took, compiling it apart.

        Raises:
            CudaError: the launch is refused, or (sticky) the kernel faulted.
        """
        size = parameters.nbytes
        if size != function.entry.parameter_bytes or size > MAX_PARAMETER_BYTES:
            raise CudaError(
                INVALID_VALUE,
                f"kernel {demangled(function.name)}: {size} bytes of parameters; it takes {function.entry.parameter_bytes}",
            )
        prepared = function.prepared
        if prepared is None or (prepared.shape is not shape and prepared.shape != shape):
            prepared = self._prepare_other(function, shape)
        self.launches += 1
        number = self.launches
        if not prepared.kernel.info.launches:
            self.took = self._execute(prepared, parameters, number)
            return self.took
        nested = self._runtime.nested
        nested.begin(function, self._admission.check_nested)
        try:
            nanoseconds = self._execute(prepared, parameters, number)
        except BaseException:
            nested.clear()
            raise
        return nanoseconds + self._run_nested(number)

    def _run_nested(self, number: int) -> int:
        """Runs what the session's `number`th launch has launched, and returns how many nanoseconds that took. Raises CudaError."""
        nested = self._runtime.nested
        total = 0

        def run(grid: Grid) -> None:
            nonlocal total
            function, shape = grid.function, grid.shape
            prepared = function.prepared
            if prepared is None or prepared.shape != shape:
                try:
                    prepared = self._prepare_other(function, shape)
                except CudaError as error:  # too late for the grid that launched it to hear of it
                    raise CudaError(error.code, f"launched by a kernel: {error.message}", sticky=True) from None
            nested.begin(function, self._admission.check_nested, grid.depth)
            total += self._execute(prepared, memoryview(grid.parameters), number)

        nested.finish(run)
        return total

    def _execute(self, prepared: Prepared, parameters: memoryview, number: int) -> int:
        """Runs one grid, which belongs to the session's `number`th launch, and returns how many nanoseconds that took. Raises CudaError."""
        function, shape, launch = prepared.function, prepared.shape, prepared.launch
        self._parameters[: parameters.nbytes] = parameters
        launch.grid_id = number
        launch.next_block = 0
        self._running = launch
        self._check_interrupted()  # behind the store, so that an interrupt is seen here or sees the launch
        self._observers.begin(function.name, prepared.kernel.info, shape, self._memory)
        self.stops.begin(prepared)
        nanoseconds, again = 0, False
        try:
            while True:
                spread = prepared.helpers > 0 and not self.stops.crowded
                if self._memory.attended:
                    spread = self._memory.before_launch(parameters, prepared.variables, again) and spread
                started = time.monotonic_ns()
                run = self._run_shared if spread else self._run_inline
                done = run(prepared) if prepared.kernel.use is None else run_in_parts(prepared, run)
                nanoseconds += time.monotonic_ns() - started
                again = done and self.stops.went_aside(prepared)
                if not again:
                    break
        finally:
            self._running = None
            self.stops.end(prepared)
        if self._observers:
            seconds = nanoseconds / 1e9
            run_ended = Ended(function.module.parsed, function.name, shape.block, parameters, done, seconds)
            self._observers.ended(run_ended, self._memory.allocations)
        if not done:
            raise self.error(function, prepared)
        return nanoseconds

    # Repetitions (repeats.py) -----------------------------------------------------------------------------------

    @property
    def interrupted(self) -> bool:
        return bool(self.halted.value)

    @contextlib.contextmanager
    def repeating(self, launches: Sequence[jit.Launch]) -> Iterator[None]:
        """While these launches may run, again and again: an interrupt ends whichever does."""
        self._repeating = launches
        self.stops.in_loop = True
        try:
            self._check_interrupted()
            yield
        finally:
            self._repeating = ()
            self.stops.in_loop = False
            self._reserved = None

    def prepare(self, function: SimFunction, shape: LaunchShape, size: int) -> Prepared:
        """A launch of its own, checked, for `size` bytes of parameters that the caller keeps. Raises CudaError."""
        if size != function.entry.parameter_bytes or size > MAX_PARAMETER_BYTES:
            raise CudaError(INVALID_VALUE, f"kernel {demangled(function.name)}: {size} bytes of parameters")
        known = function.prepared
        if known is None or known.shape != shape or known.has_blocks:
            return self._prepare(function, shape)
        launch = jit.Launch.from_buffer_copy(known.launch)
        launch.abort, launch.pause = 0, None
        return Prepared(function, shape, known.kernel, launch, known.helpers, known.cost)

    def lend(self, prepared: Prepared) -> jit.WorkerState:
        """The state of this session's worker for a launch of `prepare`: good as long as `worker_generation` stays."""
        states = self.worker_states([prepared])
        self._reserved = None
        return states[prepared.arenas]

    @property
    def worker_generation(self) -> int:
        """As long as it stays, so do the `worker_states`."""
        return self._workers[0].generation

    def worker_states(self, launches: Sequence[Prepared]) -> dict[tuple[int, int], jit.WorkerState]:
        """For each `arenas` of the launches, the state of this session's worker."""
        worker = self._workers[0]
        different = {prepared.arenas: prepared for prepared in launches}
        for prepared in different.values():  # first all of them, so that nothing moves afterwards
            worker.reserve(prepared.kernel, prepared.launch)
        states = {}
        for key, prepared in different.items():
            worker.reserve(prepared.kernel, prepared.launch)
            states[key] = jit.WorkerState.from_buffer_copy(worker.state)
        return states

    def run_spread(self, prepared: Prepared, number: int) -> bool:
        """Runs a launch, the session's `number`th, on this thread and helpers, and what it launches. Returns whether it got to its end.

        Raises:
            CudaError: what it launched did not.
        """
        prepared.launch.grid_id = number
        prepared.launch.next_block = 0
        run = self._run_shared if prepared.helpers else self._run_inline
        if not prepared.kernel.info.launches:
            return run(prepared)
        self._runtime.nested.begin(prepared.function, self._admission.check_nested)
        if not run(prepared):
            self._runtime.nested.clear()
            return False
        # A loop has laid out this session's arenas for its own kernels: what they launch uses others.
        own, self._workers, self._reserved = self._workers, self._nested_workers, None
        try:
            self._run_nested(number)
        finally:
            self._workers, self._reserved = own, None
        return True

    def _check_interrupted(self) -> None:
        if self.halted.value:
            raise CudaError(LAUNCH_FAILURE, "the session has been interrupted", sticky=True)

    def _run_inline(self, prepared: Prepared) -> bool:
        """Runs a launch on this thread alone. Returns whether it got to its end."""
        worker = self._workers[0]
        if self._reserved is not prepared:
            worker.reserve(prepared.kernel, prepared.launch)
            self._reserved = prepared
        if prepared.cooperative is not None:
            prepared.cooperative.share(worker)
            if prepared.launch.workspace:
                self._memory.zero(prepared.launch.workspace, jit.WORKSPACE_BYTES)
        status = self.stops.run_blocks(prepared, worker, self._memory.attended or bool(self._observers))
        if prepared.reserve is not None:
            prepared.reserve.ended(True)
        return status == jit.STATUS_DONE

    def _run_shared(self, prepared: Prepared) -> bool:
        """Runs a launch on as many threads as it has turned out to be worth. Returns whether it got to its end."""
        launch = prepared.launch
        first = launch.next_block
        alone = prepared.cost.is_short(launch.end_block - first) and not prepared.kernel.info.waits
        started = time.monotonic_ns()
        done = self._run_inline(prepared) if alone else self._run_spread(prepared)
        end = min(launch.end_block, launch.next_block) if launch.pause is not None else launch.end_block  # or stopped
        blocks = end - first
        if blocks > 0:
            prepared.cost.took(blocks, time.monotonic_ns() - started, 1 if alone else prepared.helpers + 1)
        return done

    def _run_spread(self, prepared: Prepared) -> bool:
        """Runs a launch on this thread and helpers. Returns whether it got to its end."""
        self._reserved = None
        started = time.monotonic_ns()
        statuses = self._pool.run(prepared.kernel, prepared.launch, self._workers, prepared.helpers)
        self.stops.helped((len(statuses) - 1) * (time.monotonic_ns() - started))
        if prepared.reserve is not None:
            prepared.reserve.ended(False)
        return all(status == jit.STATUS_DONE for status in statuses)

    def _prepare_other(self, function: SimFunction, shape: LaunchShape) -> Prepared:
        """What `function.prepared` is from now on: of another shape than so far. Programs often launch a kernel with two or three shapes in turn."""
        last, earlier = function.prepared, function.earlier
        prepared = earlier.pop(shape, None) or self._prepare(function, shape)
        if last is not None and not last.has_blocks:
            earlier[last.shape] = last
            if len(earlier) > MOST_SHAPES:
                del earlier[next(iter(earlier))]
        function.prepared = prepared
        return prepared

    def compile(self, function: SimFunction, shape: LaunchShape) -> None:
        """Compiles the kernel of a launch that comes next, if that was not done yet. Raises CudaError."""
        if function.prepared is None and shape.block not in function.compiled:
            self._admission.check(function, shape)
            compiled(function, shape.block, self.options, self._runtime)

    def _prepare(self, function: SimFunction, shape: LaunchShape) -> Prepared:
        """Checks a launch, compiles its kernel if need be, and lays out what compiled code reads of it."""
        self._admission.check(function, shape)
        kernel = function.compiled.get(shape.block) or compiled(function, shape.block, self.options, self._runtime)
        self._admission.check_shared(function, shape, kernel.info.static_shared)
        cluster = self._admission.cluster(function, shape)
        of_cluster = math.prod(cluster or ())
        blocks = shape.grid[0] * shape.grid[1] * shape.grid[2]
        cooperative = shape.cooperative and kernel.info.barriers
        if cooperative:
            self._admission.check_cooperative(function, shape)
        # A block may wait for a higher-numbered one, too, where a GPU would have both.
        cooperative = cooperative or (kernel.info.waits and self._admission.resident(shape))
        helpers = 0 if cooperative else self._helpers(kernel.info, blocks, shape)
        most = 1 if self.stops.can_come or kernel.info.waits else _MAX_CHUNK  # waits: waiting_blocks.ll
        launch = jit.Launch(
            parameters=self._parameters_address,
            variables=ctypes.addressof(function.module.addresses),
            window_base=self._memory.window.base,
            window_size=self._memory.window.size,
            page_flags=self._memory.window.flags_address,
            page_shift=PAGE_SHIFT,
            fault=ctypes.pointer(self._fault),
            end_block=blocks,
            chunk=whole_clusters(min(blocks // ((helpers + 1) * _CHUNKS_PER_THREAD), most), of_cluster),
            grid=shape.grid,
            block=shape.block,
            dynamic_shared=shape.shared_bytes,
            services=self._runtime.services,
            check=self._observers.findings,
            cluster=cluster or (1, 1, 1),
            cluster_blocks=of_cluster,
            cluster_explicit=cluster is not None,
            host_mappings=self._memory.host_mappings.pointer,
            sharers=2 * (helpers + 1) if helpers and most > 1 else 0,
            grain=of_cluster,
            streamed=least_bytes(blocks * math.prod(shape.block)),
        )
        last = function.prepared
        cost = last.cost if last is not None and last.kernel is kernel else CostEstimate()
        if not cooperative:
            reserve = None
            if kernel.info.waits and blocks > 1:
                reserve = jit.Reserve(kernel, launch)
                launch.more, launch.patience = reserve.address, jit.PATIENCE
            return Prepared(function, shape, kernel, launch, helpers, cost, reserve=reserve)
        if shape.cooperative:
            launch.workspace = self._runtime.workspace()
        at_once = jit.Cooperative(kernel, launch, blocks)
        launch.cooperative = at_once.address
        return Prepared(function, shape, kernel, launch, 0, cost, at_once)

    def _helpers(self, info: jit.KernelInfo, blocks: int, shape: LaunchShape) -> int:
        """How many threads beside this one a launch is worth."""
        threads = blocks * shape.block[0] * shape.block[1] * shape.block[2]
        ordered = info.serial or (info.order_sensitive and not self._pool.any_order)
        if blocks == 1 or threads < _INLINE_THREADS or ordered or self._observers:
            return 0
        return min(blocks, self._pool.threads) - 1

    def error(self, function: SimFunction, prepared: Prepared) -> CudaError:
        """What ended the launch; makes ready for the next one."""
        fault = self._fault
        if fault.claimed:
            shared_bytes = prepared.kernel.info.static_shared + prepared.shape.shared_bytes
            allocations = self._memory.allocations
            faulted = Faulted(function.module.parsed, function.name, prepared.kernel.info, shared_bytes, fault)
            goes_on = self._observers.faulted(faulted, allocations)
            error = error_of(fault, function.name, shared_bytes, allocations)
            if goes_on:
                error = CudaError(error.code, error.message)
            ctypes.memset(ctypes.addressof(fault), 0, ctypes.sizeof(fault))
        else:
            error = CudaError(LAUNCH_FAILURE, f"kernel {demangled(function.name)}: interrupted", sticky=True)
        prepared.launch.abort = 0
        return error
