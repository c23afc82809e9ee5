"""A CUDA graph of several iterations of a loop's body.

Owns the driver's graph and its nodes in a row. The plane launches it, and changes the nodes whose operands differ from their last ones
(backend/plane/src/device/cuda/graph.rs); what it cannot change is changed here.

Source: CUDA driver API, "Graph Management" (cuGraphAddKernelNode, cuGraphExecKernelNodeSetParams).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from farlane.backend import plane
from farlane.backend.device.base import LaunchShape
from farlane.backend.device.gpu.driver.errors import called
from farlane.backend.device.gpu.driver.interface import CopyWork, Driver, DriverError, KernelWork, SetWork
from farlane.backend.device.gpu.driver.structures import described
from farlane.backend.device.plan import Kind
from farlane.backend.plane import Cuda, Direct

#: Operands of a node that the plane can change: their names, and where they stand (plan.py).
_OPERANDS: dict[Kind, tuple[tuple[str, int], ...]] = {
    Kind.SET: (("address", 0), ("value", 32)),
    Kind.COPY: (("destination", 0), ("source", 16)),
}
Table = tuple[int, int]  # address of all iterations' operands, bytes of one
_Described = tuple[int, int, bytes, bytes, list[tuple[int, int, int]], tuple[int, int]]


class Node(NamedTuple):
    """One step of one iteration. `operands`: all that can differ from one iteration to the next."""

    kind: Kind
    operands: bytes
    function: Any = None
    shape: LaunchShape | None = None
    work: SetWork | CopyWork | None = None


class Graph:
    """An instantiated graph."""

    def __init__(self, driver: Driver, native: Cuda, direct: Direct, context: int, nodes: Sequence[Node]) -> None:
        """Raises DriverError, and leaves nothing behind."""
        self._driver = driver
        self._context = context
        self._functions = {id(node.function): node.function for node in nodes}  # their buffers stay
        self._executable = 0
        self._graph = driver.create_graph()
        try:
            self._handles: list[int] = []
            for node in nodes:
                self._handles.append(self._add(node, self._handles[-1] if self._handles else None))
            self._executable = driver.instantiate(self._graph)
        except BaseException:
            self.close()
            raise
        described = [self._described(node, handle) for node, handle in zip(nodes, self._handles, strict=True)]
        self._native = plane.Graph(direct, native, self._executable, context, described)

    def _add(self, node: Node, after: int | None) -> int:
        if isinstance(node.work, SetWork):
            return self._driver.add_set(self._graph, after, node.work, self._context)
        if isinstance(node.work, CopyWork):
            return self._driver.add_copy(self._graph, after, node.work, self._context)
        return self._driver.add_kernel(self._graph, after, self._kernel(node))

    def _kernel(self, node: Node) -> KernelWork:
        assert node.shape is not None
        shape, buffer = node.shape, node.function.buffer
        buffer.fill(node.operands)
        return KernelWork(
            node.function.handle, shape.grid, shape.block, shape.shared_bytes, buffer.pointers, buffer.extra
        )

    def _described(self, node: Node, handle: int) -> _Described:
        """For the plane. A kernel whose driver tells no layout of parameters has no buffer there: its changes are ours."""
        found = described(node.work or self._kernel(node))
        places = [(at, *found.places[name]) for name, at in _OPERANDS.get(node.kind, ())]
        buffer = (0, 0)
        if node.work is None and node.function.buffer.pointers:
            buffer = (node.function.buffer.address, len(node.operands))
        return handle, int(node.kind), node.operands, found.structure, places, buffer

    def change(self, index: int, node: Node) -> None:
        """The node does this from the next launch on."""
        handle = self._handles[index]
        if isinstance(node.work, SetWork):
            self._driver.change_set(self._executable, handle, node.work, self._context)
        elif isinstance(node.work, CopyWork):
            self._driver.change_copy(self._executable, handle, node.work, self._context)
        else:
            self._driver.change_kernel(self._executable, handle, self._kernel(node))
        self._native.told(index, node.operands)

    def launch(self, tables: Sequence[Table], first: int, stream: int) -> int | None:
        """Launches it for the iterations from `first` on; a table for each node of one. Else a node that has to be changed before."""
        return called(self._driver, self._native.launch, tables, first, stream)

    def close(self) -> None:
        try:
            if self._executable:
                self._driver.destroy_executable(self._executable)
            if self._graph:
                self._driver.destroy_graph(self._graph)
        except DriverError:
            pass  # the context is lost, and the graph with it
        self._executable = self._graph = 0
