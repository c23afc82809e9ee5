"""The parser: grammar traps, clear errors, and mutated texts that must end in PtxError, soon."""

from __future__ import annotations

import random
import time

import fuzzing
import pytest
from farlane.backend import jit
from farlane.backend.jit.lowering.kernel import KernelContext
from farlane.backend.jit.ptx.lexer import strip_comments
from farlane.backend.jit.ptx.parser import body_of
from jit_tools.instructions import HEADER

SAMPLE = (
    HEADER
    + """
// a comment with a brace {
.extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);
.extern .shared .align 16 .b8 dyn[];
.const .align 4 .b8 table[8] = {1, 2, 3, 4, 0x5, 0b110, 07, 8};
.global .align 8 .u64 where[2] = {generic(table)+4, table};
.visible .global .attribute(.managed) .align 4 .u32 shared_with_host = 3;
.section .debug_str { L: .b8 65, 66 }
.func (.param .align 8 .b8 func_retval0[16]) pair(.param .b64 x, .param .align 4 .b8 y[12]) ;
.visible .func (.param .align 8 .b8 func_retval0[16]) pair(.param .b64 x, .param .align 4 .b8 y[12])
{ .reg .b64 %rd<3>; ld.param.u64 %rd1, [x]; st.param.b64 [func_retval0+0], %rd1; st.param.b64 [func_retval0+8], %rd1; ret; }
.weak .entry $weird$name_1(
	.param .u64 .ptr .global .align 4 k_param_0, /* inner
	comment */ .param .align 8 .b8 k_param_1[24]
)
.maxntid 256, 1, 1
.minnctapersm 2
{
	.local .align 16 .b8 __local_depot0[48];
	.reg .b64 %SP; .reg .b64 %SPL; .reg .pred %p<3>; .reg .b32 %r<10>; .reg .f32 %f<4>; .reg .b64 %rd<9>; .reg .u32 named, other;
	.loc 1 2 3, function_name $L__info, inlined_at 1 4 5
	mov.u64 %SPL, __local_depot0;
	.pragma "nounroll";
	ld.param.u64 %rd1, [k_param_0];
	{ // scope
	.reg.b32 t; mov.b32 t, 5; add.s32 %r1, t, -3; }
$L__BB0_1:
	add.rn.f32 %f1, 0f3F800000, 1.5;
	setp.lt.s32 %p1|%p2, %r1, 10;
	@!%p1 bra.uni $L__BB0_2;
	{ .param .b64 param0; st.param.b64 [param0+0], %rd1; .param .align 4 .b8 param1[12]; st.param.b32 [param1+0], %r1; st.param.b32 [param1+4], %r1;
	st.param.b32 [param1+8], %r1; .param .align 8 .b8 retval0[16]; call.uni (retval0), pair, (param0, param1); ld.param.b64 %rd2, [retval0+0]; }
	st.global.u64 [%rd1+-8], %rd2;
	mov.u32 named, %clock; mov.b64 {%r2, _}, %rd2;
$L__BB0_2:
	ret;
}
"""
)


def compile_text(text: str) -> str:
    module = jit.parse_module(text)
    name = next(iter(module.entries))
    return KernelContext(module, name, (32, 1, 1), jit.Options()).emit()


def test_grammar() -> None:
    module = jit.parse_module(SAMPLE)
    entry = module.entries["$weird$name_1"]
    assert [(item.offset, item.size, item.align) for item in entry.parameters] == [(0, 8, 8), (8, 24, 8)]
    assert entry.parameter_bytes == 32
    assert entry.max_threads == (256, 1, 1)
    assert entry.line == 15
    variables = {item.name: item for item in module.variables}
    assert variables["table"].initial == bytes(range(1, 9))
    assert variables["table"].space == "const"
    assert variables["dyn"].extern
    assert variables["shared_with_host"].managed
    first, second = variables["where"].relocations
    assert (first.offset, first.symbol, first.addend, first.generic) == (0, "table", 4, True)
    assert (second.offset, second.symbol, second.addend, second.generic) == (8, "table", 0, False)
    body = body_of(module, module.functions["$weird$name_1"])
    lines = {item.text: item.line for item in body.instructions}
    assert lines["mov.u64"] == SAMPLE[: SAMPLE.index("mov.u64 %SPL")].count("\n") + 1
    assert "farlane_kernel" in compile_text(SAMPLE)


def fragment(body: str) -> str:
    return f"{HEADER}.visible .entry k(.param .u64 p) {{\n.reg .pred %p<4>; .reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .f32 %f<4>;\n{body}\nret;\n}}\n"


@pytest.mark.parametrize(("body", "message"), [
    ("frobnicate.u32 %r1, %r2;", "frobnicate.u32"), ("add.u32 %r1, %r2, %r9;", "unknown register '%r9'"), ("bra NOWHERE;", "NOWHERE"),
    ("add.rn.s32 %r1, %r2, %r3;", ".rn"), ("add.u64 %rd1, %r1, %rd2;", "32 bits is read as 64"), ("ld.global.u32 %r1, %r2;", "address"),
    ("mul.u32 %r1, %r2;", "mul"), ("mov.u32 %r1, nothing;", "unknown symbol 'nothing'"), ("add.f32 %f1, 1, %f2;", "integer literal"),
    ("ld.param.u64 %rd1, [p+4];", "outside of the parameters"), ("ld.param.u64 %rd1, [p+8];", "outside of the parameters"), ("lop3.b32 %r1, %r1, %r2, %r3, %r0;", "truth table"),
    ("tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [p, {%f0, %f1}, %f2];", "address form"), ("call.uni vprintf, ();", "printf"), ("tcgen05.wait::ld.sync.aligned;", "tcgen05"),
    ("cvt.f32 %f1, %r1;", "cvt"), ("vmad.u32.u32.u32 %r1, %r2, %r3, %r0.b1;", "a selector of operand 3"), ("setp.lt.b32 %p1, %r1, 0f00000000;", "unsupported"), ("mov.u32 %r1, %pm0;", "special register"),
])  # fmt: skip
def test_errors_name_the_line(body: str, message: str) -> None:
    with pytest.raises(jit.PtxError) as caught:
        compile_text(fragment(body))
    assert message in str(caught.value)
    assert caught.value.line == 6


def test_an_access_without_a_type_in_a_kernel_with_an_array() -> None:
    body = ".local .align 16 .b8 a[48]; .reg .b32 %r<2>; .reg .b64 %rd<2>; mov.u64 %rd1, a; st [%rd1], %r1;"
    with pytest.raises(jit.PtxError):
        compile_text(fragment(body))


@pytest.mark.parametrize("text", [
    "", "hello", HEADER + "{", HEADER + ".visible .entry k() {", HEADER + '.pragma "x', HEADER + ".global .u32 x[99999999999999];",
    HEADER + ".global .u32 x[2] = {1, 2, 3};", HEADER + ".visible .entry k() { ret; } .visible .entry k() { ret; }", ".version 8.0\n.address_size 32\n",
    HEADER + ".visible .entry fill.weak(.param .u64 p) { ret; }",
    HEADER + ".global .u64 x = {" * 40, HEADER + ".visible .entry k(.param .u32 a" + ", .param .u32 a" * 5000 + ") { ret; }",
])  # fmt: skip
def test_malformed_modules(text: str) -> None:
    with pytest.raises(jit.PtxError):
        jit.parse_module(text)


def test_deep_nesting_is_bounded() -> None:
    with pytest.raises(jit.PtxError):
        compile_text(fragment("{" * 100000 + "}" * 100000))
    with pytest.raises(jit.PtxError):
        compile_text(fragment("{" * 1000))


def test_mutated_texts() -> None:
    """Whatever happens to the text, the answer is a module or a PtxError, in bounded time."""
    generator = random.Random(20)
    rest = strip_comments(SAMPLE)[len(HEADER) :]
    tokens = rest.split()
    pieces = [
        "{",
        "}",
        ";",
        ",",
        "(",
        ")",
        "[",
        "]",
        "@",
        "%r1",
        "0x",
        "-",
        "+",
        ".reg",
        ".param",
        "<",
        ">",
        "9" * 30,
        '"',
        "ret",
        ":",
        "=",
        "_",
        "!",
        "|",
        "0f",
        "\0",
        "é",
    ]
    rounds = fuzzing.inputs(5000)
    deadline = time.thread_time() + rounds / 125
    accepted = rejected = 0
    for _ in range(rounds):
        kind = generator.randrange(4)
        if kind == 0:
            text = list(rest)
            for _ in range(generator.randint(1, 3)):
                text[generator.randrange(len(text))] = generator.choice("{}[]();,.%@+-=<>!|_:\"'0aZ \n\0")
            mutated = "".join(text)
        elif kind == 1:
            cut = sorted(generator.randrange(len(rest)) for _ in range(2))
            cut[1] = min(cut[1], cut[0] + 60)
            mutated = rest[: cut[0]] + rest[cut[1] :]
        elif kind == 2:
            at = generator.randrange(len(tokens))
            mutated = " ".join([*tokens[:at], generator.choice(pieces), *tokens[at + generator.randint(0, 2) :]])
        else:
            first, second = (generator.randrange(len(tokens)) for _ in range(2))
            swapped = list(tokens)
            swapped[first], swapped[second] = swapped[second], swapped[first]
            mutated = "\n".join(swapped)
        try:
            compile_text(HEADER + mutated)
            accepted += 1
        except (jit.PtxError, StopIteration):  # StopIteration: no kernel left in it
            rejected += 1
        assert time.thread_time() < deadline
    assert rejected > rounds // 50
    assert accepted > rounds // 50
