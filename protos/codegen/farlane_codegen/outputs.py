"""Which file holds which output: the one list of everything that is generated."""

from __future__ import annotations

from pathlib import Path

from farlane_codegen import protobuf, python_operations, rust_operations, tape_table


def outputs(root: Path) -> dict[Path, str]:
    """Path -> text of every generated file. Raises TableError."""
    protos, shim, backend = root / "protos", root / "frontend/shim", root / "backend"
    tape = tape_table.load(protos / "tape.toml")
    files = {
        shim / "crates/tape/src/generated_operations.rs": rust_operations.emit(tape),
        backend / "handlers/generated_operations.py": python_operations.emit(tape),
    }
    for name, text in protobuf.emit_python(protos).items():
        files[protos / "farlane/v1" / name] = text
    rust = shim / "crates/client/src/generated_farlane_v1.rs"
    files[rust] = protobuf.emit_rust(protos, shim, rust)
    return files
