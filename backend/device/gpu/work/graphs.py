"""A CUDA graph of several iterations of a loop's body.

Owns the driver's graph, its nodes in a row, and each node's last work, so that only nodes whose work differs are changed. The driver copies
parameters when it gets them, so one buffer for each kernel serves all of its nodes. Launches already issued keep the parameters they were issued with.

Source: CUDA driver API, "Graph Management" (cuGraphAddKernelNode, cuGraphExecKernelNodeSetParams).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from farlane.backend.device.base import LaunchShape
from farlane.backend.device.gpu.driver.interface import CopyWork, Driver, DriverError, KernelWork, SetWork
from farlane.backend.device.plan import Kind


class Node(NamedTuple):
    """One step of one iteration. `operands`: all that can differ from one iteration to the next."""

    kind: Kind
    operands: bytes
    function: Any = None
    shape: LaunchShape | None = None
    work: SetWork | CopyWork | None = None


class Graph:
    """An instantiated graph."""

    def __init__(self, driver: Driver, context: int, nodes: Sequence[Node]) -> None:
        """Raises DriverError, and leaves nothing behind."""
        self._driver = driver
        self._context = context
        self._told = [node.operands for node in nodes]
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

    def change(self, nodes: Sequence[Node]) -> None:
        """The next launch does this: the same nodes, with other operands."""
        for index, node in enumerate(nodes):
            if node.operands == self._told[index]:
                continue
            handle = self._handles[index]
            if isinstance(node.work, SetWork):
                self._driver.change_set(self._executable, handle, node.work, self._context)
            elif isinstance(node.work, CopyWork):
                self._driver.change_copy(self._executable, handle, node.work, self._context)
            else:
                self._driver.change_kernel(self._executable, handle, self._kernel(node))
            self._told[index] = node.operands

    def launch(self, stream: int) -> None:
        self._driver.launch_graph(self._executable, stream)

    def close(self) -> None:
        try:
            if self._executable:
                self._driver.destroy_executable(self._executable)
            if self._graph:
                self._driver.destroy_graph(self._graph)
        except DriverError:
            pass  # the context is lost, and the graph with it
        self._executable = self._graph = 0
