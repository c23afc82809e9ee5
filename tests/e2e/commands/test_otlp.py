"""`farlane serve --otlp`: a collector of OpenTelemetry gets each session as a trace. It is a small HTTP server that decodes the protobuf."""

from __future__ import annotations

import contextlib
import gzip
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from farlane.frontend.devtools import registry
from farlane.frontend.devtools.programs import Build
from farlane.frontend.devtools.toolchain import Toolchain
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

pytestmark = pytest.mark.native

NATIVE = Path(__file__).parents[2] / "native"


class Collector(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.spans: list[Any] = []
        self.resources: list[dict[str, str]] = []
        self.paths: set[str] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            data = gzip.decompress(data)
        for resource in ExportTraceServiceRequest.FromString(data).resource_spans:
            self.server.resources.append({each.key: each.value.string_value for each in resource.resource.attributes})
            self.server.spans += [span for scope in resource.scope_spans for span in scope.spans]
        self.server.paths.add(self.path)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@contextlib.contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[str]:
    """A host; it has ended, and sent what it had, afterwards."""
    url = f"unix://{folder / 'h'}"
    read, write = os.pipe()
    command = [sys.executable, "-m", "farlane.backend.commands.serve", "--listen", url, "--ready-fd", str(write)]
    environment = os.environ | {"FARLANE_CACHE_DIR": str(folder / "cache")}  # nothing has been compiled
    host = subprocess.Popen([*command, *arguments], pass_fds=[write], env=environment)
    os.close(write)
    with os.fdopen(read) as ready:
        assert ready.readline()
    try:
        yield url
    finally:
        host.terminate()
        assert host.wait(60) == 0


def attribute(span: Any, name: str) -> Any:
    for each in span.attributes:
        if each.key == name:
            return getattr(each.value, each.value.WhichOneof("value"))
    return None


@pytest.mark.parametrize("workers", ["thread", "process"])
def test_a_session_is_a_trace(
    workers: str, collector: Collector, tmp_path: Path, toolchain: Callable[[str], Toolchain]
) -> None:
    entries = {entry.name: entry for entry in registry.load(NATIVE / "registry.toml")}
    program = entries["vecadd"].compiled(toolchain("13.0"), Build(architecture="sm_75"))[0]
    began = time.time_ns()
    with serving(tmp_path, "--otlp", collector.url, "--workers", workers) as url:
        command = [sys.executable, "-m", "farlane.frontend.cli", "run", "--host", url, "--", program]
        outcome = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert "PASS" in outcome.stdout, outcome.stderr
    assert collector.paths == {"/v1/traces"}
    assert {"service.name": "farlane", "farlane.device": "sim"}.items() <= collector.resources[0].items()
    (root,) = [span for span in collector.spans if span.name == "session"]
    assert not root.parent_span_id
    assert attribute(root, "farlane.session") == "s1"
    assert attribute(root, "farlane.dropped") == 0
    inside = [span for span in collector.spans if span is not root]
    assert {"group", "kernel", "compile"} <= {span.name for span in inside}
    assert all(span.parent_span_id == root.span_id and span.trace_id == root.trace_id for span in inside)
    assert all(span.start_time_unix_nano <= span.end_time_unix_nano for span in collector.spans)
    assert all(began <= span.start_time_unix_nano <= time.time_ns() for span in collector.spans)
    assert all(span.end_time_unix_nano <= root.end_time_unix_nano for span in inside)
    (compiled,) = [span for span in inside if span.name == "compile"]
    assert attribute(compiled, "farlane.kernel").startswith("add(")
    assert {attribute(span, "farlane.kernel") for span in inside if span.name == "kernel"} == {
        attribute(compiled, "farlane.kernel")
    }


def test_a_collector_that_does_not_answer(tmp_path: Path, toolchain: Callable[[str], Toolchain]) -> None:
    """Sessions do not notice."""
    entries = {entry.name: entry for entry in registry.load(NATIVE / "registry.toml")}
    program = entries["vecadd"].compiled(toolchain("13.0"), Build(architecture="sm_75"))[0]
    with serving(tmp_path, "--otlp", "http://127.0.0.1:9") as url:
        command = [sys.executable, "-m", "farlane.frontend.cli", "run", "--host", url, "--", program]
        assert "PASS" in subprocess.run(command, capture_output=True, text=True, timeout=120).stdout


def test_what_is_no_place() -> None:
    command = [sys.executable, "-m", "farlane.backend.commands.serve", "--otlp", "localhost:4318"]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert outcome.returncode == 1
    assert "farlane: --otlp takes a URL" in outcome.stderr
