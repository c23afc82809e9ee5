"""Follows the tutorials from their first line in a clean Debian system, and writes docs/results/tutorials.md.

Usage: python tests/tutorials/follow.py [--continue] [PAGE ...]    (a page is a name in docs/tutorials, without .md; default: all)

The system is what debootstrap makes, and it has no more than that. All blocks of a page (blocks.py) run in one shell, as root, the pages one after
the other. What the reader of this repository has elsewhere, the follower puts in place of these words:

- URL: a clone of this tree's last commit.
- 10.0.2.2: 127.0.0.1. The system is the virtual machine's host, and it plays the machine as well.

`--continue` takes the system as the last run left it, its clone brought to this tree's last commit. Pages that were not followed to
their end, in one run or several, have no minutes in the result. Output is in <cache>/tutorials.
Needs root's rights, debootstrap, Debian's mirror, PyPI, crates.io and Rust's own server.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import roots
from blocks import DOCS, blocks, not_printed, script
from farlane.frontend.devtools.debian import Unavailable
from farlane.frontend.devtools.toolchain import cache_folder

RELEASE = "trixie"
SYSTEM = "Debian 13"
ORDER = ("first-run", "cpp-program", "team-host", "tlb-study", "ci-machine", "python-guest", "virtual-machine")
REPOSITORY = Path(__file__).resolve().parents[2]
RESULT = DOCS / "results/tutorials.md"
LONGEST = 3600  # seconds that one page may take
CLONE = "/srv/farlane.git"
CERTIFICATES = "/opt/certificates"
# How this machine reaches the registries, where that is not the usual way.
_WAYS = re.compile(r"(PIP|CARGO|SSL|CURL|GIT_SSL|REQUESTS)_\w+|(http|https|no)_proxy", re.IGNORECASE)


def system(again: bool) -> Path:
    """The clean system's folder, with the clone that stands for URL. Raises Unavailable."""
    clean = roots.clean(RELEASE)
    root = cache_folder() / "tutorials" / "system"
    bare, cloned = root / CLONE[1:], root / "root/farlane"
    if again and bare.exists():
        branch = _git(bare, "symbolic-ref", "--short", "HEAD")
        _git(bare, "fetch", "--force", str(REPOSITORY), f"HEAD:{branch}")
        if cloned.exists():
            _git(cloned, "pull", "--quiet", "--ff-only", str(bare), branch)
        return root
    shutil.rmtree(root.parent, ignore_errors=True)
    root.parent.mkdir(parents=True)
    subprocess.run(["cp", "-a", str(clean), str(root)], check=True)
    _git(REPOSITORY, "clone", "--quiet", "--bare", str(REPOSITORY), str(bare))
    return root


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *words], check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def environment(root: Path) -> dict[str, str]:
    """A login's variables, and those by which this machine reaches the registries: certificates are copied into the system."""
    variables = {"HOME": "/root", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    variables |= {"LANG": "C.UTF-8", "TERM": "dumb", "DEBIAN_FRONTEND": "noninteractive"}
    for name, value in os.environ.items():
        if not _WAYS.fullmatch(name) or Path(value).is_dir():
            continue
        if Path(value).is_file():
            copied = Path(CERTIFICATES) / Path(value).name
            (root / CERTIFICATES[1:]).mkdir(parents=True, exist_ok=True)
            shutil.copy(value, root / str(copied)[1:])
            value = str(copied)
        variables[name] = value
    return variables


def follow(page: str, root: Path) -> str:
    """Follows a page; what went wrong, else an empty text. What the page leaves running ends with its shell."""
    chosen = blocks(f"tutorials/{page}.md")
    text = script(chosen).replace("10.0.2.2", "127.0.0.1")
    text = re.sub(r"\bclone URL\b", f"clone file://{CLONE}", text)
    command = ["bash", "-c", text]
    space = ["--pid", "--fork", "--kill-child"]
    words = roots.entering(space, root, ["/dev", "/sys"], command, environment(root), Path("/root"))
    log = cache_folder() / "tutorials" / f"{page}.txt"
    try:
        with log.open("w") as output:
            done = subprocess.run(words, stdout=output, stderr=subprocess.STDOUT, timeout=LONGEST)
    except subprocess.TimeoutExpired:
        return f"it did not end within {LONGEST} s; {log}"
    if done.returncode:
        return f"a command failed (status {done.returncode}):\n{log.read_text()[-1500:]}\nwhole output: {log}"
    return "\n".join(not_printed(chosen, log.read_text()))


def title(page: str) -> str:
    return (DOCS / f"tutorials/{page}.md").read_text().partition("\n")[0].removeprefix("# ")


def record(minutes: dict[str, float]) -> str:
    """The page of results."""
    rows = [
        f"| [{title(page)}](../tutorials/{page}.md) | {len(blocks(f'tutorials/{page}.md'))} "
        f"| {f'{minutes[page]:.1f}' if page in minutes else 'not followed'} |"
        for page in ORDER
    ]
    return "\n".join(
        (
            "# Tutorials in a clean system",
            "",
            "`make test-tutorials` follows each tutorial from its first line, and writes this page. The system is",
            f"{SYSTEM} as debootstrap makes it (`minbase`). Where the table has minutes, every command ended as the page says,",
            "and printed what the page shows. The minutes are those of a machine with two cores that had other work, downloads",
            "included.",
            "",
            "| tutorial | blocks of commands | minutes |",
            "|---|---:|---:|",
            *rows,
            "",
            "Two things differ from what a reader does. `URL` is a local clone. In the last steps of the page on virtual",
            "machines the system itself plays the machine; `make demo-vm`, in its first step, boots one in QEMU.",
            "",
        )
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pages", nargs="*", metavar="PAGE", help=f"of {', '.join(ORDER)}; default: all")
    parser.add_argument("--continue", dest="again", action="store_true", help="in the system as the last run left it")
    options = parser.parse_args()
    if unknown := set(options.pages) - set(ORDER):
        parser.error(f"no tutorial has the name {', '.join(sorted(unknown))}; there are {', '.join(ORDER)}")
    try:
        root = system(options.again)
    except Unavailable as reason:
        print(f"no clean system can be made here: {reason}", file=sys.stderr)
        return 2
    kept = root.parent / "minutes.json"
    status = 0
    for page in (page for page in ORDER if not options.pages or page in options.pages):
        print(f"{page} ...", flush=True)
        started = time.monotonic()
        wrong = follow(page, root)
        minutes: dict[str, float] = json.loads(kept.read_text()) if kept.exists() else {}
        minutes.pop(page, None)
        if wrong:
            print(f"{page}: {wrong}", flush=True)
            status = 1
        else:
            minutes[page] = (time.monotonic() - started) / 60
            print(f"{page}: followed in {minutes[page]:.1f} minutes", flush=True)
        kept.write_text(json.dumps(minutes))
        RESULT.write_text(record(minutes))
    return status


if __name__ == "__main__":
    sys.exit(main())
