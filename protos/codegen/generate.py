"""Writes every generated file of the repository, or (with --check) says which ones differ from what is committed.

Usage: python protos/codegen/generate.py [--check]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from farlane_codegen.outputs import outputs
from farlane_codegen.problems import TableError

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a file would change")
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    try:
        generated = outputs(arguments.root)
    except TableError as error:
        print(f"generate: {error}", file=sys.stderr)
        return 2
    stale = [path for path, text in generated.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        print(f"{'differs' if arguments.check else 'wrote'}: {path.relative_to(arguments.root)}")
        if not arguments.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(generated[path], encoding="utf-8")
    return 1 if stale and arguments.check else 0


if __name__ == "__main__":
    sys.exit(main())
