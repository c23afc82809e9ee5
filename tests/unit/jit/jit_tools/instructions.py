"""Runs instructions on arrays of operands: one kernel per group, every instruction for lanes that differ and for uniform operands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from farlane.backend import jit

from jit_tools import reference
from jit_tools.device import TinyDevice

HEADER = ".version 8.5\n.target sm_90\n.address_size 64\n"
# numpy type -> (register type, load/store type, bytes)
KINDS = {
    "u2": ("b16", "u16", 2), "i2": ("b16", "u16", 2), "f2": ("b16", "b16", 2), "u4": ("b32", "u32", 4), "i4": ("b32", "u32", 4),
    "u8": ("b64", "u64", 8), "i8": ("b64", "u64", 8), "f4": ("f32", "f32", 4), "f8": ("f64", "f64", 8),
}  # fmt: skip

UNIFORM = jit.Options(cache=False, tier=1)  # the lanes' kernel has tier 2 code, this one tier 1
NAN = {"f2": "f16", "f4": "f32", "f8": "f64"}  # any NaN equals any other


@dataclass
class Case:
    """`text` uses {d} for the destination and {a}, {b}, {c}, {e} for operands; several statements are allowed.

    `{p}` and `{q}` are predicates that the text may set; `{d}` is a register of numpy type `out`.
    """

    text: str
    out: str


def kernel_text(cases: Sequence[Case], operands: dict[str, np.ndarray], uniform: bool) -> str:
    """The module: `k(out, n, a, b, ...)`; operands are arrays, or scalars when uniform."""
    lines = [HEADER, ".visible .entry k(.param .u64 out, .param .u32 n"]
    for name, array in operands.items():
        register, load, _ = KINDS[array.dtype.str[1:]]
        lines.append(f", .param .{load if uniform else 'u64'} {name}")
    lines.append(")\n{\n.reg .pred %done;\n.reg .b32 %i, %n;\n.reg .b64 %base, %at, %x;")
    lines.append(
        "ld.param.u64 %base, [out];\nld.param.u32 %n, [n];\nmov.u32 %i, %tid.x;\nsetp.ge.u32 %done, %i, %n;\n@%done bra END;"
    )
    for name, array in operands.items():
        register, load, size = KINDS[array.dtype.str[1:]]
        lines.append(f".reg .{register} %{name};")
        if uniform:
            lines.append(f"ld.param.{load} %{name}, [{name}];")
        else:
            lines.append(f"ld.param.u64 %at, [{name}];\nmul.wide.u32 %x, %i, {size};\nadd.s64 %at, %at, %x;")
            lines.append(f"ld.global.{load} %{name}, [%at];")
    names = {name: f"%{name}" for name in operands}
    for number, case in enumerate(cases):
        register, load, size = KINDS[case.out]
        lines.append(
            f"{{\n.reg .{register} %d;\n.reg .pred %p, %q;\n.reg .b32 %t<8>;\n.reg .b64 %w<4>;\n.reg .b16 %h<4>;"
        )
        lines.append(case.text.format(d="%d", p="%p", q="%q", **names))
        lines.append(
            f"mul.wide.u32 %x, %i, 8;\nadd.s64 %at, %base, %x;\nst.global.{load} [%at+{number * 8 * 1024}], %d;\n}}"
        )
    lines.append("END:\nret;\n}\n")
    return "\n".join(lines)


def calculate(
    device: TinyDevice, cases: Sequence[Case], operands: dict[str, Any], uniform_samples: int = 6
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Results per case: for all elements as lanes, and for the first elements as uniform operands."""
    arrays = {name: np.asarray(value) for name, value in operands.items()}
    count = len(next(iter(arrays.values())))
    assert count <= 1024
    output = device.allocate(len(cases) * 8 * 1024)
    module = device.load(kernel_text(cases, arrays, False))
    status = device.launch(
        module, "k", 1, count + (-count) % 32, [output, count, *(device.upload(array) for array in arrays.values())]
    )
    assert status == jit.STATUS_DONE, (status, device.fault.kind, device.fault.line)
    varying = [fetch(device, output, number, case.out, count) for number, case in enumerate(cases)]
    module = device.load(kernel_text(cases, arrays, True))
    uniform: list[list[Any]] = [[] for _ in cases]
    for index in range(min(uniform_samples, count)):
        arguments = [output, 1, *(array[index] for array in arrays.values())]
        status = device.launch(module, "k", 1, 1, arguments, options=UNIFORM)
        assert status == jit.STATUS_DONE
        for number, case in enumerate(cases):
            uniform[number].append(fetch(device, output, number, case.out, 1)[0])
    return varying, [np.array(values, dtype=case.out) for values, case in zip(uniform, cases, strict=True)]


def fetch(device: TinyDevice, output: int, number: int, kind: str, count: int) -> np.ndarray:
    raw = device.download(output + number * 8 * 1024, "u8", count)
    size = np.dtype(kind).itemsize
    return np.ascontiguousarray(raw.view("u1").reshape(count, 8)[:, :size]).view(kind).reshape(count)


def verify(device: TinyDevice, expected: Sequence[tuple[Case, Any]], operands: dict[str, Any]) -> None:
    """Compares every case bit by bit with `expected`: a function of one element's operands (Python ints or floats as bits)."""
    cases = [case for case, _ in expected]
    varying, uniform = calculate(device, cases, operands)
    arrays = [np.asarray(value) for value in operands.values()]
    count = len(arrays[0])
    for number, (case, function) in enumerate(expected):
        size = np.dtype(case.out).itemsize
        want = [function(*(scalar(array, index) for array in arrays)) & ((1 << 8 * size) - 1) for index in range(count)]
        for label, result in (("lanes", varying[number]), ("uniform", uniform[number])):
            got = [int(value) for value in result.view(f"u{size}")]
            for index, (have, need) in enumerate(zip(got, want, strict=False)):
                if (
                    case.out in NAN
                    and reference.kind_of(have, NAN[case.out]) == reference.kind_of(need, NAN[case.out]) == "nan"
                ):
                    continue
                inputs = [hex(scalar(array, index)) for array in arrays]
                assert have == need, f"{label}: {case.text} of {inputs}: got {have:#x}, expected {need:#x}"


def scalar(array: np.ndarray, index: int) -> int:
    """An element's bits as an unsigned int."""
    return int(array[index : index + 1].view(f"u{array.dtype.itemsize}")[0])
