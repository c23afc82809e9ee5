"""A manifest byte for byte: a change here is a change of the format, and needs a version (protos/manifest.md)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from farlane.analyzer import postfix as code
from farlane.analyzer.manifest import reader, writer
from farlane.analyzer.manifest.model import (
    Argument,
    ArgumentKind,
    Flag,
    IdentityKind,
    Loop,
    LoopClass,
    LoopSlice,
    Manifest,
    Permission,
    Site,
)
from farlane.analyzer.slices import encode
from farlane.analyzer.slices.form import Argument as Argument_
from farlane.analyzer.slices.form import (
    Block,
    Branch,
    Call,
    Called,
    Code,
    Input,
    Leave,
    Operation,
    Origin,
    Place,
    Slice,
)

MANIFESTS = Path(__file__).parent / "manifests"
END = b"\0"

# rbx + zx4([rsp + 24]:4) < [0x4010]:8 as signed numbers
MORE = (
    code.instruction(code.REGISTER, 3)
    + code.instruction(code.FRAME, 24, 4)
    + code.instruction(code.ZX, 4)
    + code.instruction(code.BINARY["add"])
    + code.instruction(code.GLOBAL, 0x4010, 8)
    + code.instruction(code.BINARY["slt"])
    + END
)
MANIFEST = Manifest(
    IdentityKind.BUILD_ID,
    bytes.fromhex("00112233445566778899aabbccddeeff01234567"),
    Flag.THREADS | Flag.MANAGED,
    (
        Site(0x1200, 1, 0, "cudaMemcpy", permissions=Permission.DEFER_READ, more=MORE, proof="the destination is not read",
             arguments=(Argument(0, ArgumentKind.INVARIANT, 8), Argument(2, ArgumentKind.CONSTANT, 8, 4096))),
        Site(0x1240, 1, 1, "_Z4stepPfi", launch=True, more=MORE, remaining=code.instruction(code.CONSTANT, 7) + END,
             arguments=(Argument(0, ArgumentKind.CONSTANT, 4, 16), Argument(9, ArgumentKind.AFFINE, 0, -512))),
        Site(0x1300, 0, 0, "cudaDeviceSynchronize", in_callee=True, conditional=True,
             permissions=Permission.LOCAL_SYNC | Permission.COMPLETE_AT_CALL, proof="the code is not used"),
    ),
    (
        Loop(0x1100, 0x1000, "main", body=1, line=17),
        Loop(0x1180, 0x1000, "main", parent=0, class_=LoopClass.TWO, described=True, body=2, line=19),
    ),
)  # fmt: skip


# The same with a loop of two launches, the first of which tells what the second one is passed.
FORETOLD = replace(
    MANIFEST,
    sites=(
        *MANIFEST.sites,
        Site(0x1400, 2, 0, "_Z4stepPfi", launch=True, more=MORE, remaining=MORE),
        Site(0x1440, 2, 1, "_Z4movePfi", launch=True, arguments=(
            *(Argument(index, ArgumentKind.CONSTANT, 4 if index < 6 else 8, index) for index in range(7)),
            Argument(7, ArgumentKind.INVARIANT, 8, first=code.instruction(code.REGISTER, 3) + END),
            Argument(8, ArgumentKind.INVARIANT, 8, first=code.instruction(code.FRAME, 32, 8) + END),
            Argument(9, ArgumentKind.AFFINE, 4, 2, MORE),
        )),
    ),
    loops=(*MANIFEST.loops, Loop(0x1380, 0x1000, "main", class_=LoopClass.TWO, described=True, body=2, line=30)),
)  # fmt: skip


# The same with a slice: a call with one argument, again and again until what it brings is 0.
SLICED = replace(
    FORETOLD,
    slices=(
        LoopSlice(2, encode.write(Slice(
            0x1404, 2, 8,
            (Input(Origin.REGISTER, 7, 0), Input(Origin.FRAME, 16, Place(0, 8))),
            (
                Block((), Called(0, 1)),
                Block((Operation(Code.LOAD, 4, 1, (), 0),), Branch(1, 0, 2)),
                Block((), Leave(0x1500)),
            ),
            (Call(0x1404, "cudaMemcpy", (Argument_(1, 8, 0),), None, Place(0, 4)),),
        ))),
    ),
)  # fmt: skip


def test_golden_bytes_with_slices() -> None:
    golden = bytes.fromhex((MANIFESTS / "version_3.hex").read_text())
    assert writer.write(SLICED) == golden
    assert reader.read(golden) == SLICED


def test_golden_bytes() -> None:
    golden = bytes.fromhex((MANIFESTS / "version_2.hex").read_text())
    assert writer.write(FORETOLD) == golden
    assert reader.read(golden) == FORETOLD


def test_earlier_versions_are_read() -> None:
    assert reader.read(bytes.fromhex((MANIFESTS / "version_1.hex").read_text())) == MANIFEST
