"""Control flow: divergence, loops, barriers, calls, recursion, function pointers, switch tables.

The same random programs are run by a plain per-thread interpreter of their control flow in Python.
"""

from __future__ import annotations

import functools
import operator
import platform
import random

import numpy as np
import pytest
from farlane.backend import jit
from jit_tools.device import TinyDevice
from jit_tools.instructions import HEADER


def module_text(body: str, before: str = "", parameters: str = ".param .u64 out") -> str:
    return f"""{HEADER}{before}
    .visible .entry k({parameters})
    {{
    .reg .pred %p<16>; .reg .b32 %r<32>; .reg .b64 %rd<16>; .reg .f32 %f<8>;
    mov.u32 %r0, %tid.x; ld.param.u64 %rd0, [out]; mul.wide.u32 %rd1, %r0, 4; add.s64 %rd0, %rd0, %rd1;
    {body}
    }}
    """


def run(device: TinyDevice, text: str, block: int, options: jit.Options | None = None) -> np.ndarray:
    module = device.load(text)
    out = device.upload(np.full(block, 0xDEAD, "u4"))
    status = device.launch(module, "k", 1, block, [out], options=options)
    assert status == 0, (status, device.fault.kind, device.fault.line)
    return device.download(out, "u4", block)


OPTIONS = [jit.Options(cache=False), jit.Options(cache=False, dual=False)]
if platform.machine() == "x86_64":
    OPTIONS.append(jit.Options(cache=False, cpu="haswell", features=""))  # 256-bit vectors, no mask registers
NAMES = ["dual", "masked", "avx2"][: len(OPTIONS)]


@pytest.mark.parametrize("options", OPTIONS, ids=NAMES)
@pytest.mark.parametrize("block", [1, 32, 50])
def test_loops_left_at_different_iterations(device: TinyDevice, block: int, options: jit.Options) -> None:
    """The counter is uniform inside the loop and differs between lanes after it."""
    body = """
    mov.u32 %r1, 0; mov.u32 %r2, 0; rem.u32 %r3, %r0, 7;
    L: add.u32 %r2, %r2, %r1; shl.b32 %r5, %r1, 1; setp.eq.u32 %p0, %r1, %r3; @%p0 bra D; add.u32 %r1, %r1, 1; bra L;
    D: mad.lo.u32 %r4, %r2, 1000, %r1; mad.lo.u32 %r4, %r5, 1000000, %r4; st.global.u32 [%rd0], %r4; ret;
    """
    expected = [2 * (t % 7) * 1000000 + (t % 7) * (t % 7 + 1) // 2 * 1000 + t % 7 for t in range(block)]
    assert list(run(device, module_text(body), block, options)) == expected


@pytest.mark.parametrize("options", OPTIONS, ids=NAMES)
def test_continue_and_nested_loops(device: TinyDevice, options: jit.Options) -> None:
    body = """
    mov.u32 %r1, 0; mov.u32 %r2, 0;
    O: add.u32 %r1, %r1, 1; setp.gt.u32 %p0, %r1, 10; @%p0 bra E; and.b32 %r3, %r1, %r0; and.b32 %r3, %r3, 1; setp.ne.u32 %p1, %r3, 0; @%p1 bra O;
    mov.u32 %r4, 0;
    I: add.u32 %r2, %r2, %r4; add.u32 %r4, %r4, 1; setp.gt.u32 %p3, %r4, %r0; @%p3 bra O; setp.lt.u32 %p2, %r4, %r1; @%p2 bra I;
    bra O;
    E: st.global.u32 [%rd0], %r2; ret;
    """

    def thread(t: int) -> int:
        total = 0
        for outer in range(1, 11):
            if outer & t & 1:
                continue
            inner = 0
            while True:
                total += inner
                inner += 1
                if inner > t or inner >= outer:
                    break
        return total

    assert list(run(device, module_text(body), 40, options)) == [thread(t) for t in range(40)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(12))
def test_random_control_flow(device: TinyDevice, seed: int) -> None:
    """Random jumps, most of them divergent, many of the graphs with loops of several entries; a step counter ends every thread, and
    in the end the lanes meet."""
    generator = random.Random(seed)
    count = generator.randint(3, 12)
    lines, program = [], []
    for index in range(count):
        multiplier, modulus, limit = generator.randint(1, 9), generator.randint(2, 6), generator.randint(0, 4)
        source = generator.choice(["state", "thread", "steps"])
        yes, no = generator.randrange(count), min(index + 1, count - 1)
        program.append((multiplier, source, modulus, limit, yes, no, index))
        register = {"state": "%r1", "thread": "%r0", "steps": "%r2"}[source]
        lines.append(f"""
        B{index}: mad.lo.u32 %r1, %r1, {multiplier}, {index + 1}; add.u32 %r2, %r2, 1; add.u32 %r7, %r2, %r1;
        setp.gt.u32 %p0, %r2, 60; @%p0 bra END; rem.u32 %r3, {register}, {modulus}; setp.lt.u32 %p1, %r3, {limit}; @%p1 bra B{yes};
        {"bra B" + str(no) + ";" if no != index + 1 else ""}""")
    body = (
        "mov.u32 %r1, %r0; mov.u32 %r2, 0; "
        + "".join(lines)
        + "\nEND: xor.b32 %r4, %r1, %r2; add.u32 %r4, %r4, %r7; redux.sync.or.b32 %r8, %r4, -1; add.u32 %r4, %r4, %r8; st.global.u32 [%rd0], %r4; ret;"
    )

    def thread(t: int) -> int:
        state, steps, at, last = t, 0, 0, 0
        while True:
            multiplier, source, modulus, limit, yes, no, index = program[at]
            state = (state * multiplier + index + 1) & 0xFFFFFFFF
            steps += 1
            last = (steps + state) & 0xFFFFFFFF
            if steps > 60:
                return ((state ^ steps) + last) & 0xFFFFFFFF
            value = {"state": state, "thread": t, "steps": steps}[source]
            at = yes if value % modulus < limit else no

    alone = [thread(t) for t in range(64)]
    together = [functools.reduce(operator.or_, alone[t // 32 * 32 :][:32]) for t in range(64)]
    expected = [(one + all_of_warp) & 0xFFFFFFFF for one, all_of_warp in zip(alone, together, strict=True)]
    for options in OPTIONS:
        assert list(run(device, module_text(body), 64, options)) == expected


def test_early_exit_and_barriers(device: TinyDevice) -> None:
    """Threads that left do not hold up a barrier."""
    body = """
    .shared .align 4 .b8 s[512]; setp.ge.u32 %p0, %r0, 70; @%p0 bra END; mov.u32 %r1, s; shl.b32 %r2, %r0, 2; add.u32 %r1, %r1, %r2;
    st.shared.u32 [%r1], %r0; bar.sync 0; mov.u32 %r3, 69; sub.u32 %r3, %r3, %r0; shl.b32 %r3, %r3, 2; mov.u32 %r4, s; add.u32 %r3, %r3, %r4;
    ld.shared.u32 %r5, [%r3]; bar.sync 0; st.global.u32 [%rd0], %r5; END: ret;
    """
    result = run(device, module_text(body), 100)
    assert list(result[:70]) == [69 - t for t in range(70)]
    assert np.all(result[70:] == 0xDEAD)


@pytest.mark.parametrize("block", [64, 75])
def test_barriers_in_divergent_code(device: TinyDevice, block: int) -> None:
    """Both sides of a branch meet at different barrier instructions of the same number."""
    body = """
    .shared .align 4 .b8 s[512]; mov.u32 %r1, s; shl.b32 %r2, %r0, 2; add.u32 %r1, %r1, %r2; and.b32 %r3, %r0, 1; setp.eq.u32 %p0, %r3, 0;
    mov.u32 %r10, 0;
    @%p0 bra EVEN;
    st.shared.u32 [%r1], %r0; bar.sync 0; ld.shared.u32 %r5, [%r1+-4]; bra JOIN;
    EVEN: mul.lo.u32 %r4, %r0, 3; st.shared.u32 [%r1], %r4; bar.sync 0; ld.shared.u32 %r5, [s+4];
    JOIN: bar.sync 0; add.u32 %r10, %r10, %r5; setp.eq.u32 %p1, %r0, 0; @%p1 bar.sync 1, 32; @!%p1 bra SKIP; add.u32 %r10, %r10, 1000;
    SKIP: st.global.u32 [%rd0], %r10; ret;
    """.replace("@%p1 bar.sync 1, 32;", "")
    result = run(device, module_text(body), block)
    assert list(result) == [(3 * (t - 1) if t % 2 else 1) + (1000 if t == 0 else 0) for t in range(block)]


def test_values_made_in_front_of_a_barrier_that_lanes_reach_apart(device: TinyDevice) -> None:
    """What is made in the barrier's own block and told apart only behind it (by a phi), while other lanes run in between."""
    text = f"""{HEADER}
    .visible .entry k(.param .u64 out) {{ .reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %a<4>;
    ld.param.u64 %a0, [out]; mov.u32 %r0, %tid.x; mov.u32 %r1, 0; and.b32 %r2, %r0, 1; setp.eq.u32 %p0, %r2, 0; @%p0 bra EVEN;
    add.u32 %r1, %r0, 100; bar.sync 0; bra MEET;
    EVEN: bar.sync 0;
    MEET: mul.wide.u32 %a1, %r0, 4; add.u64 %a0, %a0, %a1; st.global.u32 [%a0], %r1; ret; }}"""
    out = device.upload(np.zeros(64, "u4"))
    assert device.launch(device.load(text), "k", 1, 64, [out]) == 0
    thread = np.arange(64)
    assert np.array_equal(device.download(out, "u4", 64), np.where(thread % 2, thread + 100, 0))


def test_barrier_reductions_and_named_barriers(device: TinyDevice) -> None:
    body = """
    setp.lt.u32 %p0, %r0, 10; bar.red.popc.u32 %r1, 0, %p0; bar.red.and.pred %p1, 0, %p0; bar.red.or.pred %p2, 0, !%p0;
    selp.u32 %r2, 100, 0, %p1; selp.u32 %r3, 1000, 0, %p2; add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r3;
    setp.lt.u32 %p3, %r0, 64; @%p3 bra FIRST; bar.sync 1, 64; bar.arrive 2, 128; bra JOIN;
    FIRST: barrier.sync 3, 64; bar.sync 2, 128;
    JOIN: bar.red.popc.u32 %r4, 0, %p3; mad.lo.u32 %r1, %r4, 10000, %r1; st.global.u32 [%rd0], %r1; ret;
    """
    assert np.all(run(device, module_text(body), 128) == 10 + 1000 + 640000)


def test_a_barriers_number_from_a_register_must_agree_within_a_warp(device: TinyDevice) -> None:
    """As unoptimized code has it: the number comes from memory, so that nothing proves it uniform."""
    body = """
    ld.global.u32 %r1, [%rd0]; mov.u32 %r2, 64; barrier.sync %r1, %r2; barrier.sync %r1; st.global.u32 [%rd0], %r0; ret;
    """
    module = device.load(module_text(body))
    agreed = device.upload(np.full(64, 3, "u4"))
    assert device.launch(module, "k", 1, 64, [agreed]) == jit.STATUS_DONE
    assert list(device.download(agreed, "u4", 64)) == list(range(64))
    differing = device.upload(np.arange(64, dtype="u4") % 2 + 1)
    assert device.launch(module, "k", 1, 64, [differing]) == jit.STATUS_FAULT
    assert device.fault.kind == jit.FaultKind.ILLEGAL_INSTRUCTION


def test_barrier_deadlock_is_reported(device: TinyDevice) -> None:
    body = "setp.lt.u32 %p0, %r0, 32; @%p0 bra A; bar.sync 1, 64; bra B; A: bar.sync 2, 64; B: st.global.u32 [%rd0], %r0; ret;"
    module = device.load(module_text(body))
    assert device.launch(module, "k", 1, 64, [device.allocate(256)]) == jit.STATUS_FAULT
    assert device.fault.kind == jit.FaultKind.BARRIER_DEADLOCK


@pytest.mark.parametrize("deeper", [False, True])
def test_barriers_in_functions_that_some_lanes_do_not_call(device: TinyDevice, deeper: bool) -> None:
    """nvcc -O0 makes a function of __syncthreads_count. Every third thread has ended, every fifth meets the others from another place."""
    before = """
    .func (.param .b32 sum) counted(.param .b32 held)
    {
    .reg .b32 %r<2>; .reg .pred %p; ld.param.u32 %r0, [held]; setp.ne.u32 %p, %r0, 0; bar.red.popc.u32 %r1, 0, %p;
    st.param.u32 [sum], %r1; ret;
    }
    .func (.param .b32 sum) through(.param .b32 held)
    {
    .reg .b32 %r<2>; .param .b32 a; .param .b32 b; ld.param.u32 %r0, [held]; st.param.b32 [a], %r0; call.uni (b), counted, (a);
    ld.param.b32 %r1, [b]; st.param.u32 [sum], %r1; ret;
    }
    """
    name = "through" if deeper else "counted"
    body = f"""
    .param .b32 a; .param .b32 b;
    rem.u32 %r1, %r0, 3; setp.eq.u32 %p0, %r1, 1; @!%p0 bra ON; st.global.u32 [%rd0], %r1; bra END;
    ON: and.b32 %r2, %r0, 4; rem.u32 %r3, %r0, 5; setp.eq.u32 %p1, %r3, 0; @%p1 bra APART;
    st.param.b32 [a], %r2; call.uni (b), {name}, (a); ld.param.b32 %r4, [b]; bra MEET;
    APART: st.param.b32 [a], 1; call.uni (b), {name}, (a); ld.param.b32 %r4, [b]; add.u32 %r4, %r4, 1000;
    MEET: st.global.u32 [%rd0], %r4; END: ret;
    """
    block = 70
    held = sum(t % 5 == 0 or t & 4 != 0 for t in range(block) if t % 3 != 1)
    wanted = [1 if t % 3 == 1 else held + 1000 * (t % 5 == 0) for t in range(block)]
    assert list(run(device, module_text(body, before), block)) == wanted


def test_producer_and_consumer_warps(device: TinyDevice) -> None:
    """A spin loop on shared memory with nanosleep lets the other warp run."""
    body = """
    .shared .align 4 .b8 flag[8]; setp.eq.u32 %p1, %r0, 40; mov.u32 %r9, 0; @%p1 st.shared.u32 [flag], %r9; bar.sync 0;
    setp.lt.u32 %p0, %r0, 32; @%p0 bra WAIT; mov.u32 %r1, 7; st.volatile.shared.u32 [flag], %r1; bra END;
    WAIT: nanosleep.u32 10; ld.volatile.shared.u32 %r2, [flag]; setp.eq.u32 %p2, %r2, 0; @%p2 bra WAIT;
    END: bar.sync 0; ld.shared.u32 %r3, [flag]; st.global.u32 [%rd0], %r3; ret;
    """
    assert np.all(run(device, module_text(body), 64) == 7)


FUNCTIONS = """
.func (.param .b32 result) factorial(.param .b32 n)
{
.reg .pred %p<2>; .reg .b32 %r<6>;
ld.param.u32 %r1, [n]; mov.u32 %r2, 1; setp.lt.u32 %p1, %r1, 2; @%p1 bra DONE;
sub.u32 %r3, %r1, 1;
{ .param .b32 a; st.param.b32 [a+0], %r3; .param .b32 b; call.uni (b), factorial, (a); ld.param.b32 %r4, [b+0]; }
mul.lo.u32 %r2, %r4, %r1;
DONE: st.param.b32 [result+0], %r2; ret;
}
.func (.param .b32 result) twice(.param .b32 n) { .reg .b32 %r<3>; ld.param.u32 %r1, [n]; shl.b32 %r1, %r1, 1; st.param.b32 [result], %r1; ret; }
.func (.param .b32 result) plus5(.param .b32 n) { .reg .b32 %r<3>; ld.param.u32 %r1, [n]; add.u32 %r1, %r1, 5; st.param.b32 [result], %r1; ret; }
.func swap(.param .b64 p, .param .b64 q)
{ .reg .b64 %rd<4>; .reg .b32 %r<4>; ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [q]; ld.u32 %r1, [%rd1]; ld.u32 %r2, [%rd2]; st.u32 [%rd1], %r2; st.u32 [%rd2], %r1; ret; }
"""


def test_recursion(device: TinyDevice) -> None:
    body = """
    rem.u32 %r1, %r0, 9; mov.u32 %r3, 0; setp.eq.u32 %p0, %r1, 3; @%p0 bra SKIP;
    { .param .b32 a; st.param.b32 [a+0], %r1; .param .b32 b; call.uni (b), factorial, (a); ld.param.b32 %r3, [b+0]; }
    SKIP: st.global.u32 [%rd0], %r3; ret;
    """
    from math import factorial

    result = run(device, module_text(body, FUNCTIONS), 45)
    assert list(result) == [0 if t % 9 == 3 else factorial(t % 9) for t in range(45)]
    assert device.kernel.info.recursive


def test_endless_recursion_is_a_fault(device: TinyDevice) -> None:
    before = FUNCTIONS.replace("@%p1 bra DONE;", "")
    body = "{ .param .b32 a; st.param.b32 [a+0], %r0; .param .b32 b; call.uni (b), factorial, (a); ld.param.b32 %r3, [b+0]; } st.global.u32 [%rd0], %r3; ret;"
    module = device.load(module_text(body, before))
    assert device.launch(module, "k", 1, 32, [device.allocate(128)]) == jit.STATUS_FAULT
    assert device.fault.kind == jit.FaultKind.STACK_OVERFLOW


def test_pointers_to_locals_cross_calls(device: TinyDevice) -> None:
    body = """
    .local .align 4 .b8 f[8]; mov.u64 %rd3, f; cvta.local.u64 %rd4, %rd3; add.s64 %rd5, %rd4, 4; st.local.u32 [%rd3], %r0; mov.u32 %r1, 77; st.local.u32 [%rd3+4], %r1;
    { .param .b64 a; st.param.b64 [a+0], %rd4; .param .b64 b; st.param.b64 [b+0], %rd5; call.uni swap, (a, b); }
    ld.local.u32 %r2, [%rd3]; ld.local.u32 %r3, [%rd3+4]; mad.lo.u32 %r2, %r2, 1000, %r3; st.global.u32 [%rd0], %r2; ret;
    """
    assert list(run(device, module_text(body, FUNCTIONS), 40)) == [77000 + t for t in range(40)]


def test_function_pointers(device: TinyDevice) -> None:
    before = FUNCTIONS + ".global .align 8 .u64 choices[2] = {twice, plus5};\n"
    body = """
    and.b32 %r1, %r0, 1; mul.wide.u32 %rd3, %r1, 8; mov.u64 %rd4, choices; add.s64 %rd4, %rd4, %rd3; ld.global.u64 %rd5, [%rd4];
    setp.eq.u32 %p0, %r0, 8; mov.u64 %rd6, factorial; selp.b64 %rd5, %rd6, %rd5, %p0;
    { .param .b32 a; st.param.b32 [a+0], %r0; .param .b32 b; P: .callprototype (.param .b32 _) _ (.param .b32 _); call (b), %rd5, (a), P; ld.param.b32 %r3, [b+0]; }
    st.global.u32 [%rd0], %r3; ret;
    """
    result = run(device, module_text(body, before), 40)
    assert list(result) == [40320 if t == 8 else t + 5 if t % 2 else 2 * t for t in range(40)]
    wild = body.replace("ld.global.u64 %rd5, [%rd4];", "ld.global.u64 %rd5, [%rd4]; add.s64 %rd5, %rd5, 3;")
    module = device.load(module_text(wild, before))
    assert device.launch(module, "k", 1, 32, [device.allocate(128)]) == jit.STATUS_FAULT
    assert device.fault.kind == jit.FaultKind.ILLEGAL_INSTRUCTION


@pytest.mark.parametrize("selector", ["rem.u32 %r1, %r0, 4;", "mov.u32 %r1, 2;"], ids=["varying", "uniform"])
def test_switch_tables(device: TinyDevice, selector: str) -> None:
    body = f"""
    {selector} mov.u32 %r2, 0; T: .branchtargets A, B, C, A; brx.idx %r1, T;
    A: mov.u32 %r2, 10; bra J; B: mov.u32 %r2, 20; bra J; C: mul.lo.u32 %r2, %r0, 3; J: st.global.u32 [%rd0], %r2; ret;
    """
    result = run(device, module_text(body), 40)
    choose = (lambda t: t % 4) if "rem" in selector else (lambda t: 2)
    assert list(result) == [[10, 20, 3 * t, 10][choose(t)] for t in range(40)]


def test_guarded_instructions(device: TinyDevice) -> None:
    body = """
    setp.lt.u32 %p0, %r0, 20; mov.u32 %r1, 1; @%p0 mov.u32 %r1, 2; @!%p0 st.global.u32 [%rd0], %r0; @!%p0 ret; setp.eq.u32 %p1, %r0, 5; @%p1 exit;
    @%p0 bra L; trap; L: st.global.u32 [%rd0], %r1; ret;
    """
    assert list(run(device, module_text(body), 40)) == [0xDEAD if t == 5 else 2 if t < 20 else t for t in range(40)]


def test_scopes_and_labels(device: TinyDevice) -> None:
    """Inline assembly redeclares registers and labels."""
    scope = "{ .reg .u32 t; .reg .pred q; mov.u32 t, %r1; W: add.u32 t, t, 1; setp.lt.u32 q, t, 10; @q bra W; mov.u32 %r1, t; }"
    body = f"mov.u32 %r1, %r0; {scope} {scope} st.global.u32 [%rd0], %r1; ret;"
    assert list(run(device, module_text(body), 40)) == [max(10, t + 1) + 1 for t in range(40)]


EXITING = """
.func (.param .b32 result) inner (.param .b32 x)
{ .reg .pred %p; .reg .b32 %r<4>; ld.param.u32 %r0, [x]; and.b32 %r1, %r0, 3; setp.eq.u32 %p, %r1, 3; @%p exit;
  add.u32 %r0, %r0, 1; st.param.b32 [result], %r0; ret; }
.func (.param .b32 result) outer (.param .b32 x)
{ .reg .pred %p; .reg .b32 %r<4>; ld.param.u32 %r0, [x]; setp.gt.u32 %p, %r0, 40; @%p exit;
  { .param .b32 a; .param .b32 c; st.param.b32 [a], %r0; call (c), inner, (a); ld.param.u32 %r0, [c]; }
  mul.lo.u32 %r0, %r0, 10; st.param.b32 [result], %r0; ret; }
"""


@pytest.mark.parametrize("indirect", [False, True])
def test_exit_in_functions(device: TinyDevice, indirect: bool) -> None:
    """Lanes that exit two calls deep do nothing more, whole warps included; barriers do not wait for them."""
    if indirect:
        call = "mov.u64 %rd2, outer; P: .callprototype (.param .b32 _) _ (.param .b32 _); call (c), %rd2, (a), P;"
    else:
        call = "call (c), outer, (a);"
    body = f"""
    mov.u32 %r4, 0; mov.u32 %r1, %r0;
    L: {{ .param .b32 a; .param .b32 c; st.param.b32 [a], %r1; {call} ld.param.u32 %r2, [c]; }}
    add.u32 %r4, %r4, 1; setp.lt.u32 %p0, %r4, 2; add.u32 %r1, %r1, 1; @%p0 bra L;
    bar.sync 0; st.global.u32 [%rd0], %r2; ret;
    """
    result = run(device, module_text(body, EXITING), 100)

    def expected(thread: int) -> int:
        # Two rounds, with the thread's number and the next one.
        gone = any(x > 40 or x & 3 == 3 for x in (thread, thread + 1))
        return 0xDEAD if gone else 10 * (thread + 2)

    assert list(result) == [expected(thread) for thread in range(100)]


@pytest.mark.parametrize("pragma", ["", '.pragma "noinline";'])
def test_parts_of_scalar_parameters(device: TinyDevice, pragma: str) -> None:
    """A function reads the upper byte of an argument that nvcc passed as 32 bits; arguments and results are written in parts."""
    before = f"""
    .func (.param .b64 result) parts(.param .b32 a, .param .b64 b)
    {{
    .reg .b16 %h<2>; .reg .b32 %r<4>;{pragma}
    ld.param.u8 %h0, [a+1]; cvt.u32.u16 %r0, %h0; ld.param.v2.u32 {{%r1, %r2}}, [b]; ld.param.s16 %r3, [b+6];
    add.u32 %r0, %r0, %r1; xor.b32 %r2, %r2, %r3; st.param.u32 [result+4], %r0; st.param.u32 [result], %r2; ret;
    }}
    """
    body = """
    mul.lo.u32 %r1, %r0, 4001; not.b32 %r2, %r1; setp.gt.u32 %p0, %r0, 9; @%p0 mov.u32 %r1, 7;
    {
    .param .b32 x; .param .b64 y; .param .b64 z; st.param.b32 [x], %r1; st.param.v2.b32 [y], {%r0, %r2};
    call.uni (z), parts, (x, y); ld.param.b32 %r3, [z+4]; ld.param.b32 %r4, [z];
    }
    mad.lo.u32 %r3, %r3, 65599, %r4; st.global.u32 [%rd0], %r3; ret;
    """
    wanted = []
    for t in range(40):
        second = ~(t * 4001) & 0xFFFF_FFFF
        first = 7 if t > 9 else t * 4001
        extended = (second >> 16 ^ 0x8000) - 0x8000
        wanted.append((((first >> 8 & 255) + t) * 65599 + ((second ^ extended) & 0xFFFF_FFFF)) & 0xFFFF_FFFF)
    assert list(run(device, module_text(body, before), 40)) == wanted


@pytest.mark.parametrize("waits", [False, True])
def test_structures_of_functions_by_their_address(device: TinyDevice, waits: bool) -> None:
    """ld.param and st.param with addresses from registers mean the function's own parameters, as clang has them; inlined (where it waits) or not."""
    loop = "L: ld.volatile.global.u32 %r0, [%a0]; setp.eq.u32 %p0, %r0, 9; @%p0 bra L;" if waits else ""
    text = (
        HEADER
        + f""".func (.param .align 8 .b8 result[16]) turned(.param .align 8 .b8 pair[16], .param .b64 where) {{
    .reg .pred %p0; .reg .b32 %r<4>; .reg .b64 %a<4>, %x<4>; ld.param.u64 %a0, [where]; {loop}
    mov.b64 %a1, pair; mov.u64 %a2, %a1; mov.b64 %a3, result;
    ld.param.u64 %x0, [%a2+8]; ld.param::func.u64 %x1, [%a1]; st.param.u64 [%a3], %x0; st.param.u64 [%a3+8], %x1; ret; }}
    .visible .entry k(.param .u64 out, .param .u64 other, .param .align 8 .b8 unrelated[16]) {{
    .reg .b32 %r<4>; .reg .b64 %a<4>, %x<4>; ld.param.u64 %a0, [out]; mov.u32 %r0, %tid.x; mul.wide.u32 %a1, %r0, 16; add.u64 %a1, %a0, %a1;
    cvt.u64.u32 %x0, %r0; add.u64 %x1, %x0, 100;
    {{ .param .align 8 .b8 p0[16]; .param .b64 p1; .param .align 8 .b8 r[16];
    st.param.u64 [p0], %x0; st.param.u64 [p0+8], %x1; st.param.b64 [p1], %a0; call.uni (r), turned, (p0, p1); ld.param.u64 %x2, [r]; ld.param.u64 %x3, [r+8]; }}
    st.global.u64 [%a1], %x2; st.global.u64 [%a1+8], %x3; ret; }}"""
    )
    out = device.upload(np.zeros(128, "u8"))
    assert device.launch(device.load(text), "k", 1, 64, [out, 77, bytes(16)]) == 0, device.fault.kind
    found = device.download(out, "u8", 128).reshape(64, 2)
    assert found[:, 0].tolist() == [100 + lane for lane in range(64)]
    assert found[:, 1].tolist() == list(range(64))
