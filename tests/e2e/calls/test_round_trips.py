"""The round-trip table of docs/explanation/architecture/deferral.md, row by row: the counts are exact and do not depend on the machine.

Each scenario of programs/round_trips.cu is a process of its own. Its round trips are those of the report less the handshake (one).
In mode none every call that is otherwise deferred makes one as well, hence the second column. What starting costs beyond
the handshake (uploading and opening a module the host may hold already, opening a kernel) is measured once, by scenarios
that do nothing else, and asserted by tests of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from farlane.frontend.devtools.guest import Guest
from farlane.frontend.devtools.programs import Build, compile_program
from farlane.frontend.devtools.toolchain import Toolchain
from farlane.frontend.embedded import EmbeddedHost
from ports import free_port

pytestmark = pytest.mark.native

PROGRAMS = Path(__file__).parent / "programs"
SOURCE = PROGRAMS / "round_trips.cu"
HANDSHAKE = 1


@dataclass(frozen=True)
class Row:
    """One scenario: round trips beyond the handshake in mode calls, and in mode none beyond what `opens` costs there.

    Args:
        opens: whether the scenario uses the module's "kernel" or its "variable", which the first use opens.
    """

    name: str
    calls: int
    none: int
    opens: str = ""


ROWS = [
    # Any run of deferred calls, then one synchronize.
    Row("one_launch", 1, 1 + 1 + 1, "kernel"),
    Row("many_launches", 1, 1 + 10_000 + 1, "kernel"),
    Row("mixed", 1, 2 + 500 * 5 + 1, "kernel"),
    # Allocate, free, memset, stream or event create/destroy/record, launch, copy to device.
    Row("nothing", 0, 0),
    Row("allocate_and_free", 0, 2 * 51 + 2 + 2),
    Row("sets", 0, 1 + 3),
    Row("copies_to_the_device", 0, 1 + 4 + 1 + 1, "variable"),
    Row("streams_and_events", 0, 3 + 1 + 2 + 1 + 1 + 3, "kernel"),
    # Properties, attributes, memory info, occupancy, last error: answered in the guest.
    Row("queries", 0, 1),
    Row("pinned_memory", 0, 0),
    Row("refused", 0, 2),
    # Synchronize with work pending / idle.
    Row("idle", 0, 3),
    Row("synchronize_twice", 1, 1 + 3 + 1, "kernel"),
    Row("synchronize_a_stream", 1, 3 + 5 + 1, "kernel"),
    Row("synchronize_two_streams", 2, 3 + 10 + 2, "kernel"),
    Row("synchronize_behind_the_default_stream", 1, 2 + 2 + 1, "kernel"),
    Row("synchronize_an_event", 1, 4 + 2 + 1 + 1, "kernel"),
    Row("events_of_a_synchronized_stream", 1, 2 + 2 + 1 + 1, "kernel"),
    Row("elapsed_time", 2, 3 + 1 + 3 + 2 + 2, "kernel"),
    Row("threads", 4, 4 * (2 + 50 + 1), "kernel"),
    Row("reset", 2, 2 + 3 + 1 + 1 + 1 + 3 + 1, "kernel"),
    Row("host_functions", 1, 1 + 2 + 1, "kernel"),
    # Copy to host.
    Row("copy_4_bytes", 1, 1 + 2 + 1, "kernel"),
    Row("copy_5_mib", 1, 1 + 2 + 1, "kernel"),
    Row("copy_rows", 1, 1 + 1 + 1),
    Row("copy_a_box", 1, 1 + 1 + 6),
    Row("copy_a_variable", 1, 1 + 1, "variable"),
    Row("copies_to_pinned_memory", 1 + 1 + 1 + 1, 3 + 20 + 6),
    Row("copies_wait_for_streams", 2, 3 + 2 + 2, "kernel"),
]
# In mode none: the module and the kernel or variable in it are opened together.
OPENING = {"": 0, "kernel": 1, "variable": 1}


@pytest.fixture(scope="module")
def program(toolchain: Callable[[str], Toolchain]) -> str:
    return str(compile_program(toolchain("13.0"), [SOURCE], "round_trips", Build()))


@pytest.fixture(scope="module", params=["null-unix", "null-tcp", "sim-unix", "sim-tcp"])
def known(request: pytest.FixtureRequest, program: str) -> Iterator[Guest]:
    """A guest of a host that holds the program's module already."""
    device, transport = request.param.split("-")
    tcp = f"grpc://127.0.0.1:{free_port()}"
    with EmbeddedHost(device, extra=("--listen", tcp)) as host:
        guest = Guest(host.url if transport == "unix" else tcp)
        assert guest.run([program, "first_kernel"]).stdout == "PASS\n"
        yield guest


def round_trips(guest: Guest, program: str, scenario: str, mode: str) -> int:
    outcome = guest.run([program, scenario], mode)
    assert (outcome.status, outcome.stdout) == (0, "PASS\n"), outcome.stdout + outcome.stderr
    assert outcome.report.processes == 1
    return outcome.report.round_trips


@pytest.mark.parametrize("mode", ["calls", "loops", "none"])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_row(row: Row, mode: str, program: str, known: Guest) -> None:
    expected = row.none + OPENING[row.opens] if mode == "none" else row.calls
    assert round_trips(known, program, row.name, mode) == HANDSHAKE + expected


@pytest.fixture(scope="module")
def null_guest() -> Iterator[Guest]:
    with EmbeddedHost("null") as host:
        yield Guest(host.url)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_row_of_cuda_12(row: Row, toolchain: Callable[[str], Toolchain], null_guest: Guest) -> None:
    """The older launch convention, and the older library."""
    program = str(compile_program(toolchain("clang-12.9"), [SOURCE], "round_trips", Build()))
    assert round_trips(null_guest, program, row.name, "calls") == HANDSHAKE + row.calls


# The per-thread default stream does not wait for the others, nor they for it.
PER_THREAD = {"copies_wait_for_streams": 3, "synchronize_behind_the_default_stream": 2}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_row_of_the_per_thread_default_stream(
    row: Row, toolchain: Callable[[str], Toolchain], null_guest: Guest
) -> None:
    build = Build(nvcc_flags=("--default-stream", "per-thread"))
    program = str(compile_program(toolchain("13.0"), [SOURCE], "round_trips", build))
    assert round_trips(null_guest, program, row.name, "calls") == HANDSHAKE + PER_THREAD.get(row.name, row.calls)


@pytest.mark.parametrize("device", ["null", "sim"])
def test_start_to_first_kernel(device: str, program: str) -> None:
    """One round trip, whether the host knows the module (the handshake told so) or not (it is sent unasked)."""
    with EmbeddedHost(device) as host:
        guest = Guest(host.url)
        assert [round_trips(guest, program, "first_kernel", "calls") for _ in range(2)] == [1, 1]


def test_a_known_module_is_not_sent_again(program: str) -> None:
    with EmbeddedHost("null") as host:
        guest = Guest(host.url)
        sent = [guest.run([program, "first_kernel"]).report.bytes_up for _ in range(2)]
    assert sent[0] > 700 > 512 > sent[1]


def test_a_large_image_that_comes_late_is_asked_for(toolchain: Callable[[str], Toolchain]) -> None:
    """One round trip more, and the image is sent to a host once only."""
    nvcc = toolchain("13.0")
    late = Build(architecture="compute_75", nvcc_flags=("--compress-mode=none",), shared_object=True)
    library = compile_program(nvcc, [PROGRAMS / "large_image_library.cu"], "large_image.so", late)
    command = [str(compile_program(nvcc, [PROGRAMS / "large_image.cu"], "large_image", Build())), str(library)]
    with EmbeddedHost("sim") as host:
        outcomes = [Guest(host.url).run(command) for _ in range(2)]
    assert [(o.status, o.stdout) for o in outcomes] == [(0, "113\n")] * 2, outcomes[0].stderr
    assert [o.report.round_trips for o in outcomes] == [HANDSHAKE + 1 + 1] * 2
    assert outcomes[0].report.bytes_up > (512 << 10) > (4 << 10) > outcomes[1].report.bytes_up


def test_of_a_fat_binary_the_host_gets_what_its_device_runs(toolchain: Callable[[str], Toolchain]) -> None:
    """The same PTX beside code for other architectures is the same image: a host that has it is not sent it again."""
    nvcc = toolchain("13.0")
    others = ("-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90a,code=[sm_90a,compute_90a]")
    libraries = [
        compile_program(
            nvcc,
            [PROGRAMS / "large_image_library.cu"],
            f"fat_{len(more)}.so",
            Build(architecture="compute_75", nvcc_flags=("--compress-mode=none", *more), shared_object=True),
        )
        for more in ((), others)
    ]
    program = str(compile_program(nvcc, [PROGRAMS / "large_image.cu"], "large_image", Build()))
    with EmbeddedHost("sim") as host:
        outcomes = [Guest(host.url).run([program, str(library)]) for library in libraries]
    assert [(o.status, o.stdout) for o in outcomes] == [(0, "113\n")] * 2, outcomes[0].stderr
    alone, among_others = (library.stat().st_size for library in libraries)
    assert among_others > 2 * alone
    assert outcomes[0].report.bytes_up > (512 << 10) > (4 << 10) > outcomes[1].report.bytes_up
