"""Local variables of random kernels, as compilers that do not optimise leave them: an array of local memory, reached by generic addresses.

Its parts: words that are accessed as words only, pairs that are accessed as words, floats and as a whole, and bytes that are accessed in any size. In
some kernels an index that is known at run time reaches the words: then the array has to stay in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jit_tools.random_kernels import Drawing, Kernel

WORDS, PAIRS, ANY, BYTES = 0, 16, 32, 48  # where each part starts
_SIZES = {"u8": 1, "s8": 1, "u16": 2, "s16": 2, "u32": 4, "s32": 4, "f32": 4, "u64": 8}


def declarations() -> list[str]:
    return [f".local .align 8 .b8 depot[{BYTES}];", ".reg .b64 %SP, %SPL;"]


def begin(kernel: Kernel) -> None:
    """The frame, and a value for all that is in it."""
    kernel("mov.u64 %SPL, depot;\ncvta.local.u64 %SP, %SPL;")
    for at in range(0, BYTES, 8):
        kernel(f"st.u64 [%SP+{at}], {0x0123456700000003 * (at + 1)};")


def statement(drawing: Drawing) -> None:
    """A load or a store, for all lanes or under a guard."""
    k = drawing.kernel
    guard = f"@{drawing.condition()} " if drawing.number(0, 3) == 0 else ""
    if k.indexed and drawing.number(0, 2) == 0:
        index, address = k.temporary(), k.address()
        k(f"and.b32 {index}, {drawing.register()}, 3;\nmul.wide.u32 {address}, {index}, 4;")
        k(f"add.s64 {address}, %SP, {address};")
        register = drawing.register()
        k(
            f"{guard}st.u32 [{address}], {register};"
            if drawing.number(0, 1)
            else f"{guard}ld.u32 {register}, [{address}];"
        )
        return
    part = drawing.random.choice((WORDS, PAIRS, ANY))
    kind = drawing.pick({WORDS: ("u32", "s32"), PAIRS: ("u32", "f32", "u64"), ANY: tuple(_SIZES)}[part])
    size = _SIZES[kind]
    at = part + size * drawing.number(0, 16 // size - 1)
    if kind == "u32" and at % 8 == 0 and drawing.number(0, 2) == 0:
        space, address = _address(drawing, at)
        pair = f"{{{drawing.register()}, {drawing.register()}}}"
        if drawing.number(0, 1):
            k(f"{guard}st{space}.v2.u32 {address}, {pair};")
        else:  # a load does not name a register twice
            k(f"{guard}ld{space}.v2.u32 {{%r{drawing.number(0, 4)}, %r{drawing.number(5, 9)}}}, {address};")
        return
    if drawing.number(0, 1):
        _store(drawing, guard, kind, at)
    else:
        _load(drawing, guard, kind, at)


def _store(drawing: Drawing, guard: str, kind: str, at: int) -> None:
    k, register = drawing.kernel, drawing.register()
    space, address = _address(drawing, at)
    if kind == "u64":
        wide = k.address()
        k(f"mul.wide.u32 {wide}, {register}, {drawing.number(1, 1 << 30)};")
        register = wide
    elif kind == "f32":
        k(f"cvt.rn.f32.s32 %f0, {register};")
        register = "%f0"
    elif drawing.number(0, 4) == 0:
        register = str(drawing.number(0, 127))
    elif drawing.number(0, 3) == 0:
        register = drawing.pick(("%x0", "%thread"))
    k(f"{guard}st{space}.{kind} {address}, {register};")


def _load(drawing: Drawing, guard: str, kind: str, at: int) -> None:
    k, register = drawing.kernel, drawing.register()
    space, address = _address(drawing, at)
    wide = k.address()
    if kind == "f32":
        k(f"mov.b32 %f1, {register};\n{guard}ld{space}.f32 %f1, {address};\nmov.b32 {register}, %f1;")
    elif kind == "u64" or drawing.number(0, 3) == 0:
        k(f"mov.b64 {wide}, 7;\n{guard}ld{space}.{kind} {wide}, {address};\ncvt.u32.u64 {register}, {wide};")
        k(f"shr.u64 {wide}, {wide}, 32;\ncvt.u32.u64 %c0, {wide};\nmad.lo.u32 %sum, %sum, 31, %c0;")
    else:
        k(f"{guard}ld{space}.{kind} {register}, {address};")


def _address(drawing: Drawing, at: int) -> tuple[str, str]:
    """(the state space's modifier, the operand) of a place."""
    k = drawing.kernel
    form = drawing.number(0, 6)
    if form < 3:
        return "", f"[%SP+{at}]"
    if form == 3:
        return ".local", f"[depot+{at}]"
    address = k.address()
    if form == 4:
        k(f"add.u64 {address}, %SP, {at + 8};")
        return "", f"[{address}+-8]"
    if form == 5:
        k(f"or.b64 {address}, %SP, {at & 7};")
        return "", f"[{address}+{at - (at & 7)}]"
    local = k.address()
    k(f"add.s64 {address}, %SP, {at};\ncvta.to.local.u64 {local}, {address};")
    return ".local", f"[{local}]"
