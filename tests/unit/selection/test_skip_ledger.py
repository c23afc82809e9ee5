"""The ledger of skipped tests: an unexpected skip fails the run and is named, and a second run repeats nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import skip_ledger
from skip_ledger import Skip, complaints, load

TABLE = """
[clang]
reason = "^clang is missing"
[clang.tests]
"a.py" = 2
"b.py" = 1

[docker]
reason = "^docker is missing"
[docker.tests]
"b.py" = 1

[declined]
reason = "^declined"
always = true
[declined.tests]
"a.py" = 1
"""
DECLINED = Skip("a.py::no", "declined")
CLANG = [
    Skip("a.py::one", "clang is missing"),
    Skip("a.py::two", "clang is missing"),
    Skip("b.py::x", "clang is missing"),
]
DOCKER = [Skip("b.py::y", "docker is missing")]


def of(lacks: str, skips: list[Skip], *, again: bool = False) -> list[str]:
    return complaints(load(TABLE), [name for name in lacks.split(",") if name], skips, again=again)


def test_what_is_expected_is_no_complaint() -> None:
    assert of("clang,docker", [DECLINED, *CLANG, *DOCKER]) == []
    assert of("clang,docker?", [DECLINED, *CLANG]) == []
    assert of("clang,docker?", [DECLINED, *CLANG, *DOCKER]) == []
    assert of("", [DECLINED]) == []
    assert of("docker", DOCKER, again=True) == []


@pytest.mark.parametrize(
    ("lacks", "skips", "expected"),
    [
        ("clang", CLANG, ['declined: 0 tests of "a.py" skipped, not 1']),
        ("clang", [DECLINED, *CLANG[:2]], ['clang: 0 tests of "b.py" skipped, not 1']),
        (
            "clang",
            [DECLINED, *CLANG, Skip("a.py::three", "clang is missing")],
            [
                'clang: 3 tests of "a.py" skipped, not 2',
                "    a.py::one: clang is missing",
                "    a.py::three: clang is missing",
                "    a.py::two: clang is missing",
            ],
        ),
        ("", [DECLINED, *DOCKER], ['docker: 1 tests of "b.py" skipped, not 0', "    b.py::y: docker is missing"]),
        (
            "",
            [DECLINED, Skip("c.py::z", "too tired")],
            ["skipped for a reason that expected_skips.toml does not have: c.py::z: too tired"],
        ),
        ("clang,gcc", [DECLINED], ["--expect-skips: expected_skips.toml has no section gcc"]),
    ],
)
def test_anything_else_is_named(lacks: str, skips: list[Skip], expected: list[str]) -> None:
    assert of(lacks, skips) == expected


def test_the_table_is_readable() -> None:
    sections = load(skip_ledger.EXPECTED.read_text())
    assert {"clang", "docker", "declined"} <= sections.keys()
    root = Path(skip_ledger.__file__).parents[2]
    assert [file for section in sections.values() for file in section.tests if not (root / file).exists()] == []


CONFTEST = """
import sys
sys.path.insert(0, {folder!r})
import skip_ledger
from pathlib import Path
skip_ledger.EXPECTED = Path({table!r})
pytest_addoption = skip_ledger.add_options
pytest_configure = skip_ledger.register
"""
TESTS = """
import pytest
from pathlib import Path

def test_runs(): pass

@pytest.mark.xdist_group("g")
@pytest.mark.parametrize("name", ["x@y", "z"])
def test_needs(name):
    if not Path("tool").exists():
        pytest.skip("the tool is missing")

def test_declines(): pytest.skip("declined")

@pytest.mark.xfail
def test_fails(): assert False
"""


def test_two_runs(tmp_path: Path) -> None:
    """First without the tool, then with it."""
    table, skipped = tmp_path / "table.toml", tmp_path / "skipped.txt"
    table.write_text(
        '[tool]\nreason = "tool"\ntests."test_some.py" = 2\n'
        '[declined]\nreason = "declined"\nalways = true\ntests."test_some.py" = 1\n'
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    folder = str(Path(skip_ledger.__file__).parent)
    (tmp_path / "conftest.py").write_text(CONFTEST.format(folder=folder, table=str(table)))
    (tmp_path / "test_some.py").write_text(TESTS)
    skipped.write_text("of an earlier run\n")

    def run(*options: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "pytest", "-p", "xdist", "-n", "1", "--dist", "loadgroup", *options]
        environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    status, output = run("--write-skips=skipped.txt", "--expect-skips=tool")
    assert status == 0, output
    assert output.splitlines()[-1].strip("= ").startswith("1 passed, 3 skipped, 1 xfailed in")
    assert skipped.read_text() == "test_some.py::test_needs[x@y]\ntest_some.py::test_needs[z]\n"

    (tmp_path / "tool").touch()
    with skipped.open("a") as file:
        file.write("test_some.py::test_gone\n")
    status, output = run("--only-skipped=skipped.txt", "--expect-skips=tool")
    assert status == 1, output
    assert 'tool: 0 tests of "test_some.py" skipped, not 2\n' in output
    assert "--only-skipped: did not run: test_some.py::test_gone\n" in output
    assert output.splitlines()[-1].strip("= ").startswith("2 passed in")
