"""Physical memory at addresses: what every device that maps it does."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from farlane.backend.device.base import MAPPING_GRANULE as GRANULE
from farlane.backend.device.base import NO_ACCESS, READ, READ_WRITE, CudaError, Rows

pytestmark = pytest.mark.needs("mappings")
IMAGE = b"""
.version 7.5
.target sm_75
.address_size 64

// data[i] += 1 for i < n
.visible .entry increment(.param .u64 data, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [data];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r5, %r1;
    @%p1 bra DONE;
    mul.wide.u32 %rd2, %r5, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.u32 %r6, [%rd3];
    add.u32 %r7, %r6, 1;
    st.global.u32 [%rd3], %r7;
DONE:
    ret;
}
"""


@contextlib.contextmanager
def fails(code: int) -> Iterator[None]:
    with pytest.raises(CudaError) as caught:
        yield
    assert caught.value.code == code
    assert not caught.value.sticky


class Mappings:
    """Mappings of one context, in granules from an address in the middle of the window on."""

    def __init__(self, subject: Any) -> None:
        self.context = subject.context
        window = self.context.window
        self.base = window.base + window.size // 2 & -GRANULE

    def at(self, granule: int) -> int:
        address: int = self.base + granule * GRANULE
        return address

    def map(self, granule: int, memory: Any, granules: int = 1, offset: int = 0, access: int = READ_WRITE) -> int:
        address = self.at(granule)
        self.context.map_physical(address, memory, offset * GRANULE, granules * GRANULE)
        if access:
            self.context.set_access(address, granules * GRANULE, access)
        return address

    def unmap(self, granule: int, granules: int = 1) -> None:
        self.context.unmap_physical(self.at(granule), granules * GRANULE)


@pytest.fixture
def mappings(subject: Any) -> Mappings:
    return Mappings(subject)


def test_a_mapping_is_memory(subject: Any, mappings: Mappings) -> None:
    memory = subject.context.create_physical(2 * GRANULE)
    address = mappings.map(0, memory, 2)
    subject.write(address + GRANULE - 2, b"abcd")
    assert len(subject.read(address, 2 * GRANULE)) == 2 * GRANULE
    mappings.unmap(0, 2)
    with fails(1):
        subject.read(address, 1)
    subject.context.free_physical(memory)


@pytest.mark.needs("content")
def test_new_memory_reads_as_zero(subject: Any, mappings: Mappings) -> None:
    for _ in range(2):
        memory = subject.context.create_physical(GRANULE)
        address = mappings.map(0, memory)
        assert subject.read(address, GRANULE) == bytes(GRANULE)
        subject.context.set(Rows(address, GRANULE, GRANULE, 1), 0xAA, 1, subject.stream)
        mappings.unmap(0)
        subject.context.free_physical(memory)


@pytest.mark.needs("content")
def test_memory_at_two_addresses_is_one(subject: Any, mappings: Mappings) -> None:
    memory = subject.context.create_physical(GRANULE)
    first, second = mappings.map(0, memory), mappings.map(7, memory)
    subject.write(first + 100, b"through the first")
    assert subject.read(second + 100, 17) == b"through the first"
    subject.context.copy(Rows(second, 17, 17, 1), Rows(first + 100, 17, 17, 1), subject.stream)
    assert subject.read(first, 17) == b"through the first"
    mappings.unmap(0)
    assert subject.read(second, 17) == b"through the first"
    mappings.unmap(7)
    third = mappings.map(3, memory)
    assert subject.read(third, 17) == b"through the first"


@pytest.mark.needs("content", "parts")
def test_a_part_of_the_memory(subject: Any, mappings: Mappings) -> None:
    memory = subject.context.create_physical(3 * GRANULE)
    part = mappings.map(0, memory, 2)
    subject.write(part + GRANULE, b"second")
    mappings.unmap(0, 2)
    whole = mappings.map(0, memory, 3)
    assert subject.read(whole + GRANULE, 6) == b"second"


def test_copies_cross_from_one_mapping_to_the_next(subject: Any, mappings: Mappings) -> None:
    context = subject.context
    memories = [context.create_physical(GRANULE) for _ in range(3)]
    for number, granule in enumerate((0, 2, 1)):  # the one in the middle comes last
        mappings.map(granule, memories[number])
    data = bytes(range(256)) * 16
    start = mappings.at(1) - 2048
    subject.write(start, data)
    assert len(subject.read(mappings.at(0), 3 * GRANULE)) == 3 * GRANULE
    context.set(Rows(mappings.at(2) - 8, 16, 16, 1), 7, 1, subject.stream)
    context.set_access(mappings.at(1), GRANULE, NO_ACCESS)
    with fails(1):
        subject.read(start, 4096)
    assert len(subject.read(mappings.at(0), GRANULE)) == GRANULE
    context.set_access(mappings.at(1), GRANULE, READ_WRITE)
    assert len(subject.read(start, 4096)) == 4096
    mappings.unmap(1)
    for bad in (start, mappings.at(1), mappings.at(2) - 1):
        with fails(1):
            subject.read(bad, 4096)
    assert len(subject.read(mappings.at(2), GRANULE)) == GRANULE


def test_without_access_nothing_is_copied(subject: Any, mappings: Mappings) -> None:
    memory = subject.context.create_physical(GRANULE)
    address = mappings.map(0, memory, access=NO_ACCESS)
    with fails(1):
        subject.read(address, 4)
    with fails(1):
        subject.write(address, b"abcd")
    subject.context.set_access(address, GRANULE, READ)
    assert len(subject.read(address, 4)) == 4


def test_the_quota_counts_memory_once(subject: Any, mappings: Mappings) -> None:
    context = subject.context
    granules = context.quota // GRANULE
    memory = context.create_physical((granules - 2) * GRANULE)
    for copy in range(3):
        mappings.map(copy * granules, memory, granules - 2)
    subject.context.allocate(context.window.base, GRANULE)
    with fails(2):
        context.create_physical(2 * GRANULE)
    with fails(2):
        context.allocate(context.window.base + GRANULE, 2 * GRANULE)
    context.create_physical(GRANULE)


def test_a_mapping_over_an_allocation_is_refused(subject: Any, mappings: Mappings) -> None:
    context = subject.context
    memory = context.create_physical(GRANULE)
    context.allocate(mappings.at(0) + 256, 256)
    with fails(1):
        context.map_physical(mappings.at(0), memory, 0, GRANULE)
    mappings.map(1, memory)
    with fails(1):
        context.allocate(mappings.at(1) + 256, 256)
    with fails(1):
        context.free(mappings.at(1))


def test_a_reset_ends_it(subject: Any, mappings: Mappings) -> None:
    context = subject.context
    granules = context.quota // GRANULE
    address = mappings.map(0, context.create_physical(context.quota), granules)
    context.reset()
    subject.stream = context.default_stream(1)
    with fails(1):
        subject.read(address, 1)
    mappings.map(0, context.create_physical(context.quota), granules)


def test_closing_with_mappings(new_subject: Callable[[], Any]) -> None:
    one = new_subject()
    Mappings(one).map(0, one.context.create_physical(GRANULE))
    one.context.close()


@pytest.mark.needs("kernels")
def test_kernels_see_one_memory_at_two_addresses(subject: Any, mappings: Mappings) -> None:
    memory = subject.context.create_physical(GRANULE)
    first, second = mappings.map(0, memory), mappings.map(5, memory)
    subject.write(first, struct.pack("<256I", *range(256)))
    subject.launch(IMAGE, "increment", struct.pack("<QI", second, 256), (2, 1, 1), (128, 1, 1))
    assert struct.unpack("<256I", subject.read(first, 1024)) == tuple(value + 1 for value in range(256))


@pytest.mark.ruins
@pytest.mark.needs("kernels")
@pytest.mark.parametrize("access", [None, NO_ACCESS, READ])
def test_a_kernel_that_may_not_faults(subject: Any, mappings: Mappings, access: int | None) -> None:
    memory = subject.context.create_physical(2 * GRANULE)
    address = mappings.map(0, memory, 2)
    subject.launch(IMAGE, "increment", struct.pack("<QI", address, 4))
    if access is None:
        mappings.unmap(0, 2)
    else:
        subject.context.set_access(address, 2 * GRANULE, access)

    def faulting() -> None:
        subject.launch(IMAGE, "increment", struct.pack("<QI", address, 4))
        subject.context.synchronize()

    with pytest.raises(CudaError) as caught:
        faulting()
    assert (caught.value.code, caught.value.sticky) == (700, True)


def test_room_for_reservations(opener: Any, new_subject: Callable[[], Any]) -> None:
    """Addresses for 16 times the device's memory, beside twice the quota."""
    if opener.row.remote:
        pytest.skip("the device declines: its description is not at hand")
    context = new_subject().context
    assert context.window.size >= 16 * opener.device.describe().total_memory + 2 * context.quota
