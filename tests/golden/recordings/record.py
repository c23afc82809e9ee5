"""Records a session between a guest's shim and a host: every message of both sides, in order, as they were sent.

Usage: python tests/golden/recordings/record.py LIBRARIES MODE OUTPUT.rec PROGRAM ARGUMENTS...

PROGRAM runs with the shim in the folder LIBRARIES; what it sends is passed on to a host with the null device, and the answers back. A recording
is a zlib stream of (side, length, message): one byte `G` or `H`, a u32, the bytes. The kept ones are of scenarios of
tests/e2e/calls/programs/round_trips.cu. They were made with shim and host as they were before the data plane became native.
"""

from __future__ import annotations

import struct
import subprocess
import sys
import tempfile
import threading
import zlib
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
from farlane.frontend import shim_library
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.embedded import EmbeddedHost
from farlane.hosturl import CHANNEL_OPTIONS

OPEN = "/farlane.v1.SessionService/Open"


class Recorder(grpc.GenericRpcHandler):
    def __init__(self, channel: grpc.Channel) -> None:
        self.frames: list[bytes] = []
        self._lock = threading.Lock()
        self._open = channel.stream_stream(OPEN)

    def service(self, handler_call_details: Any) -> Any:
        if handler_call_details.method != OPEN:
            return None
        return grpc.stream_stream_rpc_method_handler(self._pass_on)

    def _pass_on(self, requests: Iterator[bytes], _: Any) -> Iterator[bytes]:
        for answer in self._open(self._kept(b"G", requests)):
            self._keep(b"H", answer)
            yield answer

    def _kept(self, side: bytes, messages: Iterator[bytes]) -> Iterator[bytes]:
        for message in messages:
            self._keep(side, message)
            yield message

    def _keep(self, side: bytes, message: bytes) -> None:
        with self._lock:
            self.frames.append(side + struct.pack("<I", len(message)) + message)


def main() -> int:
    libraries, mode, output, *command = sys.argv[1:]
    ours = str(shim_library.FOLDER)
    with tempfile.TemporaryDirectory() as folder, EmbeddedHost("null") as host:
        recorder = Recorder(grpc.insecure_channel(host.url.replace("unix://", "unix:"), options=CHANNEL_OPTIONS))
        server = grpc.server(futures.ThreadPoolExecutor(4), options=CHANNEL_OPTIONS)
        server.add_generic_rpc_handlers((recorder,))
        server.add_insecure_port(f"unix:{folder}/recorder")
        server.start()
        environment = Guest(f"unix://{folder}/recorder").environment(command[0], mode)
        environment = {name: value.replace(ours, libraries) for name, value in environment.items()}
        code = subprocess.run(command, env=environment, check=False).returncode
        server.stop(5).wait()
    Path(output).write_bytes(zlib.compress(b"".join(recorder.frames), 9))
    return code


if __name__ == "__main__":
    raise SystemExit(main())
