"""The device runtime from kernels' side: printing from parted lanes, on fibers and in functions, assertions, bad pointers."""

from __future__ import annotations

import pytest
from farlane.backend.device.base import CudaError, LaunchShape
from farlane.backend.device.sim import SimDevice
from farlane.backend.device.sim.context import SimContext
from sim_program import Program, pack


def text_of(name: str, content: bytes) -> str:
    data = ", ".join(str(byte) for byte in (*content, 0))
    return f".global .align 1 .b8 {name}[{len(content) + 1}] = {{{data}}};\n"


HEAD = """.version 9.0
.target sm_75
.address_size 64
.extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);
.extern .func __assertfail (.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);
"""
HEAD += """.extern .func (.param .b64 r) malloc (.param .b64 a);
.extern .func free (.param .b64 a);
"""
TEXTS = (
    text_of("number", b"%d\n")
    + text_of("string", b"%s\n")
    + text_of("message", b"x > 0")
    + text_of("file", b"a.cu")
    + text_of("name", b"void k()")
)
REGISTERS = ".reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<12>; .local .align 8 .b8 depot[16];"


def printing(form: str, pointer: str = "%rd2") -> str:
    """A call of vprintf whose result goes to %r7."""
    return f"""{{ .param .b64 p0; .param .b64 p1; .param .b32 q; cvta.global.u64 %rd0, %rd0; mov.u64 %rd0, {form};
    st.param.b64 [p0], %rd0; st.param.b64 [p1], {pointer}; call (q), vprintf, (p0, p1); ld.param.b32 %r7, [q]; }}"""


DEPOT = "mov.u64 %rd1, depot; cvta.local.u64 %rd2, %rd1; mov.u32 %r0, %tid.x;"
MODULE = f"""{HEAD}{TEXTS}
.func say(.param .b32 value)
{{
{REGISTERS}
{DEPOT} ld.param.b32 %r1, [value]; st.local.u32 [depot], %r1;
{printing("number")}
ret;
}}
.visible .entry parted()
{{
{REGISTERS}
{DEPOT} st.local.u32 [depot], %r0; and.b32 %r1, %r0, 1; setp.eq.u32 %p0, %r1, 0;
@%p0 bra $even;
{printing("number")}
bra $join;
$even:
bar.warp.sync -1;
$join:
bar.sync 0;
setp.ne.u32 %p1, %r0, 0;
@%p1 bra $end;
{{ .param .b32 v; st.param.b32 [v], 100; call say, (v); }}
$end:
ret;
}}
.visible .entry count(.param .u64 out)
{{
{REGISTERS}
{DEPOT} ld.param.u64 %rd5, [out]; mov.u32 %r2, %ctaid.x; st.local.u32 [depot], %r2;
{printing("number")}
mul.wide.u32 %rd6, %r2, 4; add.u64 %rd5, %rd5, %rd6; st.global.u32 [%rd5], %r7;
ret;
}}
.visible .entry show(.param .u64 text)
{{
{REGISTERS}
{DEPOT} ld.param.u64 %rd5, [text]; st.local.u64 [depot], %rd5;
{printing("string")}
ret;
}}
.visible .entry wild(.param .u64 pointer)
{{
{REGISTERS}
ld.param.u64 %rd5, [pointer];
{printing("number", "%rd5")}
ret;
}}
.visible .entry no_format()
{{
{REGISTERS}
mov.u64 %rd5, 0;
{printing("0", "%rd5")}
setp.eq.s32 %p0, %r7, -1;
@%p0 bra $fine;
trap;
$fine:
ret;
}}
.visible .entry give_back(.param .u64 pointer)
{{
{REGISTERS}
ld.param.u64 %rd5, [pointer];
{{ .param .b64 p0; st.param.b64 [p0], %rd5; call free, (p0); }}
ret;
}}
.visible .entry take(.param .u64 out, .param .u64 size)
{{
{REGISTERS}
ld.param.u64 %rd5, [out]; ld.param.u64 %rd6, [size]; mov.u32 %r0, %tid.x; mul.wide.u32 %rd7, %r0, 8; add.u64 %rd5, %rd5, %rd7;
{{ .param .b64 p0; .param .b64 q; st.param.b64 [p0], %rd6; call (q), malloc, (p0); ld.param.b64 %rd8, [q]; }}
st.global.u64 [%rd5], %rd8;
setp.eq.u64 %p0, %rd8, 0;
@%p0 bra $none;
st.u64 [%rd8], %rd6;
$none:
ret;
}}
.visible .entry k(.param .u32 least)
{{
{REGISTERS}
mov.u32 %r0, %tid.x; ld.param.u32 %r1, [least]; setp.lt.u32 %p0, %r0, %r1;
@%p0 bra $fine;
{{ .param .b64 p0; .param .b64 p1; .param .b32 p2; .param .b64 p3; .param .b64 p4;
mov.u64 %rd0, message; st.param.b64 [p0], %rd0; mov.u64 %rd1, file; st.param.b64 [p1], %rd1; st.param.b32 [p2], 12;
mov.u64 %rd2, name; st.param.b64 [p3], %rd2; st.param.b64 [p4], 1; call __assertfail, (p0, p1, p2, p3, p4); }}
$fine:
ret;
}}
"""


def output(program: Program) -> bytes:
    printed, complaints = program.context.take_output()
    assert complaints == b""
    return printed


def failed(program: Program, kernel: str, parameters: bytes, **shape: object) -> CudaError:
    with pytest.raises(CudaError) as found:
        program.launch(kernel, parameters, **shape)  # type: ignore[arg-type]
    assert found.value.sticky
    return found.value


def test_parted_lanes_print_for_themselves_and_functions_print(program: Program) -> None:
    program.launch("parted", block=40)
    assert output(program) == b"".join(b"%d\n" % lane for lane in (*range(1, 40, 2), 100))
    assert output(program) == b""


def test_many_blocks_print_in_order_on_any_number_of_threads(program: Program) -> None:
    at = program.allocate(4 * 20000)
    program.launch("count", pack("Q", at), grid=20000)
    assert output(program) == b"".join(b"%d\n" % block for block in range(20000))
    assert program.read(at, 4 * 20000) == pack("I", 1) * 20000


def test_strings_are_read_as_the_thread_sees_them(program: Program) -> None:
    at = program.allocate(8192, bytes(4090) + b"across pages\0")
    program.launch("show", pack("Q", at + 4090))
    program.launch("show", pack("Q", 0))
    assert output(program) == b"across pages\n(null)\n"


@pytest.mark.parametrize("kernel", ["show", "wild"])
@pytest.mark.parametrize(
    "address",
    [8, 1 << 20, 0x100_0000_0000, 0x101_0000_0040, 0x102_0000_0040, 0x103_0000_0000, 0x104_0000_0000, (1 << 64) - 1],
)
def test_bad_pointers_are_illegal_addresses(program: Program, kernel: str, address: int) -> None:
    error = failed(program, kernel, pack("Q", address), block=3)
    assert (error.code, kernel in error.message) == (700, True)
    assert output(program) == b""


def test_a_string_that_runs_out_of_its_memory_is_an_illegal_address(program: Program) -> None:
    at = program.allocate(4096, b"x" * 4096)
    assert failed(program, "show", pack("Q", at)).code == 700


def test_a_null_format_is_answered_with_an_error(program: Program) -> None:
    program.launch("no_format", block=33)
    assert output(program) == b""


def test_a_kernel_without_services_gets_none(program: Program) -> None:
    function = program.context.function(program.module, "no_format")
    shape = LaunchShape((1, 1, 1), (1, 1, 1), 0)
    program.context.launch(function, shape, memoryview(b""), program.stream)
    assert function.prepared is not None
    function.prepared.launch.services = None
    error = failed(program, "no_format", b"")
    assert (error.code, "illegal instruction" in error.message) == (715, True)


def test_the_buffer_has_a_limit(program: Program) -> None:
    at = program.allocate(4 * 1000)
    program.context.set_limit(1, 100)
    program.launch("count", pack("Q", at), grid=1000)
    assert output(program) == b"".join(b"%d\n" % block for block in range(975, 1000))


def test_assertions_report_every_thread_and_are_sticky(program: Program) -> None:
    error = failed(program, "k", pack("I", 30), grid=1, block=32)
    assert error.code == 710
    assert program.context.take_output() == (
        b"",
        b"a.cu:12: void k(): block: [0,0,0], thread: [30,0,0] Assertion `x > 0` failed.\n"
        b"a.cu:12: void k(): block: [0,0,0], thread: [31,0,0] Assertion `x > 0` failed.\n",
    )


def test_assertions_name_block_and_thread(program: Program) -> None:
    failed(program, "k", pack("I", 0), block=(1, 2, 2))
    lines = program.context.take_output()[1].decode().splitlines()
    threads = ["[0,0,0]", "[0,1,0]", "[0,0,1]", "[0,1,1]"]
    assert lines == [
        f"a.cu:12: void k(): block: [0,0,0], thread: {thread} Assertion `x > 0` failed." for thread in threads
    ]


def test_what_was_printed_outlives_a_reset(program: Program) -> None:
    program.launch("parted", block=2)
    program.context.reset()
    assert output(program) == b"1\n100\n"


def addresses(program: Program, size: int, block: int) -> list[int]:
    at = program.allocate(8 * block)
    program.launch("take", pack("QQ", at, size), block=block)
    return [int.from_bytes(program.read(at + 8 * lane, 8), "little") for lane in range(block)]


def test_every_lane_gets_memory_of_its_own_that_is_freed_once(program: Program) -> None:
    blocks = addresses(program, 40, 40)
    assert len(set(blocks)) == 40
    for block in blocks:
        assert program.read(block, 8) == pack("Q", 40)
        program.launch("give_back", pack("Q", block))
    program.launch("give_back", pack("Q", 0))
    error = failed(program, "give_back", pack("Q", blocks[0]))
    assert (error.code, f"free of {blocks[0]:#x}, which device malloc did not return" in error.message) == (719, True)


def test_the_heap_has_a_limit_that_its_use_fixes(program: Program) -> None:
    program.context.set_limit(2, 1 << 16)
    assert [bool(block) for block in addresses(program, 40000, 2)] == [True, False]
    with pytest.raises(CudaError) as found:
        program.context.set_limit(2, 1 << 20)
    assert (found.value.code, found.value.sticky) == (1, False)
    program.context.reset()
    program.module = program.context.load_module(MODULE.encode())
    assert all(addresses(program, 1 << 20, 7))


def test_a_heap_larger_than_the_quota_is_empty(program: Program) -> None:
    program.context.set_limit(2, 1 << 40)
    assert addresses(program, 16, 2) == [0, 0]


def test_sessions_print_for_themselves(device: SimDevice, program: Program) -> None:
    other = Program(device)
    assert isinstance(other.context, SimContext)
    program.launch("parted", block=2)
    assert other.context.take_output() == (b"", b"")
    other.context.close()
    assert output(program) == b"1\n100\n"
