"""Which file holds which output: the one list of everything that is generated."""

from __future__ import annotations

from pathlib import Path

from farlane_codegen import (
    api_table,
    coverage_page,
    errors_table,
    protobuf,
    python_encoders,
    python_operations,
    rust_exports,
    rust_operations,
    tape_table,
    thin_libraries,
)


def outputs(root: Path) -> dict[Path, str]:
    """Path -> text of every generated file. Raises TableError."""
    protos, shim, backend = root / "protos", root / "frontend/shim", root / "backend"
    crates = shim / "crates"
    tape = tape_table.load(protos / "tape.toml")
    api = api_table.load(protos / "cuda", frozenset(operation.name for operation in tape.operations))
    errors = errors_table.load_errors(protos / "cuda")
    attributes = errors_table.load_attributes(protos / "cuda")
    files = {
        crates / "tape/src/generated_operations.rs": rust_operations.emit(tape),
        crates / "core/src/generated_exports.rs": rust_exports.emit(api),
        crates / "abi/src/generated_errors.rs": errors_table.emit_rust_errors(errors),
        crates / "abi/src/generated_attributes.rs": errors_table.emit_rust_attributes(attributes),
        backend / "handlers/generated_operations.py": python_operations.emit(tape),
        root / "frontend/generated_operations.py": python_encoders.emit(tape),
        backend / "generated_errors.py": errors_table.emit_python_errors(errors),
        root / "docs/coverage.md": coverage_page.emit(api),
    }
    for version in api_table.VERSIONS:
        thin = shim / f"thin/generated_libcudart_{version}"
        files[thin.with_suffix(".S")] = thin_libraries.emit_assembly(api, version)
        files[thin.with_suffix(".map")] = thin_libraries.emit_version_script(api, version)
    for name, text in protobuf.emit_python(protos).items():
        files[protos / "farlane/v1" / name] = text
    rust = crates / "client/src/generated_farlane_v1.rs"
    files[rust] = protobuf.emit_rust(protos, shim, rust)
    return files
