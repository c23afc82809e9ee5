"""The helper function of a matrix product: tiles in registers to tiles in registers.

Operand tiles are widened into buffers on the stack (A row by row, B turned so that the elements of one k lie side by side), then each row of
each 8 x 8 accumulator tile is a chain over k of 8-element vector steps. matrix.py describes the tiles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from farlane.backend.jit.lowering.ir import Val
from farlane.backend.jit.ptx.model import LANES

if TYPE_CHECKING:
    from farlane.backend.jit.lowering.emitter import Emitter

# Element -> bits, type that computes.
_ELEMENT = {
    "f16": (16, "float"),
    "bf16": (16, "float"),
    "tf32": (32, "float"),
    "s8": (8, "i32"),
    "u8": (8, "i32"),
    "f64": (64, "double"),
    # Words of single bits, by what combines them before ones are counted.
    "xor": (32, "i32"),
    "and": (32, "i32"),
}
_REGISTER = {"f32": "float", "f16": "i32", "s32": "i32", "f64": "double"}


class Product(NamedTuple):
    """Shape (m, n, k) and element types of d = a b + c."""

    shape: tuple[int, int, int]
    a: str
    b: str
    c: str
    d: str
    saturating: bool


def call(e: Emitter, product: Product, registers: list[Val]) -> list[Val]:
    """Emits a call; registers of a, b and c in, registers of d out."""
    name = "farlane_mma_" + "_".join(map(str, (*product.shape, *product[1:5], int(product.saturating))))
    if name not in e.kernel.helpers:
        e.kernel.helpers[name] = _text(e, name, product, registers)
    kind = _REGISTER[product.d]
    count = product.shape[0] * product.shape[1] // LANES // (2 if product.d == "f16" else 1)
    shown = f"{{ {', '.join([f'<{LANES} x {kind}>'] * count)} }}"
    b = e.body
    result = b.op(f"call {shown} @{name}({', '.join(map(str, registers))})", kind, True)
    return [b.op(f"extractvalue {shown} {result.name}, {index}", kind, True) for index in range(count)]


def _order(values: list[int]) -> str:
    return f"<{len(values)} x i32> <" + ", ".join(f"i32 {value}" for value in values) + ">"


def _widened(lines: list[str], name: str, source: str, register: str, element: str, turned: bool) -> str:
    """Text that sets %<name> to a tile's elements in the computing type, row by row or (turned) column by column."""
    bits, kind = _ELEMENT[element]
    count = LANES * (64 if element == "f64" else 32) // bits
    carrier = "double" if element == "f64" else f"i{bits}"
    cells = source
    if carrier != register:
        lines.append(f"  %{name}.cells = bitcast <{LANES} x {register}> {source} to <{count} x {carrier}>")
        cells = f"%{name}.cells"
    if turned:
        width = count // 8
        order = _order([position % 8 * width + position // 8 for position in range(count)])
        shown = f"<{count} x {carrier}>"
        lines.append(f"  %{name}.turned = shufflevector {shown} {cells}, {shown} poison, {order}")
        cells = f"%{name}.turned"
    if element in ("f64", "xor", "and"):
        return cells
    if element == "f16":
        lines.append(f"  %{name}.half = bitcast <{count} x i16> {cells} to <{count} x half>")
        lines.append(f"  %{name} = fpext <{count} x half> %{name}.half to <{count} x float>")
    elif element == "bf16":
        lines.append(f"  %{name}.word = zext <{count} x i16> {cells} to <{count} x i32>")
        lines.append(f"  %{name}.high = shl <{count} x i32> %{name}.word, splat (i32 16)")
        lines.append(f"  %{name} = bitcast <{count} x i32> %{name}.high to <{count} x float>")
    elif element == "tf32":
        lines.append(f"  %{name}.kept = and <{count} x i32> {cells}, splat (i32 -8192)")
        lines.append(f"  %{name} = bitcast <{count} x i32> %{name}.kept to <{count} x float>")
    else:
        lines.append(
            f"  %{name} = {'sext' if element == 's8' else 'zext'} <{count} x i8> {cells} to <{count} x {kind}>"
        )
    return f"%{name}"


def _text(e: Emitter, name: str, product: Product, registers: list[Val]) -> str:
    rows, columns, depth = product.shape
    bits, kind = _ELEMENT[product.a]
    size = 8 if kind == "double" else 4
    count = 32 * (64 if product.a == "f64" else 32) // bits
    width = count // 8
    row_tiles, column_tiles, steps = rows // 8, columns // 8, depth // width
    arguments = ", ".join(f"<{LANES} x {value.type}> %r{index}" for index, value in enumerate(registers))
    out_kind = _REGISTER[product.d]
    out_count = rows * columns // LANES // (2 if product.d == "f16" else 1)
    shown = f"{{ {', '.join([f'<{LANES} x {out_kind}>'] * out_count)} }}"
    lines = [
        f"define internal {shown} @{name}({arguments}) noinline {{",
        "entry:",
        f"  %a = alloca [{rows * depth} x {kind}], align 64",
        f"  %b = alloca [{columns * depth} x {kind}], align 64",
        f"  %c = alloca [{rows * columns} x {kind}], align 64",
    ]
    # A: tile (row, step) at row * steps + step. Registers run down the rows first.
    for index in range(row_tiles * steps):
        step, row = divmod(index, row_tiles)
        value = _widened(lines, f"a{index}", f"%r{index}", registers[index].type, product.a, False)
        lines.append(f"  %a{index}.p = getelementptr {kind}, ptr %a, i64 {(row * steps + step) * count}")
        lines.append(f"  store <{count} x {kind}> {value}, ptr %a{index}.p, align 64")
    at = row_tiles * steps
    for index in range(column_tiles * steps):
        value = _widened(lines, f"b{index}", f"%r{at + index}", registers[at + index].type, product.b, True)
        lines.append(f"  %b{index}.p = getelementptr {kind}, ptr %b, i64 {index * count}")
        lines.append(f"  store <{count} x {kind}> {value}, ptr %b{index}.p, align 64")
    at += column_tiles * steps
    tiles = row_tiles * column_tiles
    for tile in range(tiles):
        value = _start(lines, product.c, at, tile, registers)
        lines.append(f"  %c{tile}.p = getelementptr {kind}, ptr %c, i64 {64 * tile}")
        lines.append(f"  store <64 x {kind}> {value}, ptr %c{tile}.p, align 64")
    lines += _loop(e, product, kind, size, tiles, column_tiles, steps, width)
    result = "poison"
    for tile in range(tiles):
        lines.append(f"  %d{tile}.p = getelementptr {kind}, ptr %c, i64 {64 * tile}")
        lines.append(f"  %d{tile} = load <64 x {kind}>, ptr %d{tile}.p, align 64")
        for index, value in _finish(lines, product.d, kind, tile):
            lines.append(f"  %out{index} = insertvalue {shown} {result}, <{LANES} x {out_kind}> {value}, {index}")
            result = f"%out{index}"
    lines += [f"  ret {shown} {result}", "}"]
    return "\n".join(lines)


def _start(lines: list[str], name: str, at: int, tile: int, registers: list[Val]) -> str:
    """An accumulator tile in the computing type."""
    if name == "f16":
        return _widened(lines, f"c{tile}", f"%r{at + tile}", "i32", "f16", False)
    kind = registers[at].type
    order = _order([position % 2 * LANES + position // 2 for position in range(64)])
    first, second = (f"<{LANES} x {kind}> %r{at + 2 * tile + part}" for part in range(2))
    lines.append(f"  %c{tile} = shufflevector {first}, {second}, {order}")
    return f"%c{tile}"


def _finish(lines: list[str], name: str, kind: str, tile: int) -> list[tuple[int, str]]:
    """A tile's registers as (number, value)."""
    if name == "f16":
        lines.append(f"  %d{tile}.half = fptrunc <64 x {kind}> %d{tile} to <64 x half>")
        lines.append(f"  %d{tile}.word = bitcast <64 x half> %d{tile}.half to <{LANES} x i32>")
        return [(tile, f"%d{tile}.word")]
    found = []
    for part in range(2):
        order = _order([2 * lane + part for lane in range(LANES)])
        lines.append(f"  %d{tile}.{part} = shufflevector <64 x {kind}> %d{tile}, <64 x {kind}> poison, {order}")
        found.append((2 * tile + part, f"%d{tile}.{part}"))
    return found


def _loop(
    e: Emitter, product: Product, kind: str, size: int, tiles: int, column_tiles: int, steps: int, width: int
) -> list[str]:
    """Every row of every accumulator tile: a chain over k."""
    depth = product.shape[2]
    vec = f"<8 x {kind}>"
    lines = [
        "  br label %row",
        "row:",
        "  %i = phi i64 [ 0, %entry ], [ %i.next, %row ]",
        "  %tile = lshr i64 %i, 3",
        "  %inside = and i64 %i, 7",
        f"  %down = udiv i64 %tile, {column_tiles}",
        f"  %across = urem i64 %tile, {column_tiles}",
        f"  %a.tile = mul i64 %down, {steps * 8 * width}",
        f"  %a.row = mul i64 %inside, {width}",
        "  %a.at = add i64 %a.tile, %a.row",
        f"  %a.p = getelementptr {kind}, ptr %a, i64 %a.at",
        f"  %b.at = mul i64 %across, {8 * depth}",
        f"  %b.p = getelementptr {kind}, ptr %b, i64 %b.at",
        "  %c.at = shl i64 %i, 3",
        f"  %c.p = getelementptr {kind}, ptr %c, i64 %c.at",
        f"  %s0 = load {vec}, ptr %c.p, align {size * 8}",
    ]
    if product.saturating:
        lines.append(f"  %z0 = sub {vec} %s0, %s0")
    last = "%z0" if product.saturating else "%s0"
    for k in range(depth):
        lines += [
            f"  %ap{k} = getelementptr {kind}, ptr %a.p, i64 {k // width * 8 * width + k % width}",
            f"  %av{k} = load {kind}, ptr %ap{k}",
            f"  %ai{k} = insertelement {vec} poison, {kind} %av{k}, i32 0",
            f"  %as{k} = shufflevector {vec} %ai{k}, {vec} poison, <8 x i32> zeroinitializer",
            f"  %bp{k} = getelementptr {kind}, ptr %b.p, i64 {8 * k}",
            f"  %bv{k} = load {vec}, ptr %bp{k}, align {size * 8}",
        ]
        if product.a in ("xor", "and"):
            e.kernel.declare(f"declare {vec} @llvm.ctpop.v8i32({vec})")
            lines += [
                f"  %x{k} = {product.a} {vec} %as{k}, %bv{k}",
                f"  %m{k} = call {vec} @llvm.ctpop.v8i32({vec} %x{k})",
                f"  %t{k} = add {vec} {last}, %m{k}",
            ]
        elif kind == "i32":
            lines += [f"  %m{k} = mul {vec} %as{k}, %bv{k}", f"  %t{k} = add {vec} {last}, %m{k}"]
        else:
            full = f"@llvm.fma.v8{'f64' if kind == 'double' else 'f32'}"
            e.kernel.declare(f"declare {vec} {full}({vec}, {vec}, {vec})")
            lines.append(f"  %t{k} = call {vec} {full}({vec} %as{k}, {vec} %bv{k}, {vec} {last})")
        last = f"%t{k}"
    if product.saturating:
        e.kernel.declare("declare <8 x i32> @llvm.sadd.sat.v8i32(<8 x i32>, <8 x i32>)")
        lines.append(f"  %sum = call {vec} @llvm.sadd.sat.v8i32({vec} %s0, {vec} {last})")
        last = "%sum"
    return [
        *lines,
        f"  store {vec} {last}, ptr %c.p, align {size * 8}",
        "  %i.next = add i64 %i, 1",
        f"  %more = icmp ult i64 %i.next, {8 * tiles}",
        "  br i1 %more, label %row, label %done",
        "done:",
    ]
