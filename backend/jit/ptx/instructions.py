"""What passes must know of PTX instructions: one table, a row for instructions that are alike.

A new instruction is a name in a row here and a handler in lowering/families, which says what it computes. Where modifiers
decide as well, the pass that asks looks at them.

Source: PTX ISA, "Instruction Set".
"""

from __future__ import annotations

from enum import Flag, auto


class Trait(Flag):
    """What is true of an instruction."""

    NONE = 0
    LANE = auto()  # of a lane alone, without memory
    CHEAP = auto()  # may be computed in vain
    SLOW = auto()  # of floating point: many processor instructions that wait for each other
    TYPES_LAST = auto()  # the manual's spelling has its types last, and ptxas takes them elsewhere, too
    NO_RESULT = auto()  # writes no register
    ACCESS = auto()  # reads or writes memory at an address
    EFFECT = auto()  # doing it twice is not doing it once
    VARYING = auto()  # lanes may get different results of the same operands
    TIMED = auto()  # may have another result the next time, of the same operands
    WARP_WIDE = auto()  # lanes of a warp exchange values
    MATRIX = auto()  # the lanes of a warp hold a matrix together
    PAUSE = auto()  # what a loop that waits does between two looks


_ROWS: tuple[tuple[Trait, str], ...] = (
    # Of a lane alone
    (Trait.LANE | Trait.CHEAP, "and bfe bfi bfind brev clz cnot cvt cvta lop3 mad24 mov mul24 not or popc prmt sad shf shl shr slct xor"),
    (Trait.LANE | Trait.CHEAP | Trait.TYPES_LAST, "abs add copysign fma mad max min mul neg selp set setp sub testp"),
    (Trait.LANE, "bmsk dp2a dp4a szext"),
    (Trait.LANE | Trait.TYPES_LAST, "rem"),
    (Trait.LANE | Trait.TYPES_LAST | Trait.SLOW, "cos div ex2 lg2 rcp rsqrt sin sqrt tanh"),
    (Trait.TYPES_LAST | Trait.VARYING, "addc madc subc"),  # the carry is kept for each lane
    (Trait.NONE, "createpolicy fns getctarank isspacep mapa clusterlaunchcontrol.query_cancel"),
    (Trait.NONE, "vabsdiff vadd vmad vmax vmin vset vshl vshr vsub"),
    (Trait.NONE, "vabsdiff2 vadd2 vavrg2 vmax2 vmin2 vset2 vsub2 vabsdiff4 vadd4 vavrg4 vmax4 vmin4 vset4 vsub4"),
    # Memory
    (Trait.ACCESS | Trait.TYPES_LAST | Trait.TIMED, "ld ldu"),
    (Trait.ACCESS | Trait.TYPES_LAST | Trait.EFFECT | Trait.NO_RESULT, "st red"),
    (Trait.ACCESS | Trait.TYPES_LAST | Trait.EFFECT | Trait.VARYING, "atom"),
    (Trait.ACCESS, "multimem"),
    (Trait.EFFECT | Trait.NO_RESULT, "cp st.bulk sust tensormap clusterlaunchcontrol.try_cancel"),
    (Trait.EFFECT | Trait.VARYING | Trait.TIMED, "mbarrier"),
    (Trait.VARYING, "suq tex tld4 txq"),
    (Trait.VARYING | Trait.TIMED, "suld"),
    (Trait.NO_RESULT, "applypriority discard prefetch prefetchu sured"),
    # Warps and blocks
    (Trait.EFFECT | Trait.NO_RESULT | Trait.TIMED, "bar barrier"),  # the forms that reduce have a result
    (Trait.TIMED, "activemask"),
    (Trait.TIMED | Trait.WARP_WIDE, "vote"),
    (Trait.VARYING | Trait.WARP_WIDE, "elect match redux shfl"),
    (Trait.MATRIX | Trait.VARYING, "ldmatrix mma movmatrix wgmma"),
    (Trait.MATRIX | Trait.VARYING | Trait.EFFECT, "wmma"),
    (Trait.MATRIX | Trait.EFFECT | Trait.NO_RESULT, "stmatrix"),
    (Trait.PAUSE | Trait.NO_RESULT, "fence membar"),
    (Trait.PAUSE | Trait.NO_RESULT | Trait.EFFECT, "nanosleep"),
    # Control
    (Trait.EFFECT | Trait.VARYING, "call"),
    (Trait.NO_RESULT, "bra brkpt brx exit griddepcontrol pmevent ret setmaxnreg trap"),
)  # fmt: skip

TRAITS: dict[str, Trait] = {name: traits for traits, names in _ROWS for name in names.split()}


def having(trait: Trait) -> frozenset[str]:
    """The instructions of which this is true."""
    return frozenset(name for name, traits in TRAITS.items() if trait in traits)
