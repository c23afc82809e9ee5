"""One CUDA call as the analysis records it, and as callers of its function see it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from farlane.analyzer.values.expression import INITIAL, OPAQUE, Value

BY_HANDLE = -1  # a launch's kernel where a handle names it, which is one of the arguments


class CudaCall(NamedTuple):
    """One CUDA call, its arguments as values at that point.

    Attributes:
        site: the address of the call instruction; for a launch with a push that is seen, the push's.
        chain: calls that lead to the site from the function it is reported for, outermost first; () when it is there.
        launch: for a launch, the same of the launching call itself: (call instruction, ...); () for other calls.
        push: for a launch, the value that says which push it belongs to.
        tail: whether the call is a jump at the function's end: it returns to behind the call of the function.
        name: the runtime's name without suffixes, or "launch".
        kernel: the kernel, for a launch: the address of its host function, None when that is not known.
        repeated: whether it stands in a loop of a called function.
        optional: whether a called function may return without having made it.
        handle, array: a launch's first argument and its array of parameters' addresses; None once they are resolved.
        arguments: (name, value) of what the device's host must know.
        sizes: of a launch's parameters, one after another, the bytes that were stored at once; more may follow.
        references: (name, address) of a launch's parameters that lie in a caller's frame, as long as that is not known.
        kind: a copy's kind when it is a constant, else None.
    """

    site: int
    chain: tuple[int, ...]
    name: str
    kernel: int | None
    arguments: tuple[tuple[str, Value], ...]
    kind: int | None = None
    handle: Value | None = None
    array: Value | None = None
    repeated: bool = False
    optional: bool = False
    launch: tuple[int, ...] = ()
    push: Value | None = None
    tail: bool = False
    sizes: tuple[int, ...] = ()
    references: tuple[tuple[str, Value], ...] = ()

    def seen_from(
        self,
        caller: int,
        seen: Callable[[Value], Value],
        repeated: bool,
        optional: bool,
    ) -> CudaCall:
        """The call as its function's caller sees it, through the call instruction `caller`.

        Args:
            seen: what a value is for the caller.
            repeated, optional: whether the call stands in a loop of the function, and whether that may return without
                it.
        """
        if not (self.push or self.handle or self.array or self.references or self.launch or self.tail):
            # Most are such calls.
            return CudaCall(
                self.site,
                (caller, *self.chain),
                self.name,
                self.kernel,
                tuple([(name, value if value.is_constant else seen(value)) for name, value in self.arguments])
                if self.arguments
                else (),
                self.kind,
                repeated=self.repeated or repeated,
                optional=self.optional or optional,
                sizes=self.sizes,
            )
        push = self.push and seen(self.push)
        pushed = push is not None and self.push is not None and self.push.kind == INITIAL and push.kind == OPAQUE
        return CudaCall(
            push.arguments[0] if pushed and push is not None else caller if self.tail else self.site,
            () if pushed or self.tail else (caller, *self.chain),
            self.name,
            self.kernel,
            tuple([(name, value if value.is_constant else seen(value)) for name, value in self.arguments]),
            self.kind,
            self.handle and seen(self.handle),
            self.array and seen(self.array),
            self.repeated or repeated,
            self.optional or optional,
            (caller, *self.launch) if self.launch else (),
            push,
            False,
            self.sizes,
            tuple([(name, seen(address)) for name, address in self.references]) if self.references else (),
        )
