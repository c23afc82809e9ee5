"""Device contract: modules, variables, launches, and what faults do."""

from __future__ import annotations

import contextlib
import struct
import threading
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from farlane.backend.device.base import CudaError, LaunchShape, Rows
from waiting import eventually

IMAGE = b"""
.version 7.5
.target sm_75
.address_size 64

.visible .global .align 4 .u32 counter = 41;
.visible .const .align 4 .b8 table[16] = {1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0};
.extern .shared .align 4 .b8 dynamic[];

// out[i] = i * factor for i < n
.visible .entry ramp(.param .u64 out, .param .u32 n, .param .u32 factor)
{
    .reg .pred %p<2>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [n];
    ld.param.u32 %r2, [factor];
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    mov.u32 %r5, %tid.x;
    mad.lo.s32 %r6, %r3, %r4, %r5;
    setp.ge.u32 %p1, %r6, %r1;
    @%p1 bra DONE;
    mul.lo.s32 %r7, %r6, %r2;
    mul.wide.u32 %rd2, %r6, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r7;
DONE:
    ret;
}

// out = the parameters, as they came, with all the alignments
.visible .entry mixed(.param .u8 a, .param .u64 out, .param .u16 b, .param .u32 c)
{
    .reg .b16 %rs<3>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<2>;
    ld.param.u8 %rs1, [a];
    ld.param.u64 %rd1, [out];
    ld.param.u16 %rs2, [b];
    ld.param.u32 %r3, [c];
    cvt.u32.u16 %r1, %rs1;
    cvt.u32.u16 %r2, %rs2;
    st.global.u32 [%rd1], %r1;
    st.global.u32 [%rd1+4], %r2;
    st.global.u32 [%rd1+8], %r3;
    ret;
}

// out[block] counts one for each thread of the block, in three dimensions; in[0] += 1 for each thread of the grid
.visible .entry census(.param .u64 out, .param .u64 total)
{
    .reg .b32 %r<10>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [out];
    ld.param.u64 %rd4, [total];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ctaid.y;
    mov.u32 %r3, %ctaid.z;
    mov.u32 %r4, %nctaid.x;
    mov.u32 %r5, %nctaid.y;
    mad.lo.s32 %r6, %r3, %r5, %r2;
    mad.lo.s32 %r7, %r6, %r4, %r1;
    mul.wide.u32 %rd2, %r7, 4;
    add.s64 %rd3, %rd1, %rd2;
    atom.global.add.u32 %r8, [%rd3], 1;
    atom.global.add.u32 %r9, [%rd4], 1;
    ret;
}

// out[i] = in[n - 1 - i], through dynamic shared memory and a barrier
.visible .entry reverse(.param .u64 data)
{
    .reg .b32 %r<8>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [data];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ntid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.u32 %r3, [%rd3];
    mov.u32 %r4, dynamic;
    shl.b32 %r5, %r1, 2;
    add.s32 %r6, %r4, %r5;
    st.shared.u32 [%r6], %r3;
    bar.sync 0;
    sub.s32 %r7, %r2, %r1;
    add.s32 %r7, %r7, -1;
    shl.b32 %r7, %r7, 2;
    add.s32 %r7, %r4, %r7;
    ld.shared.u32 %r3, [%r7];
    st.global.u32 [%rd3], %r3;
    ret;
}

// counter += table[2]; out = counter
.visible .entry count(.param .u64 out)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [out];
    ld.const.u32 %r1, [table+8];
    ld.global.u32 %r2, [counter];
    add.s32 %r3, %r1, %r2;
    st.global.u32 [counter], %r3;
    st.global.u32 [%rd1], %r3;
    ret;
}

// writes 4 bytes at an address
.visible .entry poke(.param .u64 address)
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [address];
    mov.u32 %r1, 7;
    st.global.u32 [%rd1], %r1;
    ret;
}

// until somebody writes there
.visible .entry spin(.param .u64 flag)
{
    .reg .pred %p<2>;
    .reg .b32 %r<2>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [flag];
AGAIN:
    ld.volatile.global.u32 %r1, [%rd1];
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra AGAIN;
    ret;
}

.visible .entry crash()
{
    trap;
    ret;
}
"""


def words(data: bytes) -> list[int]:
    return list(struct.unpack(f"<{len(data) // 4}I", data))


def fails(code: int, call: Callable[..., Any], *arguments: Any, sticky: bool = False, **keywords: Any) -> None:
    with pytest.raises(CudaError) as caught:
        call(*arguments, **keywords)
    assert (caught.value.code, caught.value.sticky) == (code, sticky)


class TestModules:
    def test_the_same_image_twice_is_two_modules(self, subject: Any) -> None:
        first, second = subject.context.load_module(IMAGE), subject.context.load_module(IMAGE)
        assert subject.context.variable(first, "counter")[0] != subject.context.variable(second, "counter")[0]
        subject.context.unload_module(first)
        subject.context.function(second, "ramp")

    @pytest.mark.needs("images")
    def test_unknown_names(self, subject: Any) -> None:
        module = subject.module(IMAGE)
        fails(subject.code(98), subject.context.function, module, "no_such_kernel")
        fails(subject.code(98), subject.context.function, module, "counter")
        fails(subject.code(13), subject.context.variable, module, "no_such_variable")

    @pytest.mark.needs("images")
    @pytest.mark.parametrize("image", [b"\0", b"nonsense", b"\x50\xed\x55\xba\x01\x00\x10\x00" + bytes(8)])
    def test_images_that_cannot_run(self, subject: Any, image: bytes) -> None:
        with pytest.raises(CudaError) as caught:
            subject.context.load_module(image)
        assert caught.value.code in (200, 209, 218)
        assert not caught.value.sticky
        subject.context.load_module(IMAGE)

    @pytest.mark.needs("sizes")
    def test_sizes_of_variables(self, subject: Any) -> None:
        module = subject.module(IMAGE)
        assert [subject.context.variable(module, name)[1] for name in ("counter", "table")] == [4, 16]

    def test_a_variable_can_be_copied_to_and_from(self, subject: Any) -> None:
        address, _ = subject.context.variable(subject.module(IMAGE), "table")
        subject.write(address + 4, b"abcd")
        assert len(subject.read(address, 16)) == 16

    @pytest.mark.needs("content", "images")
    def test_initial_values(self, subject: Any) -> None:
        module = subject.module(IMAGE)
        assert words(subject.read(subject.context.variable(module, "counter")[0], 4)) == [41]
        assert words(subject.read(subject.context.variable(module, "table")[0], 16)) == [1, 2, 3, 4]


@pytest.mark.needs("kernels")
class TestLaunches:
    @pytest.mark.parametrize(("grid", "block"), [(1, 1), (1, 100), (4, 32), (7, 64), (1000, 256)])
    def test_every_thread_runs_once(self, subject: Any, grid: int, block: int) -> None:
        count = grid * block
        address = subject.allocate(4 * count)
        for factor in (3, 5):
            parameters = struct.pack("<QII", address, count, factor)
            subject.launch(IMAGE, "ramp", parameters, (grid, 1, 1), (block, 1, 1))
            assert words(subject.read(address, 4 * count)) == [index * factor for index in range(count)]

    def test_in_the_order_of_the_stream(self, subject: Any) -> None:
        address = subject.allocate(4096)
        for factor in range(20):
            subject.launch(IMAGE, "ramp", struct.pack("<QII", address, 1024, factor), (8, 1, 1), (128, 1, 1))
        assert words(subject.read(address, 4096)) == [index * 19 for index in range(1024)]

    def test_parameters_of_all_sizes(self, subject: Any) -> None:
        address = subject.allocate(256)
        subject.launch(IMAGE, "mixed", struct.pack("<B7xQH2xI", 200, address, 60000, 0xDEADBEEF))
        assert words(subject.read(address, 12)) == [200, 60000, 0xDEADBEEF]

    def test_three_dimensions_and_atomics(self, subject: Any) -> None:
        out, total = subject.allocate(4 * 60), subject.allocate(4)
        for address, size in ((out, 240), (total, 4)):
            subject.write(address, bytes(size))
        subject.launch(IMAGE, "census", struct.pack("<QQ", out, total), (3, 4, 5), (4, 3, 2))
        assert words(subject.read(out, 240)) == [24] * 60
        assert words(subject.read(total, 4)) == [24 * 60]

    @pytest.mark.parametrize("block", [2, 31, 32, 33, 256, 1024])
    def test_dynamic_shared_memory_and_barriers(self, subject: Any, block: int) -> None:
        address = subject.allocate(4 * block)
        subject.write(address, struct.pack(f"<{block}I", *range(block)))
        subject.launch(IMAGE, "reverse", struct.pack("<Q", address), (1, 1, 1), (block, 1, 1), shared=4 * block)
        assert words(subject.read(address, 4 * block)) == list(range(block))[::-1]

    def test_variables(self, subject: Any) -> None:
        out = subject.allocate(4)
        subject.launch(IMAGE, "count", struct.pack("<Q", out))
        assert words(subject.read(out, 4)) == [44]
        module = subject.module(IMAGE)
        subject.write(subject.context.variable(module, "counter")[0], struct.pack("<I", 100))
        subject.write(subject.context.variable(module, "table")[0] + 8, struct.pack("<I", 5))
        subject.launch(IMAGE, "count", struct.pack("<Q", out))
        assert words(subject.read(out, 4)) == [105]

    def test_every_session_has_variables_of_its_own(self, new_subject: Callable[[], Any]) -> None:
        first, second = new_subject(), new_subject()
        for subject in (first, second):
            out = subject.allocate(4)
            subject.launch(IMAGE, "count", struct.pack("<Q", out))
            assert words(subject.read(out, 4)) == [44]

    def test_parameters_are_taken_at_once(self, subject: Any) -> None:
        address = subject.allocate(64)
        function = subject.context.function(subject.module(IMAGE), "ramp")
        parameters = bytearray(struct.pack("<QII", address, 16, 2))
        subject.context.launch(function, LaunchShape((1, 1, 1), (16, 1, 1), 0), memoryview(parameters), subject.stream)
        parameters[:] = bytes(16)
        assert words(subject.read(address, 64)) == [2 * index for index in range(16)]

    def test_through_a_larger_message(self, subject: Any) -> None:
        """The replay's own way of launching."""
        address = subject.allocate(64)
        function = subject.context.function(subject.module(IMAGE), "ramp")
        message = b"before" + struct.pack("<QII", address, 16, 3) + b"behind"
        shape = LaunchShape((1, 1, 1), (16, 1, 1), 0)
        subject.context.launch_from(function, shape, memoryview(message), 6, 22, subject.stream)
        assert words(subject.read(address, 64)) == [3 * index for index in range(16)]

    @pytest.mark.needs("time")
    def test_device_time_is_counted(self, subject: Any) -> None:
        address = subject.allocate(4 << 20)
        before = subject.context.device_nanoseconds
        subject.launch(IMAGE, "ramp", struct.pack("<QII", address, 1 << 20, 1), (4096, 1, 1), (256, 1, 1))
        subject.context.synchronize()
        assert subject.context.device_nanoseconds > before


@pytest.mark.needs("kernels")
class TestRefusedLaunches:
    """Refused at once, and nothing is lost."""

    def refused(self, subject: Any, codes: tuple[int, ...], *arguments: Any, **keywords: Any) -> None:
        address = subject.allocate(64)
        subject.write(address, b"intact..")
        with pytest.raises(CudaError) as caught:
            subject.launch(IMAGE, *arguments, **keywords)
        assert caught.value.code in codes
        assert not caught.value.sticky
        subject.context.synchronize()
        assert subject.read(address, 8) == b"intact.."

    @pytest.mark.parametrize(
        "size", [0, 8, 15, *(pytest.param(more, marks=pytest.mark.needs("exact")) for more in (17, 24))]
    )
    def test_wrong_size_of_parameters(self, subject: Any, size: int) -> None:
        self.refused(subject, (1,), "ramp", bytes(size))

    @pytest.mark.parametrize(
        ("grid", "block"), [((0, 1, 1), (1, 1, 1)), ((1, 1, 70000), (1, 1, 1)), ((1, 1, 1), (2000, 1, 1)),
                            ((1, 1, 1), (32, 33, 1)), ((1, 1, 1), (1, 1, 65)), ((1, 1, 1), (1, 0, 1))]
    )  # fmt: skip
    def test_impossible_shapes(self, subject: Any, grid: tuple[int, ...], block: tuple[int, ...]) -> None:
        self.refused(subject, (subject.code(9),), "ramp", bytes(16), grid, block)

    def test_too_much_shared_memory(self, subject: Any) -> None:
        self.refused(subject, (1,), "reverse", bytes(8), shared=(48 << 10) + 4)

    def test_more_shared_memory_on_demand(self, subject: Any) -> None:
        context = subject.context
        function = context.function(subject.module(IMAGE), "reverse")
        address = subject.allocate(128)
        shape = LaunchShape((1, 1, 1), (32, 1, 1), 96 << 10)
        parameters = memoryview(struct.pack("<Q", address))
        fails(1, context.launch, function, shape, parameters, subject.stream)
        context.set_function_attribute(function, 8, 96 << 10)
        context.launch(function, shape, parameters, subject.stream)
        context.synchronize()


@pytest.mark.ruins
@pytest.mark.needs("kernels")
class TestFaults:
    """A kernel's fault is sticky, and told by the launch or by the next synchronization."""

    def fault(self, subject: Any, code: int, name: str, parameters: bytes) -> None:
        def run() -> None:
            subject.launch(IMAGE, name, parameters)
            subject.context.synchronize()

        fails(code, run, sticky=True)

    @pytest.mark.parametrize("address", [0, 16, 2**47 - 4096, 2**62])
    def test_an_address_that_nobody_has(self, subject: Any, address: int) -> None:
        self.fault(subject, 700, "poke", struct.pack("<Q", address))

    @pytest.mark.needs("freed")
    def test_freed_memory(self, subject: Any) -> None:
        address = subject.allocate(4 << 20)
        subject.context.free(address)
        self.fault(subject, 700, "poke", struct.pack("<Q", address))

    @pytest.mark.needs("apart")
    def test_another_sessions_memory(self, new_subject: Callable[[], Any]) -> None:
        victim, intruder = new_subject(), new_subject()
        address = victim.allocate(4096)
        victim.write(address, b"victim")
        if address < intruder.context.window.base or address >= (
            intruder.context.window.base + intruder.context.window.size
        ):
            self.fault(intruder, 700, "poke", struct.pack("<Q", address))
        assert victim.read(address, 6) == b"victim"

    def test_misaligned(self, subject: Any) -> None:
        address = subject.allocate(4096)
        self.fault(subject, 716, "poke", struct.pack("<Q", address + 2))

    def test_trap(self, subject: Any) -> None:
        self.fault(subject, 719, "crash", b"")

    @pytest.mark.needs("recovers")
    def test_reset_makes_it_good_again(self, subject: Any) -> None:
        self.fault(subject, 700, "poke", struct.pack("<Q", 16))
        subject.context.reset()
        subject.modules.clear()
        subject.stream = subject.context.default_stream(1)
        address = subject.allocate(64)
        subject.launch(IMAGE, "ramp", struct.pack("<QII", address, 16, 1), (1, 1, 1), (16, 1, 1))
        assert words(subject.read(address, 64)) == list(range(16))

    @pytest.mark.needs("apart")
    def test_it_is_this_sessions_alone(self, new_subject: Callable[[], Any]) -> None:
        faulty, other = new_subject(), new_subject()
        address = other.allocate(64)
        other.module(IMAGE)
        self.fault(faulty, 700, "poke", struct.pack("<Q", 16))
        other.launch(IMAGE, "ramp", struct.pack("<QII", address, 16, 1), (1, 1, 1), (16, 1, 1))
        other.context.set(Rows(address, 4, 4, 1), 9, 1, other.stream)
        assert words(other.read(address, 8)) == [0x09090909, 1]


@pytest.mark.needs("kernels", "interrupt")
def test_a_kernel_that_does_not_end_is_interrupted(opener: Any, new_subject: Callable[[], Any]) -> None:
    """Its guest has gone: the kernel ends, the session's resources come back, other sessions go on."""
    subject, other = new_subject(), new_subject()
    flag = subject.allocate(4)
    subject.write(flag, bytes(4))
    subject.module(IMAGE)

    def run() -> None:
        with contextlib.suppress(CudaError, grpc.RpcError):
            subject.launch(IMAGE, "spin", struct.pack("<Q", flag))
            subject.context.synchronize()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(0.5)
    assert thread.is_alive(), "the kernel ended by itself"
    address = other.allocate(64)
    other.launch(IMAGE, "ramp", struct.pack("<QII", address, 16, 1), (1, 1, 1), (16, 1, 1))
    subject.context.interrupt()
    thread.join(30)
    assert not thread.is_alive()
    eventually(lambda: opener.host is None or opener.host.sessions <= 1)
    assert words(other.read(address, 64)) == list(range(16))
