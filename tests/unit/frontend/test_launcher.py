"""farlane.frontend: URLs, sizes, the guest's environment, the report, and the messages of `farlane run` and `farlane doctor`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from farlane.frontend import cli, report, shim_library
from farlane.frontend.commands.run import command as run_command
from farlane.frontend.errors import UserError
from farlane.frontend.hosts import parse_url
from farlane.frontend.sizes import parse_size
from farlane.hosturl import FORMS


def test_a_bad_url_says_what_a_url_is() -> None:
    with pytest.raises(UserError) as caught:
        parse_url("host:1")
    assert FORMS in caught.value.message


@pytest.mark.parametrize(("text", "size"), [("4096", 4096), ("512M", 512 << 20), ("2GiB", 2 << 30), ("1 kB", 1024)])
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "-1", "1.5G", "many"])
def test_bad_sizes(text: str) -> None:
    with pytest.raises(UserError):
        parse_size(text)


def test_the_guests_environment_keeps_what_the_user_preloads() -> None:
    base = {"LD_PRELOAD": "/usr/lib/other.so", "LD_LIBRARY_PATH": "/opt/lib", "HOME": "/root"}
    seen = shim_library.guest_environment(
        base, host="unix:///s", mode="calls", runtimes=("13",), report="/tmp/r-%p.json"
    )
    preloaded = [shim_library.FOLDER / shim_library.CORE, *shim_library.preload_for(("13",))]
    assert preloaded[1:3] == [shim_library.runtime_library("13"), shim_library.runtime_library("12")]
    assert seen["LD_PRELOAD"].split(":") == [*map(str, preloaded), "/usr/lib/other.so"]
    assert seen["LD_AUDIT"] == str(shim_library.FOLDER / shim_library.REDIRECT)
    assert seen["LD_LIBRARY_PATH"].split(":")[1:] == ["/opt/lib"]
    assert (seen["FARLANE_HOST"], seen["FARLANE_DEFER"], seen["FARLANE_REPORT"]) == (
        "unix:///s",
        "calls",
        "/tmp/r-%p.json",
    )
    assert seen["HOME"] == "/root"


def test_an_unknown_runtime_is_refused() -> None:
    with pytest.raises(UserError, match=r"libcudart\.so\.11"):
        shim_library.preload_for(("11",))


SHIM_REPORT = {
    "mode": "calls", "round_trips": 3, "calls": {"local": 4, "deferred": 5, "sync": 2}, "groups": 3, "bytes_up": 100,
    "bytes_down": 50, "wall_seconds": 0.5, "device_seconds": 0.25, "flow_waits": 0, "unsupported": ["cudaIpcOpenMemHandle"],
}  # fmt: skip


def test_reports_of_several_processes_add_up(tmp_path: Path) -> None:
    for pid in (10, 11):
        (tmp_path / f"{pid}.json").write_text(json.dumps(SHIM_REPORT))
    (tmp_path / "12.json").write_text('{"mode": "ca')
    seen = report.collect(tmp_path, "calls", 1.25, 7)
    document = json.loads(seen.json())
    assert document["round_trips"] == 6
    assert document["calls"] == {"local": 8, "deferred": 10, "sync": 4}
    assert document["device_seconds"] == 0.5
    assert document["wall_seconds"] == 1.25
    assert document["processes"] == 2
    assert document["exit_status"] == 7
    assert document["unsupported"] == ["cudaIpcOpenMemHandle"]
    assert "cudaIpcOpenMemHandle" in seen.text()


def test_a_run_without_cuda_calls_says_so(tmp_path: Path) -> None:
    assert "no CUDA call was made" in report.collect(tmp_path, "calls", 0.1, 0).text()


def run(*words: str) -> int:
    parser = cli.build_parser({"run": ""}, {"run": run_command})
    arguments = parser.parse_args(["run", *words])
    return int(arguments.execute(arguments))


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        ((), 2, "no program given"),
        (("--report", "xml", "--", "true"), 2, "--report xml is not known"),
        (("--report", "json:/no/such/folder/r.json", "--", "true"), 2, "cannot write the report"),
        (("--host", "nonsense", "--", "true"), 2, "no host URL"),
        (("--host", "grpc://127.0.0.1:9", "--device", "sim", "--", "true"), 2, "for the embedded host"),
        (("--quota", "lots", "--", "true"), 2, "is no size"),
        (("--check=everything", "--", "true"), 2, "--check=everything is not known"),
        (("--check", "./program", "argument"), 2, "a program's name goes behind --"),
        (("--error-exitcode", "3", "--", "true"), 2, "--error-exitcode is for checks"),
        (("--", "/no/such/program"), 127, "no such file"),
    ],
)
def test_wrong_calls_are_explained(
    words: tuple[str, ...], status: int, text: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shim_library, "require_built", lambda: None)
    monkeypatch.delenv("FARLANE_HOST", raising=False)
    assert run(*words) == status
    assert text in capsys.readouterr().err


def test_a_shim_that_is_not_built_is_explained(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shim_library, "FOLDER", tmp_path)
    assert run("--", "true") == 125
    assert "build.py" in capsys.readouterr().err
