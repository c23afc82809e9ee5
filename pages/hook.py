"""What the site has beside docs/: pages that lie elsewhere in the repository, links that lead out of docs/, the script of diagrams.

A page of the repository links to its neighbours by relative paths, so that it reads well in a clone. The site holds docs/ and `EXTRA`;
a link to one of these becomes a link in the site, a link to any other file becomes the file's name. Pages with a diagram load
Mermaid from the site itself, so that it needs no network: the theme fetches the script only where a page has none.
"""

from __future__ import annotations

import hashlib
import os
import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
EXTRA = (
    "protos/tape.md",
    "protos/manifest.md",
    "protos/cuda/README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    *(str(page.relative_to(ROOT)) for page in sorted((ROOT / "examples").rglob("*.md"))),
)
MERMAID = "assets/mermaid.js"  # in the site
CARRIER, CARRIED = "mermaidx", "mermaidx/assets/mermaid.js"  # the package that has Mermaid 11.16.0, and where
DIGEST = "74d7c46dabca328c2294733910a8aa1ed0c37451776e8d5295da38a2b758fb9b"
LINK = re.compile(r"(?<![!`])\[([^\]]*)\]\(([^)\s]+)\)")


def place(path: Path) -> str | None:
    """A file's path in the site, or None where the site does not have it."""
    if path.is_relative_to(DOCS):
        return str(path.relative_to(DOCS))
    name = str(path.relative_to(ROOT))
    return name if name in EXTRA else None


def mermaid() -> Path:
    """The script, as it was when its digest was written down here."""
    try:
        path = Path(str(distribution(CARRIER).locate_file(CARRIED)))
    except PackageNotFoundError:
        raise PluginError(f"{CARRIER} is not installed: make docs installs the extra [docs]") from None
    if not path.exists() or hashlib.sha256(path.read_bytes()).hexdigest() != DIGEST:
        raise PluginError(
            f"{path} is not the Mermaid that pages/hook.py expects: install {CARRIER} as pyproject.toml pins it"
        )
    return path


def on_files(files: Files, config: MkDocsConfig) -> Files:
    files.append(File.generated(config, MERMAID, abs_src_path=str(mermaid())))
    for name in EXTRA:
        if (ROOT / name).exists():
            files.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    source = Path(str(page.file.abs_src_path))
    here = os.path.dirname(page.file.src_uri)

    def follow(match: re.Match[str]) -> str:
        text, target = match[1], match[2]
        name, mark, anchor = target.partition("#")
        if not name or "://" in target:
            return match[0]
        path = (source.parent / name).resolve()
        if path == ROOT / "README.md":
            path = DOCS / "README.md"
        if path.is_dir() and (path / "README.md").exists() and place(path / "README.md"):
            path = path / "README.md"
        found = place(path)
        if found is None or path.is_dir():
            name = str(path.relative_to(ROOT))
            return text if name in text or text.startswith("`") else f"{text} (`{name}`)"
        return f"[{text}]({os.path.relpath(found, here or '.')}{mark}{anchor})"

    markdown = re.sub(
        r"^```bash run.*$", "```bash", markdown, flags=re.M
    )  # tests/e2e/commands/test_pages.py runs these
    return LINK.sub(follow, markdown)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    if '<pre class="mermaid">' not in output:
        return output
    path = os.path.relpath(MERMAID, os.path.dirname(page.file.dest_uri) or ".")
    return output.replace("</head>", f'<script src="{path}"></script></head>', 1)
