"""The functions that a kernel reaches: their bodies, who calls whom, what is inlined, and what pointers may name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from farlane.backend.jit.analysis import divergence, spins
from farlane.backend.jit.options import Options
from farlane.backend.jit.ptx.declarations import Function, Module, PtxError, UnsupportedError
from farlane.backend.jit.ptx.model import Body, Instruction, Symbol
from farlane.backend.jit.ptx.parser import body_of
from farlane.backend.jit.ssa import cfg, inlining, promotion

MAX_INSTRUCTIONS = 1 << 18  # of a kernel with all that it calls: some 4 KB of memory for each, and up to 0.5 ms


class Reachable:
    """A kernel of a module, and the bodies of the device functions that it may call."""

    def __init__(self, module: Module, name: str, block: tuple[int, int, int], options: Options) -> None:
        if name not in module.entries:
            raise PtxError("no such kernel in the module", 0, name)
        if module.functions[name].body is None:
            raise PtxError("the kernel is declared but not defined", module.functions[name].line, name)
        self.module, self.name, self.block, self.options = module, name, block, options
        self.parameter_offsets = {item.name: item.offset for item in module.entries[name].parameters}
        self.bodies: dict[str, Body] = {}
        self.calls: dict[str, list[str]] = {}
        self.indirect = False
        self._reach(name)
        self._inline()
        self.recursive = self.indirect or self._cyclic()
        self.exits = self._exiting()

    def _reach(self, name: str, known: Mapping[str, Body] = MappingProxyType({})) -> None:
        """Finds what the kernel may call. `known`: bodies that are to be taken as they are."""
        work, self.instructions = [name], 0
        while work:
            current = work.pop()
            if current in self.bodies:
                continue
            body = known.get(current) or self._body(current)
            self.bodies[current] = body
            self.instructions += len(body.instructions)
            if self.instructions > MAX_INSTRUCTIONS:
                raise UnsupportedError(
                    f"more than {MAX_INSTRUCTIONS} instructions in a kernel and what it calls", 0, self.name
                )
            callees = self.calls[current] = []
            for item in body.instructions:
                if item.base != "call":
                    continue
                if not isinstance(item.sources[0], Symbol):
                    self.indirect = True
                    work.extend(function.name for function in self.address_taken(None))
                    continue
                function = self.module.functions.get(item.sources[0].name)
                if function is not None and function.body is not None:
                    callees.append(function.name)
                    work.append(function.name)

    def _body(self, name: str) -> Body:
        body = body_of(self.module, self.module.functions[name])
        return body if self.options.checks or self.options.touches else promotion.promoted(body)

    def _inline(self) -> None:
        """Puts functions that wait or have barriers where they are called, and forgets those that have no caller any more."""
        parsed = inlining.inlined(self.bodies, self.calls, self.module.functions, self.name, self._called_apart, spins)
        if parsed == self.bodies:
            return
        self.bodies, self.calls = {}, {}
        self._reach(self.name, parsed)

    def _called_apart(self, body: Body) -> set[str]:
        """The functions that the kernel's body calls where lanes may have parted: those that are through a loop that waits go ahead, too."""
        graph = cfg.build(body)
        values, waiting = spins.prepare(body, graph)
        parting = divergence.analyse(graph, values, self.block, True, set(self.parameter_offsets))
        waiting &= parting.loops
        return {
            item.sources[0].name
            for index in parting.parted | spins.reached(graph, waiting)
            for item in graph.blocks[index].instructions
            if item.base == "call" and isinstance(item.sources[0], Symbol)
        }

    def _cyclic(self) -> bool:
        state: dict[str, int] = {}
        stack = [(self.name, iter(self.calls[self.name]))]
        state[self.name] = 1
        while stack:
            name, rest = stack[-1]
            following = next(rest, None)
            if following is None:
                state[name] = 2
                stack.pop()
            elif state.get(following) == 1:
                return True
            elif following not in state:
                state[following] = 1
                stack.append((following, iter(self.calls[following])))
        return False

    def _exiting(self) -> set[str]:
        """Device functions that execute `exit`, and functions that call one."""
        found = {name for name, body in self.bodies.items() if any(item.base == "exit" for item in body.instructions)}
        found.discard(self.name)
        if found and self.indirect:
            # A pointer may name any of them.
            found |= {
                name
                for name, body in self.bodies.items()
                if any(item.base == "call" and not isinstance(item.sources[0], Symbol) for item in body.instructions)
            }
        while more := {name for name, callees in self.calls.items() if name not in found and found & set(callees)}:
            found |= more
        return found

    def require(self, name: str) -> None:
        """A device function is called: it was found by _reach."""
        if name not in self.bodies:
            raise AssertionError(f"function {name} was not reached")

    def function_number(self, name: str) -> int:
        """What a pointer to a device function holds."""
        return self.module.function_number(name)

    def address_taken(self, shape: Any) -> list[Function]:
        """Device functions that a pointer may name, with the given parameter and result shape."""
        return [
            function
            for function in self.module.functions.values()
            if not function.entry
            and function.body is not None
            and shape in (None, _shape(function.parameters, function.returns))
        ]

    def prototype_shape(self, function: str, instruction: Instruction) -> Any:
        prototype = self.bodies[function].prototypes.get(instruction.labels[0]) if instruction.labels else None
        if prototype is None:
            raise UnsupportedError("indirect call without a prototype", instruction.line, self.name)
        return _shape(*prototype)


def _shape(first: tuple[Any, ...], second: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple((item.element, item.size, item.array) for item in first), tuple(
        (item.element, item.size, item.array) for item in second
    )
