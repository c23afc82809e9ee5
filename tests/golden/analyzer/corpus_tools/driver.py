"""The corpus' units as programs of the driver API: the same loops, so that the same must be found in them.

Owns the translation: launches become calls of `Launcher` (corpus/driver.cuh) with handles, which `main` fetches first; all else is macros.
And the calls' other names in what expected.toml says of permissions.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "corpus"
UNITS = ("invariant", "induction", "tables", "results", "errors", "exits", "reads", "callees", "control", "iterations")
NAMES = {
    "cudaMemcpy": "cuMemcpyDtoH",
    "cudaMemcpyFromSymbol": "cuMemcpyDtoH",
    "cudaMemcpyAsync": "cuMemcpyDtoHAsync",
    "cudaDeviceSynchronize": "cuCtxSynchronize",
    "cudaStreamSynchronize": "cuStreamSynchronize",
    "cudaEventSynchronize": "cuEventSynchronize",
    "cudaFree": "cuMemFree",
}
_LAUNCH = re.compile(r"\b(\w+)<<<")


def translated(source: str) -> str:
    """A unit's text in the driver's words."""
    kernels = sorted(set(_LAUNCH.findall(source)) | set(re.findall(r"\(const void \*\)(\w+)", source)))
    symbols = sorted(set(re.findall(r"cudaMemcpyFromSymbol\([^,]+, (\w+)", source)))
    parts, at = [], 0
    for match in _LAUNCH.finditer(source):
        end = source.index(">>>", match.end())
        configuration = _split(source[match.end() : end])
        configuration += ("0", "nullptr")[len(configuration) - 2 :]
        grid, block, shared, stream = configuration
        rest = end + len(">>>(")
        comma = "" if source[rest] == ")" else ", "
        name = match[1]
        parts += [source[at : match.start()], f"Launcher<decltype({name})>::launch(handle_{name}, "]
        parts.append(f"dim3({grid}), dim3({block}), {shared}, {stream}{comma}")
        at = rest
    text = "".join([*parts, source[at:]])
    text = re.sub(r"\(const void \*\)(\w+)", r"handle_\1", text)
    handles = "".join(f"static CUfunction handle_{name};\n" for name in kernels)
    handles += "".join(f"static CUdeviceptr address_{name};\n" for name in symbols)
    fetch = "".join(f"    cudaGetFuncBySymbol(&handle_{name}, (const void *){name});\n" for name in kernels)
    fetch += "".join(f"    cudaGetSymbolAddress((void **)&address_{name}, {name});\n" for name in symbols)
    include, main = '#include "common.cuh"\n', "int main(int argc, char **argv) {\n"
    assert include in text
    assert main in text
    text = text.replace(include, f'{include}#include "driver.cuh"\n{handles}', 1)
    return text.replace(main, main + fetch, 1)


def _split(text: str) -> list[str]:
    """At the commas that stand in no parentheses."""
    found, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and not depth:
            found.append("")
        else:
            found[-1] += character
    return [part.strip() for part in found]


def renamed(row: dict[str, Any]) -> dict[str, Any]:
    """A loop's row of expected.toml with the driver's names of the calls that something is permitted at."""
    found = dict(row)
    for key in ("permits", "also"):
        if key in row:
            permissions: dict[str, list[str]] = {}
            for name, granted in row[key].items():
                permissions.setdefault(NAMES.get(name, name), []).extend(granted)
            found[key] = permissions
    return found


def written(unit: str, folder: Path) -> Path:
    """The unit in the driver's words, beside the headers that it needs; written only where it has changed."""
    made = {path.name: path.read_text() for path in FOLDER.glob("*.cuh")}
    made[f"{unit}.cu"] = translated((FOLDER / f"{unit}.cu").read_text())
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in made.items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
    return folder / f"{unit}.cu"
