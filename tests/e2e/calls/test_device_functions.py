"""Device, error and version functions in a guest: what they answer, and that all but the reset cost no round trip."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from farlane.frontend import shim_library
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.releases import compile_c, release
from farlane.frontend.embedded import EmbeddedHost

pytestmark = pytest.mark.native

SOURCE = Path(__file__).parent / "programs/device_functions.c"

EXPECTED = """\
cudaGetDeviceCount(&number) = 0 1
cudaGetDevice(&number) = 0 0
cudaSetDevice(0) = 0
cudaSetDevice(1) = 101
cudaSetDevice(-1) = 101
cudaGetDeviceCount(0) = 1
cudaPeekAtLastError() = 1
cudaGetLastError() = 1
cudaGetLastError() = 0
cudaGetDeviceProperties(&prop, 0) = 0
cudaGetDeviceProperties(&prop, 1) = 101
cudaGetDeviceProperties(0, 0) = 1
unused: 0 0
name: Farlane, compute 12.0, managed 1, pools 1
memory: 1
cudaDeviceGetAttribute(&number, (enum cudaDeviceAttr)100000, 0) = 1
cudaDeviceGetAttribute(&number, (enum cudaDeviceAttr)0, 0) = 1
cudaDeviceGetAttribute(&number, cudaDevAttrWarpSize, 3) = 101
cudaDeviceGetAttribute(0, cudaDevAttrWarpSize, 0) = 1
cudaChooseDevice(&number, &prop) = 0 0
cudaDeviceGetPCIBusId(text, sizeof text, 0) = 0
cudaDeviceGetPCIBusId(text, 3, 0) = 1
cudaDeviceGetByPCIBusId(&number, text) = 0 0
cudaDeviceGetByPCIBusId(&number, "ffff:fe:1d.0") = 101
cudaDeviceGetByPCIBusId(&number, "nonsense") = 1
cudaGetDeviceFlags(&flags) = 0 0
cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync) = 0
cudaGetDeviceFlags(&flags) = 0 4
cudaSetDeviceFlags(3) = 1
cudaInitDevice(0, 0, 0) = 0
cudaInitDevice(0, 0, 2) = 1
cudaDeviceGetLimit(&size, cudaLimitStackSize) = 0 1024
cudaDeviceSetLimit(cudaLimitStackSize, 4096) = 0
cudaDeviceGetLimit(&size, cudaLimitStackSize) = 0 4096
cudaDeviceSetLimit(cudaLimitStackSize, 1 << 30) = 1
cudaDeviceSetLimit(cudaLimitDevRuntimeSyncDepth, 2) = 215
cudaDeviceSetCacheConfig(cudaFuncCachePreferShared) = 0
cudaDeviceGetCacheConfig((enum cudaFuncCache *)&number) = 0 1
cudaDeviceSetCacheConfig((enum cudaFuncCache)4) = 1
cudaDeviceGetSharedMemConfig((enum cudaSharedMemConfig *)&number) = 0 1
cudaDeviceGetStreamPriorityRange(&number, &other) = 0
priorities: 0 -5
cudaDeviceGetStreamPriorityRange(0, 0) = 0
cudaDeviceCanAccessPeer(&number, 0, 0) = 0 0
cudaDeviceCanAccessPeer(&number, 0, 1) = 101
cudaDeviceEnablePeerAccess(0, 0) = 101
cudaDeviceDisablePeerAccess(1) = 101
cudaDeviceGetP2PAttribute(&number, cudaDevP2PAttrAccessSupported, 0, 0) = 101
cudaSetValidDevices(&number, 1) = 0
cudaSetValidDevices(&number, 2) = 1
cudaDeviceSynchronize() = 0
cudaDeviceReset() = 0
cudaDeviceGetLimit(&size, cudaLimitStackSize) = 0 1024
cudaGetDeviceFlags(&flags) = 0 0
cudaGetLastError() = 1
cudaGetLastError() = 0
"""


@pytest.fixture(scope="module", params=["null", "sim"])
def guest(request: pytest.FixtureRequest) -> Iterator[Guest]:
    shim_library.require_built()
    with EmbeddedHost(request.param) as host:
        yield Guest(host.url)


@pytest.mark.parametrize("version", ["12.9.79", "13.0.96", "13.5.37"])
def test_answers(version: str, guest: Guest, tmp_path: Path) -> None:
    nvidia = release(version)
    program = tmp_path / "program"
    compile_c(SOURCE.read_text(), nvidia, program, str(nvidia.library))
    outcome = guest.run([str(program)])
    assert outcome.stdout.splitlines() == EXPECTED.splitlines()
    assert (outcome.status, outcome.stderr) == (0, "")
    assert outcome.report.round_trips == 1 + 1  # the handshake and the reset
