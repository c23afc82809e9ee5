"""Which file holds which output: the one list of everything that is generated."""

from __future__ import annotations

from pathlib import Path

from farlane_codegen import (
    api_table,
    coverage_page,
    driver_table,
    errors_table,
    layouts,
    limits_table,
    protobuf,
    python_encoders,
    python_handlers,
    python_operations,
    rust_driver,
    rust_exports,
    rust_functions,
    rust_operations,
    rust_rows,
    tape_table,
    thin_libraries,
)


def outputs(root: Path) -> dict[Path, str]:
    """Path -> text of every generated file. Raises TableError."""
    protos, shim, backend = root / "protos", root / "frontend/shim", root / "backend"
    crates = shim / "crates"
    tape = tape_table.load(protos / "tape.toml")
    api = api_table.load(protos / "cuda", frozenset(operation.name for operation in tape.operations))
    driver = driver_table.load(protos / "cuda", api)
    errors = errors_table.load_errors(protos / "cuda")
    attributes = errors_table.load_attributes(protos / "cuda")
    launch_limits = errors_table.load_launch_limits(protos / "cuda")
    limits = limits_table.parse((protos / "limits.toml").read_text(encoding="utf-8"))
    driver_errors = errors_table.load_driver_errors(protos / "cuda", errors)
    files = {
        crates / "tape/src/generated_operations.rs": rust_operations.emit(tape),
        crates / "tape/src/generated_rows.rs": rust_rows.emit(tape),
        crates / "session/src/generated_functions.rs": rust_functions.emit(api, driver),
        crates / "session/src/generated_errors.rs": errors_table.emit_rust_constants(errors),
        crates / "runtime/src/generated_exports.rs": rust_exports.emit(api),
        crates / "driver/src/generated_exports.rs": rust_driver.emit(driver),
        crates / "abi/src/generated_errors.rs": errors_table.emit_rust_errors(errors),
        crates / "abi/src/generated_driver_errors.rs": errors_table.emit_rust_driver_errors(driver_errors),
        crates / "abi/src/generated_attributes.rs": errors_table.emit_rust_attributes(attributes, launch_limits),
        crates / "abi/src/generated_layouts.rs": layouts.emit(crates / "abi/src"),
        backend / "handlers/generated_operations.py": python_operations.emit(tape),
        backend / "handlers/generated_handlers.py": python_handlers.emit(tape),
        root / "tests/clients/tape_client/generated_operations.py": python_encoders.emit(tape),
        backend / "device/generated_attributes.py": errors_table.emit_python_attributes(attributes),
        backend / "generated_limits.py": errors_table.emit_python_limits(launch_limits),
        backend / "generated_errors.py": errors_table.emit_python_errors(errors),
        protos / "limits/generated.py": limits_table.emit_python(limits),
        crates / "limits/src/generated_limits.rs": limits_table.emit_rust(limits),
        root / "docs/reference/coverage.md": coverage_page.emit(api, driver),
    }
    for version in api_table.VERSIONS:
        thin = shim / f"thin/generated_libcudart_{version}"
        files[thin.with_suffix(".S")] = thin_libraries.emit_assembly(api, version)
        files[thin.with_suffix(".map")] = thin_libraries.emit_version_script(api, version)
    thin = shim / "thin/generated_libcuda_1"
    files[thin.with_suffix(".S")] = thin_libraries.emit_driver_assembly(driver)
    files[thin.with_suffix(".map")] = thin_libraries.emit_driver_version_script(driver)
    for name, text in protobuf.emit_python(protos).items():
        files[protos / "farlane/v1" / name] = text
    rust = crates / "client/src/generated_farlane_v1.rs"
    files[rust] = protobuf.emit_rust(protos, shim, rust)
    return files
