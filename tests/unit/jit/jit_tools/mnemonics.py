"""PTX instructions from their mnemonics alone: an operand list that fits each, and kernels made of them.

`statement("add.s32")` is "add.s32 %r1, %r2, %r3;". Owns the shape of operands, not what an instruction computes. Used to ask which
mnemonics the translator accepts; `expand` writes out patterns like "add{.rn,.rz}{,.ftz}.f32".
Source: PTX ISA, "Instruction Set".
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from farlane.backend import jit
from farlane.backend.jit.lowering.kernel import KernelContext

HEADER = ".version 9.1\n.target sm_100a\n.address_size 64\n"
REGISTERS = {"p": "pred", "h": "b16", "r": "b32", "l": "b64", "f": "f32", "d": "f64", "q": "b128"}
CLASSES = {
    "p": "pred", "h": "b8 u8 s8 b16 u16 s16 f16 bf16 e4m3x2 e5m2x2 e2m3x2 e3m2x2 e2m1x2 ue8m0x2", "l": "b64 u64 s64 f32x2", "f": "f32", "d": "f64", "q": "b128",
    "r": "b32 u32 s32 f16x2 bf16x2 u16x2 s16x2 tf32 s16x2 u8x4 s8x4 b1 u4 s4 e4m3x4 e5m2x4",
}  # fmt: skip
CLASS_OF = {name: letter for letter, names in CLASSES.items() for name in names.split()}
SPACES = ("global", "shared", "local", "const", "param")
_GROUP = re.compile(r"\{([^{}]*)\}")


def expand(pattern: str) -> Iterator[str]:
    """Every string that a pattern with {a,b} alternatives stands for."""
    parts = _GROUP.split(pattern)
    choices = [part.split(",") if index % 2 else [part] for index, part in enumerate(parts)]
    for chosen in itertools.product(*choices):
        yield "".join(chosen)


class Operands:
    """Numbers registers as they are asked for."""

    def __init__(self) -> None:
        self.used: dict[str, int] = {}

    def register(self, kind: str) -> str:
        letter = CLASS_OF[kind]
        number = self.used[letter] = self.used.get(letter, 0) + 1
        return f"%{letter}{number}"

    def vector(self, kind: str, count: int) -> str:
        if count == 1:
            return self.register(kind)
        return "{" + ", ".join(self.register(kind) for _ in range(count)) + "}"

    def __call__(self, *kinds: str) -> str:
        """Registers by type; words that are no type stand for themselves, "b32*4" is a vector."""
        shown = []
        for kind in kinds:
            name, _, count = kind.partition("*")
            shown.append(self.vector(name, int(count or 1)) if name in CLASS_OF else kind)
        return ", ".join(shown)


def memory(modifiers: list[str]) -> str:
    """An address operand in the space that the modifiers name."""
    for item in modifiers:
        space = item.split("::")[0]
        if space in SPACES:
            return {
                "global": "[%l30]", "shared": "[%r50+16]", "local": "[slots+16]", "const": "[table+16]", "param": "[given]",
            }[space]  # fmt: skip
    return "[%l31]"


def _plain(count: int) -> Callable[[Operands, list[str]], str]:
    def shape(o: Operands, m: list[str]) -> str:
        if m[-2:-1] == ["f32"] and m[-1] in ("f16", "bf16"):  # of mixed precision
            return o("f32", *[m[-1]] * (count - 1), "f32")
        several = count + (m[-1] == "f32" and "abs" in m and "xorsign" not in m and count == 2)
        return o(*[m[-2] if m[-1] == "relu" else m[-1]] * (several + 1))

    return shape


def _wide(o: Operands, m: list[str]) -> str:
    wider = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}
    return o(wider[m[-1]], m[-1], m[-1]) if "wide" in m else o(*[m[-1]] * 3)


def _mad(o: Operands, m: list[str]) -> str:
    wider = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}
    target = wider[m[-1]] if "wide" in m else m[-1]
    return o(target, m[-1], m[-1], target)


def _setp(o: Operands, m: list[str]) -> str:
    first = o("pred") + ("|" + o("pred") if m[-1] in ("f16x2", "bf16x2") else "")
    combined = ["pred"] if m[1] in ("and", "or", "xor") else []
    return first + ", " + o(m[-1], m[-1], *combined)


def _cvt(o: Operands, m: list[str]) -> str:
    target, source = m[-2:]
    if m[0] == "pack":
        return o("b32", "b32", "b32", *(["b32"] if len(m) == 5 else []))
    count = 2 if target.endswith("x2") and source == "f32" else 1
    return o(target, *[source] * count)


def _count(m: list[str]) -> int:
    return next((int(item[1]) for item in m if item in ("v2", "v4", "v8")), 1)


_PLACES = {"1d": 1, "2d": 2, "3d": 4, "a1d": 2, "a2d": 4, "cube": 4, "acube": 4}
_GRADIENTS = {"1d": 1, "2d": 2, "3d": 4, "a1d": 1, "a2d": 2}


def _coordinates(o: Operands, m: list[str], kind: str) -> str:
    """[object, {layer, x, y, ...}]."""
    geometry = next(item for item in m if item in _PLACES)
    layer = ["b32"] if geometry.startswith("a") else []
    rest = [kind] * (_PLACES[geometry] - len(layer))
    return f"[%l30, {{{o(*layer, *rest)}}}]"


def _texture(o: Operands, m: list[str]) -> str:
    more = [o("f32")] if "level" in m else []
    if "grad" in m:
        length = _GRADIENTS[next(item for item in m if item in _GRADIENTS)]
        more = [f"{{{o(*['f32'] * length)}}}" for _ in range(2)]
    return ", ".join([o(f"{m[-2]}*4"), _coordinates(o, m, m[-1]), *more])


def _surface(o: Operands, m: list[str], store: bool) -> str:
    kind = next(item for item in m[1:] if item in CLASS_OF)
    value = o(f"{kind}*{_count(m)}")
    return ", ".join([_coordinates(o, m, "b32"), value] if store else [value, _coordinates(o, m, "b32")])


def _load(o: Operands, m: list[str]) -> str:
    hint = ["%l29"] if "L2::cache_hint" in m else []
    return ", ".join([o(f"{m[-1]}*{_count(m)}"), memory(m), *hint])


def _store(o: Operands, m: list[str]) -> str:
    if m[0] == "bulk":
        return "[%r50], 64, 0"
    hint = ["%l29"] if "L2::cache_hint" in m else []
    return ", ".join([memory(m).replace("given", "returned"), o(f"{m[-1]}*{_count(m)}"), *hint])


def _atom(o: Operands, m: list[str]) -> str:
    kind = f"{m[-1]}*{_count(m)}"
    values = [kind, kind] if "cas" in m else [kind]
    return o(kind, memory(m), *values)


def _red(o: Operands, m: list[str]) -> str:
    return o(memory(m), f"{m[-1]}*{_count(m)}")


def _shuffle(o: Operands, m: list[str]) -> str:
    return o("b32") + "|" + o("pred") + ", " + o("b32", "b32", "b32", *(["-1"] if "sync" in m else []))


def _vote(o: Operands, m: list[str]) -> str:
    return o("b32" if "ballot" in m else "pred", "pred", *(["-1"] if "sync" in m else []))


def _match(o: Operands, m: list[str]) -> str:
    return o("b32") + ("|" + o("pred") if "all" in m else "") + ", " + o(m[-1], "-1")


def _barrier(o: Operands, m: list[str]) -> str:
    if "cluster" in m:
        return ""
    if "warp" in m:
        return "-1"
    if "red" in m:
        return o("u32" if "popc" in m else "pred", "3", "64", "pred")
    return "3, 64" if "arrive" in m else "0"


def _mbarrier(o: Operands, m: list[str]) -> str:
    where = memory(m)
    action = m[0]
    if action in ("init", "expect_tx", "complete_tx"):
        return o(where, "u32")
    if action == "inval":
        return where
    if action == "pending_count":
        return o("u32", "b64")
    if action.startswith("arrive"):
        count = ["u32"] if "expect_tx" in m or "noComplete" in m or action == "arrive_drop" else []
        return o("b64", where, *count)
    return o("pred", where, "u32" if "parity" in m else "b64")


def _video(o: Operands, m: list[str]) -> str:
    return o("b32", "b32", "b32", "b32")


# Fragment registers of one thread: mma shape and element type -> (type, count).
def _mma(o: Operands, m: list[str]) -> str:
    shape = next(item for item in m if re.fullmatch(r"m\d+n\d+k\d+", item))
    rows, columns, depth = (int(part) for part in re.findall(r"\d+", shape))
    d, a, b, c = [item for item in m if item in ELEMENT_BITS][:4]
    volta = (rows, columns, depth) == (8, 8, 4) and a == "f16"
    owners = 8 if volta else 32

    def fragment(element: str, cells: int) -> str:
        if element == "f64":
            return o(f"f64*{max(1, cells // 32)}") if cells > 32 else "{" + o("f64") + "}"
        if element in ("f32", "s32"):
            return o(f"{element}*{cells // owners}")
        count = cells // owners * ELEMENT_BITS[element] // 32
        return o(f"b32*{count}") if count > 1 else "{" + o("b32") + "}"

    sparse = any(item.startswith("sp") for item in m)
    cells = ((d, rows * columns), (a, rows * depth // (1 + sparse)), (b, depth * columns), (c, rows * columns))
    return ", ".join([*(fragment(*part) for part in cells), *(["%r40, 0"] if sparse else [])])


ELEMENT_BITS = {
    "f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "s32": 32, "f64": 64, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8, "s4": 4, "u4": 4,
    "b1": 1,
}  # fmt: skip


def wmma_registers(matrix: str, shape: str, element: str) -> tuple[str, int]:
    """The registers of one thread's part of a fragment."""
    rows, columns, depth = (int(part) for part in re.findall(r"\d+", shape))
    cells = {"a": rows * depth, "b": depth * columns, "c": rows * columns, "d": rows * columns}[matrix]
    if element == "f64":
        return "f64", cells // 32
    if element == "f32":
        return "f32", cells // 32
    if element == "s32":
        return "b32", cells // 32
    if element == "f16":
        return "b32", 8 if matrix in "ab" else 4
    return "b32", cells * ELEMENT_BITS[element] // 32 // 32


def _wmma(o: Operands, m: list[str]) -> str:
    shape = next(item for item in m if re.fullmatch(r"m\d+n\d+k\d+", item))
    types = [item for item in m if item in ELEMENT_BITS]

    def fragment(matrix: str, element: str) -> str:
        kind, count = wmma_registers(matrix, shape, element)
        return o(f"{kind}*{count}") if count > 1 else "{" + o(kind) + "}"

    if m[0] == "load":
        return ", ".join([fragment(m[1], types[-1]), memory(m), "%r51"])
    if m[0] == "store":
        return ", ".join([memory(m), fragment("d", types[-1]), "%r51"])
    a, b = (types[1], types[2]) if len(types) == 4 else ("f16", "f16")
    return ", ".join([fragment("d", types[0]), fragment("a", a), fragment("b", b), fragment("c", types[-1])])


def _matrix_move(o: Operands, m: list[str]) -> str:
    count = next((int(item[1]) for item in m if item in ("x1", "x2", "x4")), 1)
    registers = o(f"b32*{count}") if count > 1 else "{" + o("b32") + "}"
    return registers


def _tensor(o: Operands, m: list[str]) -> str:
    rank = next(int(item[0]) for item in m if item in ("1d", "2d", "3d", "4d", "5d"))
    gathers = "tile::gather4" in m
    tensor = f"[%l30, {{{o(*['b32'] * (5 if gathers else rank))}}}]"
    hint = ["%l29"] if "L2::cache_hint" in m else []
    if "prefetch" in m:
        return ", ".join([tensor, *hint])
    if "global" in m and m.index("global") < m.index("shared::cta" if "shared::cta" in m else "global"):
        return ", ".join([tensor, "[%r50]", *hint])
    if "bulk_group" in m:
        return ", ".join([tensor, "[%r50]", *hint])
    offsets = [f"{{{o(*['b16'] * (rank - 2))}}}"] if "im2col" in m else []
    ranks = ["%h40"] if "multicast::cluster" in m else []
    return ", ".join(["[%r50]", tensor, "[%r52]", *offsets, *ranks, *hint])


def _replace(o: Operands, m: list[str]) -> str:
    if m[0] == "cp_fenceproxy":
        return "[%l30], [%r50], 128"
    where = "[%l30]" if "global" in m else "[%r50]"
    field = m[2]
    ordinal = ["1"] if field.endswith(("dim", "stride")) else []
    return ", ".join([where, *ordinal, "%l1" if m[-1] == "b64" else "1"])


def _cp(o: Operands, m: list[str]) -> str:
    if "commit_group" in m or "wait_all" in m:
        return ""
    if "wait_group" in m:
        return "1"
    if "tensor" in m:
        return _tensor(o, m)
    if "prefetch" in m:
        return "[%l30], 64"
    if "bulk" in m:
        places = m[m.index("bulk") + 1 :]
        ends = "[%l30], [%r50], 64" if places[0] == "global" else "[%r50], [%l30], 64, [%r52]"
        ends += ", %h1" if "cp_mask" in m else ""
        return ends.replace("%l30", "%r53") if places[0] != "global" and places[1] == "shared::cta" else ends
    if "mbarrier" in m:
        return "[%r50]"
    return "[%r50], [%l30], " + ("16" if "cg" in m else "4")


SHAPES: dict[str, Callable[[Operands, list[str]], str]] = {
    **dict.fromkeys(["neg", "abs", "not", "cnot", "brev", "rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh"], _plain(1)),
    **dict.fromkeys(["add", "addc", "sub", "subc", "div", "rem", "min", "max", "and", "or", "xor", "copysign"], _plain(2)),
    **dict.fromkeys(["fma", "sad"], _plain(3)),
    **dict.fromkeys(["ret", "exit", "trap", "brkpt", "griddepcontrol"], lambda o, m: ""),
    **dict.fromkeys(["membar", "fence"], lambda o, m: "[%l30], 128" if "tensormap::generic" in m and "acquire" in m else ""),
    "tensormap": _replace,
    "setmaxnreg": lambda o, m: "64",
    "clusterlaunchcontrol": lambda o, m: {
        "try_cancel": "[%r50], [%r52]", "is_canceled": o("pred", "b128"), "get_first_ctaid": "{%r1, %r2, %r3, _}, %q1",
    }.get(m[0] if m[0] == "try_cancel" else m[1], "%r1, %q1"),
    **dict.fromkeys(["vadd2", "vsub2", "vavrg2", "vabsdiff2", "vmin2", "vmax2", "vset2", "vadd4", "vsub4", "vavrg4", "vabsdiff4", "vmin4", "vmax4", "vset4"], _video),
    **dict.fromkeys(["vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vset"], lambda o, m: o("b32", "b32", "b32")),
    "vmad": _video,
    "mov": lambda o, m: o(m[-1], m[-1]),
    "cvta": lambda o, m: o(m[-1], m[-1]),
    "bra": lambda o, m: "NEXT",
    "call": lambda o, m: "callee",
    "setp": _setp,
    "set": lambda o, m: o(*m[-2:], m[-1], *(["pred"] if m[1] in ("and", "or", "xor") else [])),
    "selp": lambda o, m: o(m[-1], m[-1], m[-1], "pred"),
    "slct": lambda o, m: o(m[-2], m[-2], m[-2], m[-1]),
    "shl": lambda o, m: o(m[-1], m[-1], "b32"),
    "shr": lambda o, m: o(m[-1], m[-1], "b32"),
    "shf": lambda o, m: o("b32", "b32", "b32", "b32"),
    "lop3": lambda o, m: o("b32", "b32", "b32", "b32", "0x96") if m == ["b32"] else (
        o("b32") + "|" + o("pred") + ", " + o("b32", "b32", "b32", "0x96", "pred")),
    "prmt": lambda o, m: o("b32", "b32", "b32", "b32"),
    "bfe": lambda o, m: o(m[-1], m[-1], "b32", "b32"),
    "bfi": lambda o, m: o(m[-1], m[-1], m[-1], "b32", "b32"),
    "bmsk": lambda o, m: o("b32", "b32", "b32"),
    "szext": lambda o, m: o("b32", "b32", "b32"),
    "fns": lambda o, m: o("b32", "b32", "b32", "b32"),
    "bfind": lambda o, m: o("u32", m[-1]),
    "clz": lambda o, m: o("u32", m[-1]),
    "popc": lambda o, m: o("u32", m[-1]),
    "mul": _wide,
    "mul24": _plain(2),
    "mad24": _plain(3),
    "mad": _mad,
    "madc": _mad,
    "dp4a": _video,
    "dp2a": _video,
    "testp": lambda o, m: o("pred", m[-1]),
    "cvt": _cvt,
    "ld": _load,
    "ldu": _load,
    "tex": _texture,
    "tld4": _texture,
    "suld": lambda o, m: _surface(o, m, False),
    "sust": lambda o, m: _surface(o, m, True),
    "st": _store,
    "atom": _atom,
    "red": _red,
    "prefetch": lambda o, m: memory(m),
    "prefetchu": lambda o, m: "[%l31]",
    "isspacep": lambda o, m: o("pred", "b64"),
    "shfl": _shuffle,
    "vote": _vote,
    "match": _match,
    "redux": lambda o, m: o(m[-1], m[-1], "-1"),
    "activemask": lambda o, m: o("b32"),
    "elect": lambda o, m: o("b32") + "|" + o("pred") + ", -1",
    "bar": _barrier,
    "barrier": _barrier,
    "mbarrier": _mbarrier,
    "nanosleep": lambda o, m: o("u32"),
    "pmevent": lambda o, m: "1",
    "cp": _cp,
    "ldmatrix": lambda o, m: _matrix_move(o, m) + ", [%r50]",
    "stmatrix": lambda o, m: "[%r50], " + _matrix_move(o, m),
    "movmatrix": lambda o, m: o("b32", "b32"),
    "mma": _mma,
    "wmma": _wmma,
    "createpolicy": lambda o, m: o("b64") + ", 1.0",
    "applypriority": lambda o, m: "[%l30], 128",
    "discard": lambda o, m: "[%l30], 128",
    "mapa": lambda o, m: o(m[-1], m[-1], "b32"),
    "getctarank": lambda o, m: o("b32", m[-1]),
}  # fmt: skip


def statement(mnemonic: str) -> str:
    """One instruction with operands, e.g. "add.s32 %r1, %r2, %r3;"."""
    base, *modifiers = mnemonic.split(".")
    shape = SHAPES.get(base)
    return f"{mnemonic} {shape(Operands(), modifiers) if shape else '%r1, [%l30]'};"


def kernel(mnemonics: Iterable[str]) -> str:
    """A module whose kernel `k` holds one instruction per line, from line 20 on."""
    statements = list(mnemonics)
    lines = [
        *HEADER.splitlines(),
        ".const .align 16 .b8 table[64];",
        ".func (.param .align 16 .b8 returned[64]) callee (.param .align 16 .b8 given[64])",
        "{ ret; }" if not any(item.startswith("st.param") for item in statements) else "{",
    ]
    inside = lines[-1] == "{"
    if not inside:
        lines.append(".visible .entry k(.param .align 16 .b8 given[64])\n{")
    lines += [f".reg .{kind} %{letter}<64>;" for letter, kind in REGISTERS.items()]
    lines += [".local .align 16 .b8 slots[64];", ".shared .align 16 .b8 area[1024];"]
    lines += ["mov.u32 %r50, area; mov.u32 %r51, 16; ld.param.u64 %l30, [given]; ld.param.u64 %l31, [given+8];"]
    lines += ["" for _ in range(19 - "\n".join(lines).count("\n") - 1)]
    for number, mnemonic in enumerate(statements):
        text = statement(mnemonic)
        if mnemonic.startswith("call"):
            text = f"{{ .param .align 16 .b8 x[64]; .param .align 16 .b8 y[64]; {mnemonic} (y), callee, (x); }}"
        lines.append(text.replace("NEXT", f"L{number}") + (f" L{number}:" if "NEXT" in text else ""))
    lines += ["ret; }"]
    if inside:
        lines.append(
            ".visible .entry k()\n{ .param .align 16 .b8 x[64]; .param .align 16 .b8 y[64]; call (y), callee, (x); ret; }"
        )
    return "\n".join(lines) + "\n"


def refusal(mnemonic: str) -> str | None:
    """Why the translator does not accept an instruction; None when it does. Stops before LLVM."""
    try:
        KernelContext(jit.parse_module(kernel([mnemonic])), "k", (64, 1, 1), jit.Options(cache=False)).emit()
    except jit.PtxError as error:
        return str(error)
    return None


def survey() -> list[tuple[str, int, int]]:
    """(mnemonic, programs, static uses) of the surveyed programs."""
    rows = []
    path = Path(__file__).parents[1] / "ptx" / "mnemonics_of_programs.tsv"
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            name, programs, uses = line.split("\t")
            rows.append((name, int(programs), int(uses)))
    return rows
