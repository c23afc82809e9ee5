"""Emits the protobuf code: Python with grpcio-tools (pinned in pyproject.toml), Rust with the workspace crate `protogen`.

Rust's output carries a digest of its inputs, so that comparing needs no cargo: cargo runs only when an input has changed.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from importlib.resources import files
from pathlib import Path

from farlane_codegen.problems import TableError

OF_GUESTS = ("farlane/v1/session.proto", "farlane/v1/admin.proto")  # Rust has these alone
PROTOS = (*OF_GUESTS, "farlane/v1/checkpoint.proto")
_STAMP = "// Inputs: "


def emit_python(protos: Path) -> dict[str, str]:
    """File name -> text, for the folder `protos/farlane/v1`."""
    try:
        from grpc_tools import protoc
    except ImportError:
        raise TableError("grpcio-tools is missing: pip install 'farlane[dev]'") from None
    with tempfile.TemporaryDirectory() as scratch:
        arguments = ["protoc", f"-I{protos}", f"-I{files('grpc_tools') / '_proto'}"]
        arguments += [f"--python_out={scratch}", f"--pyi_out={scratch}", f"--grpc_python_out={scratch}", *PROTOS]
        if protoc.main(arguments) != 0:
            raise TableError("protoc refused the .proto files (its messages are above)")
        folder = Path(scratch) / "farlane" / "v1"
        return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.iterdir())}


def emit_rust(protos: Path, shim: Path, committed: Path) -> str:
    """The text of the client crate's `generated_farlane_v1.rs`."""
    digest = hashlib.sha256()
    for path in [*(protos / name for name in OF_GUESTS), *sorted((shim / "crates/protogen/src").glob("*.rs"))]:
        digest.update(path.read_bytes())
    stamp = f"{_STAMP}{digest.hexdigest()}\n"
    if committed.exists():
        text = committed.read_text(encoding="utf-8")
        if text.startswith(stamp):
            return text
    cargo = shutil.which("cargo")
    if cargo is None:
        raise TableError("the .proto files have changed and cargo is missing: install Rust to regenerate the Rust code")
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch) / "generated.rs"
        command = [cargo, "run", "--quiet", "--package", "protogen", "--", str(protos), str(output)]
        if subprocess.run(command, cwd=shim, check=False).returncode != 0:
            raise TableError("protogen failed (its messages are above)")
        return stamp + output.read_text(encoding="utf-8")
