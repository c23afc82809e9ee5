"""A bad access ends the launch with a fault that says what, where and who; it never reaches memory it should not."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from farlane.backend import jit
from farlane.backend.jit.runtime import structures
from jit_tools.device import TinyDevice
from jit_tools.instructions import HEADER


def load(device: TinyDevice, body: str) -> jit.Module:
    return device.load(f"""{HEADER}
.visible .entry k(.param .u64 p)
{{
.reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<8>; .shared .align 4 .b8 s[64]; .local .align 4 .b8 l[32];
mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [p]; mul.wide.u32 %rd1, %r0, 4; add.s64 %rd2, %rd0, %rd1;
{body}
ret;
}}
""")


ACCESSES = {
    "load": ("ld.global.u32 %r1, [%rd2]; st.shared.u32 [s], %r1;", 4, 0),
    "store": ("st.global.u32 [%rd2], %r0;", 4, 1),
    "uniform load": ("ld.global.u32 %r1, [%rd0+4096]; st.shared.u32 [s], %r1;", 4, 0),
    "generic": ("st.u32 [%rd2], %r0;", 4, 1),
    "atomic": ("red.global.add.u32 [%rd2], %r0;", 4, 1),
    "vector": ("mul.wide.u32 %rd1, %r0, 16; add.s64 %rd2, %rd0, %rd1; ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd2]; st.shared.u32 [s], %r1;", 16, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", ACCESSES)
def test_one_page_and_no_further(device: TinyDevice, name: str) -> None:
    """1024 threads of 4 bytes fill a page; the 1025th byte range belongs to nobody."""
    body, size, write = ACCESSES[name]
    module = load(device, body)
    page = device.allocate(4096)
    fitting = 4096 // size if "uniform" not in name else 0
    if fitting:
        assert device.launch(module, "k", 1, min(fitting, 1024), [page]) == jit.STATUS_DONE
    start = page + (4096 - 40 * size if fitting else 0)
    assert device.launch(module, "k", 1, 64, [start]) == jit.STATUS_FAULT
    fault = device.fault
    assert (fault.kind, fault.size, fault.write) == (jit.FaultKind.ILLEGAL_ADDRESS, size, write)
    assert fault.address == page + 4096
    assert list(fault.block) == [0, 0, 0]
    assert list(fault.thread) == [40 if fitting else 0, 0, 0]
    assert 6 < fault.line < 12


@pytest.mark.parametrize("address", [0, 8, 0x1000, 1 << 63, (1 << 64) - 4, 0x7FFF_FFFF_F000, jit.GENERIC_WINDOWS_END])
@pytest.mark.parametrize(
    "access",
    ["ld.global.u32 %r1, [%rd2];", "ld.u32 %r1, [%rd2];", "st.global.u32 [%rd0], 1;", "atom.add.u32 %r1, [%rd2], 1;"],
)
def test_wild_addresses(device: TinyDevice, address: int, access: str) -> None:
    module = load(device, access + " st.shared.u32 [s], %r1;")
    assert device.launch(module, "k", 2, 64, [address], threads=2) == jit.STATUS_FAULT
    assert device.fault.kind == jit.FaultKind.ILLEGAL_ADDRESS


def test_host_memory_is_out_of_reach(device: TinyDevice) -> None:
    secret = ctypes.create_string_buffer(b"x" * 4096)
    module = load(device, "st.global.u32 [%rd2], %r0;")
    assert device.launch(module, "k", 1, 32, [ctypes.addressof(secret)]) == jit.STATUS_FAULT
    assert secret.raw[:4096] == b"x" * 4096


def test_read_only_pages(device: TinyDevice) -> None:
    page = device.allocate(4096, jit.PAGE_READABLE)
    assert (
        device.launch(load(device, "ld.global.u32 %r1, [%rd2]; st.shared.u32 [s], %r1;"), "k", 1, 32, [page])
        == jit.STATUS_DONE
    )
    assert device.launch(load(device, "st.global.u32 [%rd2], %r0;"), "k", 1, 32, [page]) == jit.STATUS_FAULT
    assert device.fault.write == 1


def test_runs_of_pages_are_found(device: TinyDevice) -> None:
    """A latch covers a whole allocation; the gaps round it stay closed."""
    pages = device.allocate(16 * 4096)
    other = device.allocate(4096)
    module = load(device, "mul.wide.u32 %rd1, %r0, 4096; add.s64 %rd2, %rd0, %rd1; st.global.u32 [%rd2], %r0;")
    assert device.launch(module, "k", 1, 16, [pages]) == jit.STATUS_DONE
    assert device.launch(module, "k", 1, 17, [pages]) == jit.STATUS_FAULT
    assert device.fault.address == pages + 16 * 4096
    assert device.download(other, "u4", 1)[0] == 0


@pytest.mark.parametrize("bad", [None, (0, "hole"), (13, "hole"), (31, "hole"), (6, "askew"), (7, "askew")])
def test_lanes_in_several_runs(device: TinyDevice, bad: tuple[int, str] | None) -> None:
    """A lane that is checked stands for those in the same run of pages, and for no other: the one that is wrong is found among them."""
    module = load(
        device,
        "add.s64 %rd2, %rd2, %rd1; ld.global.u64 %rd3, [%rd2]; ld.global.u32 %r1, [%rd3]; st.global.u32 [%rd2+256], %r1;",
    )
    values = np.arange(3 * 1024, dtype="u4").reshape(3, 1024) * 7
    runs = [device.upload(row) for row in values]  # with gaps between them
    order = [(lane * 5 % 3, lane * 37 % 1024) for lane in range(32)]
    addresses = [runs[run] + 4 * at for run, at in order]
    if bad is not None:
        lane, how = bad
        addresses[lane] = runs[order[lane][0]] + 4096 if how == "hole" else addresses[lane] + 2
    table = device.upload(np.array(addresses, dtype="u8"))
    status = device.launch(module, "k", 1, 32, [table])
    if bad is None:
        assert status == jit.STATUS_DONE
        found = device.download(table + 256, "u4", 64)[::2]
        assert found.tolist() == [values[run, at] for run, at in order]
        return
    kind = jit.FaultKind.ILLEGAL_ADDRESS if bad[1] == "hole" else jit.FaultKind.MISALIGNED_ADDRESS
    assert status == jit.STATUS_FAULT
    assert (device.fault.kind, device.fault.address, device.fault.thread[0]) == (kind, addresses[bad[0]], bad[0])


@pytest.mark.parametrize("access", ["ld.global.u32 %r1, [%rd2+2];", "ld.u32 %r1, [%rd2+1];", "ld.shared.u32 %r1, [s+2];", "ld.local.u32 %r1, [l+1];",
                                    "ld.global.v2.u32 {%r1, %r2}, [%rd0+4];"])  # fmt: skip
def test_misaligned(device: TinyDevice, access: str) -> None:
    module = load(device, access + " st.shared.u32 [s], %r1;")
    assert device.launch(module, "k", 1, 32, [device.allocate(4096)]) == jit.STATUS_FAULT
    assert device.fault.kind == jit.FaultKind.MISALIGNED_ADDRESS


@pytest.mark.parametrize(("access", "address"), [
    ("st.shared.u32 [s+64], %r0;", structures.SHARED_WINDOW + 64), ("ld.shared.u32 %r1, [s+-4];", structures.SHARED_WINDOW + 0xFFFF_FFFC),
    ("st.local.u32 [l+1024], %r0;", structures.LOCAL_WINDOW + 1024), ("mov.u32 %r2, s; mad.lo.u32 %r2, %r0, 4, %r2; st.shared.u32 [%r2], %r0;", structures.SHARED_WINDOW + 64),
    ("mov.u64 %rd3, s; cvta.shared.u64 %rd3, %rd3; st.u32 [%rd3+64], %r0;", structures.SHARED_WINDOW + 64),
    ("mov.u64 %rd3, l; cvta.local.u64 %rd3, %rd3; add.s64 %rd3, %rd3, 4000; ld.u32 %r1, [%rd3];", structures.LOCAL_WINDOW + 4000),
])  # fmt: skip
def test_outside_of_shared_and_local(device: TinyDevice, access: str, address: int) -> None:
    module = load(device, access + " st.shared.u32 [s], %r1;")
    assert device.launch(module, "k", 1, 32, [0]) == jit.STATUS_FAULT
    assert device.fault.kind == jit.FaultKind.ILLEGAL_ADDRESS
    assert device.fault.address == address


def test_inactive_lanes_are_not_checked(device: TinyDevice) -> None:
    module = load(
        device,
        "setp.lt.u32 %p0, %r0, 3; @%p0 st.global.u32 [%rd2], %r0; @!%p0 bra E; ld.global.u32 %r1, [%rd2]; st.global.u32 [%rd2+4], %r1; E:",
    )
    page = device.allocate(4096)
    assert device.launch(module, "k", 1, 64, [page + 4096 - 16]) == jit.STATUS_DONE


def test_trap_and_assert(device: TinyDevice) -> None:
    module = load(device, "setp.eq.u32 %p0, %r0, 37; @%p0 trap;")
    assert device.launch(module, "k", (3, 2), (20, 3), [0]) == jit.STATUS_DONE
    assert device.launch(module, "k", (3, 2), (40, 3), [0]) == jit.STATUS_FAULT
    assert device.fault.kind == jit.FaultKind.TRAP
    assert list(device.fault.thread) == [37, 0, 0]


def test_a_fault_stops_other_workers(device: TinyDevice) -> None:
    module = load(device, "mov.u32 %r1, %ctaid.x; setp.eq.u32 %p0, %r1, 1; @%p0 trap; L: bra L;")
    assert device.launch(module, "k", 2, 32, [0], threads=2) == jit.STATUS_FAULT
    assert device.fault.kind == jit.FaultKind.TRAP
    assert device.fault.block[0] == 1


def test_faults_with_barriers_leave_the_worker_usable(device: TinyDevice) -> None:
    module = load(device, "setp.eq.u32 %p0, %r0, 100; bar.sync 0; @%p0 trap; bar.sync 0; st.global.u32 [%rd2], %r0;")
    page = device.allocate(4096)
    for _ in range(3):
        assert device.launch(module, "k", 4, 128, [page]) == jit.STATUS_FAULT
        assert device.launch(module, "k", 4, 96, [page]) == jit.STATUS_DONE
    assert np.array_equal(device.download(page, "u4", 96), np.arange(96))


@pytest.mark.parametrize(
    ("name", "window", "size"), [("s", structures.SHARED_WINDOW, 64), ("l", structures.LOCAL_WINDOW, 32)]
)
@pytest.mark.parametrize(("wrong", "kind"), [(0, "ILLEGAL_ADDRESS"), (1, "MISALIGNED_ADDRESS")])
def test_one_lane_of_a_vector_of_generic_addresses(
    device: TinyDevice, name: str, window: int, size: int, wrong: int, kind: str
) -> None:
    """Lane 5 is at the end, or beside a word; lanes 9 and above, which take no part, hold what may not be accessed."""
    space = "shared" if name == "s" else "local"
    code = f"""
    mov.u64 %rd3, {name}; cvta.{space}.u64 %rd3, %rd3; and.b32 %r1, %r0, 3; mul.wide.u32 %rd4, %r1, 4; add.u64 %rd4, %rd3, %rd4;
    setp.gt.u32 %p1, %r0, 8; @%p1 mov.u64 %rd4, 1; setp.eq.u32 %p0, %r0, 5; @%p0 add.u64 %rd4, %rd3, {{}};
    @!%p1 st.u32 [%rd4], %r0;
    """
    right = load(device, code.format(size - 4) + " st.shared.u32 [s], %r1;")
    assert device.launch(right, "k", 1, 32, [0]) == jit.STATUS_DONE
    at = 6 if wrong else size
    module = load(device, code.format(at) + " st.shared.u32 [s], %r1;")
    assert device.launch(module, "k", 1, 32, [0]) == jit.STATUS_FAULT
    assert device.fault.kind == getattr(jit.FaultKind, kind)
    assert device.fault.address == window + at
    assert device.fault.thread[0] == 5
