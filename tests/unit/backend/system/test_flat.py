"""Flat images (backend/system/flat.py): what LLVM's linker makes of an object, made by ours; and bad ones."""

from __future__ import annotations

import ctypes
import platform
import random
import struct
from itertools import pairwise

import pytest
from farlane.backend.jit import Options
from farlane.backend.jit.compile import native
from farlane.backend.system import flat
from farlane.backend.system.loading import Loaded

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="flat images are for x86-64")

# Calls by a table of addresses, through a table of jumps, and of a function of this process; constants of several sections.
TEXT = """
@table = internal constant [3 x ptr] [ptr @double, ptr @square, ptr @abs], align 16
@weights = internal constant [4 x i32] [i32 3, i32 5, i32 7, i32 11], align 64
@half = internal constant double 5.000000e-01
declare i32 @abs(i32)
declare ptr @memset(ptr, i32, i64)
define internal i32 @double(i32 %x) noinline { %y = shl i32 %x, 1
  ret i32 %y }
define internal i32 @square(i32 %x) noinline { %y = mul i32 %x, %x
  ret i32 %y }
define i32 @run(ptr %to, i32 %how) {
entry:
  switch i32 %how, label %other [ i32 0, label %table
    i32 1, label %table
    i32 2, label %table
    i32 3, label %weight
    i32 4, label %fill
    i32 5, label %float
    i32 6, label %other ]
table:
  %slot = getelementptr [3 x ptr], ptr @table, i32 0, i32 %how
  %function = load ptr, ptr %slot
  %called = call i32 %function(i32 -9)
  ret i32 %called
weight:
  %first = load i32, ptr %to
  %place = getelementptr [4 x i32], ptr @weights, i32 0, i32 %first
  %weight.1 = load i32, ptr %place
  ret i32 %weight.1
fill:
  %size.32 = load i32, ptr %to
  %size = zext i32 %size.32 to i64
  %filled = call ptr @memset(ptr %to, i32 7, i64 %size)
  ret i32 1
float:
  %value.32 = load i32, ptr %to
  %value = sitofp i32 %value.32 to double
  %factor = load volatile double, ptr @half
  %product = fmul double %value, %factor
  %result = fptosi double %product to i32
  ret i32 %result
other:
  ret i32 -1
}
"""


def compiled(text: str, tier: int = 2) -> bytes:
    return native.compile_ir(text, Options(tier=tier))


def outcomes(image: bytes) -> list[tuple[int, bytes]]:
    loaded = Loaded(image, "run")
    run = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32)(loaded.address)
    found = []
    for how in range(8):
        memory = (ctypes.c_int32 * 4)(2, 0, 0, 0)
        found.append((run(ctypes.addressof(memory), how), bytes(memory)))
    return found


@pytest.mark.parametrize("tier", [1, 2])
def test_the_same_as_by_llvm(tier: int) -> None:
    image = compiled(TEXT, tier)
    made = flat.flattened(image, "run")
    assert made is not None
    parsed = flat.parsed(made)
    assert len(parsed.relative) >= 2
    assert {name for _, name in parsed.outside} >= {"memset", "abs"}
    expected = outcomes(image)
    assert [result for result, _ in expected] == [-18, 81, 9, 7, 1, 1, -1, -1]
    assert outcomes(made) == expected
    assert outcomes(made) == expected  # at another address


@pytest.mark.parametrize(
    "text",
    [
        "@count = internal global i32 1\ndefine i32 @run() { %a = load volatile i32, ptr @count\nstore volatile i32 2, ptr @count\nret i32 %a }",
        "@count = internal global i32 0\ndefine i32 @run() { %a = load volatile i32, ptr @count\nstore volatile i32 2, ptr @count\nret i32 %a }",
        "@own = internal thread_local constant i32 4\ndefine i32 @run() { %a = load volatile i32, ptr @own\nret i32 %a }",
        "define i32 @other() { ret i32 1 }",
    ],
)
def test_what_stays_an_object(text: str) -> None:
    assert flat.flattened(compiled(text), "run") is None


def test_functions_that_are_not_there() -> None:
    made = flat.flattened(compiled("declare i32 @farlane_no_such_function()\ndefine i32 @run() { %a = call i32 @farlane_no_such_function()\nret i32 %a }"), "run")  # fmt: skip
    assert made is not None
    with pytest.raises(ValueError, match="farlane_no_such_function"):
        Loaded(made, "run")


def test_bad_images_are_value_errors() -> None:
    made = flat.flattened(compiled(TEXT), "run")
    assert made is not None
    head = list(struct.unpack_from("<8sIIIII", made))
    for field in range(1, 6):
        for value in (0xFFFFFFFF, head[field] + 1, 1 << 31):
            changed = [*head[:field], value, *head[field + 1 :]]
            if field == 2 and value < head[1]:
                continue  # another entry is as good as any, as far as can be told
            with pytest.raises(ValueError, match="flat image"):
                flat.parsed(struct.pack("<8sIIIII", *changed) + made[28:])
    for end in (0, 7, 28, 30, len(made) - 1):
        with pytest.raises(ValueError, match="flat image"):
            flat.parsed(made[:end])
    with pytest.raises(ValueError, match="flat image"):
        flat.parsed(made[:28] + b"\xff" * 8 + made[36:])


def test_mutations_never_reach_beyond_the_image() -> None:
    """Of objects and of images: refused, or everything that is named lies inside."""
    random.seed(3)
    image = compiled(TEXT, True)
    made = flat.flattened(image, "run")
    assert made is not None
    for data, read in ((image, lambda data: flat.flattened(data, "run")), (made, lambda data: data)):
        for _ in range(1500):
            changed = bytearray(data)
            for _ in range(random.choice((1, 2, 8))):
                changed[random.randrange(len(changed))] = random.randrange(256)
            cut = bytes(changed[: random.randrange(len(changed))] if random.random() < 0.1 else changed)
            found = read(cut)
            if found is None:
                continue
            try:
                parsed = flat.parsed(found)
            except ValueError:
                continue
            assert parsed.entry < len(parsed.content)
            places = [*parsed.relative, *(place for place, _ in parsed.outside)]
            assert all(0 <= place <= len(parsed.content) - 8 for place in places)


def test_stubs_and_slots_lie_apart() -> None:
    """Many calls of functions outside: one word and one jump for each."""
    names = [f"farlane_outside_{number}" for number in range(20)]
    calls = "\n".join(f"%r{number} = call i32 @{name}()" for number, name in enumerate(names))
    text = "\n".join(f"declare i32 @{name}()" for name in names)
    made = flat.flattened(
        compiled(f"{text}\ndefine i32 @run() {{\n{calls}\n{calls.replace('%r', '%s')}\nret i32 %r0 }}"), "run"
    )
    assert made is not None
    places = sorted(place for place, _ in flat.parsed(made).outside)
    assert len(places) == 20
    assert all(low + 8 <= high for low, high in pairwise(places))
