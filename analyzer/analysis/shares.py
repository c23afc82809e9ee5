"""Large programs are analyzed in two shares, which two processors can do at a time.

Owns how the functions are divided, the process of its own in which a share may be analyzed, and the questions about
permissions, which are answered for all shares together afterwards. How a program is divided depends on its code alone,
never on the machine: each share is analyzed as if there were no other, so the result is the same whether they run
beside each other or one after another.

The process is a copy of this one (fork), so the program is loaded and swept once; it ends with this one, whatever ends
that.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from types import TracebackType
from typing import Generic, NamedTuple, NoReturn, Protocol, TypeVar

from farlane.analyzer.graph.program import Program
from farlane.analyzer.limits import AnalysisError, Budget
from farlane.analyzer.loops.model import Call, LoopReport
from farlane.analyzer.permissions.model import Permission

LARGE = 256 << 10  # bytes of functions that reach CUDA, from which on there are two shares
UNEVEN = 0.2  # the part of all that one share may be larger than the other
_DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG

T = TypeVar("T")


def divide(program: Program, starts: Sequence[int]) -> list[Sequence[int]]:
    """Functions, in order, in one or two shares.

    Two are of about the same size, cut where they have least in common: what both call is analyzed in both. Neighbours
    stay together, as what is compiled together calls the same functions.
    """
    sizes = [_size(program, start) for start in starts]
    total = sum(sizes)
    if total < LARGE or len(starts) < 2:
        return [starts]
    ahead, behind = _reached(program, starts), _reached(program, starts[::-1])
    before = list(accumulate(sizes))

    def worth(cut: int) -> tuple[float, int, int]:
        uneven = abs(2 * before[cut - 1] - total)
        return max(uneven, UNEVEN * total), ahead[cut - 1] + behind[-cut - 1], uneven

    cut = min(range(1, len(starts)), key=worth)
    return [starts[:cut], starts[cut:]]


def _size(program: Program, start: int) -> int:
    return sum(part.end - part.start for part in program.parts(start))


def _reached(program: Program, starts: Sequence[int]) -> list[int]:
    """For each function, the bytes of those that it and the ones before it may call, however deep, themselves included;
    of such as may hold loops, because others are analyzed only where they are called."""
    found: list[int] = []
    seen: set[int] = set()
    so_far = 0
    for start in starts:
        work = [start] if program.may_loop(start) else []
        while work:
            each = work.pop()
            if each not in seen and each in program.callees:
                seen.add(each)
                so_far += _size(program, each)
                inner = [callee.address for callee in program.callees[each] if callee.address is not None]
                work += [program.owner.get(address, address) for address in inner]
        found.append(so_far)
    return found


class Share(NamedTuple):
    """What was found in some functions. `spent`: seconds of the processor, in a process of its own."""

    loops: list[LoopReport]
    skipped: list[tuple[str, str]]
    out_of_time: bool = False
    spent: float = 0.0


class Asking(Protocol):
    """Answers what is permitted: `permissions.prove.Prover`, and `Questions`, which leaves it open."""

    def permission(self, function: int, site: int) -> Permission | None: ...

    def reached(self, outer: int, chain: tuple[int, ...], function: int, site: int) -> Permission | None: ...


@dataclass(frozen=True)
class Open(Permission):
    """A question in the place of its answer: the arguments of `Prover.permission`, or of `Prover.reached` where there
    is an `outer`."""

    outer: int | None = None
    chain: tuple[int, ...] = ()


class Questions:
    """In a prover's place: what is permitted may hang on what is found in the other share, so it is asked when both are
    there."""

    def __init__(self) -> None:
        self._open: dict[tuple[int, int, int | None, tuple[int, ...]], Open] = {}

    def permission(self, function: int, site: int) -> Permission | None:
        return self._put_down(function, site, None, ())

    def reached(self, outer: int, chain: tuple[int, ...], function: int, site: int) -> Permission | None:
        return self._put_down(function, site, outer, chain)

    def _put_down(self, function: int, site: int, outer: int | None, chain: tuple[int, ...]) -> Open:
        key = (function, site, outer, chain)
        known = self._open.get(key)
        if known is None:
            known = self._open[key] = Open(site, 0, function, 0, outer=outer, chain=chain)
        return known


def answered(loops: Iterable[LoopReport], prover: Asking) -> list[LoopReport]:
    """The loops with the prover's answers in the questions' places."""
    return [replace(loop, calls=tuple([_answered(call, prover) for call in loop.calls])) for loop in loops]


def _answered(call: Call, prover: Asking) -> Call:
    asked = call.permission
    if not isinstance(asked, Open):
        return call
    if asked.outer is None:
        permission = prover.permission(asked.function, asked.site)
    else:
        permission = prover.reached(asked.outer, asked.chain, asked.function, asked.site)
    # As `replace` does, which takes several times as long, and there are many calls.
    return Call(call.site, call.chain, call.name, call.kernel, call.arguments, call.conditional, permission)


def both(
    share: Callable[[Sequence[int], Asking, Budget], Share],
    parts: Sequence[Sequence[int]],
    budget: Budget,
    beside: bool,
) -> tuple[Share, Share]:
    """Both shares of a large program; one after another where there is no second processor, or no second process to be
    had."""
    left = budget.left()

    def second() -> Share:
        own = Budget(left)  # another process has another clock of its processor time
        found = share(parts[1], Questions(), own)
        return found._replace(out_of_time=own.used_up(), spent=own.spent())

    if beside and len(os.sched_getaffinity(0)) > 1:
        try:
            other = Beside(second)
        except OSError:
            pass
        else:
            with other:
                return share(parts[0], Questions(), budget), other.result()
    return share(parts[0], Questions(), budget), share(parts[1], Questions(), budget)


class Beside(Generic[T]):
    """Work that is done in a process of its own, from now on. To be used in a `with`, behind which the process is gone.

    The program must have no other threads: only this one is copied.

    Attributes:
        process: its number; 0 when it has ended.

    Raises:
        OSError: there is no other process to be had.
    """

    def __init__(self, work: Callable[[], T]) -> None:
        reading, writing = os.pipe()
        parent = os.getpid()
        try:
            self.process = os.fork()
        except OSError:
            os.close(reading)
            os.close(writing)
            raise
        if self.process == 0:
            _work(work, parent, writing)
        os.close(writing)
        self._stream = os.fdopen(reading, "rb")

    def __enter__(self) -> Beside[T]:
        return self

    def result(self) -> T:
        """Waits for the end of the work.

        Raises:
            AnalysisError: the process ended before the work did.
            Exception: what the work raised.
        """
        content = self._stream.read()
        _, status = os.waitpid(self.process, 0)
        self.process = 0
        if status != 0:
            how = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"status {os.WEXITSTATUS(status)}"
            raise AnalysisError(f"a process of the analysis ended with {how}")
        found, failure = pickle.loads(content)
        if failure is not None:
            raise failure
        result: T = found
        return result

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._stream.close()
        if self.process:
            os.kill(self.process, signal.SIGKILL)
            os.waitpid(self.process, 0)


def _work(work: Callable[[], object], parent: int, writing: int) -> NoReturn:
    """The process of its own: it never comes back to what called it."""
    status = 1
    try:
        ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGKILL)
        if os.getppid() == parent:
            with os.fdopen(writing, "wb") as stream:
                pickle.dump(_outcome(work), stream, pickle.HIGHEST_PROTOCOL)
            status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _outcome(work: Callable[[], object]) -> tuple[object, Exception | None]:
    try:
        return work(), None
    except Exception as error:
        error.add_note(traceback.format_exc())
        return None, error
