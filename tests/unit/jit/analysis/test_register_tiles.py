"""Register tiles (register_tiles.py, tile_loops.py): the same bits as one addition after the other.

Whichever lanes take part. Also which kernels count, and which sums have homes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable

import numpy as np
import pytest
from farlane.backend import jit
from farlane.backend.jit.analysis import register_tiles
from farlane.backend.jit.compile import native
from farlane.backend.jit.lowering.kernel import KernelContext
from jit_tools.device import TinyDevice
from jit_tools.instructions import HEADER

TIER_2 = jit.Options(cache=False)
QUICK = jit.Options(cache=False, optimization=0)
TIER_1 = jit.Options(cache=False, tier=1)
AT_ONCE = 1024  # threads; what each reads and writes lies so many elements apart
SIDES = {"f32": 4, "f64": 8}


@dataclasses.dataclass(frozen=True)
class Shape:
    rows: int = 8
    columns: int = 4
    steps: int = 4
    kind: str = "f32"
    swapped: int = 0  # the so many-th addition has its factors the other way round
    ragged: bool = False  # the last sum has one step less
    squared: bool = False  # the last sum is a factor of itself


def additions(shape: Shape, before: str = "s", after: str = "s") -> Iterable[str]:
    """All sums' for the first step, then for the next: what registers of one name held before, those of the other hold after."""
    number = 0
    for step in range(shape.steps):
        for row in range(shape.rows):
            for column in range(shape.columns):
                last = (row, column) == (shape.rows - 1, shape.columns - 1)
                if shape.ragged and last and step == shape.steps - 1:
                    continue
                number += 1
                factors = [f"%x{step * shape.rows + row}", f"%y{step * shape.columns + column}"]
                factors = factors[::-1] if number == shape.swapped else factors
                place = row * shape.columns + column
                old, new = f"%{after if step else before}{place}", f"%{after}{place}"
                factors = [factors[0], old] if shape.squared and last else factors
                yield f"fma.rn.{shape.kind} {new}, {factors[0]}, {factors[1]}, {old};"


def loads(shape: Shape) -> Iterable[str]:
    size = SIDES[shape.kind]
    left = shape.steps * shape.rows
    for number in range(left + shape.steps * shape.columns):
        name = f"%x{number}" if number < left else f"%y{number - left}"
        yield f"ld.global.{shape.kind} {name}, [%rd2+{number * AT_ONCE * size}];"


def program(shape: Shape, body: str) -> str:
    """%r0: the thread. %r4: n, as the caller gives it. %rd2: its factors, which move on by an element with %rd2 += %rd6."""
    count, size = shape.rows * shape.columns, SIDES[shape.kind]
    register = f".reg .{shape.kind} %s<{count}>, %old<{count}>, %new<{count}>, %x<{shape.steps * shape.rows}>, %y<{shape.steps * shape.columns}>;"
    zero = "0f00000000" if shape.kind == "f32" else "0d0000000000000000"
    stores = "\n".join(f"st.global.{shape.kind} [%rd3+{at * AT_ONCE * size}], %s{at};" for at in range(count))
    return f"""{HEADER}
.visible .entry k(.param .u64 p, .param .u64 q, .param .u32 n)
{{
.reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %rd<16>; {register}
mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [p]; ld.param.u64 %rd1, [q]; ld.param.u32 %r4, [n];
mul.wide.u32 %rd4, %r0, {size}; add.s64 %rd2, %rd0, %rd4; add.s64 %rd3, %rd1, %rd4; mov.u64 %rd6, {size};
{chr(10).join(f"mov.{shape.kind} %s{at}, {zero}; mov.{shape.kind} %old{at}, {zero};" for at in range(count))}
mov.u32 %r5, 0;
{body}
{stores}
ret;
}}
"""


def loop(inside: str) -> str:
    return f"""
LOOP:
{inside}
add.s64 %rd2, %rd2, %rd6; add.u32 %r5, %r5, 1; setp.lt.u32 %p0, %r5, %r4; @%p0 bra LOOP;
"""


def together(shape: Shape) -> str:
    """All threads, as a matrix product does it."""
    return loop("\n".join(["bar.sync 0;", *loads(shape), *additions(shape), "bar.sync 0;"]))


def some(shape: Shape) -> str:
    """Every third thread leaves an iteration out, another one each time."""
    inside = ["add.u32 %r6, %r0, %r5; rem.u32 %r6, %r6, 3; setp.eq.u32 %p1, %r6, 0; @%p1 bra PAST;"]
    return loop("\n".join(["bar.sync 0;", *loads(shape), *inside, *additions(shape), "PAST:"]))


def trips(shape: Shape) -> str:
    """As many iterations as the thread's index says."""
    start = "bar.sync 0; and.b32 %r6, %r0, 3; add.u32 %r4, %r4, %r6;"
    return start + loop("\n".join([*loads(shape), *additions(shape)]))


def twice(shape: Shape) -> str:
    """The same sums in two blocks with a barrier between them."""
    again = "add.s64 %rd2, %rd2, %rd6;"
    return loop("\n".join([*loads(shape), *additions(shape), "bar.sync 0;", again, *loads(shape), *additions(shape)]))


def remembered(shape: Shape) -> str:
    """What the sums were is needed when there are new ones already."""
    keep = [f"add.{shape.kind} %old{at}, %s{at}, %old{at};" for at in range(shape.rows * shape.columns)]
    inside = [*loads(shape), *additions(shape, "s", "new"), "bar.sync 0;", *keep, *additions(shape, "new", "s")]
    back = [line.replace("%old", "%s", 1) for line in keep]
    return loop("\n".join(inside)) + "\n".join(back)


def edges(shape: Shape) -> str:
    """Some threads read nothing. So large, a kernel's guarded reads stay guarded, in the unmasked version as well."""
    reads = [f"@%p2 {line}" for line in loads(shape)]
    return "setp.lt.u32 %p2, %r0, 50;" + loop("\n".join(["bar.sync 0;", *reads, *additions(shape), "bar.sync 0;"]))


def exchanged(shape: Shape) -> str:
    """Two sums change places after each iteration."""
    swap = f"mov.{shape.kind} %x0, %s0; mov.{shape.kind} %s0, %s1; mov.{shape.kind} %s1, %x0;"
    return loop("\n".join(["bar.sync 0;", *loads(shape), *additions(shape), swap]))


BODIES = (together, some, trips, twice, remembered, exchanged)
SHAPES = (
    Shape(4, 8, 4),
    Shape(8, 8, 3),
    Shape(5, 7, 4),
    Shape(4, 4, 8, "f64"),
    Shape(2, 8, 8),
    Shape(8, 4, 1),
    Shape(swapped=7),
    Shape(ragged=True),
    Shape(squared=True),
)


def run(device: TinyDevice, text: str, shape: Shape, threads: int, options: jit.Options) -> np.ndarray:
    count = AT_ONCE * (shape.steps * (shape.rows + shape.columns) + 1)
    kind = f"f{SIDES[shape.kind]}"
    values = np.random.default_rng(1).uniform(-2, 2, count).astype(kind)
    values[::997] = np.inf
    size = AT_ONCE * shape.rows * shape.columns
    source, target = device.upload(values), device.upload(np.zeros(size, kind))
    module = device.load(text)
    assert device.launch(module, "k", 1, threads, [source, target, 3], options=options) == 0
    return device.download(target, f"u{SIDES[shape.kind]}", size)


def ir(text: str, options: jit.Options = TIER_2) -> str:
    return KernelContext(jit.parse_module(text), "k", (64, 1, 1), options).emit()


def reference(device: TinyDevice, text: str, shape: Shape, threads: int, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """One addition after the other."""
    with monkeypatch.context() as patch:
        patch.setattr(register_tiles, "tiled", lambda body: False)
        assert "%tile.left" not in ir(text)
        return run(device, text, shape, threads, QUICK)


LARGE = Shape(8, 8, 8)
CASES = [(body, Shape()) for body in BODIES] + [(together, shape) for shape in SHAPES] + [(edges, LARGE)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("body", "shape"), CASES, ids=lambda item: getattr(item, "__name__", None) or str(item))
def test_results_are_the_same_to_the_bit(
    body: Callable[[Shape], str], shape: Shape, device: TinyDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = program(shape, body(shape))
    threads = 64 if shape in (Shape(), LARGE) else 48
    expected = reference(device, text, shape, threads, monkeypatch)
    assert len(np.unique(expected)) > threads
    for options in (TIER_2, TIER_1) if native.frame_bytes(b"") is not None else (TIER_2,):
        assert np.array_equal(run(device, text, shape, threads, options), expected), options


def test_the_stack_has_room_for_what_finds_no_register() -> None:
    """Twice what is expected of a kernel with so few values."""
    if native.version().count("x86_64") == 0:
        pytest.skip("for x86-64")
    shape = Shape(4, 4, 8, "f64")
    options = dataclasses.replace(QUICK, features="+avx2,+fma", cpu="x86-64")
    info, image, _ = jit.translate(jit.parse_module(program(shape, together(shape))), "k", (48, 1, 1), options)
    frames = native.frame_bytes(image)
    assert frames is not None
    assert info.stack_bytes > frames > 1 << 20


@pytest.mark.parametrize("features", ["+avx2,+fma", "+sse4.2"])
def test_processors_with_fewer_registers(features: str, device: TinyDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    if native.version().count("x86_64") == 0:
        pytest.skip("for x86-64")
    shape = Shape()
    text = program(shape, some(shape))
    expected = reference(device, text, shape, 64, monkeypatch)
    options = dataclasses.replace(QUICK, features=features, cpu="x86-64")
    assert np.array_equal(run(device, text, shape, 64, options), expected)


def test_a_loop_s_sums_stay_in_one_place() -> None:
    wanted = {together: True, some: True, twice: True, trips: False, remembered: False, exchanged: True}
    for body, homes in wanted.items():
        text = ir(program(Shape(), body(Shape())))
        assert "%tile.left" in text, body
        assert ("%sums0" in text) == homes, body
        assert "%sums1" not in text, body


@pytest.mark.parametrize("shape", [Shape(swapped=7), Shape(ragged=True), Shape(squared=True)], ids=str)
def test_what_is_no_tile_is_left_as_it_is(shape: Shape) -> None:
    assert "%tile.left" not in ir(program(shape, together(shape)))


def test_a_tile_is_a_fraction_of_the_code() -> None:
    shape = Shape(8, 8, 8)
    text = ir(program(shape, together(shape)))
    assert (
        text.count("call <16 x float> @llvm.fma") + text.count("call <8 x float> @llvm.fma")
        < shape.rows * shape.columns * shape.steps
    )


def test_large_ones_have_an_unmasked_version(monkeypatch: pytest.MonkeyPatch) -> None:
    text = program(LARGE, edges(LARGE))
    assert "\nf0:" in ir(text)
    assert "\nf0:" not in ir(text, TIER_1)
    monkeypatch.setattr(register_tiles, "tiled", lambda body: False)
    assert "\nf0:" not in ir(text)


def test_which_kernels_count() -> None:
    def counts(text: str) -> bool:
        module = jit.parse_module(text)
        return register_tiles.tiled(jit.body_of(module, module.functions["k"]))

    shape = Shape()
    assert counts(program(shape, together(shape)))
    assert not counts(program(shape, together(shape)).replace("bar.sync 0;", ""))  # its threads do not work together
    assert not counts(program(Shape(2, 2, 4), together(Shape(2, 2, 4))))  # small
    assert not counts(program(shape, together(shape)).replace("fma.rn.f32", "fma.rz.f32"))
