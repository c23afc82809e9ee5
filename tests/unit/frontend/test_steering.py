"""Steering to PTX: the stand-in for ptxas by its command line, and whose environment leads to it."""

from __future__ import annotations

import os
import subprocess
from concurrent import futures
from pathlib import Path

import grpc
import pytest
from farlane.frontend import shim_library, steering
from farlane.v1 import admin_pb2, session_pb2

PTX = b".version 9.0\n.target sm_90\n"


def ptxas(*words: object, status: int = 0, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([steering.PTXAS, *map(str, words)], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    return done


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "a kernel.ptx"
    path.write_bytes(PTX)
    return path


@pytest.mark.parametrize(
    "options",
    [
        ["-lineinfo", "-v", "--regAllocOptLevel=2", "--gpu-name=sm_90a"],  # Triton's
        ["-arch", "sm_90a", "--warn-on-spills", "--maxrregcount", "64"],  # XLA's, and values behind options
        ["-O3", "-m64", "--fmad=false"],
    ],
)
@pytest.mark.parametrize("written", [["-o", "{}"], ["--output-file", "{}"], ["-o={}"], ["--output-file={}"]])
def test_the_image_is_the_text_with_an_end(options: list[str], written: list[str], source: Path) -> None:
    target = source.with_suffix(".cubin")
    done = ptxas(*options, source, *(word.format(target) for word in written))
    assert target.read_bytes() == PTX + b"\0"
    assert done.stdout == done.stderr == ""


def test_a_text_on_the_command_line_and_the_default_output(tmp_path: Path) -> None:
    ptxas("-arch=sm_80", "--input-as-string", PTX.decode(), cwd=tmp_path)
    assert (tmp_path / "elf.o").read_bytes() == PTX + b"\0"


def test_the_version_is_in_the_words_that_callers_look_for() -> None:
    assert "release 13.5, V13.5.0\n" in ptxas("--version").stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-o", "x"], "No input file"),
        (["missing.ptx"], "Could not open input file 'missing.ptx'"),
        (["{0}", "-o"], "needs a value"),
        (["{0}", "{0}"], "More than one input file"),
        (["-c", "{0}"], "Relocatable"),
        (["-optf", "{0}"], "not supported"),
        (["{0}", "-o", "/nowhere/x"], "Could not write"),
    ],
)
def test_what_it_cannot_do_is_fatal(words: list[str], message: str, source: Path) -> None:
    done = ptxas(*(word.format(source) for word in words), status=255, cwd=source.parent)
    assert "ptxas fatal   : " in done.stderr
    assert message in done.stderr


@pytest.mark.parametrize(
    ("device", "answer", "steered"),
    [
        (None, None, True),
        ("sim", None, True),
        ("gpu", None, False),
        (None, True, True),
        (None, False, False),
    ],
)
def test_where_the_device_takes_ptx_alone(
    device: str | None, answer: bool | None, steered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steering, "host_takes_ptx_alone", lambda url: answer)
    environment = {"PATH": "/bin", "TRITON_PTXAS_PATH": "/mine"}
    steering.steer(environment, device, None if answer is None else "unix:///h")
    assert (environment.get("CUPY_COMPILE_WITH_PTX") == "1") is steered
    assert (environment["PATH"] == f"{steering.PTXAS.parent}{os.pathsep}/bin") is steered
    assert environment["TRITON_PTXAS_PATH"] == "/mine"


class Describing:
    """A host that says of its devices whether they take machine code."""

    def __init__(self, machine_code: tuple[bool, ...]) -> None:
        devices = [session_pb2.DeviceDescription(takes_ptx=True, takes_machine_code=takes) for takes in machine_code]
        handler = grpc.unary_unary_rpc_method_handler(
            lambda request, context: admin_pb2.DescribeReply(devices=devices),
            request_deserializer=admin_pb2.DescribeRequest.FromString,
            response_serializer=admin_pb2.DescribeReply.SerializeToString,
        )
        self.server = grpc.server(futures.ThreadPoolExecutor(1))
        service = grpc.method_handlers_generic_handler("farlane.v1.AdminService", {"Describe": handler})
        self.server.add_generic_rpc_handlers((service,))
        self.url = f"grpc://127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.server.start()


@pytest.mark.parametrize(
    ("machine_code", "alone"), [((False,), True), ((True,), False), ((False, True), False), ((), False)]
)
def test_a_host_says_what_its_devices_take(machine_code: tuple[bool, ...], alone: bool) -> None:
    host = Describing(machine_code)
    try:
        assert steering.host_takes_ptx_alone(host.url) is alone
    finally:
        host.server.stop(None)


@pytest.mark.parametrize("url", ["unix:///nowhere/h", "grpc://127.0.0.1:1", "no URL"])
def test_a_host_that_does_not_answer_changes_nothing(url: str) -> None:
    environment = {"PATH": "/bin"}
    steering.steer(environment, None, url)
    assert environment == {"PATH": "/bin"}


def test_the_switch_and_the_way_back() -> None:
    off = {"PATH": "/bin", steering.SWITCH: "off"}
    steering.steer(off, "sim", None)
    assert off == {"PATH": "/bin", steering.SWITCH: "off"}
    environment = {"PATH": "/bin", "CUDA_ROOT": "/mine"}
    steering.steer(environment, "sim", None)
    steering.steer(environment, "sim", None)
    assert environment["PATH"].count(str(steering.PTXAS.parent)) == 1
    assert shim_library.without_guest(environment) == {"PATH": "/bin", "CUDA_ROOT": "/mine"}
    assert shim_library.without_guest({"PATH": "/bin", "CUPY_COMPILE_WITH_PTX": "1"})["CUPY_COMPILE_WITH_PTX"] == "1"
