"""What is committed is what the generator writes, and nothing generated is outside the generator's list."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from pathlib import Path

from farlane.backend import errors, generated_errors
from farlane.backend.handlers import generated_operations
from farlane_codegen import api_table, driver_table, outputs, tape_table

ROOT = Path(__file__).resolve().parents[3]
GENERATE = ROOT / "protos/codegen/generate.py"
# Hand-written programs may have generated inputs of their own; these folders are not the generator's.
IGNORED = {".venv", ".git", ".cache", "target", "build", ".typing", "__pycache__"}


def test_committed_files_are_what_the_generator_writes() -> None:
    done = subprocess.run([sys.executable, str(GENERATE), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"run python protos/codegen/generate.py\n{done.stdout}{done.stderr}"


def test_check_says_which_file_differs(tmp_path: Path) -> None:
    for folder in ("protos", "frontend/shim/crates/protogen", "frontend/shim/crates/client/src"):
        subprocess.run(["cp", "-r", "--parents", folder, str(tmp_path)], cwd=ROOT, check=True)
    written = subprocess.run([sys.executable, str(GENERATE), "--root", str(tmp_path)], capture_output=True, text=True)
    assert written.returncode == 0, written.stderr
    target = tmp_path / "docs/reference/coverage.md"
    target.write_text(target.read_text() + "\n")
    command = [sys.executable, str(GENERATE), "--check", "--root", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "differs: docs/reference/coverage.md\n")
    (tmp_path / "protos/tape.toml").write_text("version = 1\n")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "generate: tape.toml: missing operation, result\n"


def test_every_generated_file_is_in_the_generators_list() -> None:
    listed = {path.relative_to(ROOT) for path in outputs.outputs(ROOT)}
    found = {
        path.relative_to(ROOT)
        for path in ROOT.rglob("generated*.*")
        if not IGNORED.intersection(path.relative_to(ROOT).parts)
    }
    assert found <= listed


def test_the_host_knows_cudas_names_of_errors() -> None:
    assert generated_errors.ILLEGAL_ADDRESS == 700
    assert errors.name_of(700) == "cudaErrorIllegalAddress"
    assert errors.name_of(-5) == "cudaError_t -5"


def load() -> tuple[tape_table.Tape, api_table.Api]:
    tape = tape_table.load(ROOT / "protos/tape.toml")
    return tape, api_table.load(ROOT / "protos/cuda", frozenset(operation.name for operation in tape.operations))


def test_the_host_has_a_row_for_every_operation() -> None:
    assert set(generated_operations.OPERATIONS) == {operation.code for operation in load()[0].operations}


def test_every_operation_of_the_tape_is_used_or_is_the_sessions_own() -> None:
    tape, api = load()
    driver = driver_table.load(ROOT / "protos/cuda", api)
    used = {name for function in (*api.functions, *driver.functions) for name in function.operations}
    own = {operation.name for operation in tape.operations if not operation.retired} - used
    # Appended by no function of the runtime API: mode `none`, large images, PTX that is checked, payloads already sent, the end of
    # checks, timelines, several contexts, loops that their slices decide, tensor maps of a GPU.
    assert own == {
        "FENCE", "MODULE_QUERY", "MODULE_CHECK", "PAYLOAD_KEEP", "PAYLOAD_DROP", "WRITE_KEPT", "CHECK_END", "CONTEXT",
        "SLICE", "WHILE", "TIMELINE", "TENSOR_MAP",
    }  # fmt: skip


def test_every_function_that_public_programs_call_is_in_the_table() -> None:
    """The names are those called by 456 public CUDA programs (CUDA 13)."""
    _, api = load()
    known = {function.name for function in api.functions} | set(api.unsupported)
    with (Path(__file__).parent / "called_by_programs.tsv").open(encoding="utf-8") as file:
        called = {api_table.base_name(row[0]) for row in csv.reader(file, delimiter="\t")}
    assert len(called) > 70
    assert called <= known


def test_symbols_without_a_row_are_none() -> None:
    """A symbol that NVIDIA adds is first listed under `unsupported`, with a reason."""
    _, api = load()
    known = {function.name for function in api.functions} | set(api.unsupported)
    exported = {api_table.base_name(symbol) for symbols in api.symbols.values() for symbol in symbols}
    assert exported == known


def test_no_family_function_is_a_placeholder() -> None:
    sources = list((ROOT / "frontend/shim/crates").rglob("*.rs"))
    assert len(sources) > 20
    placeholders = [path.name for path in sources if re.search(r"// not yet|todo!|unimplemented!", path.read_text())]
    assert placeholders == []
