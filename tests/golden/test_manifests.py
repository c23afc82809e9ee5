"""A manifest byte for byte: a change here is a change of the format, and needs a version (protos/manifest.md)."""

from __future__ import annotations

from pathlib import Path

from farlane.analyzer.manifest import code, reader, writer
from farlane.analyzer.manifest.model import (
    Argument,
    ArgumentKind,
    Flag,
    IdentityKind,
    Loop,
    LoopClass,
    Manifest,
    Permission,
    Site,
)

GOLDEN = Path(__file__).parent / "manifests" / "version_1.hex"
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
             permissions=Permission.LOCAL_SYNC | Permission.SETTLE_AT_CALL, proof="the code is not used"),
    ),
    (
        Loop(0x1100, 0x1000, "main", body=1, line=17),
        Loop(0x1180, 0x1000, "main", parent=0, class_=LoopClass.TWO, described=True, body=2, line=19),
    ),
)  # fmt: skip


def test_golden_bytes() -> None:
    golden = bytes.fromhex(GOLDEN.read_text())
    assert writer.write(MANIFEST) == golden
    assert reader.read(golden) == MANIFEST
