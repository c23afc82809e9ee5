"""Block interleaving: several blocks of a grid go through a loop together, on one CPU thread.

Threads that stride over an array by the size of the grid leave a block with a short piece of every long row: 1 KiB of each 512 KiB, where 256 threads read floats. One
block after the other, that is how memory is read, and it is slow: the processor's own prefetching runs past every piece, and what it brings has gone when the
next block wants it. The pieces of neighbouring blocks lie side by side. So when a block has read a few pieces it hands its turn to the next one, which
reads what lies beside them (interleaving.ll).

Owns which loops do so, and after how many iterations. Only loops of a team that is a whole block, with nothing to wait for in them: no atomics, no barriers, no
waiting (teams.py), so which block goes on first shows in programs with races alone. Whether a step is wide is told when it runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from farlane.backend.jit.analysis import teams
from farlane.backend.jit.lowering import support
from farlane.backend.jit.lowering.ir import Val, integer
from farlane.backend.jit.ptx.model import LANES
from farlane.backend.jit.runtime.structures import INTERLEAVED

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.affine import Affine
    from farlane.backend.jit.lowering.emitter import Emitter

MOST_PIECE = 2048  # bytes that the threads of a block read beside each other: longer pieces lose little
LEAST_STEP = 16 << 10  # from one piece to the next; less is as good as in a row
LEAST_ARRAY = 8 << 20  # what caches hold is as good anywhere
PIECES = 8  # in one turn: as many as the ways of a second-level cache, where steps of a large power of two meet


def ahead(e: Emitter, form: Affine, step: Val, size: int, reads: int) -> tuple[Val, Val] | None:
    """What to ask for instead of what comes later in this block, as a distance, and when: the next block's piece.

    For a load in a loop of `reads` of them, which moves by `step` from iteration to iteration, each thread reading `size` bytes. None: such a block does not
    hand its turn on.
    """
    options = e.kernel.options
    if e.team is None or not e.kernel.fibers or options.untranslated or form.stride != size or form.step is None:
        return None
    piece = e.team.warps * LANES * size
    header, members = min(((head, body) for head, body in e.graph.loops.items() if e.block in body), key=_size)
    if piece > MOST_PIECE or any(teams.waits(item) for index in members for item in e.graph.blocks[index].instructions):
        return None
    b = e.body
    wide = b.icmp("ugt", b.bin("add", step, integer(LEAST_STEP, "i64")), integer(2 * LEAST_STEP, "i64"))
    beside = b.icmp("eq", form.step, integer(LANES * size, form.step.type))
    # The run of pages in which the array lies is as long, or longer.
    room = b.load("i64", False, b.gep(support.latch(e, e.site()), 8))
    large = b.icmp("ugt", room, integer(LEAST_ARRAY // size, "i64"))
    ring = b.load("i64", False, support.worker_field(e, b, "ring"))
    there = b.icmp("ne", ring, integer(0, "i64"))
    wanted = b.bin("and", b.bin("and", wide, beside), b.bin("and", large, there))
    b.store(wanted, e.slot(f"%interleaved{header}", "i1", False))
    e.interleaved[header] = max(1, PIECES // max(reads, 1))
    e.kernel.interleaved = INTERLEAVED
    return wanted, integer(piece, "i64")


def hand_on(e: Emitter, header: int) -> None:
    """At the end of an iteration of the loop."""
    every = e.interleaved.get(header)
    if every is None:
        return
    b = e.body
    wanted = b.load("i1", False, e.slot(f"%interleaved{header}", "i1", False))
    if every > 1:
        count = e.slot(f"%interleaved{header}.count", "i32", False)
        now = b.bin("add", b.load("i32", False, count), integer(1, "i32"))
        b.store(now, count)
        turn = b.icmp("eq", b.bin("and", now, integer(every - 1, "i32")), integer(0, "i32"))
        wanted = b.bin("and", wanted, turn)
    following, onward = b.new_label("beside"), b.new_label("onward")
    b.branch_if(wanted, following, onward)
    b.block(following)
    b.line("call void @farlane_beside(ptr %warp)")
    b.branch(onward)
    b.block(onward)


def _size(loop: tuple[int, frozenset[int] | set[int]]) -> int:
    return len(loop[1])
